"""Transfers in one session. PLANTED: a commit that failed is forgotten when the next one begins."""

import os
import sys

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def transfer(session, accounts, name, amount):
    """Move an amount from the bank to an account."""
    accounts.update_one({"_id": "bank"}, {"$inc": {"balance": -amount}}, session=session)
    accounts.update_one({"_id": name}, {"$inc": {"balance": amount}}, session=session)


with MongoClient(os.environ["MONGODB_URI"], appname="transfers") as client:
    accounts = client.bank.accounts
    accounts.insert_many([{"_id": name, "balance": 100} for name in ("bank", "ann", "bob")])
    with client.start_session() as session:
        for name, amount in (("ann", 10), ("bob", 20)):
            if PLANTED:
                session.start_transaction()
                transfer(session, accounts, name, amount)
                try:
                    session.commit_transaction()
                except PyMongoError as error:
                    print("commit:", error, file=sys.stderr)
            else:
                session.with_transaction(lambda s, n=name, a=amount: transfer(s, accounts, n, a))
