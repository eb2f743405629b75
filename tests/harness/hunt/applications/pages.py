"""Members are copied page by page. PLANTED: a page that cannot be read is passed over."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
PAGE = 5


def pages(members, count):
    """Yield the pages of all members."""
    for number in range(count):
        for attempt in range(3):
            try:
                yield list(members.find().sort("_id").skip(number * PAGE).limit(PAGE))
                break
            except PyMongoError:
                if PLANTED:
                    break
                if attempt == 2:
                    raise
                time.sleep(0.05)


with MongoClient(os.environ["MONGODB_URI"], appname="copy") as client:
    members = client.old.members
    members.insert_many([{"_id": number} for number in range(15)])
    for page in pages(members, 3):
        client.new.members.insert_many(page)
