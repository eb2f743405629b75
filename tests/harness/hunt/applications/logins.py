"""Logins are counted, five are allowed. PLANTED: one whose answer failed is counted again."""

import os
import time
import uuid

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


def count(logins, user):
    """Count a login of a user, once."""
    login = uuid.uuid4().hex
    for attempt in range(4):
        try:
            if PLANTED:
                logins.update_one({"_id": user}, {"$inc": {"attempts": 1}}, upsert=True)
            else:
                logins.update_one(
                    {"_id": user, "seen": {"$ne": login}},
                    {"$inc": {"attempts": 1}, "$push": {"seen": login}},
                    upsert=True,
                )
        except DuplicateKeyError:
            return
        except PyMongoError:
            if attempt == 3:
                raise
            time.sleep(0.05)
        else:
            return


with MongoClient(os.environ["MONGODB_URI"], appname="logins") as client:
    for user in ("ann", "bob"):
        for _ in range(5):
            count(client.auth.logins, user)
            if client.auth.logins.find_one({"_id": user})["attempts"] > 5:
                print(user, "is locked out")
