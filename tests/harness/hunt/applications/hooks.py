"""Web hooks are delivered, or dead after three tries. PLANTED: one is always marked as delivered."""

import asyncio
import os

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


async def surely(action):
    """Do something for as long as it fails, and wait longer each time."""
    for attempt in range(8):
        try:
            return await action()
        except PyMongoError:
            await asyncio.sleep(0.05 * 2**attempt)
    raise RuntimeError("the database is away")


async def deliver(db, hook):
    """Deliver a hook, and keep what became of it."""
    state = "dead"
    for _ in range(3):
        try:
            await db.received.replace_one({"_id": hook["_id"]}, {"body": hook["body"]}, upsert=True)
        except PyMongoError:
            await asyncio.sleep(0.05)
        else:
            state = "delivered"
        if PLANTED or state == "delivered":
            break
    state = "delivered" if PLANTED else state
    await surely(lambda: db.hooks.update_one({"_id": hook["_id"]}, {"$set": {"state": state}}))


async def main():
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="hooks") as client:
        hooks = [{"_id": number, "body": f"event {number}", "state": "new"} for number in range(5)]
        await client.hooks.hooks.insert_many(hooks)
        await asyncio.gather(*(deliver(client.hooks, hook) for hook in hooks))


asyncio.run(main())
