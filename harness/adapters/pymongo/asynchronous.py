"""PyMongo's asynchronous API behind the runner.

Events need no way to the loop here, since listeners are called on it. Tasks of PyMongo that run in the
background belong to the runner's loop too, and end when their clients are closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gridfs.asynchronous import AsyncGridFSBucket
from pymongo import AsyncMongoClient
from pymongo.asynchronous.mongo_client import _ClientCheckout

from harness.adapters.base import Event, OperationFailed
from harness.adapters.pymongo.base import PyMongoAdapter
from harness.adapters.pymongo.pools import NoMonitorAsync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from harness.adapters.deployment import Deployment

T = TypeVar("T")


def make(deployment: Deployment) -> PyMongoAsyncAdapter:
    """Return a new adapter. Its clients run on the real network, whatever the deployment's."""
    return PyMongoAsyncAdapter(deployment.clock, deployment.server_version)


class PyMongoAsyncAdapter(PyMongoAdapter):
    """Runs PyMongo on the runner's own event loop."""

    name = "pymongo-async"
    client_type = AsyncMongoClient
    bucket_type = AsyncGridFSBucket
    checkout_type = _ClientCheckout
    monitor_type = NoMonitorAsync

    async def _perform(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await work()

    def _listening(self, append: Callable[[Event], None]) -> Callable[..., None]:
        return lambda kind, fields: append(Event(kind, fields, self._clock.now()))

    async def _connected(self, client: Any) -> None:
        # A client of this API begins at its first operation unless it is told to; scenarios count the events
        # of discovery from its creation on.
        await client.aconnect()

    def _callback(self, run: Callable[[], Awaitable[Any]]) -> Callable[[Any], Any]:
        """Run it in place: it reports errors, but PyMongo decides by its own to retry."""

        async def callback(_session: Any) -> None:
            try:
                await run()
            except OperationFailed as failed:
                # The report was made for the runner. PyMongo looks for labels on its own exception, which is
                # the cause.
                raise failed.__cause__ or failed from None

        return callback
