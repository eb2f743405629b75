"""Payments with an idempotency key. PLANTED: a key is remembered after its payment is written."""

import asyncio
import os
import sys

from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PLANTED = "PLANTED" in os.environ


async def pay(client, key, customer):
    """Handle a request: pay once for each key."""
    bank = client.bank

    async def work(session=None):
        await bank.payments.insert_one({"customer": customer, "cents": 500}, session=session)
        await bank.keys.insert_one({"_id": key}, session=session)

    if await bank.keys.find_one({"_id": key}):
        return
    if PLANTED:
        await work()
    else:
        async with client.start_session() as session:
            await session.with_transaction(work)


async def customer(client, name):
    """Ask for a payment, again with the same key if the answer is an error; return whether it was made."""
    for _ in range(4):
        try:
            await pay(client, f"key-{name}", name)
        except DuplicateKeyError:
            return True
        except PyMongoError:
            await asyncio.sleep(0.05)
        else:
            return True
    return False


async def main():
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="till") as client:
        return await asyncio.gather(*(customer(client, name) for name in ("ann", "bob", "cid")))


sys.exit(0 if all(asyncio.run(main())) else 1)
