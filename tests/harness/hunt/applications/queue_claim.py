"""Pictures are scaled from a queue. PLANTED: a picture that was claimed, and then failed, stays claimed."""

import os
import sys
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def scale(db, picture):
    """Store the small picture."""
    db.small.replace_one({"_id": picture["_id"]}, {"width": picture["width"] // 10}, upsert=True)
    db.pictures.update_one({"_id": picture["_id"]}, {"$set": {"state": "done"}})


def claim(db):
    """Return the next picture that nobody has, or that was claimed and left."""
    states = ["new"] if PLANTED else ["new", "claimed"]
    return db.pictures.find_one_and_update({"state": {"$in": states}}, {"$set": {"state": "claimed"}})


with MongoClient(os.environ["MONGODB_URI"], appname="scaler") as client:
    db = client.media
    db.pictures.insert_many([{"_id": number, "width": 100 * number, "state": "new"} for number in range(4)])
    failures = 0
    while failures < 5:
        try:
            picture = claim(db)
            if picture is None:
                break
            scale(db, picture)
        except PyMongoError as error:
            print("failed:", error, file=sys.stderr)
            failures += 1
            time.sleep(0.05)
sys.exit(1 if failures == 5 else 0)
