"""The rules that a history is held against, by what they are about.

    data        what was written is there, and what was read was there
    sessions    what sessions see, who uses them, and where what they hold on to goes
    attempts    how many there are, how long they wait, which error they end with, and when
    pools       the grammar of their events, and their sizes
    leftovers   what is left at the end

Checkers know nothing of the workloads beside what `harness.sim.swarm.history` agrees upon. Each is a pure
function from a history to its violations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.sim.swarm.checkers import attempts, data, sessions
from harness.sim.swarm.history import Check, Checker, Violation

if TYPE_CHECKING:
    from harness.sim.swarm.history import RunHistory

__all__ = ["CHECKERS", "Check", "Checker", "Violation", "violations"]

CHECKERS: Final = {
    checker.name: checker
    for checker in (
        *(data.acknowledged, data.failed, data.transactions, data.members, data.reads, data.scans),
        *(data.majority, sessions.sessions, data.registers, data.streams, sessions.dirty, sessions.pins),
        *(attempts.hidden_errors, sessions.pools, attempts.deadlines, attempts.attempts, attempts.waits),
        *(attempts.tokens, attempts.recovery, sessions.leftovers),
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
