"""The rules that a history is held against: one module each, and a table of them.

Checkers know nothing of the workloads beside what `harness.sim.swarm.history` agrees upon. Each is a pure
function from a history to its violations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.sim.swarm.checkers import (
    acknowledged,
    attempts,
    deadlines,
    dirty,
    errors,
    failed,
    leftovers,
    majority,
    members,
    pins,
    pools,
    reads,
    recovery,
    registers,
    scans,
    sessions,
    streams,
    tokens,
    transactions,
    waits,
)
from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.sim.swarm.history import RunHistory

__all__ = ["CHECKERS", "Check", "Checker", "Violation", "violations"]

Check: TypeAlias = "Callable[[RunHistory], Iterator[Violation]]"


@dataclass(frozen=True, slots=True)
class Checker:
    """A rule: its name, its sentence, and the function that decides about it."""

    name: str
    rule: str
    check: Check


CHECKERS: Final = {
    checker.name: checker
    for checker in (
        Checker(
            "acknowledged",
            "An acknowledged write is there exactly once; one that no majority had may be rolled back.",
            acknowledged.check,
        ),
        Checker(
            "failed",
            "A write that failed, or of which nothing is known, is there at most once.",
            failed.check,
        ),
        Checker("transactions", "A transaction is applied as a whole or not at all.", transactions.check),
        Checker("members", "All members end with the same documents.", members.check),
        Checker("reads", "A read returns what was there at some time.", reads.check),
        Checker("scans", "A cursor returns each document once, over all its batches.", scans.check),
        Checker(
            "majority",
            "What a majority read returns, or a majority write is acknowledged for, a majority has.",
            majority.check,
        ),
        Checker(
            "sessions",
            "Causally consistent sessions read their writes, read monotonically, and pass both on.",
            sessions.check,
        ),
        Checker(
            "registers",
            "A register is linearizable for majority writes and linearizable reads.",
            registers.check,
        ),
        Checker(
            "streams", "A change stream returns each event once and in order, across resumes.", streams.check
        ),
        Checker("dirty", "A server session that lost a command is not lent again.", dirty.check),
        Checker("pins", "A transaction stays with its mongos, a cursor with its server.", pins.check),
        Checker("errors", "Of several errors the one is raised that tells most.", errors.check),
        Checker("pools", "Pools keep to the grammar of their events and to their sizes.", pools.check),
        Checker("deadlines", "Every operation returns, and none outlives its deadline.", deadlines.check),
        Checker("attempts", "No command is attempted more often than its edition allows.", attempts.check),
        Checker("waits", "No wait before a retry is longer than its bound.", waits.check),
        Checker(
            "tokens",
            "Tokens are neither lost nor made, in clients' buckets for retries and servers' limiters.",
            tokens.check,
        ),
        Checker("recovery", "After the last fault, operations succeed again within a bound.", recovery.check),
        Checker("leftovers", "Nothing is left at the end.", leftovers.check),
    )
}
"""All rules by name."""


def violations(history: RunHistory) -> tuple[Violation, ...]:
    """Return all violations of all rules, each with the name of its checker."""
    return tuple(
        replace(violation, checker=checker.name)
        for checker in CHECKERS.values()
        for violation in checker.check(history)
    )
