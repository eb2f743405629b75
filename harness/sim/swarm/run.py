"""One schedule from its start to its end: clients, servers and faults in one virtual time.

The order at the end matters. Clients work until the last fault is over and each has done its share; then
streams are drained, clients closed, and the last packets waited for; only then is it looked at what servers
hold, and at what is left of tasks after they have stopped. Whatever is looked at earlier would take work
under way for something lost.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final

from bson import Timestamp

import fakeserver
from driver import AsyncClient
from driver.editions import EDITIONS
from driver.errors import DriverError
from driver.policy.backpressure import TokenBucket
from fakeserver import ClusterSpec
from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from fakeserver.network.wire_record import WireRecord
from fakeserver.sessions.transactions import State
from fakeserver.storage.port.engine import Namespace, Query
from harness.sim.swarm import history
from harness.sim.swarm.deeds import Disturber
from harness.sim.swarm.history import (
    DELETION,
    INITIAL_BALANCE,
    FinalState,
    Heard,
    Leftover,
    Logged,
    MajorityReached,
    RolledBack,
    RunHistory,
    StreamEvent,
    WatchedStream,
)
from harness.sim.swarm.network import LONGEST_DELAY, DisturbedMemory, PrimaryClock, SkewedClock
from harness.sim.swarm.workload import DATABASE, KEYS, SHARED, Performer, current
from harness.unified.server_side.seen import SeenRequest, document_of
from harness.world.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.records.record import Record
    from fakeserver.network.wire_entries import Entry
    from fakeserver.storage.port.oplog import OplogEntry, OpTime, Written
    from fakeserver.storage.store.catalog import Catalog
    from harness.sim.swarm.schedule import Schedule
    from harness.world.virtual import World


HEARTBEAT: Final = 2.0
CONNECT_TIMEOUT: Final = 1.0
SOCKET_TIMEOUT: Final = 1.5
SELECTION_TIMEOUT: Final = 5.0
WAIT_QUEUE_TIMEOUT: Final = 3.0
"""Seconds; short ones, so that a schedule that loses connections is over soon."""

LATENCY: Final = 0.0005
"""Seconds that a message travels while nothing disturbs."""
TRANSACTION_LIFETIME: Final = 3
"""Seconds after which a server ends a transaction whose abort was lost, and the conflicts that it causes."""
RECOVERY: Final = 2 * HEARTBEAT + CONNECT_TIMEOUT + SOCKET_TIMEOUT + WAIT_QUEUE_TIMEOUT + TRANSACTION_LIFETIME
"""Seconds after the last fault within which everything has to be served again: each wait that may have begun
before, one after the other."""

_SETTLING: Final = 0.05
"""Seconds in which what was sent last arrives."""
_WALL_LIMIT: Final = 120.0
"""Seconds of the wall clock that one schedule may take: a hundred times what the longest does."""
_PATIENCE: Final = 0.5
"""Seconds that a change stream waits for an event (maxAwaitTimeMS)."""
_STREAMS: Final = 1
"""Clients that read a change stream at most: more cost time and see the same."""
_QUIET: Final = 2
"""How often in a row a stream has to bring nothing before it counts as drained."""


@dataclass(frozen=True, slots=True, repr=False)
class SwarmRun:
    """A run with everything that it left: for the verdict, and for a timeline.

    Without a `repr`: at the end of a loop the signal module asks for one of the task and its result, and a
    long one would take a tenth of the run's time.
    """

    history: RunHistory
    records: Sequence[Record] = ()
    complaints: tuple[str, ...] = ()
    """Reports of the event loop: exceptions that nobody took."""


def perform(schedule: Schedule) -> SwarmRun:
    """Run a schedule to its end. Raises `NothingScheduled` and `Spinning` where it comes to none."""
    return run_virtual(partial(_run, schedule), seed=schedule.seed, wall_limit=_WALL_LIMIT)


async def _run(schedule: Schedule, world: World) -> SwarmRun:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: complaints.append(f"{context['message']}: {context.get('exception')!r}")
    )
    network = DisturbedMemory(world.clock, world.rng.spawn("network"))
    record = WireRecord(network, world.clock, count(1).__next__)
    record.begin()
    date = PrimaryClock()
    cluster = await fakeserver.start(
        _spec(schedule), network=record, clock=date, rng=world.rng.spawn("cluster")
    )
    try:
        _seed(cluster)
        majority = Majority(cluster)
        swarm = _Swarm(schedule, world, network, cluster)
        date.date = swarm.primary_date
        await swarm.go()
        leftovers = [*swarm.leftovers, *left_on(cluster)]
        sessions, cursors = sessions_of(cluster), cursors_of(cluster)
        documents, log = documents_of(cluster), log_of(cluster)
        rolled_back = rolled_back_of(cluster, log)
    finally:
        await cluster.stop()
    leftovers += tasks_left()
    facts = FinalState(
        at=world.clock.now(),
        documents=documents,
        log=log,
        rolled_back=rolled_back,
        parted=majority.parted,
        majority=tuple(majority.reached),
        requests=requests_in(record.entries),
        leftovers=tuple(leftovers),
        tokens=swarm.tokens,
        sessions=sessions,
        cursors=cursors,
        lonely=frozenset(swarm.lonely),
    )
    return SwarmRun(swarm.history(facts), tuple(cluster.journal), tuple(complaints))


def _spec(schedule: Schedule) -> ClusterSpec:
    if schedule.topology == "single":
        return ClusterSpec.standalone()
    parameters = {"transactionLifetimeLimitSeconds": TRANSACTION_LIFETIME}
    if schedule.topology == "sharded":
        return ClusterSpec.sharded(mongos=2, parameters=parameters)
    if schedule.topology == "load-balanced":
        return ClusterSpec.load_balanced(mongos=2, parameters=parameters)
    members = int(schedule.topology.removeprefix("replicaset"))
    timeout = schedule.election / 1000 if schedule.election else None
    return ClusterSpec.replica_set(members, parameters=parameters, election_timeout=timeout)


def _seed(cluster: Cluster) -> None:
    """Insert what exists before the first operation."""
    beginnings = {"list": [], "counter": 0, "register": None, "account": INITIAL_BALANCE}
    for name, value in beginnings.items():
        documents = [{"_id": number, "value": value} for number in range(KEYS)]
        cluster.control.seed(f"{DATABASE}.{name}", documents)


@dataclass(slots=True)
class _Watched:
    """A change stream while it is read."""

    client: int
    opened: float
    events: list[StreamEvent] = field(default_factory=list)
    drained: bool = False
    error: str | None = None


class _Swarm:
    """The clients of a schedule, and what they note."""

    def __init__(self, schedule: Schedule, world: World, network: DisturbedMemory, cluster: Cluster) -> None:
        self._schedule = schedule
        self._clock = world.clock
        self._cluster = cluster
        self._heard: list[Heard] = []
        self._streams: list[_Watched] = []
        self._worked = asyncio.Event()
        """Set when all operations have ended."""
        self.leftovers: list[Leftover] = []
        self.tokens: dict[int, float] = {}
        self.lonely: set[int] = set()
        dates = {f"client{number}": SkewedClock() for number in range(schedule.clients)}
        self._servers = {node.name: SkewedClock() for node in cluster.servers}
        for node in cluster.servers:
            node.clock = self._servers[node.name]
        self._disturber = Disturber(cluster, network, world.clock, {**dates, **self._servers})
        self._performers = [
            Performer(schedule, number, self._client(number, world, network, clock), world.clock)
            for number, clock in enumerate(dates.values())
        ]

    def primary_date(self) -> float:
        """Return the date of the primary; while there is none, that of the first member."""
        members = [node for node in self._cluster.servers if not node.is_mongos]
        primary = next((shard.primary for shard in self._cluster.shards if shard.primary), members[0])
        return self._servers[primary.name].utc()

    def _client(self, number: int, world: World, network: DisturbedMemory, clock: SkewedClock) -> AsyncClient:
        heard, now = self._heard, self._clock.now
        return AsyncClient(
            self._cluster.uri,
            options=_options(self._schedule, number),
            network=network,
            clock=clock,
            rng=world.rng.spawn(f"client{number}"),
            edition=EDITIONS[self._schedule.edition],
            listeners=[lambda event: heard.append(Heard(now(), number, event, current.get()))],
        )

    async def go(self) -> None:
        """Let everybody work while faults come and go, then close the clients."""
        schedule, calm = self._schedule, self._schedule.faults_end + _SETTLING
        try:
            async with asyncio.TaskGroup() as everything:
                everything.create_task(self._disturber.carry_out(schedule), name="faults")
                if "stream" in schedule.work:
                    for performer in self._performers[:_STREAMS]:
                        everything.create_task(self._watch(performer), name=f"stream {performer.number}")
                async with asyncio.TaskGroup() as working:
                    for performer in self._performers:
                        for worker in range(schedule.workers):
                            working.create_task(
                                performer.work(worker, calm), name=f"client{performer.number}/{worker}"
                            )
                self._worked.set()
            for performer in self._performers:
                if not performer.client.topology.description.known_servers:
                    self.lonely.add(performer.number)
                self.leftovers += busy(performer.number, performer.client)
        finally:
            for performer in self._performers:
                await performer.client.aclose()
                budget = performer.client.executor.budget
                if isinstance(budget, TokenBucket):
                    self.tokens[performer.number] = budget.tokens
        # The last word on a connection may be a packet that was lost, and is sent again. By then a member
        # that returned with the last fault has rolled back.
        await self._clock.sleep_until(max(self._clock.now(), schedule.faults_end + LONGEST_DELAY) + _SETTLING)

    async def _watch(self, performer: Performer) -> None:
        """Read a change stream until all operations have ended, and it brings nothing more."""
        database, clock = performer.client.database(DATABASE), self._clock
        try:
            stream = await database.watch(maxAwaitTimeMS=int(1000 * _PATIENCE))
        except DriverError:
            return
        watched = _Watched(performer.number, clock.now())
        self._streams.append(watched)
        until = self._schedule.faults_end + RECOVERY + SELECTION_TIMEOUT
        quiet = 0
        while quiet < _QUIET and stream.alive:
            over = self._worked.is_set()
            try:
                event = await stream.try_next()
            except DriverError as error:
                if error.timed_out and clock.now() < until:
                    continue
                watched.error = f"{type(error).__name__}: {error}"
                break
            quiet = quiet + 1 if event is None and over else 0
            if event is not None:
                watched.events += _change(event, clock.now())
        watched.drained = quiet >= _QUIET
        with suppress(DriverError):
            await stream.aclose()

    def history(self, facts: FinalState) -> RunHistory:
        """Return all that was noted."""
        schedule = self._schedule
        operations = [each for performer in self._performers for each in performer.operations]
        done = sorted(self._disturber.done, key=lambda fault: (fault.start, fault.end))
        return RunHistory(
            operations=tuple(sorted(operations, key=lambda each: (each.invoked, each.number))),
            ending=facts,
            clients=tuple(_described(schedule, performer.number) for performer in self._performers),
            events=tuple(self._heard),
            streams=tuple(
                WatchedStream(
                    number=number,
                    client=each.client,
                    opened=each.opened,
                    events=tuple(each.events),
                    drained=each.drained,
                    error=each.error,
                )
                for number, each in enumerate(self._streams)
            ),
            faults=tuple(done),
            limits=tuple(self._disturber.metered),
            calm_from=max((fault.end for fault in done), default=0.0),
            recovery=RECOVERY,
            latency=LATENCY,
        )


def _change(event: dict[str, Any], now: float) -> list[StreamEvent]:
    """Return what a change is about; nothing for those of accounts, which do not say whose they are."""
    if event["operationType"] == "delete" and event["ns"]["coll"] == "document":
        return [StreamEvent(now, DELETION, f"document:{event['documentKey']['_id']}")]
    changed = event.get("fullDocument") or event.get("updateDescription", {}).get("updatedFields", {})
    if "last" not in changed:
        return []
    return [StreamEvent(now, changed["last"], f"{event['ns']['coll']}:{event['documentKey']['_id']}")]


def _options(schedule: Schedule, number: int) -> dict[str, Any]:
    timeouts = (
        {"timeoutMS": schedule.timeout}
        if schedule.timeout
        else {
            "socketTimeoutMS": int(1000 * SOCKET_TIMEOUT),
            "waitQueueTimeoutMS": int(1000 * WAIT_QUEUE_TIMEOUT),
        }
    )
    return {
        "appName": f"client{number}",
        "heartbeatFrequencyMS": int(1000 * HEARTBEAT),
        "connectTimeoutMS": int(1000 * CONNECT_TIMEOUT),
        "serverSelectionTimeoutMS": int(1000 * SELECTION_TIMEOUT),
        "serverMonitoringMode": schedule.monitoring,
        "maxPoolSize": schedule.pool,
        "retryReads": schedule.retry,
        "retryWrites": schedule.retry,
        "adaptiveRetries": schedule.adaptive,
        "enableOverloadRetargeting": schedule.adaptive,
        **timeouts,
    }


def _described(schedule: Schedule, number: int) -> history.ClientSetup:
    return history.ClientSetup(
        number=number,
        edition=schedule.edition,
        max_pool_size=schedule.pool,
        retry_reads=schedule.retry,
        retry_writes=schedule.retry,
        app_name=f"client{number}",
    )


# The facts of an ending: what members hold, the order of all writes, and what should be gone and is not.


_MARKS: Final = (b"comment", b"commitTransaction", b"abortTransaction")
"""What the commands of the workload have in them; those that end transactions have no comment."""
_BEFORE_ALL: Final = Timestamp(0, 0)


def documents_of(cluster: Cluster) -> Mapping[str, Mapping[str, Any]]:
    """Return the values by key of each member that holds data."""
    by_catalog: dict[int, Mapping[str, Any]] = {}
    found: dict[str, Mapping[str, Any]] = {}
    for node in cluster.servers:
        if not node.is_mongos:
            held = by_catalog.get(id(node.catalog))
            if held is None:
                held = by_catalog[id(node.catalog)] = dict(_documents(node.catalog))
            found[node.name] = held
    return found


def _documents(catalog: Catalog) -> Iterator[tuple[str, Any]]:
    counts: dict[str, int] = {}
    for document in _all(catalog, "document"):
        key = f"document:{document['_id']}"
        counts[key] = counts.get(key, 0) + 1
    yield from counts.items()
    for name in SHARED:
        for document in _all(catalog, name):
            value = document["value"]
            yield f"{name}:{document['_id']}", tuple(value) if isinstance(value, list) else value


def _all(catalog: Catalog, name: str) -> Sequence[Mapping[str, Any]]:
    ns = Namespace(DATABASE, name)
    return [] if catalog.get(ns) is None else catalog.engine.find(ns, Query({}))


def log_of(cluster: Cluster) -> tuple[Logged, ...]:
    """Return every write of the workload, in the order of the oplog."""
    return tuple(_logged(cluster.oplog.after(_BEFORE_ALL)))


def rolled_back_of(cluster: Cluster, log: Sequence[Logged]) -> tuple[RolledBack, ...]:
    """Return what members have rolled back, each with the number of writes in the log that they kept."""
    found: dict[RolledBack, None] = {}
    for node in cluster.servers:
        for each in node.position.rollbacks:
            kept = sum(entry.time <= each.common for entry in log)
            found[RolledBack(kept, tuple(_logged(each.entries)))] = None
    return tuple(found)


def _logged(entries: Iterable[OplogEntry]) -> Iterator[Logged]:
    """Yield the writes of the workload among operations."""
    for entry in entries:
        for written in entry.changes:
            if written.ns.db == DATABASE:
                yield from _write(written, entry.optime)


def _write(written: Written, time: OpTime) -> Iterator[Logged]:
    before, after, collection = written.change.before, written.change.after, written.ns.collection
    if after is not None:
        if "last" in after:
            yield Logged(after["last"], f"{collection}:{after['_id']}", time)
    elif before is not None and collection == "document":
        yield Logged(DELETION, f"{collection}:{before['_id']}", time)


class Majority:
    """Notes how far the majority of a replica set has come, whenever that changes."""

    def __init__(self, cluster: Cluster) -> None:
        self.reached: list[MajorityReached] = []
        self._cluster = cluster
        self._first = cluster.history
        if cluster.replica_set is not None and not cluster.routers:
            self._positions_changed()
            self._oplog_grew()

    @property
    def parted(self) -> bool:
        """Whether another history has begun since."""
        return self._cluster.history is not self._first

    def _positions_changed(self) -> None:
        self._note()
        self._cluster.replication.listen(self._positions_changed)

    def _oplog_grew(self) -> None:
        self._note()
        # Rung as well when another history begins, which has an oplog of its own.
        self._cluster.oplog.grown.listen(self._oplog_grew)

    def _note(self) -> None:
        time = self._cluster.majority()
        if not self.reached or self.reached[-1].time < time:
            self.reached.append(MajorityReached(self._cluster.clock.now(), time))


def requests_in(entries: Sequence[Entry]) -> tuple[SeenRequest, ...]:
    """Return the requests of the workload that servers received, in their order.

    Others are dropped before they are decoded: most messages are hellos.
    """
    accepted: dict[int, Accepted] = {}
    asked: dict[tuple[int, int], Received] = {}
    answered: dict[tuple[int, int], Sent] = {}
    closed: dict[int, Closed] = {}
    for entry in entries:
        if isinstance(entry, Received):
            if any(name in entry.envelope.payload for name in _MARKS):
                asked[entry.connection, entry.envelope.request_id] = entry
        elif isinstance(entry, Sent):
            key = entry.connection, entry.envelope.response_to
            if key in asked:
                answered.setdefault(key, entry)
        elif isinstance(entry, Accepted):
            accepted[entry.connection] = entry
        else:
            closed.setdefault(entry.connection, entry)
    return tuple(
        _seen(accepted[key[0]], request, answered.get(key), closed.get(key[0]))
        for key, request in asked.items()
    )


def _seen(accepted: Accepted, request: Received, reply: Sent | None, closed: Closed | None) -> SeenRequest:
    last = closed if reply is None else reply
    return SeenRequest(
        seq=request.seq,
        at=request.at,
        connection=request.connection,
        server=accepted.server,
        role=request.role,
        request_id=request.envelope.request_id,
        size=request.envelope.wire_size,
        command=document_of(request.envelope),
        reply=None if reply is None else document_of(reply.envelope),
        end="reply" if reply is not None else "open" if closed is None else closed.by,
        ended=inf if last is None else last.at,
        ended_seq=inf if last is None else last.seq,
        accepted=accepted.at,
    )


def busy(number: int, client: AsyncClient) -> Iterator[Leftover]:
    """Yield what a client still uses when its operations have all ended."""
    for address in client.topology.description.servers:
        server = client.topology.server(address)
        if server is None:
            continue
        state = server.pool.state
        if state.in_use:
            yield Leftover("connection", f"client {number}: {state.in_use} to {address} in use")
        if state.waiting:
            yield Leftover("waiter", f"client {number}: {len(state.waiting)} wait for {address}")


def left_on(cluster: Cluster) -> Iterator[Leftover]:
    """Yield what servers still hold when all clients have gone."""
    for node in cluster.servers:
        for connection in node.connections.values():
            yield Leftover("server connection", f"{node.name}: connection {connection.state.id}")
        admission = node.admission
        for name in ("read", "write"):
            out = admission.execution.holder(name).out
            if out:
                yield Leftover("ticket", f"{node.name}: {out} to {name}")
        for limiter in (admission.requests, admission.establishment):
            if limiter.queued:
                yield Leftover("token", f"{node.name}: {limiter.queued} wait for one of {limiter.name}")
    transactions = cluster.transactions
    transactions.expire(cluster.clock.now())
    for transaction in transactions.open.values():
        yield Leftover("transaction", f"number {transaction.number}")
    for (ns, key), holder in transactions.holders.items():
        if holder.state is not State.IN_PROGRESS:
            yield Leftover("claim", f"{ns} {key} of number {holder.number}")


def sessions_of(cluster: Cluster) -> tuple[bytes, ...]:
    """Return the ids of the sessions that no client has ended."""
    return tuple(session.id for session in cluster.sessions.live())


def cursors_of(cluster: Cluster) -> tuple[tuple[str, int], ...]:
    """Return server and id of each open cursor."""
    return tuple((node.name, cursor.id) for node in cluster.servers for cursor in node.cursors)


def tasks_left() -> Iterator[Leftover]:
    """Yield the tasks besides this one that have not ended, when all clients and servers have."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        yield Leftover("task", task.get_name())
