"""Rules of data: what was written is there, and what was read was there.

Two witnesses tell what was applied. Lists and documents keep the number of each write, so every member is
counted by itself; counters and registers are overwritten, so the log tells of them, and members must agree
with it. The log is the fake's own: a server that lost a write from both would only be seen by a read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final, Literal

from harness.sim.swarm.history import DELETION, INITIAL_BALANCE, READS, Violation, checker
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.sim.swarm.history import (
        Logged,
        RunHistory,
        StreamEvent,
        Time,
        WatchedStream,
        WorkloadOperation,
    )


LOG: Final = "the log"


@dataclass(frozen=True)
class Applied:
    """The applications of one history's writes; made once, as members hold many lists."""

    history: RunHistory

    def of(self, operation: WorkloadOperation) -> Iterator[tuple[str, str, int]]:
        """Yield each key that an operation writes, where that was counted, and how often it is there.

        Lists and documents keep their writes, so each member is asked. Other values are overwritten: of them
        the log tells.
        """
        for key in () if operation.kind in {*READS, "delete"} else operation.keys:
            if key.startswith(("list:", "document:")):
                for member, counts in self._kept.items():
                    yield key, member, counts[operation.number, key]
            else:
                yield key, LOG, self._logged[operation.number, key]

    def kept(self) -> Iterator[tuple[str, str, int]]:
        """Yield member, key and operation of each write that is kept in a list or as a document."""
        for member, counts in self._kept.items():
            yield from ((member, key, number) for number, key in counts)

    @cached_property
    def _logged(self) -> Counter[tuple[int, str]]:
        return Counter((entry.operation, entry.key) for entry in self.history.ending.log)

    @cached_property
    def _kept(self) -> dict[str, Counter[tuple[int, str]]]:
        kept = {}
        for member, documents in self.history.ending.documents.items():
            counts: Counter[tuple[int, str]] = Counter()
            for key, value in documents.items():
                if key.startswith("list:"):
                    counts.update((number, key) for number in value)
                elif key.startswith("document:"):
                    counts[int(key.partition(":")[2]), key] += value
            kept[member] = counts
        return kept


@checker(
    "acknowledged",
    "An acknowledged write is there exactly once; one that no majority had may be rolled back.",
)
def acknowledged(history: RunHistory) -> Iterator[Violation]:
    """Yield each acknowledged write that is missing or was applied more often.

    One that was acknowledged with less than `w: majority` may be missing, if a member has rolled it back.
    """
    applied = Applied(history)
    deleted = {operation.key for operation in history.operations if operation.kind == "delete"}
    gone = history.ending.taken_back
    for operation in history.operations:
        if operation.outcome != "ok":
            continue
        may_go = operation.write_concern != "majority"
        if operation.kind == "delete":
            if not (may_go and (DELETION, operation.key) in gone):
                yield from _back(operation, history)
        elif operation.key in deleted:
            continue
        for key, place, times in applied.of(operation):
            if times != 1 and not (may_go and not times and (operation.number, key) in gone):
                what = f"{operation.kind} {operation.number} of {key}"
                text = f"{what} was acknowledged at {operation.completed:g} s"
                there = "is missing" if not times else f"is there {times} times"
                yield Violation(f"{text} and {there} in {place}", (operation.number,))
    yield from _overwritten(history)


def _back(deletion: WorkloadOperation, history: RunHistory) -> Iterator[Violation]:
    """Yield each member on which a document is there again; that of an insert that failed may come late."""
    inserts = (each for each in history.operations if (each.kind, each.key) == ("insert", deletion.key))
    if all(each.outcome == "ok" for each in inserts):
        for member, documents in history.ending.documents.items():
            if documents.get(deletion.key):
                text = f"{deletion.key} was deleted by operation {deletion.number} and is there on {member}"
                yield Violation(text, (deletion.number,))


