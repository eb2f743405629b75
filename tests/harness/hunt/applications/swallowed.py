"""Readings of meters are stored. PLANTED: a reading that cannot be stored is forgotten without a word."""

import os

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ

with MongoClient(os.environ["MONGODB_URI"], appname="meters") as client:
    readings = client.plant.readings
    for meter in range(4):
        try:
            readings.insert_one({"_id": meter, "value": meter * 10})
        except PyMongoError:
            if not PLANTED:
                raise
    print("stored")
