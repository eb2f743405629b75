"""Documents are brought to a new form. PLANTED: a step is marked as done before it is."""

import os
import sys
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def split_names(db):
    """Make first and last names of names."""
    db.people.update_many({"first": None}, [{"$set": {"first": "$name", "last": "unknown"}}])


def drop_names(db):
    """Remove the old field."""
    db.people.update_many({}, {"$unset": {"name": ""}})


STEPS = (("split", split_names), ("drop", drop_names))


def migrate(db):
    """Do the steps that have not been done."""
    for name, step in STEPS:
        if db.steps.find_one({"_id": name}):
            continue
        if PLANTED:
            db.steps.replace_one({"_id": name}, {"done": True}, upsert=True)
        step(db)
        db.steps.replace_one({"_id": name}, {"done": True}, upsert=True)


with MongoClient(os.environ["MONGODB_URI"], appname="migration") as client:
    client.crm.people.insert_many([{"_id": number, "name": f"person {number}"} for number in range(3)])
    for _ in range(4):
        try:
            migrate(client.crm)
            sys.exit(0)
        except PyMongoError as error:
            print(error, file=sys.stderr)
            time.sleep(0.05)
sys.exit(1)
