"""A register is linearizable for writes of `w: majority` and reads with read concern `linearizable`."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Literal

from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.linearizability import Call, first_unexplained
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory, WorkloadOperation


def check(history: RunHistory) -> Iterator[Violation]:
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
