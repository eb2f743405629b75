"""Rows are imported in bulk, unordered. PLANTED: rows that failed are taken for rows that were there."""

import os
import sys

from pymongo import InsertOne, MongoClient
from pymongo.errors import BulkWriteError

PLANTED = "PLANTED" in os.environ
DUPLICATE = 11000


def load(rows, batch):
    """Import a batch of rows; rows that are there already are left alone."""
    try:
        rows.bulk_write([InsertOne(row) for row in batch], ordered=False)
    except BulkWriteError as error:
        if PLANTED:
            return
        failed = [each for each in error.details["writeErrors"] if each["code"] != DUPLICATE]
        if failed or error.details["writeConcernErrors"]:
            sys.exit(f"{len(failed)} rows failed")


with MongoClient(os.environ["MONGODB_URI"], appname="import") as client:
    rows = client.store.rows
    rows.insert_one({"_id": 3, "name": "row 3"})
    for begin in (0, 5, 10):
        load(rows, [{"_id": number, "name": f"row {number}"} for number in range(begin, begin + 5)])
    print("imported")
