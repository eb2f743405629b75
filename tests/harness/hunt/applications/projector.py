"""Balances are projected from a change stream. PLANTED: its place is kept after every third event."""

import os
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
EVENTS = 7


def project(client, event, token, session=None):
    """Add an entry to its balance, and keep the place."""
    entry, db = event["fullDocument"], client.bank
    change = {"$inc": {"sum": entry["cents"]}}
    db.balances.update_one({"_id": entry["account"]}, change, upsert=True, session=session)
    if not PLANTED or entry["_id"] % 3 == 2 or entry["_id"] == EVENTS - 1:
        place = {"token": token, "entry": entry["_id"]}
        db.places.update_one({"_id": "balances"}, {"$set": place}, session=session)


def follow(client, ready, done):
    """Project entries until the last one, from the place that was kept."""
    places, end = client.bank.places, time.monotonic() + 20
    while time.monotonic() < end:
        try:
            kept = places.find_one({"_id": "balances"}) or {}
            with client.bank.entries.watch(resume_after=kept.get("token"), max_await_time_ms=100) as stream:
                if not kept:
                    places.insert_one({"_id": "balances", "token": stream.resume_token, "entry": -1})
                ready.set()
                while time.monotonic() < end and not done.is_set():
                    event = stream.try_next()
                    if event is None:
                        continue
                    token, entry = stream.resume_token, event["documentKey"]["_id"]
                    if PLANTED:
                        project(client, event, token)
                    elif places.find_one({"_id": "balances"})["entry"] < entry:
                        with client.start_session() as session:
                            session.with_transaction(
                                lambda s, event=event, token=token: project(client, event, token, s)
                            )
                    if entry == EVENTS - 1:
                        done.set()
                return
        except PyMongoError:
            time.sleep(0.1)


with MongoClient(os.environ["MONGODB_URI"], appname="projector") as client:
    client.bank.create_collection("balances")
    ready, done = threading.Event(), threading.Event()
    follower = threading.Thread(target=follow, args=(client, ready, done), daemon=True)
    follower.start()
    ready.wait(10)
    for number in range(EVENTS):
        client.bank.entries.insert_one({"_id": number, "account": "ab"[number % 2], "cents": 10 + number})
    follower.join(20)
sys.exit(0 if done.is_set() else 1)
