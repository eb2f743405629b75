"""Majority reads return only what a majority has, and majority writes are acknowledged for that alone.

Both by then: at the instant at which the call returned, the majority's position, which was noted whenever it
changed, has to be at the write or beyond. So a read concern or a write concern that was ignored is found
where the majority is behind, whether or not anything is lost by it (Read and Write Concern).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import READS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.sim.swarm.history import RunHistory, Time, WorkloadOperation

COMMITTED = ("majority", "linearizable")
"""The read concerns that return what a majority has."""


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each such read of what no majority had, and each such acknowledgement."""
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
