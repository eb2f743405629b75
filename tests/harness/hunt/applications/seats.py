"""Seats are numbered for five buyers at once. PLANTED: a buyer whose ticket failed buys another."""

import asyncio
import os

from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


async def sell(hall, buyer, session=None):
    """Sell the next seat."""
    seat = await hall.halls.find_one_and_update(
        {"_id": "one"},
        {"$inc": {"sold": 1}, "$push": {"buyers": buyer}},
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    await hall.tickets.insert_one({"seat": seat["sold"], "buyer": buyer}, session=session)


async def buy(client, buyer):
    """Buy a ticket, and try again if that fails."""
    for attempt in range(4):
        try:
            if PLANTED:
                await sell(client.hall, buyer)
                return
            async with client.start_session() as session:
                await session.with_transaction(lambda s: sell(client.hall, buyer, s))
        except DuplicateKeyError:
            return
        except PyMongoError:
            if attempt == 3:
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def main():
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="hall") as client:
        await client.hall.halls.insert_one({"_id": "one", "sold": 0, "buyers": []})
        await client.hall.tickets.create_index("buyer", unique=not PLANTED)
        await asyncio.gather(*(buy(client, name) for name in ("ann", "bob", "cid", "dan", "eve")))


asyncio.run(main())
