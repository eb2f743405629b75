"""The clients of a live run with PyMongo: a thread and a `MongoClient` for each."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from harness.sim.article.live_clients import LiveAttempt, client_options
from mongowire.codes import Label

if TYPE_CHECKING:
    from harness.sim.article.parameters import ArticleParameters


class PyMongoClients:
    """Clients that share nothing: one that fails clears nobody else's pool."""

    def __init__(self, uri: str, own: ArticleParameters) -> None:
        options = client_options(own)
        self._clients: list[MongoClient[dict[str, Any]]] = [
            MongoClient(uri, **options) for _ in range(own.clients)
        ]
        self._threads = ThreadPoolExecutor(own.clients, thread_name_prefix="client")

    async def ask(self, number: int) -> LiveAttempt:
        """Read a document in a thread, however long the driver takes to give up."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, number)

    def _ask(self, number: int) -> LiveAttempt:
        try:
            self._clients[number]["article"]["requests"].find_one({})
        except PyMongoError as error:
            if error.has_error_label(Label.SYSTEM_OVERLOADED):
                return LiveAttempt.REJECTED
            return LiveAttempt.TIMED_OUT if error.timeout else LiveAttempt.ERROR
        return LiveAttempt.OK

    async def aclose(self) -> None:
        """Close the clients, and wait for the threads: a timeout at most."""
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.gather(*(asyncio.to_thread(client.close) for client in self._clients))
