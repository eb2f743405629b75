"""The reference driver behind the runner, on the deployment's own clock, network and random numbers.

One adapter serves one case in one edition of the specifications; `features` depend on it, because the
editions disagree on how retries of an overloaded server are limited.

Below the adapter stand two parts with their own heads: its log messages, and the random numbers of a client
whose jitter a scenario sets.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from driver.client import AsyncClient, OptionWarning
from driver.concerns import ReadConcern, ReadPreference, WriteConcern
from driver.editions import DEFAULT, EDITIONS
from driver.gridfs.bucket import GridFSBucket
from driver.log.components import ROOT
from driver.log.message import LogMessage
from driver.policy.backpressure import TokenBucket
from driver.server_api import ServerApi
from driver.tracing.options import TracingOptions
from driver.transaction import TransactionOptions
from harness.adapters.base import (
    LOG_MESSAGE,
    SPAN,
    EntityKind,
    Event,
    Feature,
    Invocation,
    OperationFailed,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.logger_tap import LoggerTap
from harness.adapters.reference.operations import BUCKET, OPERATIONS, bucket_options, transaction_options
from harness.adapters.reference.pools import POOL, PoolHandle, create_pool
from harness.adapters.reference.results import DRIVER_ERRORS, event_of, report
from mongowire.system import SeededRng

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from driver.collection import Collection
    from driver.database import Database
    from driver.editions import Edition
    from driver.events import DriverEvent
    from driver.session import ClientSession
    from harness.adapters.base import ClientSpec, Handle, PoolSpec
    from harness.adapters.deployment import Deployment
    from mongowire.ports import Rng


FEATURES: Final = frozenset(
    {
        Feature.COMMAND_EVENTS,
        Feature.POOL_EVENTS,
        Feature.SDAM_EVENTS,
        Feature.LOG_MESSAGES,
        Feature.SESSIONS,
        Feature.CHANGE_STREAMS,
        Feature.TRANSACTIONS,
        Feature.GRIDFS,
        Feature.FIND_CURSORS,
        Feature.COMMAND_CURSORS,
        Feature.CLIENT_BULK_WRITE,
        Feature.SERVER_API,
        Feature.TIMEOUT_MS,
        Feature.POOLS,
        Feature.VIRTUAL_TIME,
        Feature.JITTER,
    }
)
_OF_TOKEN_BUCKET: Final = frozenset({Feature.ADAPTIVE_RETRIES, Feature.RETRY_TOKENS})


@cache
def _can_trace() -> bool:
    """Return whether spans can be made and observed: what does that is an extra."""
    try:
        # A missing parent package raises; a missing module is None.
        return find_spec("opentelemetry.sdk.trace") is not None
    except ModuleNotFoundError:
        return False


def make(deployment: Deployment, *, edition: str = DEFAULT.name) -> ReferenceAdapter:
    """Return a new adapter that follows an edition. Raises KeyError for an unknown one."""
    return ReferenceAdapter(deployment, EDITIONS[edition])


@dataclass(slots=True)
class _ReferenceClient:
    client: AsyncClient
    logs: LogCollector
    events: list[Event] = field(default_factory=list)


class ReferenceAdapter:
    """Drives `driver`. Handles are the driver's own objects, except clients."""

    name = "reference"

    def __init__(self, deployment: Deployment, edition: Edition = DEFAULT) -> None:
        self._deployment = deployment
        self._edition = edition
        self._clients: list[_ReferenceClient] = []
        self._pools: list[PoolHandle] = []
        self._numbers = count()

    @property
    def features(self) -> frozenset[Feature]:
        """The features of the driver in this edition."""
        by_edition = _OF_TOKEN_BUCKET if self._edition.has_token_bucket else {Feature.MAX_ADAPTIVE_RETRIES}
        return FEATURES | by_edition | ({Feature.TRACING} if _can_trace() else set())

    async def create_client(self, spec: ClientSpec) -> Handle:
        """Create a client that observes what `spec` asks for, and let it begin to connect."""
        events: list[Event] = []
        clock = self._deployment.clock

        def deliver(kind: str, fields: dict[str, Any]) -> None:
            events.append(Event(kind, fields, clock.now()))

        logs, spans = LogCollector(spec.observe_logs, deliver), self._trace(spec, events)
        try:
            client = self._new_client(spec, events, spans)
            # Opening a client logs the first messages, so whose they are is told before.
            logs.client = client.topology.id
            client.open()
        except DRIVER_ERRORS as error:
            logs.close()
            raise OperationFailed(report(error)) from error
        made = _ReferenceClient(client, logs, events)
        self._clients.append(made)
        return made

    def _trace(self, spec: ClientSpec, events: list[Event]) -> TracingOptions:
        if spec.observe_spans is None:
            return TracingOptions(enabled=False)
        from harness.adapters.reference.spans import tracing  # noqa: PLC0415 - it needs OpenTelemetry

        clock, length = self._deployment.clock, DOCUMENT_LENGTH
        return tracing(
            lambda fields: events.append(Event(SPAN, fields, clock.now())),
            query_text_length=length if spec.observe_spans.get("enableCommandPayload") else 0,
        )

    async def create_pool(self, spec: PoolSpec) -> Handle:
        """Create a pool, with the clock, the network and the edition of a client."""
        made = create_pool(spec, self._deployment, self._edition)
        self._pools.append(made)
        return made

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Create an entity below a client (databases, sessions) or a database (collections, buckets)."""
        if kind not in _MAKERS:
            raise UnsupportedOperation(f"the reference driver does not create a {kind.value}")
        try:
            return _MAKERS[kind](parent, spec)
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    async def call(self, invocation: Invocation[Handle]) -> Any:
        """Run an operation through the table."""
        kind, operation = invocation.kind, invocation.operation
        if kind is EntityKind.POOL:
            try:
                return await POOL[invocation.operation](invocation.target.pool, invocation.arguments)
            except DRIVER_ERRORS as error:
                raise OperationFailed(report(error)) from error
        run = (BUCKET if kind is EntityKind.BUCKET else OPERATIONS.get(kind, {})).get(operation)
        if run is None:
            raise UnsupportedOperation(f"the reference driver has no {operation} on a {kind.value}")
        if kind is EntityKind.CLIENT:
            invocation = replace(invocation, target=invocation.target.client)
        try:
            return await run(invocation)
        except DRIVER_ERRORS as error:
            raise OperationFailed(report(error)) from error

    def events(self, client: Handle) -> Sequence[Event]:
        """Return all that the client (or pool) has observed so far, oldest first."""
        events: list[Event] = client.events
        return events

    async def session_state(self, session: Handle) -> SessionState:
        """Return the state of a session."""
        transaction = session.transaction
        return SessionState(session.lsid, session.dirty, transaction.pinned, transaction.state.value)

    async def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        """Advance a session's cluster time."""
        session.advance_cluster_time(cluster_time)

    async def topology(self, client: Handle) -> TopologyReport:
        """Return the client's current view of the deployment."""
        description = client.client.topology.description
        primary = description.primary
        return TopologyReport(description.type.value, primary.address if primary else None)

    async def retry_tokens(self, client: Handle) -> float | None:
        """Return the tokens in a client's retry token bucket, None without adaptiveRetries."""
        if Feature.RETRY_TOKENS not in self.features:
            raise UnsupportedOperation(f"edition {self._edition.name} has no retry token bucket")
        budget = client.client.executor.budget
        return budget.tokens if isinstance(budget, TokenBucket) else None

    async def close_client(self, client: Handle) -> None:
        """Close one client; closing twice is allowed."""
        await client.client.aclose()
        client.logs.close()

    async def aclose(self) -> None:
        """Close every client and every pool that is still open."""
        for client in self._clients:
            await self.close_client(client)
        self._clients.clear()
        while self._pools:
            await self._pools.pop().pool.aclose()

    def _new_client(self, spec: ClientSpec, events: list[Event], spans: TracingOptions) -> AsyncClient:
        """Make a client. An option that it would only warn of makes the case unsupported."""
        clock, api = self._deployment.clock, spec.server_api
        server_api = (
            ServerApi(api["version"], api.get("strict"), api.get("deprecationErrors")) if api else None
        )

        def observe(event: DriverEvent) -> None:
            if event.kind in spec.observe_events:
                events.append(event_of(event, clock.now()))

        with warnings.catch_warnings():
            warnings.simplefilter("error", OptionWarning)
            try:
                return AsyncClient(
                    spec.uri,
                    network=self._deployment.network,
                    clock=clock,
                    # A generator for each client: what one draws changes nothing for the next.
                    rng=with_jitter(self._deployment.rng.spawn(f"reference{next(self._numbers)}"), spec),
                    edition=self._edition,
                    server_api=server_api,
                    log_document_length=DOCUMENT_LENGTH,
                    tracing=spans,
                    listeners=[observe] if spec.observe_events else (),
                )
            except OptionWarning as warning:
                raise UnsupportedOperation(f"the reference driver warns: {warning}") from warning


