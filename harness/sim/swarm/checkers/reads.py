"""A read returns what was there at some time: a beginning of the list, a number that was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.majority import COMMITTED
from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.sim.swarm.history import Logged, RunHistory


def check(history: RunHistory) -> Iterator[Violation]:
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