def _overwritten(history: RunHistory) -> Iterator[Violation]:
    """Yield each counter and register whose value is not what the log's writes leave."""
    by_number = {operation.number: operation for operation in history.operations}
    expected: dict[str, int | None] = defaultdict(int)
    for entry in history.ending.log:
        if entry.key.startswith("counter:"):
            argument = by_number[entry.operation].argument if entry.operation in by_number else 0
            expected[entry.key] = (expected[entry.key] or 0) + argument
        elif entry.key.startswith("register:"):
            expected[entry.key] = entry.operation
    for member, documents in history.ending.documents.items():
        for key, value in expected.items():
            if documents.get(key) != value:
                yield Violation(f"{key} is {documents.get(key)} on {member}, and {value} by the log")


@checker("failed", "A write that failed, or of which nothing is known, is there at most once.")
def failed(history: RunHistory) -> Iterator[Violation]:
    """Yield each such write that was applied too often.

    An error labelled NoWritesPerformed promises that it was not applied at all (Retryable Writes).
    """
    applied = Applied(history)
    for operation in history.operations:
        if operation.outcome == "ok":
            continue
        # The label is about one command: a bulk write may have sent others before.
        promises = Label.NO_WRITES_PERFORMED in operation.labels and operation.kind != "batch"
        most = 0 if promises else 1
        for key, place, times in applied.of(operation):
            if times > most:
                end = "failed" if operation.outcome == "failed" else "had an unknown outcome"
                what = f"{operation.kind} {operation.number} of {key} {end}"
                promise = " with NoWritesPerformed" if not most else ""
                yield Violation(f"{what}{promise} and is there {times} times in {place}", (operation.number,))
    numbers = {operation.number for operation in history.operations}
    for member, key, number in applied.kept():
        if number not in numbers:
            yield Violation(f"{key} has {number} on {member}, which no operation wrote")


@checker("transactions", "A transaction is applied as a whole or not at all.")
def transactions(history: RunHistory) -> Iterator[Violation]:
    """Yield marks in some lists only, balances that no set of transfers gives, and reads of half of one."""
    applied = Applied(history)
    for operation in history.operations:
        if operation.kind == "mark":
            yield from _torn(operation, applied)
        elif operation.kind == "read_accounts" and operation.outcome == "ok":
            total, expected = sum(operation.result.values()), INITIAL_BALANCE * len(operation.result)
            if total != expected:
                text = f"snapshot {operation.number} of {len(operation.result)} accounts sums up to {total}"
                yield Violation(
                    f"{text} instead of {expected}: it saw a part of a transfer", (operation.number,)
                )
    # Each balance is what the transfers give of which the lists tell.
    transfers = [operation for operation in history.operations if operation.kind == "transfer"]
    for member, documents in history.ending.documents.items():
        changes: dict[str, int] = defaultdict(int)
        for operation in transfers:
            times = tuple(documents.get(operation.key, ())).count(operation.number)
            source, target, amount = operation.argument
            changes[source] -= times * amount
            changes[target] += times * amount
        for account, change in changes.items():
            balance = documents.get(account)
            if balance != INITIAL_BALANCE + change:
                held = f"{account} has {balance} on {member}"
                yield Violation(f"{held}, and {INITIAL_BALANCE + change} by the transfers in its lists")


def _torn(operation: WorkloadOperation, applied: Applied) -> Iterator[Violation]:
    by_member: dict[str, dict[str, int]] = defaultdict(dict)
    for key, member, times in applied.of(operation):
        by_member[member][key] = times
    for member, times_by_key in by_member.items():
        if len(set(times_by_key.values())) > 1:
            here = ", ".join(key for key, times in times_by_key.items() if times)
            missing = ", ".join(key for key, times in times_by_key.items() if not times)
            text = f"transaction {operation.number} is in {here} on {member}"
            yield Violation(f"{text}, and not in {missing}" if missing else text, (operation.number,))