def _inherited(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a database or a collection."""
    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "readConcern": ("read_concern", lambda document: ReadConcern(document.get("level"))),
        "readPreference": ("read_preference", ReadPreference.of_document),
        "writeConcern": ("write_concern", WriteConcern.of_document),
        "timeoutMS": ("timeout_ms", int),
    }
    keywords: dict[str, Any] = {}
    for name, document in options.items():
        if name not in readers:
            raise UnsupportedOperation(f"the reference driver takes no option {name} here")
        keyword, read = readers[name]
        keywords[keyword] = read(document)
    return keywords


def _database(parent: _ReferenceClient, spec: Mapping[str, Any]) -> Database:
    return parent.client.database(spec["databaseName"], **_inherited(spec.get("databaseOptions", {})))


def _collection(parent: Database, spec: Mapping[str, Any]) -> Collection:
    return parent.collection(spec["collectionName"], **_inherited(spec.get("collectionOptions", {})))


def _bucket(parent: Database, spec: Mapping[str, Any]) -> GridFSBucket:
    own, concerns = bucket_options(spec.get("bucketOptions", {}))
    return GridFSBucket(parent, **own, **_inherited(concerns))


_SESSION_OPTIONS: Final = {
    "causalConsistency": "causal_consistency",
    "defaultTimeoutMS": "default_timeout_ms",
    "snapshot": "snapshot",
    "snapshotTime": "snapshot_time",
}


def _session(parent: _ReferenceClient, spec: Mapping[str, Any]) -> ClientSession:
    options = dict(spec.get("sessionOptions", {}))
    defaults = TransactionOptions(**transaction_options(options.pop("defaultTransactionOptions", {})))
    unknown = [name for name in options if name not in _SESSION_OPTIONS]
    if unknown:
        raise UnsupportedOperation(f"the reference driver's sessions take no {unknown[0]}")
    named = {_SESSION_OPTIONS[name]: value for name, value in options.items()}
    return parent.client.start_session(**named, default_transaction_options=defaults)


_MAKERS: Final[Mapping[EntityKind, Callable[[Any, Mapping[str, Any]], Handle]]] = {
    EntityKind.DATABASE: _database,
    EntityKind.COLLECTION: _collection,
    EntityKind.SESSION: _session,
    EntityKind.BUCKET: _bucket,
}


# The reference driver's log messages, as it gives them to Python's `logging`.


DOCUMENT_LENGTH: Final = 100_000
"""Characters after which documents are cut off: enough for scenarios, which read them."""


class LogCollector(LoggerTap):
    """Delivers what one client logs. Whose messages it is to deliver is said before the client opens."""

    def __init__(self, components: Iterable[str], deliver: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__(f"{ROOT}.{component}" for component in components)
        self.client: object = None
        self._deliver = deliver

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message."""
        message = record.msg
        if isinstance(message, LogMessage) and message.client == self.client:
            component = record.name.rpartition(".")[2]
            level = record.levelname.lower()
            self._deliver(LOG_MESSAGE, {"level": level, "component": component, "data": message.data})


# The random numbers of a client of the reference driver whose jitter a scenario sets.
#
# The driver draws its jitter from two generators of its own: `jitter` for overload retries, `transactions`
# for withTransaction. These are replaced. All others (ids, nonces, server selection) stay as they are, so
# that a scenario that sets the jitter changes nothing else.


_OF_BACKOFFS: Final = ("jitter", "transactions")


def with_jitter(rng: Rng, spec: ClientSpec) -> Rng:
    """Return the random numbers of a client: `rng`, with the jitter that its specification sets, if any."""
    if spec.jitter is not None:
        return _SetJitter(rng, FixedRng(spec.jitter, rng))
    return rng if spec.jitter_seed is None else _SetJitter(rng, SeededRng(spec.jitter_seed))


@dataclass(frozen=True, slots=True)
class _SetJitter:
    """A client's generator, below which those of backoffs are spawned from `jitter`."""

    rng: Rng
    jitter: Rng

    def random(self) -> float:
        return self.rng.random()

    def randbytes(self, n: int) -> bytes:
        return self.rng.randbytes(n)

    def spawn(self, actor: str) -> Rng:
        if actor in _OF_BACKOFFS:
            return self.jitter.spawn(actor)
        # A process that was forked off spawns all its generators below one of its own.
        return _SetJitter(self.rng.spawn(actor), self.jitter)


@dataclass(frozen=True, slots=True)
class FixedRng:
    """A generator whose every number is `value`, also 1, which no other generator returns."""

    value: float
    rng: Rng

    def random(self) -> float:
        return self.value

    def randbytes(self, n: int) -> bytes:
        return self.rng.randbytes(n)

    def spawn(self, actor: str) -> Rng:
        return FixedRng(self.value, self.rng.spawn(actor))
