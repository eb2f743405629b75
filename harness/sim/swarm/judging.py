"""Judges schedules: runs each, and holds its history against all checkers."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from harness.flake_lab.shrink import search_among
from harness.running import interruption
from harness.sim.clock import NothingScheduled, Spinning
from harness.sim.swarm.checkers import violations
from harness.sim.swarm.run import perform
from harness.sim.swarm.schedule import Schedule
from harness.sim.swarm.verdict import ScheduleVerdict

if TYPE_CHECKING:
    from harness.sim.swarm.history import RunHistory
    from harness.sim.swarm.run import SwarmRun


def judge(schedule: Schedule) -> ScheduleVerdict:
    """Run a schedule and hold its history against all checkers."""
    try:
        run = perform(schedule)
    except (NothingScheduled, Spinning) as error:
        return ScheduleVerdict(text=str(schedule), violations=(("end", str(error)),))
    except Exception as error:  # noqa: BLE001 - a schedule that cannot be carried out is a finding
        return ScheduleVerdict(text=str(schedule), violations=(("end", f"{type(error).__name__}: {error}"),))
    return verdict_of(schedule, run)


def verdict_of(schedule: Schedule, run: SwarmRun) -> ScheduleVerdict:
    """Hold a run against all checkers."""
    told = run.history
    outcomes = Counter(operation.outcome for operation in told.operations)
    found = [(each.checker, str(each)) for each in violations(told)]
    found += [("loop", complaint) for complaint in run.complaints]
    return ScheduleVerdict(
        text=str(schedule),
        ok=outcomes["ok"],
        failed=outcomes["failed"],
        unknown=outcomes["unknown"],
        seconds=told.ending.at,
        trace=trace_of(told),
        kinds=tuple(sorted({fault.kind for fault in told.faults})),
        violations=tuple(found),
    )


def trace_of(told: RunHistory) -> str:
    """Return a hash of what happened: operations, faults, requests with their replies, streams."""
    digest = hashlib.sha256()
    for each in (*told.operations, *told.faults, *told.streams):
        digest.update(_stable(each))
    for request in told.ending.requests:
        facts = (request.at, request.server, request.command, request.reply, request.ended)
        digest.update(repr(facts).encode())
    return digest.hexdigest()[:16]


def _stable(value: Any) -> bytes:
    """Return a text of a value that is the same in every process: sets in their order."""
    facts = {name: getattr(value, name) for name in value.__slots__}
    sets = {name: sorted(each) for name, each in facts.items() if isinstance(each, frozenset)}
    return repr({**facts, **sets}).encode()


# The smallest schedule that still fails: fewer faults, clients, operations while one checker complains.


MOST: Final = 150
"""How many schedules are tried at most: some twenty seconds."""


def shrink(schedule: Schedule, checker: str, *, most: int = MOST) -> tuple[Schedule, ScheduleVerdict | None]:
    """Return the smallest schedule found in which this checker still complains, with its verdict.

    None is the verdict of a schedule that it does not complain of. Raises `Interrupted` between two runs.
    """
    smallest: tuple[Schedule, ScheduleVerdict | None] = (schedule, None)
    search = search_among(schedule, Schedule.smaller, most=most)
    candidate = next(search, None)
    while candidate is not None:
        interruption.check()
        verdict = judge(candidate)
        fails = any(name == checker for name, _ in verdict.violations)
        if fails:
            smallest = candidate, verdict
        try:
            candidate = search.send(fails)
        except StopIteration:
            break
    return smallest
