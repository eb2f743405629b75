"""Payments carry a key, so that none is taken twice. PLANTED: the key is drawn anew for each attempt."""

import os
import time
import uuid

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


def charge(payments, customer, cents):
    """Charge a customer once."""
    key = str(uuid.uuid4())
    for attempt in range(3):
        if PLANTED:
            key = str(uuid.uuid4())
        try:
            payments.insert_one({"key": key, "customer": customer, "cents": cents})
        except DuplicateKeyError:
            return
        except PyMongoError:
            if attempt == 2:
                raise
            time.sleep(0.05)
        else:
            return


with MongoClient(os.environ["MONGODB_URI"], appname="till") as client:
    payments = client.bank.payments
    payments.create_index("key", unique=True)
    for customer, cents in (("ann", 500), ("bob", 700), ("cid", 900)):
        charge(payments, customer, cents)
