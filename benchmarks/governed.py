"""How much of a server's capacity a policy gets out of it, through a step, a ramp and a spike of the load.

`python -m benchmarks.governed` runs each plan with the sound and with the naive policy in virtual time,
`--live` over TCP on the wall clock with half the load. `of possible` is the goodput as a part of what such a
server could have answered; `at last` is that of the end of the busy time, an eighth of the plan.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks.overload import play
from harness.overload import Plan, Trial, ramp, spike, step
from harness.overload.policy import POLICIES
from harness.overload.trial import Capacity

_CALM, _BUSY, _SPIKE = 0.5, 3, 5
_LIVE_CONCURRENCY = 5


def plans(capacity: float, seconds: float) -> tuple[Plan, ...]:
    """Return a step, a ramp and a spike over a server of that capacity."""
    calm, busy, high = capacity * _CALM, capacity * _BUSY, capacity * _SPIKE
    return (
        step(calm, busy, seconds=seconds),
        ramp(calm, busy, seconds=seconds),
        spike(calm, high, seconds=seconds),
    )


def measure(plan: Plan, policy: str, capacity: Capacity, *, live: bool) -> dict[str, Any]:
    """Run one trial; return what part of the possible it answered in time."""
    report = play(Trial(plan=plan, policy=POLICIES[policy], capacity=capacity), live=live)
    busy_until = plan.seconds * (3 / 4 if plan.name == "spike" else 1)
    last = busy_until - plan.seconds / 8
    return {
        "plan": plan.name,
        "policy": policy,
        "of_possible": report.held(),
        "at_last": report.held(last, busy_until),
    }


def run(*, seconds: float, live: bool) -> dict[str, Any]:
    """Run every plan with every policy, and return a report made of numbers."""
    capacity = Capacity(concurrency=_LIVE_CONCURRENCY) if live else Capacity()
    rows = [
        measure(plan, policy, capacity, live=live)
        for policy in POLICIES
        for plan in plans(capacity.per_second, seconds)
    ]
    return {"live": live, "seconds": seconds, "capacity": capacity.per_second, "trials": rows}


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    world = "live" if report["live"] else "virtual time"
    lines = [
        f"{world}, {report['seconds']:g} s, capacity {report['capacity']:g}/s",
        f"{'policy':20}{'plan':8}{'of possible':>14}{'at last':>10}",
    ]
    lines += [
        f"{row['policy']:20}{row['plan']:8}{row['of_possible']:14.1%}{row['at_last']:10.1%}"
        for row in report["trials"]
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.governed", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long each trial lasts")
    parser.add_argument("--live", action="store_true", help="run on the wall clock, over TCP")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(seconds=options.seconds, live=options.live)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
