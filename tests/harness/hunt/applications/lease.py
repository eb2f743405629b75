"""Two schedulers; the leader runs each job. PLANTED: a leader renews a lease that is no longer its own."""

import os
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError

PLANTED = "PLANTED" in os.environ
LEASE = 1.2


def renew(leases, name):
    """Return whether this scheduler leads."""
    now = time.time()
    mine = {"_id": "leader"} if PLANTED else {"_id": "leader", "until": {"$gt": now}}
    if leases.update_one({**mine, "name": name}, {"$set": {"until": now + LEASE}}).matched_count:
        return True
    try:
        leases.update_one(
            {"_id": "leader", "until": {"$lt": now}},
            {"$set": {"name": name, "until": now + LEASE}},
            upsert=True,
        )
    except DuplicateKeyError:
        return False
    return True


def schedule(db, name, jobs):
    """Run the jobs while this scheduler leads."""
    for job in jobs:
        while not renew(db.leases, name):
            if db.runs.count_documents({}) >= 3:
                return
            time.sleep(0.1)
        if PLANTED:
            db.runs.insert_one({"job": job})
        else:
            db.runs.update_one({"job": job}, {"$setOnInsert": {"job": job}}, upsert=True)
        time.sleep(0.2)


with MongoClient(os.environ["MONGODB_URI"], appname="scheduler") as client:
    db = client.cron
    db.runs.create_index("job", unique=not PLANTED)
    first = threading.Thread(target=schedule, args=(db, "one", range(3)))
    second = threading.Thread(target=schedule, args=(db, "two", range(3)))
    first.start()
    time.sleep(0.2)
    second.start()
    first.join()
    second.join()
    db.leases.delete_one({"_id": "leader"})
    sys.exit(0 if db.runs.count_documents({}) >= 3 else 1)
