"""Users take names. PLANTED: a retry that finds the name taken does not ask by whom."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


def take(users, name, person):
    """Take a name for a person, and say whether it is theirs."""
    for attempt in range(4):
        try:
            users.insert_one({"_id": name, "person": person})
            return True
        except DuplicateKeyError:
            return False if PLANTED else users.find_one({"_id": name})["person"] == person
        except PyMongoError:
            if attempt == 3:
                raise
            time.sleep(0.05)


with MongoClient(os.environ["MONGODB_URI"], appname="site") as client:
    users, profiles = client.site.users, client.site.profiles
    for person, name in enumerate(("ann", "bob", "ann", "cid")):
        if take(users, name, person):
            profiles.insert_one({"_id": person, "name": name})
            print(person, "is", name)
        else:
            print(name, "is taken")
