"""Measures of a point of a sweep: a scenario in, one flat row of numbers out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from harness.sim.fleet import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.fleet.scenario import Scenario

_COUNTS: Final = ("offered", "started", "ok", "failed", "timed_out", "rejected", "abandoned")
_PERCENTILES: Final = {"latency_p50": 0.5, "latency_p90": 0.9, "latency_p99": 0.99}


def measure(scenario: Scenario) -> Mapping[str, float | str | None]:
    """Simulate a scenario and return its measures. Raises as `simulate` does.

    Counts are totals, `goodput` is successes a second, latencies and `recovery_time` (after the last outage)
    are seconds; None is what there is no number for: no outage, or never.
    """
    return measures_of(simulate(scenario), scenario)


def measures_of(outcome: FleetOutcome, scenario: Scenario) -> dict[str, float | str | None]:
    """Return the measures of a scenario's outcome; see `measure`."""
    end = max((outage.end for outage in scenario.outages), default=None)
    numbers = {name: outcome.total(name) for name in _COUNTS} | {
        "goodput": outcome.total("ok") / scenario.seconds,
        "attempts_per_success": outcome.attempts_per_success,
        **{name: outcome.percentile(share) for name, share in _PERCENTILES.items()},
        "recovery_time": math.inf if end is None else outcome.recovery_time(end),
    }
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return {**finite, "trace": outcome.trace}
