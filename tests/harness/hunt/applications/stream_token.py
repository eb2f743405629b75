"""Orders are forwarded from a change stream. PLANTED: the place in the stream is kept before an order is."""

import os
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
EVENTS = 5


def forward(client, ready, done):
    """Forward orders until the last one."""
    token, end = None, time.monotonic() + 15
    while time.monotonic() < end:
        try:
            with client.shop.orders.watch(resume_after=token, max_await_time_ms=100) as stream:
                token = token or stream.resume_token
                ready.set()
                while time.monotonic() < end:
                    event = stream.try_next()
                    if event is None:
                        continue
                    if PLANTED:
                        token = stream.resume_token
                    number = event["documentKey"]["_id"]
                    client.office.forwarded.replace_one({"_id": number}, {"forwarded": True}, upsert=True)
                    token = stream.resume_token
                    if number == EVENTS - 1:
                        done.set()
                        return
        except PyMongoError:
            time.sleep(0.1)


with MongoClient(os.environ["MONGODB_URI"], appname="forward") as client:
    ready, done = threading.Event(), threading.Event()
    forwarder = threading.Thread(target=forward, args=(client, ready, done), daemon=True)
    forwarder.start()
    ready.wait(10)
    for number in range(EVENTS):
        client.shop.orders.insert_one({"_id": number})
    forwarder.join(16)
sys.exit(0 if done.is_set() else 1)
