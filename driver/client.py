"""The client: what an application holds. Databases and collections are its views."""

from __future__ import annotations

import asyncio
import os
import warnings
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from driver import editions
from driver.auth import Authenticator
from driver.change_stream import ChangeStream
from driver.cmap.connection import RequestIds
from driver.cmap.handshake import Handshake
from driver.cmap.metadata import Metadata
from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import PoolOptions
from driver.database import Database
from driver.errors import ClientClosedError, DriverError, InvalidArgumentError
from driver.execute import Executor
from driver.log.client_log import ClientLog
from driver.log.components import configure_once, document_length
from driver.monitoring import Audience, Shield
from driver.operations import admin
from driver.operations.base import Target
from driver.operations.bulk import client_bulk_write
from driver.operations.models import InsertOne, with_id
from driver.operations.options import seconds_of, timeout_of
from driver.options import ClientOptions
from driver.policy.backpressure import NoBudget, TokenBucket
from driver.policy.deadline import Timeout
from driver.policy.retry import RetryPolicy
from driver.sdam import transitions
from driver.sdam.monitor import Monitor, MonitorPorts
from driver.sdam.selection import Window
from driver.sdam.topology import Topology, TopologyPorts
from driver.session import ClientSession, ClusterClock, ServerSessionPool, SessionOptions
from driver.tracing.options import TracingOptions
from driver.transaction import TransactionOptions
from mongowire.ids import ObjectIds, object_id
from mongowire.system import SystemClock, TcpNetwork, fresh_rng
from mongowire.tls import TlsNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from bson import ObjectId, Timestamp

    from driver.cmap.metadata import DriverInfo
    from driver.concerns import Concerns, ReadConcern, ReadPreference, WriteConcern
    from driver.editions import Edition
    from driver.events import DriverEvent, Listener
    from driver.operations.base import Operation
    from driver.operations.models import WriteModel
    from driver.policy.deadline import Deadline
    from driver.results import BulkWriteResult
    from driver.run import Reply
    from driver.sdam.description import TopologyDescription
    from driver.server_api import ServerApi
    from mongowire.ports import Clock, Network, Rng


BATCH = 10_000
LIMIT = 1.0
"""Seconds that closing a client may spend on its sessions, which expire on the server anyway."""


async def end_sessions(executor: Executor, pool: ServerSessionPool, within: Timeout) -> None:
    """Send `endSessions`, in batches (Sessions: Server Session Pool).

    It is a courtesy: errors are ignored, nothing is tried again, and after `LIMIT` the rest is left out.
    """
    sessions = pool.drain()
    # To select a server would wait for discovery, only to say goodbye.
    if not executor.topology.description.known_servers:
        return
    with suppress(DriverError, TimeoutError):
        async with asyncio.timeout_at(executor.clock.now() + LIMIT):
            for first in range(0, len(sessions), BATCH):
                await executor.execute(admin.end_sessions(sessions[first : first + BATCH], within))


class OptionWarning(UserWarning):
    """An option of a connection string was ignored."""


