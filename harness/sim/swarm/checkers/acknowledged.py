"""An acknowledged write is there exactly once, on every member, and with the value that it leaves.

One that was acknowledged with less than `w: majority` may be missing, if a member has rolled it back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.applied import Applied
from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import DELETION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory, WorkloadOperation


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each acknowledged write that is missing or was applied more often."""
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
