"""No operation outlives its deadline, and every operation returns."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory, WorkloadOperation

GRACE: Final = 0.01
"""Seconds after the deadline: more than the clock rounds, less than a bad network takes."""


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each operation that returned too late, or never.

    What ends a transaction after its deadline has all of the timeout once more, so that the server's locks
    are freed, and so has what closes a cursor (Client Side Operations Timeout: Convenient Transactions API,
    Cursors).
    """
    for operation in history.operations:
        until = latest_end(operation)
        if operation.completed == inf:
            text = f"{operation.kind} {operation.number} never returned"
        elif operation.completed > until + GRACE:
            late = operation.completed - operation.deadline
            text = f"{operation.kind} {operation.number} returned {late:.3f} s after its deadline"
        else:
            continue
        yield Violation(text, (operation.number,))


def latest_end(operation: WorkloadOperation) -> float:
    """Return the instant by which an operation must have returned."""
    again = (operation.kind in TRANSACTIONS) + (operation.kind in ("read_accounts", "scan"))
    timeout = operation.deadline - operation.invoked
    return operation.deadline + again * timeout if again else operation.deadline
