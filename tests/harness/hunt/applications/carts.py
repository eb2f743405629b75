"""Two requests at once fill a cart. PLANTED: the cart is read, changed, and written."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


def put(carts, item):
    """Put an item into the cart, once."""
    if PLANTED:
        cart = carts.find_one({"_id": "ann"})
        carts.replace_one({"_id": "ann"}, {**cart, "items": sorted({*cart["items"], item})})
    else:
        carts.update_one({"_id": "ann"}, {"$addToSet": {"items": item}})


def request(carts, item):
    """Try until it is done."""
    for attempt in range(5):
        try:
            put(carts, item)
        except DuplicateKeyError:
            return
        except PyMongoError:
            if attempt == 4:
                raise
            time.sleep(0.05)
        else:
            return


with MongoClient(os.environ["MONGODB_URI"], appname="carts") as client, ThreadPoolExecutor(2) as pool:
    carts = client.shop.carts
    carts.insert_one({"_id": "ann", "items": []})
    for first, second in (("cup", "pot"), ("tea", "jam")):
        waiting = pool.submit(request, carts, first)
        time.sleep(0.1)
        request(carts, second)
        waiting.result()
