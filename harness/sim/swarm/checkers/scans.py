"""A scan returns each document once, over all its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory


def check(history: RunHistory) -> Iterator[Violation]:
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
