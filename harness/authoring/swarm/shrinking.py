"""The smallest schedule that still breaks a rule: fewer steps, then fewer options, then less of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.authoring.swarm.schedule import SwarmSchedule
from harness.flake_lab.shrink import search_among
from harness.running import interruption

if TYPE_CHECKING:
    from harness.authoring.swarm.running import SwarmRunner
    from harness.running.result import Result

MOST: Final = 120
"""How many schedules are tried at most."""


def shrink(
    runner: SwarmRunner, schedule: SwarmSchedule, rule: str, *, most: int = MOST
) -> tuple[SwarmSchedule, Result | None]:
    """Return the smallest schedule found that breaks a rule, an oracle as in `expectRules`, with its result.

    None is the result of a schedule that does not break it again. Raises `Interrupted` between two runs.
    """
    oracle = rule.partition(":")[0]
    smallest: tuple[SwarmSchedule, Result | None] = (schedule, None)
    search = search_among(schedule, SwarmSchedule.smaller, most=most)
    candidate = next(search, None)
    while candidate is not None:
        interruption.check()
        result = runner.failure(candidate, [rule])
        if result is not None and broken_by(result) != oracle:
            result = None  # it fails for another reason: what was left out was needed by the rest
        if result is not None:
            smallest = candidate, result
        try:
            candidate = search.send(result is not None)
        except StopIteration:
            break
    return smallest


def broken_by(result: Result) -> str:
    """Return the name of the oracle whose rule a result breaks, empty for a failure of another kind."""
    path, _, _ = result.mismatch.partition(":")
    return path.removeprefix("expectRules.") if path.startswith("expectRules.") else ""
