"""A till books sales. PLANTED: a sale whose answer failed is booked again, though it may have been booked."""

import os
import sys

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def sell(stock, sale):
    """Take a sale from the stock, three times if need be."""
    for attempt in range(3):
        try:
            if PLANTED:
                stock.update_one({"_id": "tea"}, {"$inc": {"left": -1}})
            else:
                stock.update_one(
                    {"_id": "tea", "sales": {"$ne": sale}}, {"$inc": {"left": -1}, "$push": {"sales": sale}}
                )
        except PyMongoError:
            if attempt == 2:
                raise
        else:
            return


with MongoClient(os.environ["MONGODB_URI"], appname="till") as client:
    stock = client.shop.stock
    stock.insert_one({"_id": "tea", "left": 10, "sales": []})
    for sale in range(3):
        sell(stock, sale)
    print("left:", stock.find_one({"_id": "tea"})["left"])
sys.exit(0)
