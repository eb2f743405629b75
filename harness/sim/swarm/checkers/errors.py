"""Of several errors the caller gets the one that tells most (Retryable Writes: Executing; Retryable Reads).

An error of an attempt that reached no server, or one labelled NoWritesPerformed, would let the caller believe
that nothing was written; so it never stands for an earlier one that says less for certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver import errors
from driver.events import CommandFailedEvent
from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import TRANSACTIONS
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory, WorkloadOperation

_SEVERAL: Final = TRANSACTIONS | {"batch", "scan"}
"""The kinds whose commands are several, each with errors of its own."""


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each operation that was told that nothing had happened, though an attempt may have done it."""
    doubts: dict[int | None, Exception] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, CommandFailedEvent) and isinstance(event.failure, errors.DriverError):
            failure = event.failure
            if failure.attempted and not failure.has_label(Label.NO_WRITES_PERFORMED):
                doubts.setdefault(heard.operation, failure)
    for operation in history.operations:
        doubt = doubts.get(operation.number)
        if doubt is not None and operation.outcome == "failed" and operation.kind not in _SEVERAL:
            yield from _hidden(operation, doubt)


def _hidden(operation: WorkloadOperation, doubt: Exception) -> Iterator[Violation]:
    if not operation.attempted or Label.NO_WRITES_PERFORMED in operation.labels:
        told = f"{operation.kind} {operation.number} of {operation.key} failed with {operation.error}"
        text = f"{told}, which hides {type(doubt).__name__} of an attempt that a server may have executed"
        yield Violation(text, (operation.number,))
