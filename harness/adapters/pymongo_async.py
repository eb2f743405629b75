"""PyMongo's asynchronous API behind the runner."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gridfs.asynchronous import AsyncGridFSBucket
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.client_session_shared import TransactionOptions
from pymongo.server_api import ServerApi

from harness.adapters.base import (
    EntityKind,
    Feature,
    OperationFailed,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.pymongo_arguments import names, snake
from harness.adapters.pymongo_events import address_of, listeners
from harness.adapters.pymongo_operations import OPERATIONS
from harness.adapters.pymongo_results import DRIVER_ERRORS, report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pymongo.asynchronous.client_session import AsyncClientSession

    from harness.adapters.base import ClientSpec, Event, Handle
    from harness.unified.deployment import Deployment
    from mongowire.ports import Clock

FEATURES: Final = frozenset(
    {
        Feature.COMMAND_EVENTS,
        Feature.POOL_EVENTS,
        Feature.SDAM_EVENTS,
        Feature.SESSIONS,
        Feature.TRANSACTIONS,
        Feature.CHANGE_STREAMS,
        Feature.GRIDFS,
        Feature.FIND_CURSORS,
        Feature.COMMAND_CURSORS,
        Feature.CLIENT_BULK_WRITE,
        Feature.TIMEOUT_MS,
        Feature.SERVER_API,
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


def make(deployment: Deployment) -> PyMongoAsyncAdapter:
    """Return a new adapter. Its clients run on the real network, whatever the deployment's."""
    return PyMongoAsyncAdapter(deployment.clock)


@dataclass(slots=True)
class _Client:
    client: AsyncMongoClient[dict[str, Any]]
    events: list[Event] = field(default_factory=list)
    closed: bool = False


class PyMongoAsyncAdapter:
    """Drives PyMongo 4.20 and newer. Handles are PyMongo's own objects, except clients and cursors."""

    name = "pymongo-async"
    features = FEATURES

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: list[_Client] = []

    async def create_client(self, spec: ClientSpec) -> Handle:
        """Create a client that observes what `spec` asks for, and let it begin to connect."""
        events: list[Event] = []
        try:
            client = _new_client(spec, listeners(events, spec.observe_events, self._clock.now))
            await client.aconnect()
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error
        made = _Client(client, events)
        self._clients.append(made)
        return made

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Create an entity below a client (databases, sessions) or a database (collections, buckets)."""
        if kind not in _MAKERS:
            raise UnsupportedOperation(f"PyMongo's adapter does not create a {kind.value}")
        try:
            return _MAKERS[kind](parent, spec)
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    async def call(
        self, handle: Handle, kind: EntityKind, operation: str, arguments: Mapping[str, Any]
    ) -> Any:
        """Run an operation through the table."""
        run = OPERATIONS.get(kind, {}).get(operation)
        if run is None:
            raise UnsupportedOperation(f"PyMongo has no {operation} on a {kind.value}")
        target = handle.client if kind is EntityKind.CLIENT else handle
        try:
            return await run(target, arguments)
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    def events(self, client: Handle) -> Sequence[Event]:
        """Return all that the client has observed so far, oldest first."""
        events: list[Event] = client.events
        return events

    async def session_state(self, session: Handle) -> SessionState:
        """Return what PyMongo keeps of a session; most of it has no public name."""
        lsid = dict(session.session_id)
        pinned = session._pinned_address  # noqa: SLF001  # not public
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
        primary = await client.client.primary
        return TopologyReport(description.topology_type_name, address_of(primary))

    async def close_client(self, client: Handle) -> None:
        """Close one client; closing twice is allowed."""
        if not client.closed:
            client.closed = True
            self._clients.remove(client)
            await client.client.close()

    async def aclose(self) -> None:
        """Close every client that is still open."""
        for client in tuple(self._clients):
            await self.close_client(client)


def _new_client(spec: ClientSpec, observers: list[Any]) -> AsyncMongoClient[dict[str, Any]]:
    """PyMongo only warns of an option that it does not know: for a scenario that is not good enough."""
    api = spec.server_api
    server_api = (
        ServerApi(api["version"], strict=api.get("strict"), deprecation_errors=api.get("deprecationErrors"))
        if api
        else None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return AsyncMongoClient(
                spec.uri, event_listeners=observers, server_api=server_api, uuidRepresentation="unspecified"
            )
        except UserWarning as warning:
            raise UnsupportedOperation(f"PyMongo warns: {warning}") from warning


_OPTIONS: Final = names("readConcern writeConcern readPreference")


def _database(parent: _Client, spec: Mapping[str, Any]) -> AsyncDatabase[dict[str, Any]]:
    return AsyncDatabase(
        parent.client, spec["databaseName"], **snake(spec.get("databaseOptions", {}), _OPTIONS)
    )


def _collection(
    parent: AsyncDatabase[dict[str, Any]], spec: Mapping[str, Any]
) -> AsyncCollection[dict[str, Any]]:
    return AsyncCollection(
        parent, spec["collectionName"], **snake(spec.get("collectionOptions", {}), _OPTIONS)
    )


def _session(parent: _Client, spec: Mapping[str, Any]) -> AsyncClientSession:
    options = dict(spec.get("sessionOptions", {}))
    if "defaultTransactionOptions" in options:
        transaction = snake(options["defaultTransactionOptions"], _TRANSACTION_OPTIONS)
        options["defaultTransactionOptions"] = TransactionOptions(**transaction)
    return parent.client.start_session(**snake(options, _SESSION_OPTIONS))


_SESSION_OPTIONS: Final = names("causalConsistency snapshot snapshotTime defaultTransactionOptions")
_TRANSACTION_OPTIONS: Final = names(
    "readConcern writeConcern readPreference", maxCommitTimeMS="max_commit_time_ms"
)


def _bucket(parent: AsyncDatabase[dict[str, Any]], spec: Mapping[str, Any]) -> AsyncGridFSBucket:
    return AsyncGridFSBucket(parent, **snake(spec.get("bucketOptions", {}), _BUCKET_OPTIONS))


_BUCKET_OPTIONS: Final = names("bucketName chunkSizeBytes readPreference writeConcern")

_MAKERS: Final[Mapping[EntityKind, Callable[[Any, Mapping[str, Any]], Handle]]] = {
    EntityKind.DATABASE: _database,
    EntityKind.COLLECTION: _collection,
    EntityKind.SESSION: _session,
    EntityKind.BUCKET: _bucket,
}
