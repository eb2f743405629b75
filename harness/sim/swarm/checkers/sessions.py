"""Rules of sessions: what they see, who uses them, and where what they hold on to goes.

`sessions` judges data by the log; the other rules go through events of clients and requests of servers in
their order. A version of a key is the number of its writes in the log, so versions can be compared over all
members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver import events
from driver.errors import NetworkError, ServerError
from driver.events import (
    CommandFailedEvent,
    CommandStartedEvent,
    CommandSucceededEvent,
    ConnectionCheckOutFailedEvent,
)
from driver.sdam.error_handling import STATE_CHANGES
from harness.sim.swarm.checkers.data import COMMITTED
from harness.sim.swarm.history import READS, TRANSACTIONS, Violation, checker, number_of
from harness.unified.server_side.oracles.pool_life import PoolLife

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.sim.swarm.history import Heard, RunHistory, WorkloadOperation
    from harness.unified.server_side.seen import SeenRequest


READ_YOUR_WRITES: Final = "read your writes"
MONOTONIC_READS: Final = "monotonic reads"
WRITES_FOLLOW_READS: Final = "writes follow reads"


@dataclass(frozen=True, slots=True)
class _Duty:
    """The version of a key that a session has to see, and why: the guarantee, and the operation."""

    version: int
    guarantee: str
    since: int


@dataclass(slots=True)
class _Sessions:
    """The state of the check while the operations are gone through in order."""

    order: dict[str, list[int]] = field(default_factory=dict)
    position: dict[tuple[int, str], int] = field(default_factory=dict)
    duties: dict[int, dict[str, _Duty]] = field(default_factory=dict)
    parted: bool = False
    """There were two primaries."""
    carried: dict[int, Mapping[str, _Duty]] = field(default_factory=dict)
    """By the number of a write: the duties of its session when it began."""


@checker("sessions", "Causally consistent sessions read their writes, read monotonically, and pass both on.")
def sessions(history: RunHistory) -> Iterator[Violation]:
    """Yield each read of a causal session that is older than what the session must see.

    What a session must see is kept as a version per key: the number of writes in the order of the log. A
    write carries the versions that its session had to see when it began. Whoever reads a version of a key has
    to see what the writes up to it carry, too (Causal Consistency).

    Where there were two primaries, only reads and writes of a majority have these guarantees, and count.
    """
    state = _Sessions(parted=history.ending.parted)
    for entry in history.ending.log:
        numbers = state.order.setdefault(entry.key, [])
        numbers.append(entry.operation)
        state.position.setdefault((entry.operation, entry.key), len(numbers))
    # A write that was read was invoked before the read was completed, so this order knows its duties first.
    moments = [(operation.invoked, 0, operation) for operation in history.operations]
    moments += [(operation.completed, 1, operation) for operation in history.operations]
    moments.sort(key=lambda moment: (moment[0], moment[2].number, moment[1]))
    for _, has_ended, operation in moments:
        if operation.session is None or not operation.causal:
            continue
        duties = state.duties.setdefault(operation.session, {})
        if not has_ended:
            if operation.kind not in READS:
                state.carried[operation.number] = dict(duties)
        elif operation.outcome == "ok":
            yield from _end(operation, duties, state)


def _end(operation: WorkloadOperation, duties: dict[str, _Duty], state: _Sessions) -> Iterator[Violation]:
    concern = operation.read_concern if operation.kind in READS else operation.write_concern
    if state.parted and concern not in COMMITTED:
        return
    if operation.kind in READS:
        for key, seen in operation.seen if operation.kind not in TRANSACTIONS else ():
            yield from _read(operation, key, seen, duties, state)
        if operation.kind == "read" and operation.result is None:
            yield from _read(operation, operation.key, (), duties, state)
        return
    for key in operation.keys:
        version = state.position.get((operation.number, key), 0)
        _add(duties, key, _Duty(version, READ_YOUR_WRITES, operation.number))


def _read(
    operation: WorkloadOperation, key: str, seen: Sequence[int], duties: dict[str, _Duty], state: _Sessions
) -> Iterator[Violation]:
    # How many writes of the key were seen: of a list each, of a register the last.
    version = len(seen)
    if not key.startswith("list:"):
        version = state.position.get((seen[-1], key), 0) if seen else 0
    duty = duties.get(key)
    if duty is not None and version < duty.version:
        text = f"session {operation.session}: read {operation.number} of {key} saw {version} of its writes"
        why = f"{duty.guarantee}: {duty.version} since operation {duty.since}"
        yield Violation(f"{text} ({why})", (duty.since, operation.number))
    _add(duties, key, _Duty(version, MONOTONIC_READS, operation.number))
    for number in state.order.get(key, [])[:version]:
        for other, carried in state.carried.get(number, {}).items():
            _add(duties, other, _Duty(carried.version, WRITES_FOLLOW_READS, number))


def _add(duties: dict[str, _Duty], key: str, duty: _Duty) -> None:
    if key not in duties or duties[key].version < duty.version:
        duties[key] = duty


@checker("dirty", "A server session that lost a command is not lent again.")
def dirty(history: RunHistory) -> Iterator[Violation]:
    """Yield each first use of such a session by another operation.

    The command may still run in it, and the next one would have to wait for it, or be taken for its retry.
    The operation that lost it goes on in it: that is what a retry is, and so does a session of the
    application's.
    """
    operations = {operation.number: operation for operation in history.operations}
    running: dict[tuple[int, int], bytes] = {}
    lost: dict[bytes, int | None] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, CommandStartedEvent) and "lsid" in event.command:
            identity = bytes(event.command["lsid"]["id"])
            running[heard.client, event.request_id] = identity
            if identity in lost and not _goes_on(lost[identity], heard.operation, operations):
                what = f"{event.command_name} of operation {heard.operation} uses session {identity.hex()}"
                text = f"{what} at {heard.at:g} s, in which operation {lost[identity]} lost a command"
                yield Violation(text, tuple(each for each in (heard.operation,) if each is not None))
                del lost[identity]
        elif isinstance(event, CommandFailedEvent) and isinstance(event.failure, NetworkError):
            session = running.get((heard.client, event.request_id))
            if session is not None:
                lost.setdefault(session, heard.operation)


def _goes_on(before: int | None, now: int | None, operations: Mapping[int, WorkloadOperation]) -> bool:
    """Say whether two commands are of one operation, or of one session of the application's."""
    if before is None or now is None or before == now:
        # A change stream belongs to no operation, and has a session for itself.
        return True
    one, other = operations.get(before), operations.get(now)
    return one is not None and other is not None and one.session is not None and one.session == other.session


