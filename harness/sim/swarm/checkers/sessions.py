"""Rules of sessions: what they see, who uses them, and where what they hold on to goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from driver.errors import NetworkError
from driver.events import CommandFailedEvent, CommandStartedEvent
from harness.sim.swarm.checkers.checker import Violation, checker
from harness.sim.swarm.checkers.data import COMMITTED
from harness.sim.swarm.history import READS, TRANSACTIONS, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.sim.swarm.history import RunHistory, WorkloadOperation
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
    """What is known while the operations are gone through in order."""

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
    version = _version(key, seen, state)
    duty = duties.get(key)
    if duty is not None and version < duty.version:
        text = f"session {operation.session}: read {operation.number} of {key} saw {version} of its writes"
        why = f"{duty.guarantee}: {duty.version} since operation {duty.since}"
        yield Violation(f"{text} ({why})", (duty.since, operation.number))
    _add(duties, key, _Duty(version, MONOTONIC_READS, operation.number))
    for number in state.order.get(key, [])[:version]:
        for other, carried in state.carried.get(number, {}).items():
            _add(duties, other, _Duty(carried.version, WRITES_FOLLOW_READS, number))


def _version(key: str, seen: Sequence[int], state: _Sessions) -> int:
    """Return how many writes of a key a read has seen: of a list each, of a register the last."""
    if key.startswith("list:"):
        return len(seen)
    return state.position.get((seen[-1], key), 0) if seen else 0


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
