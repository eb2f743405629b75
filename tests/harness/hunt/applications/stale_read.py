"""A shop shows an order right after it was placed. PLANTED: it reads from any secondary."""

import os
import sys

from pymongo import MongoClient, ReadPreference

PLANTED = "PLANTED" in os.environ

with MongoClient(os.environ["MONGODB_URI"], appname="shop") as client:
    orders = client.shop.orders
    anywhere = orders.with_options(read_preference=ReadPreference.SECONDARY)
    for number in range(4):
        with client.start_session(causal_consistency=True) as session:
            own = None if PLANTED else session
            orders.insert_one({"_id": number}, session=own)
            if anywhere.find_one({"_id": number}, session=own) is None:
                sys.exit(f"order {number} is not there")
