"""Causally consistent sessions read their writes, read monotonically, and pass on what their writes follow.

What a session must see is kept as a version per key: the number of writes in the order of the log. A write
carries the versions that its session had to see when it began. Whoever reads a version of a key has to see
what the writes up to it carry, too (Causal Consistency).

Where there were two primaries, only reads and writes of a majority have these guarantees, and count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.sim.swarm.checkers.majority import COMMITTED
from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import READS, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.sim.swarm.history import RunHistory, WorkloadOperation

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


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each read of a causal session that is older than what the session must see."""
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