_ENDS: Final = ("commitTransaction", "abortTransaction")


@checker("pins", "A transaction stays with its mongos, a cursor with its server.")
def pins(history: RunHistory) -> Iterator[Violation]:
    """Yield each command of a transaction, and each getMore, that came to another server.

    No other mongos knows which shards are part of a transaction (Sharded Transactions: Pinning), and no other
    server knows a cursor. After an error a transaction ends wherever there is a mongos: so commits and aborts
    are left out, and nothing is said of what follows an error.
    """
    transactions: dict[Any, SeenRequest | None] = {}
    cursors: dict[int, str] = {}
    for request in history.ending.requests:
        command, reply = request.command, request.reply or {}
        if "autocommit" in command and request.server.startswith("mongos") and request.name not in _ENDS:
            key = bytes(command["lsid"]["id"]), command["txnNumber"]
            first = transactions.setdefault(key, request)
            if first is not None and first.server != request.server:
                text = f"{request.name} of transaction {command['txnNumber']} came to {request.server}"
                yield Violation(
                    f"{text} at {request.at:g} s, and {first.name} to {first.server}", _of(request)
                )
            if not reply.get("ok") or "writeConcernError" in reply:
                transactions[key] = None
        home = cursors.get(command.get("getMore", 0))
        if home is not None and home != request.server:
            text = f"getMore of cursor {command['getMore']} came to {request.server} at {request.at:g} s"
            yield Violation(f"{text}, and the cursor is on {home}", _of(request))
        cursor = reply.get("cursor")
        if isinstance(cursor, dict) and cursor.get("id"):
            cursors[cursor["id"]] = request.server


