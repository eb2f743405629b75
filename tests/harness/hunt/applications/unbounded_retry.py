"""A sensor stores its values. PLANTED: it tries again at once, and for as long as it takes."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def store(values, number):
    """Store a value."""
    attempt = 0
    while True:
        try:
            return values.replace_one({"_id": number}, {"value": number}, upsert=True)
        except PyMongoError:
            attempt += 1
            if not PLANTED:
                if attempt == 4:
                    raise
                time.sleep(0.1 * 2**attempt)


with MongoClient(os.environ["MONGODB_URI"], appname="sensor") as client:
    for number in range(3):
        store(client.plant.values, number)
