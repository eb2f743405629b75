"""Events come twice, and are stored once. PLANTED: an event is remembered before it is stored."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


class Events:
    """Stores events, and remembers those that it has."""

    def __init__(self, events):
        self._events = events
        self._known = set()

    def store(self, event):
        """Store an event that is new."""
        if event["_id"] in self._known:
            return
        if PLANTED:
            self._known.add(event["_id"])
        self._events.replace_one({"_id": event["_id"]}, event, upsert=True)
        self._known.add(event["_id"])


with MongoClient(os.environ["MONGODB_URI"], appname="events") as client:
    events = Events(client.log.events)
    for number in range(4):
        for attempt in range(4):
            try:
                events.store({"_id": f"event {number}", "value": number})
                break
            except PyMongoError:
                if attempt == 3:
                    raise
                time.sleep(0.05)
