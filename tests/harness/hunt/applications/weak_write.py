"""Tickets are sold. PLANTED: one member's word is enough, and a failover takes the ticket back."""

import os

from pymongo import MongoClient
from pymongo.write_concern import WriteConcern

PLANTED = "PLANTED" in os.environ

with MongoClient(os.environ["MONGODB_URI"], appname="tickets") as client:
    concern = WriteConcern(w=1 if PLANTED else "majority")
    tickets = client.theatre.get_collection("tickets", write_concern=concern)
    for seat in range(4):
        tickets.insert_one({"_id": seat, "owner": "ann"})
        print("sold:", seat)
