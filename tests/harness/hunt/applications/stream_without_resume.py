"""A mirror follows a change stream. PLANTED: when the stream breaks, it goes on from now on."""

import os
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
EVENTS = 6


def follow(client, ready, done):
    """Copy each order until all are there."""
    orders, mirror, token = client.shop.orders, client.shop.mirror, None
    while not done.is_set():
        try:
            with orders.watch(resume_after=token, max_await_time_ms=100) as stream:
                token = token or stream.resume_token
                ready.set()
                while not done.is_set():
                    event = stream.try_next()
                    if event is not None:
                        mirror.replace_one(
                            {"_id": event["documentKey"]["_id"]}, {"copied": True}, upsert=True
                        )
                        if event["documentKey"]["_id"] == EVENTS - 1:
                            done.set()
                    token = None if PLANTED else stream.resume_token
        except PyMongoError:
            time.sleep(0.3)


with MongoClient(os.environ["MONGODB_URI"], appname="mirror") as client:
    ready, done = threading.Event(), threading.Event()
    follower = threading.Thread(target=follow, args=(client, ready, done), daemon=True)
    follower.start()
    ready.wait(10)
    for number in range(EVENTS):
        client.shop.orders.insert_one({"_id": number})
        time.sleep(0.1)
    follower.join(10)
sys.exit(0 if done.is_set() else 1)
