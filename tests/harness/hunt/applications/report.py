"""A report adds up sales. PLANTED: if its cursor is lost, it reports what it has added so far."""

import os

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def total(sales):
    """Return the sum of all sales."""
    for attempt in range(3):
        found = 0
        try:
            for sale in sales.find({}, batch_size=5):
                found += sale["amount"]
        except PyMongoError:
            if PLANTED:
                return found
            if attempt == 2:
                raise
        else:
            return found


with MongoClient(os.environ["MONGODB_URI"], appname="report") as client:
    sales = client.shop.sales
    sales.insert_many([{"_id": number, "amount": number} for number in range(20)])
    print("total:", total(sales))
