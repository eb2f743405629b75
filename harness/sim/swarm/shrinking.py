"""The smallest schedule that still fails: fewer faults, clients, operations while one checker complains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.flake_lab.shrink import search_among
from harness.running import interruption
from harness.sim.swarm.judging import judge
from harness.sim.swarm.schedule import Schedule

if TYPE_CHECKING:
    from harness.sim.swarm.verdict import ScheduleVerdict

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
