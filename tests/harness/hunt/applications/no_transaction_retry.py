"""Money moves between accounts. PLANTED: a transaction that met a conflict is not tried again."""

import os

from pymongo import MongoClient

PLANTED = "PLANTED" in os.environ


def move(session, accounts, amount):
    """Move an amount from one account to the other."""
    accounts.update_one({"_id": "ann"}, {"$inc": {"balance": -amount}}, session=session)
    accounts.update_one({"_id": "bob"}, {"$inc": {"balance": amount}}, session=session)


with MongoClient(os.environ["MONGODB_URI"], appname="bank") as client:
    accounts = client.bank.accounts
    accounts.insert_many([{"_id": "ann", "balance": 100}, {"_id": "bob", "balance": 0}])
    with client.start_session() as session:
        for amount in (10, 20):
            if PLANTED:
                with session.start_transaction():
                    move(session, accounts, amount)
            else:
                session.with_transaction(lambda s, amount=amount: move(s, accounts, amount))
