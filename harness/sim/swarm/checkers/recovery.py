"""Once nothing disturbs any more, operations succeed again within a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each operation that began when all had recovered, and did not succeed."""
    recovered = history.calm_from + history.recovery
    for operation in history.operations:
        if operation.invoked > recovered and operation.outcome == "failed":
            after = operation.invoked - history.calm_from
            what = f"{operation.kind} {operation.number} failed {after:.3f} s after the last fault"
            text = f"{what}, where {history.recovery:g} s are allowed: {operation.error}"
            yield Violation(text, (operation.number,))
