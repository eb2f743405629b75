"""Money moves between accounts. PLANTED: as two updates, without a transaction."""

import os

from pymongo import MongoClient

PLANTED = "PLANTED" in os.environ


def move(accounts, amount, session=None):
    """Move an amount from one account to the other."""
    accounts.update_one({"_id": "ann"}, {"$inc": {"balance": -amount}}, session=session)
    accounts.update_one({"_id": "bob"}, {"$inc": {"balance": amount}}, session=session)


with MongoClient(os.environ["MONGODB_URI"], appname="bank") as client:
    accounts = client.bank.accounts
    accounts.insert_many([{"_id": "ann", "balance": 100}, {"_id": "bob", "balance": 100}])
    with client.start_session() as session:
        for amount in (10, 20):
            if PLANTED:
                move(accounts, amount)
            else:
                session.with_transaction(lambda s, amount=amount: move(accounts, amount, s))
