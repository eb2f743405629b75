"""A write that failed, or of which nothing is known, is there at most once; what nobody wrote is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.applied import Applied
from harness.sim.swarm.checkers.violation import Violation
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory


def check(history: RunHistory) -> Iterator[Violation]:
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
                what = f"{operation.kind} {operation.number} of {key} {_end(operation.outcome)}"
                promise = " with NoWritesPerformed" if not most else ""
                yield Violation(f"{what}{promise} and is there {times} times in {place}", (operation.number,))
    numbers = {operation.number for operation in history.operations}
    for member, key, number in applied.kept():
        if number not in numbers:
            yield Violation(f"{key} has {number} on {member}, which no operation wrote")


def _end(outcome: str) -> str:
    return "failed" if outcome == "failed" else "had an unknown outcome"
