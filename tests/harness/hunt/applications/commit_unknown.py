"""Points are given in a transaction. PLANTED: if nobody knows whether it was committed, all is done again."""

import os
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

PLANTED = "PLANTED" in os.environ
UNKNOWN = "UnknownTransactionCommitResult"


def commit(session):
    """Commit, again while nobody knows whether that has happened."""
    for attempt in range(5):
        try:
            return session.commit_transaction()
        except PyMongoError as error:
            if PLANTED or attempt == 4 or not error.has_error_label(UNKNOWN):
                raise
            time.sleep(0.05)


def give(client, player):
    """Give ten points to a player."""
    for attempt in range(5):
        try:
            with client.start_session() as session:
                session.start_transaction()
                client.game.players.update_one({"_id": player}, {"$inc": {"points": 10}}, session=session)
                client.game.log.insert_one({"player": player}, session=session)
                return commit(session)
        except PyMongoError as error:
            again = error.has_error_label("TransientTransactionError") or (
                PLANTED and error.has_error_label(UNKNOWN)
            )
            if attempt == 4 or not again:
                raise
            time.sleep(0.05)


with MongoClient(os.environ["MONGODB_URI"], appname="game") as client:
    client.game.players.insert_many([{"_id": name, "points": 0} for name in ("ann", "bob")])
    for player in ("ann", "bob"):
        give(client, player)
