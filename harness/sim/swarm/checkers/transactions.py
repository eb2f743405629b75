"""A transaction is applied as a whole or not at all, and is seen so."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.applied import Applied
from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import INITIAL_BALANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory, WorkloadOperation


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield marks in some lists only, balances that no set of transfers gives, and reads of half of one."""
    applied = Applied(history)
    for operation in history.operations:
        if operation.kind == "mark":
            yield from _torn(operation, applied)
        elif operation.kind == "read_accounts" and operation.outcome == "ok":
            yield from _unbalanced(operation)
    yield from _balances(history)


def _torn(operation: WorkloadOperation, applied: Applied) -> Iterator[Violation]:
    by_member: dict[str, dict[str, int]] = defaultdict(dict)
    for key, member, times in applied.of(operation):
        by_member[member][key] = times
    for member, times_by_key in by_member.items():
        if len(set(times_by_key.values())) > 1:
            here = ", ".join(key for key, times in times_by_key.items() if times)
            missing = ", ".join(key for key, times in times_by_key.items() if not times)
            text = f"transaction {operation.number} is in {here} on {member}"
            yield Violation(f"{text}, and not in {missing}" if missing else text, (operation.number,))


def _unbalanced(operation: WorkloadOperation) -> Iterator[Violation]:
    total, expected = sum(operation.result.values()), INITIAL_BALANCE * len(operation.result)
    if total != expected:
        text = f"snapshot {operation.number} of {len(operation.result)} accounts sums up to {total}"
        yield Violation(f"{text} instead of {expected}: it saw a part of a transfer", (operation.number,))


def _balances(history: RunHistory) -> Iterator[Violation]:
    """Yield each balance that is not what the transfers give of which the lists tell."""
    transfers = [operation for operation in history.operations if operation.kind == "transfer"]
    for member, documents in history.ending.documents.items():
        expected: dict[str, int] = defaultdict(int)
        for operation in transfers:
            times = tuple(documents.get(operation.key, ())).count(operation.number)
            source, target, amount = operation.argument
            expected[source] -= times * amount
            expected[target] += times * amount
        for account, change in expected.items():
            balance = documents.get(account)
            if balance != INITIAL_BALANCE + change:
                text = f"{account} has {balance} on {member}"
                yield Violation(f"{text}, and {INITIAL_BALANCE + change} by the transfers in its lists")
