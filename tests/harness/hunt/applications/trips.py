"""A trip is a flight, a hotel and a car, or is cancelled. PLANTED: only what failed is taken back."""

import asyncio
import os

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
STEPS = ("flights", "hotels", "cars")


async def surely(action):
    """Do something for as long as it fails, and wait longer each time."""
    for attempt in range(8):
        try:
            return await action()
        except PyMongoError:
            await asyncio.sleep(0.05 * 2**attempt)
    raise RuntimeError("the database is away")


async def book(db, trip):
    """Book a trip, or take back what was booked of it; its state says which."""
    await surely(lambda: db.trips.replace_one({"_id": trip}, {"state": "new"}, upsert=True))
    state, tried = "booked", []
    for step in STEPS:
        tried.append(step)
        try:
            await db[step].insert_one({"_id": trip})
        except PyMongoError:
            state = "cancelled"
            break
    if state == "cancelled":
        for step in tried[-1:] if PLANTED else tried:
            await surely(lambda step=step: db[step].delete_one({"_id": trip}))
    await surely(lambda: db.trips.update_one({"_id": trip}, {"$set": {"state": state}}))


async def main():
    async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="travel") as client:
        for trip in range(3):
            await book(client.travel, trip)


asyncio.run(main())
