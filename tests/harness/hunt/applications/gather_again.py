"""Three letters at once (asyncio). PLANTED: when one fails, all of them are written again."""

import asyncio
import os

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


async def write(letters, name):
    """Write a letter."""
    if PLANTED:
        await letters.insert_one({"to": name})
    else:
        await letters.replace_one({"to": name}, {"to": name}, upsert=True)


async def main():
    """Write to everybody, with two more attempts."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="letters") as client:
        for attempt in range(3):
            try:
                await asyncio.gather(*(write(client.post.letters, name) for name in ("ann", "bob", "cid")))
                return
            except PyMongoError:
                if attempt == 2:
                    raise
                await asyncio.sleep(0.1)


asyncio.run(main())
