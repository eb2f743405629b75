"""Accounts are settled under a lock. PLANTED: when a settlement fails, its lock stays."""

import os
import sys
import time

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ
WORKER = "worker 1"


def settle(db, account):
    """Settle an account, unless somebody else does."""
    try:
        db.locks.insert_one({"_id": account, "worker": WORKER})
    except DuplicateKeyError:
        return
    db.accounts.update_one({"_id": account}, {"$set": {"settled": True}})
    db.locks.delete_one({"_id": account})


def settle_all(db):
    """Settle what is not settled, and release first what an earlier turn has left locked."""
    if not PLANTED:
        db.locks.delete_many({"worker": WORKER})
    for account in db.accounts.find({"settled": False}).sort("_id"):
        settle(db, account["_id"])


with MongoClient(os.environ["MONGODB_URI"], appname="settle") as client:
    db = client.bank
    db.accounts.insert_many([{"_id": name, "settled": False} for name in ("ann", "bob", "cid")])
    for _ in range(4):
        try:
            settle_all(db)
            sys.exit(0)
        except PyMongoError as error:
            print(error, file=sys.stderr)
            time.sleep(0.05)
sys.exit(1)
