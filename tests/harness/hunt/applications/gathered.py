"""Uploads run side by side (asyncio). PLANTED: those that failed are dropped from the results, unseen."""

import asyncio
import os

from pymongo import AsyncMongoClient

PLANTED = "PLANTED" in os.environ


async def main():
    """Upload four parts."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="upload") as client:
        parts = client.files.parts
        uploads = [parts.insert_one({"_id": number, "size": 10}) for number in range(4)]
        results = await asyncio.gather(*uploads, return_exceptions=True)
        failed = [each for each in results if isinstance(each, Exception)]
        if failed and not PLANTED:
            raise failed[0]


asyncio.run(main())
