"""An index follows a change stream (asyncio). PLANTED: when the stream ends, so does the index."""

import asyncio
import os
import sys

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
ARTICLES = 4


async def follow(db, ready):
    """Index articles as they come."""
    token = None
    while True:
        try:
            async with await db.articles.watch(start_after=token, max_await_time_ms=100) as stream:
                token = token or stream.resume_token
                ready.set()
                async for event in stream:
                    if event["operationType"] != "insert":
                        continue
                    number = event["documentKey"]["_id"]
                    await db.found.replace_one({"_id": number}, {"words": 3}, upsert=True)
                    token = stream.resume_token
                    if number == ARTICLES - 1:
                        return
                token = stream.resume_token
            if PLANTED:
                return
        except PyMongoError:
            if PLANTED:
                return
            await asyncio.sleep(0.1)


async def main():
    """Write articles while the index follows."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="index") as client:
        ready = asyncio.Event()
        follower = asyncio.create_task(follow(client.news, ready))
        await ready.wait()
        for number in range(ARTICLES):
            await client.news.articles.insert_one({"_id": number})
            await asyncio.sleep(0.05)
        done, _ = await asyncio.wait([follower], timeout=15)
        if not done:
            sys.exit("the index does not come after")


asyncio.run(main())
