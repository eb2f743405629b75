"""Interest is paid on every account, in batches. PLANTED: after a failure all begins with the first batch."""

import os
import sys
import time

from pymongo import MongoClient, UpdateOne
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def pay(db, month):
    """Pay the interest of a month, from the last checkpoint on."""
    for begin in range(0, 9, 3):
        seen = {} if PLANTED else {"paid": {"$lt": month}}
        mark = {} if PLANTED else {"$set": {"paid": month}}
        db.accounts.bulk_write(
            [
                UpdateOne({"_id": number, **seen}, {"$inc": {"cents": 5}, **mark})
                for number in range(begin, begin + 3)
            ]
        )


with MongoClient(os.environ["MONGODB_URI"], appname="interest") as client:
    db = client.bank
    db.accounts.insert_many([{"_id": number, "cents": 100, "paid": 0} for number in range(9)])
    for _ in range(4):
        try:
            pay(db, 1)
            sys.exit(0)
        except PyMongoError as error:
            print(error, file=sys.stderr)
            time.sleep(0.05)
sys.exit(1)
