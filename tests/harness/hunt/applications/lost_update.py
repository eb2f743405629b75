"""Two clerks count visitors. PLANTED: each reads the number, adds one, and writes it back."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from pymongo import MongoClient

PLANTED = "PLANTED" in os.environ


def count(doors, visitors):
    """Count visitors at a door."""
    for _ in range(visitors):
        if PLANTED:
            seen = doors.find_one({"_id": "total"})["seen"]
            doors.update_one({"_id": "total"}, {"$set": {"seen": seen + 1}})
        else:
            doors.update_one({"_id": "total"}, {"$inc": {"seen": 1}})


with MongoClient(os.environ["MONGODB_URI"], appname="doors") as client:
    doors = client.museum.doors
    doors.insert_one({"_id": "total", "seen": 0})
    with ThreadPoolExecutor() as clerks:
        first = clerks.submit(count, doors, 2)
        time.sleep(0.15)
        second = clerks.submit(count, doors, 2)
        first.result()
        second.result()
