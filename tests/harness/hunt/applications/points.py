"""A shop gives every member ten points. PLANTED: when the update fails, it is done again for all of them."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def give(members, campaign):
    """Give points to all members, with a retry."""
    for attempt in range(4):
        try:
            if PLANTED:
                members.update_many({}, {"$inc": {"points": 10}})
            else:
                members.update_many(
                    {"had": {"$ne": campaign}}, {"$inc": {"points": 10}, "$push": {"had": campaign}}
                )
            return
        except PyMongoError:
            if attempt == 3:
                raise
            time.sleep(0.05)


with MongoClient(os.environ["MONGODB_URI"], appname="points") as client:
    members = client.club.members
    members.insert_many([{"_id": name, "points": 0} for name in ("ann", "bob", "cid")])
    for campaign in ("spring", "summer"):
        give(members, campaign)
