"""One attempt of a live run's client, with PyMongo or with the reference driver."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from driver import EDITION_2026_02_20, EDITION_2026_07_08, AsyncClient, DriverError
from driver.errors import (
    NetworkTimeoutError,
    OperationTimeoutError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from harness.sim.article.parameters import OF_THE_APPLICATION, Strategy
from mongowire.codes import Label

if TYPE_CHECKING:
    from harness.sim.article.parameters import ArticleParameters


Driver: TypeAlias = Literal["pymongo", "reference"]

_JULY: Final = frozenset({Strategy.BACKPRESSURE_JULY, Strategy.TOLD_BACKOFF})
_TIMEOUTS: Final = (
    TimeoutError,
    NetworkTimeoutError,
    OperationTimeoutError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)


class LiveAttempt(Enum):
    """The outcome of an attempt."""

    OK = "ok"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"
    ERROR = "error"


class Asking(Protocol):
    """The clients of a run, by number: each has connections and a view of the server of its own."""

    async def ask(self, number: int) -> LiveAttempt:
        """Have a client make one attempt."""

    async def aclose(self) -> None:
        """Close the connections."""


def client_options(own: ArticleParameters) -> dict[str, Any]:
    """Return the options of both drivers, which retry nothing and connect anew for each request.

    So do the article's clients. With connections that are kept, the first request of every client would reach
    the process that is stopped, and wait there.

    `timeoutMS` would tell the server of the deadline, by which the server would end the request: the
    article's server does not know it.
    """
    millis = max(round(own.timeout * 1000), 1)
    return {
        **dict.fromkeys(("connectTimeoutMS", "socketTimeoutMS", "serverSelectionTimeoutMS"), millis),
        "directConnection": True,
        "maxIdleTimeMS": 1,
        "serverMonitoringMode": "poll",
        "retryReads": False,
        "retryWrites": False,
    }


class ReferenceClients:
    """A task and a client of the driver for each client."""

    def __init__(self, uri: str, own: ArticleParameters, strategy: Strategy) -> None:
        options = client_options(own)
        if strategy not in OF_THE_APPLICATION:
            options["retryReads"] = True
            options["adaptiveRetries"] = strategy is Strategy.BACKPRESSURE_FEBRUARY_BUCKET
        edition = EDITION_2026_07_08 if strategy in _JULY else EDITION_2026_02_20
        self._clients = [AsyncClient(uri, options=options, edition=edition) for _ in range(own.clients)]
        # An attempt of the driver's own may be several requests, each of which has its timeouts.
        self._limit = own.timeout if strategy in OF_THE_APPLICATION else None

    async def ask(self, number: int) -> LiveAttempt:
        """Read a document. The article's client gives up when the timeout is over, whatever it waits for."""
        try:
            async with asyncio.timeout(self._limit):
                await self._clients[number].database("article").collection("requests").find_one({})
        except _TIMEOUTS:
            return LiveAttempt.TIMED_OUT
        except DriverError as error:
            return LiveAttempt.REJECTED if Label.SYSTEM_OVERLOADED in error.labels else LiveAttempt.ERROR
        return LiveAttempt.OK

    async def aclose(self) -> None:
        """Close the clients."""
        await asyncio.gather(*(client.aclose() for client in self._clients))


class PyMongoClients:
    """A thread and a `MongoClient` for each client: one that fails clears nobody else's pool."""

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
