"""Comments are added to a post, with a decorator that tries again. PLANTED: each try adds the comment."""

import functools
import os
import time

from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure

PLANTED = "PLANTED" in os.environ


def retried(times):
    """Call a function again when the database failed."""

    def decorate(function):
        @functools.wraps(function)
        def call(*given):
            for attempt in range(times):
                try:
                    return function(*given)
                except (AutoReconnect, OperationFailure):
                    if attempt == times - 1:
                        raise
                    time.sleep(0.02 * 2**attempt)

        return call

    return decorate


@retried(times=4)
def comment(posts, post, number, text):
    """Add a comment."""
    other = {} if PLANTED else {"comments.number": {"$ne": number}}
    posts.update_one({"_id": post, **other}, {"$push": {"comments": {"number": number, "text": text}}})


with MongoClient(os.environ["MONGODB_URI"], appname="blog") as client:
    posts = client.blog.posts
    posts.insert_one({"_id": "first", "comments": []})
    for number, text in enumerate(("good", "bad", "long")):
        comment(posts, "first", number, text)