class AsyncClient:
    """A client of one deployment. It connects when first used, and must be closed.

    `options` has URI names and wins over the connection string. Raises ConfigurationError. The ports are the
    system's unless passed; `listeners` are called with each event, at once, and what they raise is reported
    and goes no further. A `server_api` is declared with every command (Versioned API); `driver_info` names a
    library that wraps this driver. Documents in log messages are cut off after `log_document_length`
    characters, 1000 unless the environment says otherwise (Logging). Without `tracing` the environment
    decides whether operations have spans (OpenTelemetry).

    **Threads.** A client belongs to the event loop in which it is first used, and its tasks may use it
    concurrently: they are what CMAP calls threads. So do its pools, monitors and sessions; a session, a
    cursor and a change stream serve one task at a time. From another thread, use
    `asyncio.run_coroutine_threadsafe`. Safe in any thread are the retry budget (`executor.budget`) and
    everything frozen: options, editions, concerns, events, and the descriptions of servers and topologies.

    **Processes.** Connections are not fork-safe. A client that is used in a child process, in an event loop
    of the child, resets itself: it closes the child's copies of the connections, forgets the server sessions
    and discovers the deployment anew, and the parent's go on. Nothing else has to be called. Sessions,
    cursors and change streams of the parent cannot be used in the child.
    """

    def __init__(
        self,
        uri: str = "mongodb://localhost:27017",
        *,
        options: Mapping[str, Any] | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        edition: Edition = editions.DEFAULT,
        server_api: ServerApi | None = None,
        driver_info: DriverInfo | None = None,
        log_document_length: int | None = None,
        tracing: TracingOptions | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.options, ignored = ClientOptions.of_uri(uri, options)
        self.options.refuse_unsupported()
        for warning in ignored:
            warnings.warn(warning, OptionWarning, stacklevel=2)
        self.edition = edition
        self._metadata = Metadata(self.options.app_name, driver_info)
        self._api_fields = {} if server_api is None else server_api.fields()
        self.clock: Clock = clock or SystemClock()
        self.rng: Rng = rng or fresh_rng("driver")
        self.cluster_clock = ClusterClock()
        self._listeners = tuple(listeners)
        self._request_ids = RequestIds()
        self._network: Network = network or TcpNetwork()
        if self.options.tls is not None:
            self._network = TlsNetwork(self._network, self.options.tls.context())
        self._closed = False
        self._ancestors: list[Topology] = []
        configure_once()  # the environment may ask for log messages
        self._tracing = (tracing or TracingOptions.of_environment(os.environ)).tracing()
        self._log_document_length = (
            document_length(os.environ) if log_document_length is None else log_document_length
        )
        self._begin()

    def _begin(self) -> None:
        """Make all that belongs to one process: what connects, and what makes ids."""
        self.sessions = ServerSessionPool(self.clock, self.rng.spawn("sessions"))
        self.transaction_rng = self.rng.spawn("transactions")
        ids = self.rng.spawn("ids")
        credential = self.options.credential
        self._authenticator = (
            None if credential is None else Authenticator(credential, self.rng.spawn("authentication"))
        )
        topology_id = object_id(self.clock, ids)
        self._ids = ObjectIds(self.clock, ids)
        shield = Shield()
        self._log = ClientLog(topology_id, self._log_document_length, shield)
        self._audience = Audience(self._listeners, self._log.take, shield)
        self._topology = self._new_topology(topology_id)
        self._executor = self._new_executor()

    def _reset_after_fork(self) -> None:
        """CMAP: Forking. Does nothing but in a child process, where it must come before anything else.

        The parent's topology is kept: its tasks belong to a loop that will not run here, and would complain.
        """
        if self._topology.inherited:
            self._topology.abandon()
            self._ancestors.append(self._topology)
            self.rng = self.rng.spawn(f"process {os.getpid()}")
            self._begin()

    # --- views ---

    @property
    def concerns(self) -> Concerns:
        """Read preference, read concern and write concern that databases inherit."""
        return self.options.concerns

    def database(
        self,
        name: str,
        *,
        read_preference: ReadPreference | None = None,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        timeout_ms: int | None = None,
    ) -> Database:
        """Return a view of a database; what is left out is inherited. A `timeout_ms` of 0 is no limit."""
        timeout = seconds_of(timeout_ms)
        concerns = self.concerns.overridden(read_preference, read_concern, write_concern, timeout)
        return Database(self, name, concerns)

    # --- life ---

    def open(self) -> None:
        """Start discovering the deployment now rather than with the first operation."""
        self._reset_after_fork()
        self._topology.open()

    def append_metadata(self, driver_info: DriverInfo) -> None:
        """Name one more library that wraps this driver (Handshake: Metadata Updates).

        Connections that are made from now on say so; those that are open are left as they are.
        """
        self._metadata.append(driver_info)

    async def aclose(self) -> None:
        """End the sessions, in a second at most, and close everything. Closing twice is allowed."""
        if self._closed:
            return
        self._reset_after_fork()
        self._closed = True
        # Marked as closed before, so that nobody starts a session any more.
        try:
            await end_sessions(self._executor, self.sessions, Timeout(self.options.timeout))
        finally:
            await self._topology.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def topology(self) -> Topology:
        """What is known of the deployment."""
        return self._topology

    @property
    def executor(self) -> Executor:
        """What runs operations; its `budget` is the client's retry token bucket."""
        return self._executor

    # --- operations ---

    async def command(
        self,
        database: str,
        command: Mapping[str, Any],
        *,
        session: ClientSession | None = None,
        read_preference: ReadPreference | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """Send a command as it is, and return the reply (Run Command). Raises DriverError.

        It is retried on overload only, and only with both retryReads and retryWrites. With timeoutMS, the
        command's own maxTimeMS is replaced by what is left.
        """
        timeout = timeout_of(timeout_ms, self.concerns.timeout)
        reply = await self.run(admin.run_command(database, command, read_preference, timeout), session)
        return reply.document

    async def list_databases(
        self, *, session: ClientSession | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Return a document for each database (Enumerate Databases)."""
        reply = await self.run(admin.list_databases(Target("admin", 1, self.concerns), options), session)
        databases: list[dict[str, Any]] = reply["databases"]
        return databases

    async def list_database_names(self, *, session: ClientSession | None = None, **options: Any) -> list[str]:
        """Return the name of each database."""
        described = await self.list_databases(session=session, nameOnly=True, **options)
        return [database["name"] for database in described]

    async def bulk_write(
        self,
        models: Sequence[WriteModel],
        *,
        session: ClientSession | None = None,
        write_concern: WriteConcern | None = None,
        **options: Any,
    ) -> BulkWriteResult:
        """Write to several namespaces at once (Bulk Write). Raises ClientBulkWriteError.

        Each command is a retryable write if no model in it may hit many documents.
        """
        ready = [self.with_id(model) for model in models]
        if session is not None and session.in_transaction and write_concern is not None:
            raise InvalidArgumentError("Cannot set write concern after starting a transaction")
        concerns = self.concerns.overridden(write_concern=write_concern)
        async with self.session_for(session) as used:
            return await client_bulk_write(
                self._executor, ready, options, Target("admin", 1, concerns), session=used
            )

    async def watch(
        self,
        pipeline: Sequence[Mapping[str, Any]] = (),
        *,
        session: ClientSession | None = None,
        **options: Any,
    ) -> ChangeStream:
        """Watch the whole deployment (Change Streams). Raises DriverError."""
        target = Target("admin", 1, self.concerns)
        return await ChangeStream.open(self, target, pipeline, options, session, everything=True)

    # --- sessions ---

    def start_session(
        self,
        *,
        causal_consistency: bool | None = None,
        snapshot: bool = False,
        snapshot_time: Timestamp | None = None,
        default_transaction_options: TransactionOptions | None = None,
        default_timeout_ms: int | None = None,
    ) -> ClientSession:
        """Return an explicit session (Sessions). Raises InvalidArgumentError and ClientClosedError.

        A `snapshot_time` has all its reads see that time; without one the first read fixes it.
        `default_timeout_ms` is the timeoutMS of what begins and ends its transactions, else the client's.
        """
        if self._closed:
            raise ClientClosedError("the client was closed")
        self._reset_after_fork()
        if snapshot and causal_consistency:
            raise InvalidArgumentError("a session cannot have both snapshot and causalConsistency")
        if snapshot_time is not None and not snapshot:
            raise InvalidArgumentError("a snapshotTime is for snapshot sessions")
        defaults = default_transaction_options or TransactionOptions()
        timeout = seconds_of(default_timeout_ms)
        options = SessionOptions(causal_consistency, snapshot, defaults, timeout)
        return ClientSession(self, options, snapshot_time=snapshot_time)

    @property
    def session_timeout_minutes(self) -> int | None:
        """How long the deployment keeps sessions."""
        return self._topology.description.logical_session_timeout_minutes

    @asynccontextmanager
    async def session_for(self, session: ClientSession | None) -> AsyncIterator[ClientSession]:
        """Use the explicit session, or an implicit one that ends with the block."""
        used = self.implicit_session() if session is None else self._own(session)
        try:
            yield used
        finally:
            if session is None:
                used.end()

    def implicit_session(self) -> ClientSession:
        """Return a session for a single operation; whoever asks for it ends it."""
        self._reset_after_fork()
        return ClientSession(self, implicit=True)

    # --- for views and operations ---

    async def run(
        self,
        operation: Operation,
        session: ClientSession | None = None,
        *,
        deadline: Deadline | None = None,
    ) -> Reply:
        """Run an operation in the session, or an implicit one; `deadline` is that of a longer operation."""
        # Not by `session_for`, which costs as much as sending the command does.
        used = self.implicit_session() if session is None else self._own(session)
        try:
            return await self._executor.execute(operation, used, deadline=deadline)
        finally:
            if session is None:
                used.end()

    def _own(self, session: ClientSession) -> ClientSession:
        """Return a session that this client may use. Raises InvalidArgumentError for another one."""
        self._reset_after_fork()
        if session.client is not self:
            raise InvalidArgumentError("a session belongs to the client that started it")
        if session.inherited:
            raise InvalidArgumentError("a session of the parent process cannot be used in its child")
        return session

    def new_id(self) -> ObjectId:
        """Return a new ObjectId of this client's clock and random numbers."""
        self._reset_after_fork()
        return self._ids.new()

    def with_id(self, model: WriteModel) -> WriteModel:
        """Return the model, an insert with an `_id`."""
        if not isinstance(model, InsertOne):
            return model
        return InsertOne(document=with_id(model.document, self.new_id), namespace=model.namespace)

    def transaction_span(self) -> Any:
        """Return the span of a transaction that begins, or None without tracing."""
        return None if self._tracing is None else self._tracing.transaction()

    # --- making ---

    def _handshake(self, *, monitoring: bool) -> Handshake:
        return Handshake(
            network=self._network,
            clock=self.clock,
            edition=self.edition,
            request_ids=self._request_ids,
            metadata=self._metadata,
            compressors=() if monitoring else self.options.compressors,
            load_balanced=self.options.load_balanced,
            connect_timeout=self.options.connect_timeout,
            command_timeout=handshake_timeout(self.options, monitoring=monitoring),
            authenticator=None if monitoring else self._authenticator,
            api_fields=self._api_fields,
        )

    def _new_topology(self, topology_id: ObjectId) -> Topology:
        options = self.options
        watching = monitor_ports(
            options,
            self.clock,
            self._handshake(monitoring=True),
            publish=self._audience.publish,
            report=lambda described: self._topology.on_check(described),  # noqa: PLW0108 - it is made below
        )
        ports = topology_ports(
            options,
            self.clock,
            self.rng.spawn("selection"),
            publish=self._audience.publish,
            for_pools=PoolPorts(
                self.clock,
                self._handshake(monitoring=False),
                self._audience.publish,
                lambda address, error, generation: self._topology.on_error(
                    address, error, generation, service_id=error.service_id
                ),
                hears=self._audience.hears_pools,
            ),
            for_monitors=watching,
        )
        return Topology(initial_topology(options), ports, topology_id)

    def _new_executor(self) -> Executor:
        options = self.options
        kind: Callable[..., Executor] = Executor
        if self._tracing is not None:
            from driver.tracing.spans import TracedExecutor  # noqa: PLC0415 - it needs OpenTelemetry

            kind = partial(TracedExecutor, tracing=self._tracing)
        return kind(
            topology=self._topology,
            options=options,
            edition=self.edition,
            policy=retry_policy(options, self.edition),
            budget=retry_budget(options, self.edition),
            clock=self.clock,
            rng=self.rng.spawn("jitter"),
            request_ids=self._request_ids,
            cluster_clock=self.cluster_clock,
            publish=self._audience.publish,
            observed=self._audience.listens,
            api_fields=self._api_fields,
            log=self._log,
        )


# The wiring of a client: the parts that its options make.


def initial_topology(options: ClientOptions) -> TopologyDescription:
    """Return what is known before anybody was asked (SDAM: Initial TopologyType)."""
    return transitions.initial(
        options.seeds,
        set_name=options.replica_set,
        direct=options.direct_connection,
        load_balanced=options.load_balanced,
    )


def handshake_timeout(options: ClientOptions, *, monitoring: bool) -> float:
    """Return the seconds for a handshake's command. Monitors know neither of the two options."""
    if monitoring:  # Server Monitoring has neither timeoutMS nor socketTimeoutMS hold for monitors
        return options.connect_timeout
    if options.timeout is not None:
        return options.timeout
    return options.socket_timeout or options.connect_timeout


def population_timeout(options: ClientOptions) -> float:
    """Return the seconds for a handshake's command on a connection that fills a pool; 0 is no limit.

    Background Connection Pooling has timeoutMS limit these commands. But timeoutMS is how long an application
    waits, and for these connections nobody does: where it is shorter than one round trip to a slow server,
    the pool could never be filled to minPoolSize, and each operation would have to connect within its own
    timeout. So it lengthens connectTimeoutMS here and does not shorten it.
    """
    asked = handshake_timeout(options, monitoring=False)
    if options.timeout is None:
        return asked
    return max(asked, options.connect_timeout) if asked and options.connect_timeout else 0.0


def pool_options(options: ClientOptions) -> PoolOptions:
    """Return what each server's pool is set to (CMAP: Connection Pool Options)."""
    return PoolOptions(
        max_size=options.max_pool_size,
        min_size=options.min_pool_size,
        max_connecting=options.max_connecting,
        max_idle=options.max_idle_time,
        wait_queue_timeout=options.wait_queue_timeout,
        load_balanced=options.load_balanced,
    )


def monitor_ports(
    options: ClientOptions,
    clock: Clock,
    handshake: Handshake,
    *,
    publish: Callable[[DriverEvent], None],
    report: Callable[[Any], None],
) -> MonitorPorts:
    """Return what the monitors have in common (Server Monitoring)."""
    return MonitorPorts(
        clock=clock,
        handshake=handshake,
        publish=publish,
        report=report,
        heartbeat_frequency=options.heartbeat_frequency,
        connect_timeout=options.connect_timeout,
        mode=options.server_monitoring_mode,
    )


def topology_ports(
    options: ClientOptions,
    clock: Clock,
    rng: Rng,
    *,
    publish: Callable[[DriverEvent], None],
    for_pools: PoolPorts,
    for_monitors: MonitorPorts,
) -> TopologyPorts:
    """Return what the topology makes its servers with: a pool and a monitor each."""
    populating = replace(for_pools.handshake, command_timeout=population_timeout(options))
    for_pools = replace(for_pools, populating=populating)
    return TopologyPorts(
        clock=clock,
        rng=rng,
        publish=publish,
        window=Window(options.local_threshold, options.heartbeat_frequency),
        make_pool=lambda address, pool: Pool(address, pool, for_pools),
        make_monitor=lambda address: Monitor(address, for_monitors),
        pool_options=pool_options(options),
    )


def retry_policy(options: ClientOptions, edition: Edition) -> RetryPolicy:
    """Return what decides on retries."""
    return RetryPolicy.of(
        edition, retries=options.max_adaptive_retries, retargeting=options.overload_retargeting
    )


def retry_budget(options: ClientOptions, edition: Edition) -> TokenBucket | NoBudget:
    """Return what pays for retries: with adaptiveRetries a token bucket of the client's own."""
    return TokenBucket() if options.adaptive_retries and edition.has_token_bucket else NoBudget()
