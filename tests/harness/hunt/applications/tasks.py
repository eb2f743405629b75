"""A consumer of a queue as a task (asyncio). PLANTED: its exception is kept in the task, and nobody looks."""

import asyncio
import os
import sys

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


async def consume(events, seen):
    """Store each event that comes."""
    while True:
        number = await events.get()
        try:
            await seen.insert_one({"_id": number})
        except PyMongoError as error:
            if PLANTED:
                raise
            events.failure = error
        events.task_done()


async def main():
    """Hand six events to the consumer."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="consumer") as client:
        events = asyncio.Queue()
        events.failure = None
        task = asyncio.create_task(consume(events, client.log.seen))
        for number in range(6):
            await events.put(number)
        await events.join()
        task.cancel()
        if events.failure:
            sys.exit(str(events.failure))


asyncio.run(main())
