"""A worker does jobs from a queue. PLANTED: it ends at the first error, and the jobs stay."""

import os
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


def step(jobs):
    """Do the next job, if there is one."""
    job = jobs.find_one_and_update({"state": "new"}, {"$set": {"state": "done"}})
    if job is None:
        time.sleep(0.05)


def work(jobs, over):
    """Do jobs until it is over."""
    while not over.is_set():
        try:
            step(jobs)
        except PyMongoError:
            if PLANTED:
                raise
            time.sleep(0.2)


with MongoClient(os.environ["MONGODB_URI"], appname="worker") as client:
    jobs = client.office.jobs
    jobs.insert_many([{"_id": number, "state": "new"} for number in range(5)])
    over = threading.Event()
    worker = threading.Thread(target=work, args=(jobs, over), daemon=True)
    worker.start()
    patience = time.monotonic() + 12
    while time.monotonic() < patience:
        try:
            if not jobs.count_documents({"state": "new"}):
                break
        except PyMongoError:
            pass
        time.sleep(0.1)
    over.set()
    left = jobs.count_documents({"state": "new"})
sys.exit(1 if left else 0)