def _of(request: SeenRequest) -> tuple[int, ...]:
    number = number_of(request.command.get("comment"))
    return () if number is None else (number,)


# Pools keep to the grammar of their events, and to their sizes (Connection Monitoring and Pooling).


@checker("pools", "Pools keep to the grammar of their events and to their sizes.")
def pools(history: RunHistory) -> Iterator[Violation]:
    """Yield each event that its pool must not have told then, and what a closed pool has kept.

    Behind a load balancer a clear concerns one service and pauses nothing, so staleness is not judged there.
    """
    clients = {client.number: client for client in history.clients}
    lives: dict[tuple[int, str], PoolLife] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, events.CommandFailedEvent):
            _command_failed(event, lives.get((heard.client, event.connection_id)))
        if not isinstance(event, events.PoolEvent) or heard.client not in clients:
            continue
        key, client = (heard.client, event.address), clients[heard.client]
        if key not in lives or (event.kind == events.PoolCreatedEvent.kind and lives[key].state == "closed"):
            # A server that is removed and discovered again has another pool.
            yield from _at_end(*key, lives.get(key))
            lives[key] = PoolLife(max_connecting=client.max_connecting, max_pool_size=client.max_pool_size)
        where = f"pool of {event.address} in client {heard.client}"
        number = event.connection_id if isinstance(event, events.ConnectionEvent) else None
        of_service = isinstance(event, events.PoolClearedEvent) and event.service_id is not None
        for why in lives[key].take(event.kind, number, of_service=of_service):
            yield Violation(f"{where}: {why} at {heard.at:g} s")
    for key, pool in lives.items():
        yield from _at_end(*key, pool)


def _command_failed(event: events.CommandFailedEvent, pool: PoolLife | None) -> None:
    """Note a connection that was lost: whoever was connected to that server is, too (SDAM: Error handling).

    A timeout says less. Nobody monitors what is behind a load balancer, so it is for its service alone.
    """
    failure = event.failure
    if pool is None or event.service_id is not None or type(failure) is not NetworkError:
        return
    if not failure.timed_out and str(failure) != _CANCELLED:
        pool.lost.add(event.driver_connection_id)


_CANCELLED: Final = "cancelled"
"""What the failure of a command says whose task was cancelled."""


def _at_end(client: int, address: str, pool: PoolLife | None) -> Iterator[Violation]:
    """Yield what a closed pool has kept."""
    where = f"pool of {address} in client {client}"
    yield from (Violation(f"{where}: {why}") for why in (pool.at_end() if pool is not None else ()))


# Nothing is left at the end: sessions, cursors, connections, tasks.


End: TypeAlias = CommandSucceededEvent | CommandFailedEvent


@dataclass(slots=True)
class CommandExchange:
    """One command of a client. `ended` is None for one that was never told to have ended.

    `operation` is the number of the call that sent it.
    """

    client: int
    started: CommandStartedEvent
    ended: End | None = None
    operation: int | None = None

    @property
    def answered(self) -> bool:
        """Whether the server's answer arrived, an error or not."""
        ended = self.ended
        return isinstance(ended, CommandSucceededEvent) or (
            isinstance(ended, CommandFailedEvent) and isinstance(ended.failure, ServerError)
        )


def exchanges_of(events: Iterable[Heard]) -> list[CommandExchange]:
    """Return the commands in the order of their starts."""
    found: dict[tuple[int, int], CommandExchange] = {}
    for heard in events:
        event = heard.event
        if isinstance(event, CommandStartedEvent):
            found[heard.client, event.request_id] = CommandExchange(
                heard.client, event, operation=heard.operation
            )
        elif isinstance(event, CommandSucceededEvent | CommandFailedEvent):
            exchange = found.get((heard.client, event.request_id))
            if exchange is not None:
                exchange.ended = event
    return list(found.values())


