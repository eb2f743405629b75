"""Seats are sold while there are any. PLANTED: a secondary is asked how many are left."""

import os

from pymongo import MongoClient, ReadPreference

PLANTED = "PLANTED" in os.environ


def sell(client, customer):
    """Sell a seat, if there is one."""
    seats = client.train.seats
    if PLANTED:
        anywhere = seats.with_options(read_preference=ReadPreference.SECONDARY)
        if anywhere.find_one({"_id": "coach"})["left"] < 1:
            return
        seats.update_one({"_id": "coach"}, {"$inc": {"left": -1}})
    elif not seats.update_one({"_id": "coach", "left": {"$gt": 0}}, {"$inc": {"left": -1}}).modified_count:
        return
    client.train.tickets.insert_one({"_id": customer})


with MongoClient(os.environ["MONGODB_URI"], appname="train") as client:
    client.train.seats.insert_one({"_id": "coach", "left": 2})
    for customer in range(4):
        sell(client, customer)