@checker("members", "All members end with the same documents.")
def members(history: RunHistory) -> Iterator[Violation]:
    """Yield each value in which a member differs from the first one."""
    members = iter(history.ending.documents.items())
    first, documents = next(members, ("", {}))
    for member, others in members:
        for key in sorted(documents.keys() | others.keys()):
            if documents.get(key) != others.get(key):
                text = f"{key} is {others.get(key)} on {member}, and {documents.get(key)} on {first}"
                yield Violation(text)


@checker("reads", "A read returns what was there at some time.")
def reads(history: RunHistory) -> Iterator[Violation]:
    """Yield each read of a list that is no beginning of its end, and each of a register's unwritten number.

    What has been rolled back was there, for reads that do not ask for a majority.
    """
    log = history.ending.log
    kept = [_by_key(log)]
    lines = kept + [_by_key((*log[: each.kept], *each.log)) for each in history.ending.rolled_back]
    for operation in history.operations:
        if operation.outcome != "ok":
            continue
        among = kept if operation.read_concern in COMMITTED else lines
        if operation.kind in ("read_list", "scan"):
            for key, seen in operation.seen:
                if not any(list(seen) == line.get(key, [])[: len(seen)] for line in among):
                    text = f"{operation.kind} {operation.number} of {key} returned {list(seen)}"
                    why = f"which is no beginning of {kept[0].get(key, [])}"
                    yield Violation(f"{text}, {why}", (operation.number,))
        elif operation.kind in ("read", "swap") and not any(
            operation.result in (None, *line.get(operation.key, [])) for line in among
        ):
            text = f"{operation.kind} {operation.number} of {operation.key} returned {operation.result}"
            yield Violation(f"{text}, which was not written", (operation.number,))


def _by_key(log: Iterable[Logged]) -> dict[str, list[int]]:
    """Return the operations that have written each key, in their order."""
    order: dict[str, list[int]] = {}
    for entry in log:
        order.setdefault(entry.key, []).append(entry.operation)
    return order


@checker("scans", "A cursor returns each document once, over all its batches.")
def scans(history: RunHistory) -> Iterator[Violation]:
    """Yield each scan with more or fewer documents than there are, or one of them twice."""
    there = {key for documents in history.ending.documents.values() for key in documents}
    for operation in history.operations:
        if operation.kind != "scan" or operation.outcome != "ok":
            continue
        keys = [key for key, _ in operation.result]
        expected = sorted(key for key in there if key.startswith(f"{operation.collection}:"))
        if sorted(keys) != expected:
            text = f"scan {operation.number} returned {', '.join(keys) or 'nothing'}"
            yield Violation(f"{text}, and there are {', '.join(expected)}", (operation.number,))


COMMITTED = ("majority", "linearizable")
"""The read concerns that return what a majority has."""


@checker("majority", "What a majority read returns, or a majority write is acknowledged for, a majority has.")
def majority(history: RunHistory) -> Iterator[Violation]:
    """Yield each such read of what no majority had, and each such acknowledgement.

    Both by then: at the instant at which the call returned, the majority's position, which was noted whenever
    it changed, has to be at the write or beyond. So a read concern or a write concern that was ignored is
    found where the majority is behind, whether or not anything is lost by it (Read and Write Concern).
    """
    instants = [reached.at for reached in history.ending.majority]
    if not instants:
        return
    times: dict[tuple[int, str], Time] = {}
    for entry in history.ending.log:
        times.setdefault((entry.operation, entry.key), entry.time)
    for operation in history.operations:
        if operation.outcome == "ok":
            place = bisect_right(instants, operation.completed) - 1
            reached = history.ending.majority[max(place, 0)].time
            yield from _beyond(operation, reached, times)


