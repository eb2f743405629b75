"""Orders of a shop. PLANTED: if a step fails, the handler begins again with the first one."""

import os
import uuid

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


def place(shop, order, customer):
    """Insert the order, then its payment."""
    try:
        shop.orders.insert_one({"_id": uuid.uuid4().hex if PLANTED else order, "customer": customer})
    except DuplicateKeyError:
        pass
    shop.payments.replace_one({"_id": order}, {"customer": customer, "paid": 10}, upsert=True)


def handle(shop, customer):
    """Place an order, with a retry of all of it."""
    order = uuid.uuid4().hex
    for attempt in range(4):
        try:
            return place(shop, order, customer)
        except PyMongoError:
            if attempt == 3:
                raise


with MongoClient(os.environ["MONGODB_URI"], appname="shop") as client:
    for customer in ("ann", "bob", "cid"):
        handle(client.shop, customer)
