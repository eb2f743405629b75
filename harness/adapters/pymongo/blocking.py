"""PyMongo's blocking API behind the runner: its calls run on threads, and the runner's loop goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gridfs.synchronous import GridFSBucket
from pymongo import MongoClient
from pymongo.synchronous.mongo_client import _ClientCheckout

from harness.adapters.base import Event, OperationFailed
from harness.adapters.pymongo.base import PyMongoAdapter
from harness.adapters.pymongo.pools import NoMonitorSync
from harness.adapters.threads import Callbacks, Workers, finished
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from harness.adapters.base import Handle
    from harness.unified.deployment import Deployment
    from mongowire.ports import Clock

T = TypeVar("T")

_PATIENCE: Final = 0.5
"""Seconds after which a client that closes no longer waits for the answers of its servers."""


def make(deployment: Deployment) -> PyMongoSyncAdapter:
    """Return a new adapter. Its clients run on the real network, whatever the deployment's."""
    return PyMongoSyncAdapter(deployment.clock, deployment.server_version)


class PyMongoSyncAdapter(PyMongoAdapter):
    """Runs PyMongo on threads. Whatever those observe reaches the runner by its event loop, in order."""

    name = "pymongo"
    client_type = MongoClient
    bucket_type = GridFSBucket
    checkout_type = _ClientCheckout
    monitor_type = NoMonitorSync

    def __init__(self, clock: Clock, server_version: Sequence[int] = ()) -> None:
        super().__init__(clock, server_version)
        self._loop = asyncio.get_running_loop()
        self._ahead = 0.0 if isinstance(clock, SystemClock) else clock.now() - self._loop.time()
        """How many seconds the deployment's clock is ahead of the loop's, which every thread may read."""
        self._publishing = threading.Lock()
        """Events are handed to the loop in the order of their times."""
        self._workers = Workers()
        self._callbacks = Callbacks()
        self._closed: list[Handle] = []

    async def close_client(self, client: Handle) -> None:
        """Close one client, and end what it still waits for; closing twice is allowed."""
        closing = asyncio.ensure_future(super().close_client(client))
        while not (await asyncio.wait({closing}, timeout=_PATIENCE))[0]:
            _interrupt(client.client)
        closing.result()
        self._closed.append(client)

    async def aclose(self) -> None:
        """Close every client that is still open, end the calls that nobody waits for, and the threads."""
        self._callbacks.cancel()
        await super().aclose()
        while not await self._workers.rested(within=_PATIENCE):
            for client in self._closed:
                _interrupt(client.client)
        self._closed.clear()
        self._workers.close()

    async def _perform(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await self._workers.run(lambda: finished(work()))

    def _listening(self, append: Callable[[Event], None]) -> Callable[..., None]:
        def on_loop(kind: str, fields: dict[str, Any], at: float) -> None:
            append(Event(kind, fields, at))

        def publish(kind: str, fields: dict[str, Any]) -> None:
            # The time of the listener's call, not of the loop's turn, which may be much later under load.
            with self._publishing:
                if not self._loop.is_closed():
                    at = self._loop.time() + self._ahead
                    self._loop.call_soon_threadsafe(on_loop, kind, fields, at)

        return publish

    async def _connected(self, client: Any) -> None:
        """Do nothing: it has begun when it was made."""

    def _callback(self, run: Callable[[], Awaitable[Any]]) -> Callable[[Any], Any]:
        """Run it on the loop, where its operations take threads of their own."""

        async def work() -> None:
            await run()

        def callback(_session: Any) -> None:
            try:
                self._callbacks.wait(work)
            except OperationFailed as failed:
                raise failed.__cause__ or failed from None

        return callback


def _interrupt(client: Any) -> None:
    """Have every call that waits for a server's answer fail, within PyMongo's polling of half a second."""
    for server in tuple(client._topology._servers.values()):  # noqa: SLF001  # PyMongo has no public way
        for context in tuple(server.pool.active_contexts):
            context.cancel()