def _beyond(
    operation: WorkloadOperation, reached: Time, times: Mapping[tuple[int, str], Time]
) -> Iterator[Violation]:
    """Yield what an operation promised to be a majority's, and was not."""
    what = f"{operation.kind} {operation.number} of {operation.key}"
    if operation.kind in READS:
        if operation.read_concern not in COMMITTED:
            return
        for key, numbers in operation.seen:
            for number in numbers:
                time = times.get((number, key))
                if time is None or time > reached:
                    text = f"{what} returned {number} of {key} at {operation.completed:g} s"
                    why = "which no majority had" if time is not None else "which was rolled back"
                    yield Violation(f"{text}, {why}", (operation.number, number))
    elif operation.write_concern == "majority":
        for key in operation.keys:
            time = times.get((operation.number, key))
            if time is not None and time > reached:
                text = f"{what} was acknowledged at {operation.completed:g} s"
                yield Violation(f"{text}, and no majority had it", (operation.number,))


@checker("registers", "A register is linearizable for majority writes and linearizable reads.")
def registers(history: RunHistory) -> Iterator[Violation]:
    """Yield for each register the first operation after which no order explains all results.

    Reads with a weaker concern are left out. A write that is acknowledged by fewer members than a majority
    may take place at any time or never, as one that failed.
    """
    by_key: dict[str, list[tuple[WorkloadOperation, Call]]] = defaultdict(list)
    for operation in history.operations:
        call = _call(operation)
        if call is not None:
            by_key[operation.key].append((operation, call))
    for key, pairs in by_key.items():
        place = first_unexplained([call for _, call in pairs])
        if place is not None:
            operation = pairs[place][0]
            begun = sum(other.invoked <= operation.completed for other, _ in pairs)
            result = f" with {operation.result}" if operation.kind != "write" else ""
            what = f"{operation.kind} {operation.number} of {key} ended{result} at {operation.completed:g} s"
            text = f"{what}: no order of the {begun} operations until then explains all results"
            yield Violation(text, (operation.number,))


def _call(operation: WorkloadOperation) -> Call | None:
    """Return an operation as a call, None for one that has no part in the promise."""
    is_sure = operation.outcome == "ok"
    if operation.kind == "read":
        if not is_sure or operation.read_concern != "linearizable":
            return None
        return Call("reads", operation.invoked, operation.completed, seen=operation.result)
    if operation.kind not in ("write", "swap") or Label.NO_WRITES_PERFORMED in operation.labels:
        return None
    completed = operation.completed if is_sure and operation.write_concern == "majority" else inf
    does: Literal["writes", "swaps"] = "writes" if operation.kind == "write" else "swaps"
    return Call(does, operation.invoked, completed, value=operation.number, seen=operation.result)


@checker("streams", "A change stream returns each event once and in order, across resumes.")
def streams(history: RunHistory) -> Iterator[Violation]:
    """Yield each event that a stream returned twice, out of order, of its own invention, or not at all."""
    operations = {operation.number: operation for operation in history.operations}
    for stream in history.streams:
        seen: list[int] = []
        for event in stream.events:
            place, fault = _place(event, history.ending.log, seen)
            if fault is None:
                seen.append(place)
            else:
                what = (
                    f"stream {stream.number} returned the write of {event.key} by operation {event.operation}"
                )
                yield Violation(f"{what} {fault} at {event.at:g} s", (event.operation,))
        yield from _missed(stream, seen, history.ending.log, operations)


def _place(event: StreamEvent, log: Sequence[Logged], seen: Sequence[int]) -> tuple[int, str | None]:
    """Return where in the log an event is, and what is wrong with its being returned now."""
    places = [
        place
        for place, entry in enumerate(log)
        if (entry.operation, entry.key) == (event.operation, event.key)
    ]
    if not places:
        return -1, "that nobody has seen"
    last = seen[-1] if seen else -1
    following = next((place for place in places if place > last), None)
    if following is not None:
        return following, None
    return -1, "again" if all(place in seen for place in places) else "out of order"


