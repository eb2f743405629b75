"""Votes are counted. PLANTED: a write concern that was not fulfilled is taken for good."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, WriteConcernError
from pymongo.write_concern import WriteConcern

PLANTED = "PLANTED" in os.environ


def confirm(votes, voter):
    """Write the vote again until a majority has it."""
    for attempt in range(3):
        try:
            votes.update_one({"_id": voter}, {"$set": {"confirmed": True}}, upsert=True)
            return
        except WriteConcernError:
            if attempt == 2:
                raise
            time.sleep(0.1)


def vote(votes, voter):
    """Store the vote of a voter."""
    try:
        votes.insert_one({"_id": voter, "confirmed": True})
    except WriteConcernError:
        if not PLANTED:
            confirm(votes, voter)
    except DuplicateKeyError:
        pass


with MongoClient(os.environ["MONGODB_URI"], appname="votes") as client:
    votes = client.town.get_collection("votes", write_concern=WriteConcern("majority", wtimeout=2000))
    for voter in range(4):
        vote(votes, voter)
    print("all have voted")