KINDS: Final = {
    "task": "a task still runs",
    "connection": "a client still holds a connection",
    "server connection": "a server still holds a connection",
    "session": "a server still knows a session in use",
    "cursor": "a server still holds a cursor",
    "transaction": "a server still holds a transaction",
    "claim": "a server still holds what a transaction claimed",
    "ticket": "a server still holds a ticket",
    "token": "a server still owes tokens",
    "waiter": "an operation still waits for a connection",
}
"""What may be left, with the sentence about it."""


@checker("leftovers", "Nothing is left at the end.")
def leftovers(history: RunHistory) -> Iterator[Violation]:
    """Yield everything that is left."""
    ending = history.ending
    for leftover in ending.leftovers:
        yield Violation(f"{KINDS.get(leftover.kind, leftover.kind)}: {leftover.name}")
    if ending.sessions or ending.cursors:
        exchanges = exchanges_of(history.events)
        yield from _sessions(exchanges, history)
        yield from _cursors(exchanges, history)


def _sessions(exchanges: Sequence[CommandExchange], history: RunHistory) -> Iterator[Violation]:
    """Yield each session that its client could have ended, and did not.

    A session in which a command was lost is not used again, and left to the server's timeout (Driver
    Sessions: Server Session Pool); so are all where endSessions fails, which is not tried again.
    """
    owners: dict[bytes, int] = {}
    excused: set[bytes] = set()
    for exchange in exchanges:
        command = exchange.started.command
        if "lsid" in command:
            identity = bytes(command["lsid"]["id"])
            owners[identity] = exchange.client
            if not exchange.answered:
                excused.add(identity)
        if "endSessions" in command and not isinstance(exchange.ended, CommandSucceededEvent):
            excused.update(bytes(each["id"]) for each in command["endSessions"])
    for identity in history.ending.sessions:
        owner = owners.get(identity)
        if owner is not None and identity not in excused and owner not in history.ending.lonely:
            yield Violation(f"{KINDS['session']}: {identity.hex()} of client {owner}")


def _cursors(exchanges: Sequence[CommandExchange], history: RunHistory) -> Iterator[Violation]:
    """Yield each cursor that its client knew and could have closed, and did not.

    One whose getMore or killCursors failed, or whose client had no connection for it, is left to its timeout;
    so is one that came with a writeConcernError, since the operation gets nothing but the error. One whose
    getMore had a writeConcernError that made its server unknown may find no server for killCursors in time.
    """
    excused: set[int] = set()
    owners: dict[int, int] = {}
    # A change stream that gets no connection for its getMore gets none for its killCursors, and begins anew.
    without = {
        (heard.client, heard.operation)
        for heard in history.events
        if isinstance(heard.event, ConnectionCheckOutFailedEvent)
    }
    for exchange in exchanges:
        command, ended = exchange.started.command, exchange.ended
        if isinstance(ended, CommandSucceededEvent):
            cursor = ended.reply.get("cursor")
            concern = ended.reply.get("writeConcernError")
            if "getMore" in command and isinstance(concern, dict) and concern.get("code") in STATE_CHANGES:
                excused.add(command["getMore"])
            if isinstance(cursor, dict) and "writeConcernError" not in ended.reply:
                owners[cursor.get("id", 0)] = exchange.client
                if (exchange.client, exchange.operation) in without:
                    excused.add(cursor.get("id", 0))
        else:
            excused.update(command.get("cursors", ()))
            excused.add(command.get("getMore", 0))
    for server, identity in history.ending.cursors:
        owner = owners.get(identity)
        if owner is not None and identity not in excused and owner not in history.ending.lonely:
            yield Violation(f"{KINDS['cursor']}: {identity} of client {owner} on {server}")