def _missed(
    stream: WatchedStream,
    seen: Sequence[int],
    log: Sequence[Logged],
    operations: Mapping[int, WorkloadOperation],
) -> Iterator[Violation]:
    first = seen[0] if seen else len(log)
    end = len(log) if stream.drained else (seen[-1] if seen else 0)
    returned = set(seen)
    for place, entry in enumerate(log[:end]):
        writer = operations.get(entry.operation)
        promised = place > first or (writer is not None and writer.invoked > stream.opened)
        if promised and place not in returned:
            text = f"stream {stream.number} missed the write of {entry.key} by operation {entry.operation}"
            yield Violation(text, (entry.operation,))


# The search for an order of calls on one register that explains all results.
#
# The search is that of Wing and Gong with Lowe's memory: one call after another is placed, each only when
# no unplaced call had ended before it began; a set of placed calls with a value that was tried before is
# not tried again. A call that must not have happened (its caller was told of a failure) may be left out.


MOST_STATES: Final = 200_000
"""States after which the search gives up."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call on a register: `reads` returned `seen`, `writes` set it to `value`, `swaps` did both at once.

    `completed` is infinite for a call of which nobody knows whether it takes place: it may at any time from
    `invoked` on, or never. Its result is unknown then.
    """

    kind: Literal["reads", "writes", "swaps"]
    invoked: float
    completed: float = inf
    value: int | None = None
    seen: int | None = None

    @property
    def is_sure(self) -> bool:
        """Whether it took place, with a known result."""
        return self.completed < inf

    def after(self, value: int | None) -> tuple[bool, int | None]:
        """Return whether the call can take place at this value, and the value after it."""
        holds = not self.is_sure or self.kind == "writes" or self.seen == value
        return holds, value if self.kind == "reads" else self.value


def is_linearizable(calls: Sequence[Call], *, most_states: int = MOST_STATES) -> bool | None:
    """Return whether some order explains all results of calls on a register that is None at first.

    Return None if that was not found out within so many states.
    """
    # Others may be left out and explain nothing, and each would double the work.
    wanted = {call.seen for call in calls if call.is_sure and call.kind != "writes"}
    useful = [call for call in calls if call.is_sure or (call.kind != "reads" and call.value in wanted)]
    useful.sort(key=lambda call: call.invoked)
    sure = sum(1 << place for place, call in enumerate(useful) if call.is_sure)
    seen: set[tuple[int, int | None]] = {(0, None)}
    states: list[tuple[int, int | None]] = [(0, None)]
    while states:
        placed, value = states.pop()
        if placed & sure == sure:
            return True
        # What ends first must be placed before whatever begins after it.
        end = min(call.completed for place, call in enumerate(useful) if not placed >> place & 1)
        for place, call in enumerate(useful):
            if placed >> place & 1 or call.invoked > end:
                continue
            holds, following = call.after(value)
            state = (placed | 1 << place, following)
            if holds and state not in seen:
                seen.add(state)
                states.append(state)
        if len(seen) > most_states:
            return None
    return False


def first_unexplained(calls: Sequence[Call], *, most_states: int = MOST_STATES) -> int | None:
    """Return the place of the call whose end no order explains any more, None for linearizable calls.

    Calls that end later are taken for calls of which nothing is known yet. A search without result counts as
    none found.
    """
    places = sorted(
        (place for place, call in enumerate(calls) if call.is_sure), key=lambda p: calls[p].completed
    )
    if is_linearizable(calls, most_states=most_states) is not False:
        return None
    least, most = 0, len(places) - 1
    while least < most:
        middle = (least + most) // 2
        instant = calls[places[middle]].completed
        known = [
            call if call.completed <= instant else Call(call.kind, call.invoked, value=call.value)
            for call in calls
            if call.invoked <= instant
        ]
        if is_linearizable(known, most_states=most_states) is False:
            most = middle
        else:
            least = middle + 1
    return places[least]
