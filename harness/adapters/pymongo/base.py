"""Parts that the adapters of PyMongo's two APIs share: entities, operations, errors, sessions.

A call goes from `call` through the table of `operations` to `_perform`, which is the one place where an API
says where its calls run. What PyMongo raises on the way becomes `OperationFailed` here and nowhere else, with
the exception as its cause: callbacks of transactions give that cause back to PyMongo.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pymongo
from pymongo import common
from pymongo.client_session_shared import TransactionOptions
from pymongo.server_api import ServerApi

from harness.adapters.base import (
    EntityKind,
    Feature,
    Invocation,
    OperationFailed,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.pymongo.arguments import names, settled, snake
from harness.adapters.pymongo.events import POOL_KINDS, PyMongoLogCollector, address_of, listeners
from harness.adapters.pymongo.operations import OPERATIONS
from harness.adapters.pymongo.pools import POOL, PyMongoPoolHandle, background, closed, opened
from harness.adapters.pymongo.results import DRIVER_ERRORS, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

    from harness.adapters.base import ClientSpec, Event, Handle, PoolSpec
    from mongowire.ports import Clock

T = TypeVar("T")

FEATURES: Final = frozenset(
    {
        Feature.COMMAND_EVENTS,
        Feature.POOL_EVENTS,
        Feature.SDAM_EVENTS,
        Feature.LOG_MESSAGES,
        Feature.SESSIONS,
        Feature.TRANSACTIONS,
        Feature.CHANGE_STREAMS,
        Feature.GRIDFS,
        Feature.FIND_CURSORS,
        Feature.COMMAND_CURSORS,
        Feature.CLIENT_BULK_WRITE,
        Feature.TIMEOUT_MS,
        Feature.SERVER_API,
        Feature.POOLS,
        Feature.MAX_ADAPTIVE_RETRIES,
    }
)

_TRANSACTION_STATES: Final = {
    1: "none",
    2: "starting",
    3: "in_progress",
    4: "committed",
    5: "committed",
    6: "aborted",
}
"""PyMongo's own numbers; 5 is a commit of nothing."""


@dataclass(slots=True)
class PyMongoClientHandle:
    """A client's handle: PyMongo's client, and what it was seen to do."""

    client: Any
    events: list[Event] = field(default_factory=list)
    closed: bool = False


