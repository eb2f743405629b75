"""Messages are posted with a limit of a second (asyncio). PLANTED: after that they are posted once more."""

import asyncio
import os

from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError

PLANTED = "PLANTED" in os.environ


async def post(messages, text):
    """Post a message, with two attempts."""
    message = {"_id": ObjectId(), "text": text}
    for attempt in range(3):
        try:
            given = {"text": text} if PLANTED else dict(message)
            await asyncio.wait_for(messages.insert_one(given), 1.0)
            return
        except DuplicateKeyError:
            return
        except TimeoutError:
            if attempt == 2:
                raise


async def main():
    """Post three messages."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="chat") as client:
        for text in ("hello", "how are you", "bye"):
            await post(client.chat.messages, text)
        await asyncio.sleep(2.5)


asyncio.run(main())
