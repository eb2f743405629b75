"""An audit trail (asyncio). PLANTED: entries are written by tasks that nobody waits for."""

import asyncio
import os

from pymongo import AsyncMongoClient

PLANTED = "PLANTED" in os.environ


async def main():
    """Do three things, with an entry for each."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="audit") as client:
        tasks = set()
        for number in range(3):
            await client.app.things.insert_one({"_id": number})
            entry = client.app.audit.insert_one({"_id": number, "what": "made"})
            if PLANTED:
                task = asyncio.create_task(entry)
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                await entry
        if tasks:
            await asyncio.wait(tasks)


asyncio.run(main())
