"""A read returns what was there at some time: a beginning of the list, a number that was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import History


def check(history: History) -> Iterator[Violation]:
    """Yield each read of a list that is no beginning of its end, and each of a register's unwritten number.

    Nothing is rolled back, so whatever was read is still there at the end.
    """
    order: dict[str, list[int]] = {}
    for entry in history.ending.log:
        order.setdefault(entry.key, []).append(entry.operation)
    for operation in history.operations:
        if operation.outcome != "ok":
            continue
        written = order.get(operation.key, [])
        if operation.kind == "read_list":
            seen = list(operation.result)
            if seen != written[: len(seen)]:
                text = f"read {operation.number} of {operation.key} returned {seen}"
                yield Violation(f"{text}, which is no beginning of {written}", (operation.number,))
        elif operation.kind in ("read", "swap") and operation.result not in (None, *written):
            text = f"{operation.kind} {operation.number} of {operation.key} returned {operation.result}"
            yield Violation(f"{text}, which was not written", (operation.number,))
