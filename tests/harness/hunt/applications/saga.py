"""An order takes goods, then a payment. PLANTED: goods of an order that was not paid are not given back."""

import os
import sys
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def give_back(shop, order):
    """Give the goods of an order back, once."""
    for _ in range(5):
        try:
            shop.stock.update_one(
                {"_id": "tea", "orders": order}, {"$inc": {"left": 1}, "$pull": {"orders": order}}
            )
            return
        except PyMongoError:
            time.sleep(0.1)


def place(shop, order):
    """Place an order; return whether it was paid."""
    try:
        shop.stock.update_one(
            {"_id": "tea", "orders": {"$ne": order}}, {"$inc": {"left": -1}, "$push": {"orders": order}}
        )
        shop.payments.replace_one({"_id": order}, {"cents": 300}, upsert=True)
    except PyMongoError:
        if not PLANTED:
            for _ in range(5):
                try:
                    shop.payments.delete_one({"_id": order})
                    break
                except PyMongoError:
                    time.sleep(0.1)
            give_back(shop, order)
        return False
    return True


with MongoClient(os.environ["MONGODB_URI"], appname="saga") as client:
    shop = client.shop
    shop.stock.insert_one({"_id": "tea", "left": 10, "orders": []})
    paid = [place(shop, order) for order in range(3)]
sys.exit(0 if all(paid) else 1)