class PyMongoAdapter(ABC):
    """Drives PyMongo 4.20 and newer. Handles are PyMongo's own objects, except clients and cursors.

    An API says how its clients and buckets are made, where its calls run, and what a callback is to it.
    """

    name: ClassVar[str]
    features = FEATURES
    client_type: ClassVar[Any]
    bucket_type: ClassVar[Any]
    checkout_type: ClassVar[Any]
    monitor_type: ClassVar[Any]

    def __init__(self, clock: Clock, server_version: Sequence[int] = ()) -> None:
        self._clock = clock
        self._server_version = tuple(server_version)
        self._clients: list[PyMongoClientHandle] = []
        self._pools: list[PyMongoPoolHandle] = []
        self._collectors: list[PyMongoLogCollector] = []

    @abstractmethod
    async def _perform(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine that calls PyMongo, where such calls belong."""

    @abstractmethod
    def _listening(self, append: Callable[[Event], None]) -> Callable[..., None]:
        """Return how an event, as kind and fields, gets to `append`."""

    @abstractmethod
    async def _connected(self, client: Any) -> None:
        """Let a new client begin to connect."""

    @abstractmethod
    def _callback(self, run: Callable[[], Awaitable[Any]]) -> Callable[[Any], Any]:
        """Return a transaction's callback as this API calls it."""

    async def create_client(self, spec: ClientSpec) -> Handle:
        """Create a client that observes what `spec` asks for, and let it begin to connect."""
        self._refuse_old_servers()
        events: list[Event] = []
        publish = self._listening(events.append)
        # Before the client is made, which logs from its first line on; `claim` tells afterwards whose
        # messages count.
        logs = PyMongoLogCollector(spec.observe_logs, publish) if spec.observe_logs else None
        if logs is not None:
            self._collectors.append(logs)
        try:
            with _promptly():
                client = _new_client(self.client_type, spec, listeners(spec.observe_events, publish))
                if logs is not None:
                    logs.claim(client._topology_settings._topology_id)  # noqa: SLF001  # no public name
                await self._connected(client)
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error
        made = PyMongoClientHandle(client, events)
        self._clients.append(made)
        return made

    async def create_pool(self, spec: PoolSpec) -> Handle:
        """Create the pool of a client that nothing monitors."""
        self._refuse_old_servers()
        events: list[Event] = []
        observers = listeners(POOL_KINDS, self._listening(events.append))
        with background(spec.background_seconds):
            client = _made(
                lambda: self.client_type(
                    spec.uri, event_listeners=observers, connect=False, _monitor_class=self.monitor_type
                )
            )
            in_background = spec.background_seconds is None or spec.background_seconds >= 0
            server = await opened(client, in_background=in_background)
        handle = PyMongoPoolHandle(client, server.pool, server, self.checkout_type, events)
        self._pools.append(handle)
        return handle

    def _refuse_old_servers(self) -> None:
        """Skip all cases on servers with which PyMongo refuses to speak, because of their wire version."""
        oldest = common.MIN_SUPPORTED_SERVER_VERSION
        # PyMongo itself would refuse every operation, which would look like failures of the driver.
        if self._server_version and self._server_version < tuple(map(int, oldest.split("."))):
            here = ".".join(map(str, self._server_version))
            raise UnsupportedOperation(
                f"PyMongo {pymongo.version} needs servers from {oldest} on, these are {here}"
            )

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Create an entity below a client (databases, sessions) or a database (collections, buckets)."""
        try:
            if kind is EntityKind.BUCKET:
                return self.bucket_type(parent, **snake(spec.get("bucketOptions", {}), _BUCKET_OPTIONS))
            if kind not in _MAKERS:
                raise UnsupportedOperation(f"PyMongo's adapter does not create a {kind.value}")
            return _MAKERS[kind](parent, spec)
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    async def call(self, invocation: Invocation[Handle]) -> Any:
        """Run an operation through the table."""
        kind, operation, target = invocation.kind, invocation.operation, invocation.target
        if kind is EntityKind.POOL:
            return await self._call_pool(invocation)
        run = OPERATIONS.get(kind, {}).get(operation)
        if run is None:
            raise UnsupportedOperation(f"PyMongo has no {operation} on a {kind.value}")
        arguments = dict(invocation.arguments)
        if "callback" in arguments:
            arguments["callback"] = self._callback(arguments["callback"])
        target = target.client if kind is EntityKind.CLIENT else target
        translated = replace(invocation, target=target, arguments=arguments)
        try:
            return await self._perform(lambda: run(translated))
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    async def _call_pool(self, invocation: Invocation[PyMongoPoolHandle]) -> Any:
        run = POOL[invocation.operation]
        try:
            return await self._perform(lambda: run(invocation.target, invocation.arguments))  # type: ignore[arg-type, return-value]
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    def events(self, client: Handle) -> Sequence[Event]:
        """Return all that the client (or pool) has observed so far, oldest first."""
        events: list[Event] = client.events
        return events

    async def session_state(self, session: Handle) -> SessionState:
        """Return what PyMongo keeps of a session; most of it has no public name."""
        lsid = dict(session.session_id)
        pinned = session._transaction.pinned_address  # noqa: SLF001  # not public; kept after a commit
        return SessionState(
            lsid=lsid,
            dirty=session._server_session.dirty,  # noqa: SLF001  # not public
            pinned=address_of(pinned),
            transaction=_TRANSACTION_STATES[session._transaction.state],  # noqa: SLF001  # not public
        )

    async def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        """Advance a session's cluster time."""
        session.advance_cluster_time(cluster_time)

    async def topology(self, client: Handle) -> TopologyReport:
        """Return the client's current view of the deployment."""
        description = client.client.topology_description
        primary = await self._perform(lambda: _primary(client.client))
        return TopologyReport(description.topology_type_name, address_of(primary))

    async def retry_tokens(self, _client: Handle) -> float | None:
        """Refuse: PyMongo has no retry token bucket."""
        raise UnsupportedOperation("PyMongo has no retry token bucket")

    async def close_client(self, client: Handle) -> None:
        """Close one client; closing twice is allowed."""
        # Marked before the wait: a second caller, as `aclose` after a case that timed out, must not close it
        # again.
        if not client.closed:
            client.closed = True
            self._clients.remove(client)
            await self._perform(lambda: settled(client.client.close()))

    async def aclose(self) -> None:
        """Close every client and pool that is still open, and listen to the loggers no longer."""
        while self._pools:
            pool = self._pools.pop()
            await self._perform(lambda pool=pool: closed(pool))  # type: ignore[misc]
        for client in tuple(self._clients):
            await self.close_client(client)
        for collector in self._collectors:
            collector.close()
        self._collectors.clear()


_INTERVALS: Final = ("EVENTS_QUEUE_FREQUENCY", "KILL_CURSOR_FREQUENCY")
_USUAL: Final = {name: getattr(common, name) for name in _INTERVALS}


@contextmanager
def _promptly() -> Iterator[None]:
    """Have clients made here publish events and fill pools ten times a second, as PyMongo's own suite does.

    Their usual second would be waited for by every case that waits for an event or a full pool.
    """
    for name in _INTERVALS:
        setattr(common, name, 0.1)
    try:
        yield
    finally:
        for name, seconds in _USUAL.items():
            setattr(common, name, seconds)


async def _primary(client: Any) -> Any:
    return await settled(client.primary)


def _new_client(client_type: Any, spec: ClientSpec, observers: list[Any]) -> Any:
    api = spec.server_api
    server_api = (
        ServerApi(api["version"], strict=api.get("strict"), deprecation_errors=api.get("deprecationErrors"))
        if api
        else None
    )
    return _made(
        lambda: client_type(
            spec.uri,
            event_listeners=observers,
            server_api=server_api,
            uuidRepresentation="unspecified",
        )
    )


def _made(make: Callable[[], Any]) -> Any:
    """PyMongo only warns of an option that it does not know: for a scenario that is not good enough."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return make()
        except UserWarning as warning:
            raise UnsupportedOperation(f"PyMongo warns: {warning}") from warning


_OPTIONS: Final = names("readConcern writeConcern readPreference")


def _database(parent: PyMongoClientHandle, spec: Mapping[str, Any]) -> Any:
    options = snake(spec.get("databaseOptions", {}), _OPTIONS)
    return parent.client.get_database(spec["databaseName"], **options)


def _collection(parent: Any, spec: Mapping[str, Any]) -> Any:
    options = snake(spec.get("collectionOptions", {}), _OPTIONS)
    return parent.get_collection(spec["collectionName"], **options)


def _session(parent: PyMongoClientHandle, spec: Mapping[str, Any]) -> Any:
    options = dict(spec.get("sessionOptions", {}))
    if "defaultTransactionOptions" in options:
        transaction = snake(options["defaultTransactionOptions"], _TRANSACTION_OPTIONS)
        options["defaultTransactionOptions"] = TransactionOptions(**transaction)
    return parent.client.start_session(**snake(options, _SESSION_OPTIONS))


_SESSION_OPTIONS: Final = names("causalConsistency snapshot snapshotTime defaultTransactionOptions")
_TRANSACTION_OPTIONS: Final = names(
    "readConcern writeConcern readPreference", maxCommitTimeMS="max_commit_time_ms"
)
_BUCKET_OPTIONS: Final = names("bucketName chunkSizeBytes readPreference writeConcern")

_MAKERS: Final[Mapping[EntityKind, Callable[[Any, Mapping[str, Any]], Handle]]] = {
    EntityKind.DATABASE: _database,
    EntityKind.COLLECTION: _collection,
    EntityKind.SESSION: _session,
}
