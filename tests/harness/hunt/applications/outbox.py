"""Letters go out, each once. PLANTED: a letter is sent, then marked; if the mark fails, it is sent again."""

import os
import sys
import time

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


def send(mailbox, letter):
    """Send a letter: the mailbox throws away what it has already, if letters have numbers."""
    try:
        mailbox.insert_one({"to": letter["to"]} if PLANTED else {"_id": letter["_id"], "to": letter["to"]})
    except DuplicateKeyError:
        pass


def send_all(post):
    """Send what has not been sent."""
    for letter in post.outbox.find({"sent": False}).sort("_id"):
        send(post.mailbox, letter)
        post.outbox.update_one({"_id": letter["_id"]}, {"$set": {"sent": True}})


with MongoClient(os.environ["MONGODB_URI"], appname="post") as client:
    post = client.post
    post.outbox.insert_many(
        [{"_id": n, "to": name, "sent": False} for n, name in enumerate(("ann", "bob", "cid"))]
    )
    for _ in range(5):
        try:
            send_all(post)
        except PyMongoError:
            time.sleep(0.05)
        else:
            sys.exit(0)
sys.exit(1)
