"""A list goes out by pages, as CSV. PLANTED: a page that broke off is read again, and its first rows stay."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def read(people, last, rows):
    """Append the next page to the rows, in batches of two."""
    for attempt in range(4):
        page = rows if PLANTED else []
        try:
            for person in people.find({"_id": {"$gt": last}}).sort("_id").limit(6).batch_size(2):
                page.append(f"{person['_id']},{person['name']}")
        except PyMongoError:
            if attempt == 3:
                raise
            time.sleep(0.05)
        else:
            rows += [] if PLANTED else page
            return


with MongoClient(os.environ["MONGODB_URI"], appname="export") as client:
    people = client.crm.people
    people.insert_many([{"_id": number, "name": f"p{number}"} for number in range(1, 15)])
    rows = []
    for last in (0, 6, 12):
        read(people, last, rows)
    print("\n".join(rows))
