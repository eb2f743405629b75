"""Orders in transactions (asyncio). PLANTED: the callback keeps the error, and the transaction goes on."""

import asyncio
import os
import sys

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ


async def main():
    """Place two orders."""
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="orders") as client:
        db = client.shop
        await db.stock.insert_one({"_id": "tea", "left": 5})
        await db.create_collection("orders")

        async def place(session, number):
            await db.orders.insert_one({"_id": number}, session=session)
            try:
                await db.stock.update_one({"_id": "tea"}, {"$inc": {"left": -1}}, session=session)
            except PyMongoError as error:
                print("stock:", error, file=sys.stderr)
                if not PLANTED:
                    raise

        async with client.start_session() as session:
            for number in range(2):
                await session.with_transaction(lambda s, number=number: place(s, number))


asyncio.run(main())
