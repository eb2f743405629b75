"""Goodput under ten times the load that a server can take: alone, with a limit, and governed by a policy.

`python -m benchmarks.overload` runs the trials in virtual time, `--live` over TCP on the wall clock with half
the load. Goodput is answers a second that came within the clients' patience of a second. `--plot FILE` draws
it over a step of the load instead (extra `plots`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.overload import Report, Trial, step
from harness.overload.policy import Aimd, FollowThroughput
from harness.overload.trial import Capacity
from harness.sim import run_virtual
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.overload import Plan
    from harness.overload.policy import Policy

_LIMITED_TO = 0.9
"""The rate of the fixed limit, as a part of the capacity."""
_OVERLOAD = 10
_LIVE_CONCURRENCY = 5
_DRAWN_LOAD = 3
_DRAWN_WINDOW_SECONDS = 1.0


class Defence(NamedTuple):
    """What stands between the load and the server."""

    name: str
    policy: Callable[[], Policy] | None = None
    limited: bool = False


DEFENCES = (
    Defence("no limiter"),
    Defence("fixed limit", limited=True),
    Defence("policy: AIMD", Aimd),
    Defence("policy: follow throughput", FollowThroughput),
)


def trial(defence: Defence, plan: Plan, capacity: Capacity) -> Trial:
    """Return the trial of one defence."""
    limit: Mapping[str, Any] = {
        "ingressRequestRateLimiterEnabled": True,
        "ingressRequestAdmissionRatePerSec": round(capacity.per_second * _LIMITED_TO),
        "ingressRequestAdmissionBurstCapacitySecs": 0.1,
    }
    return Trial(
        plan=plan,
        policy=defence.policy,
        capacity=capacity,
        parameters=limit if defence.limited else {},
    )


def play(one: Trial, *, live: bool) -> Report:
    """Run a trial on the wall clock over TCP, or in virtual time."""
    if live:
        return asyncio.run(one.run(network=TcpNetwork(), clock=SystemClock(), rng=SeededRng(0)))
    return run_virtual(lambda world: one.run(network=world.network, clock=world.clock, rng=world.rng))


def run(*, seconds: float, live: bool) -> dict[str, Any]:
    """Try each defence under a steady overload, and return a report made of numbers."""
    capacity = Capacity(concurrency=_LIVE_CONCURRENCY) if live else Capacity()
    offered = capacity.per_second * _OVERLOAD
    rows = []
    for defence in DEFENCES:
        window = play(trial(defence, step(offered, offered, seconds=seconds), capacity), live=live).window(
            0, seconds
        )
        rows.append(
            {
                "defence": defence.name,
                "offered": window.offered,
                "goodput": window.goodput,
                "rejected": window.rejected,
                "late": window.late,
                "of_limit": window.goodput / (capacity.per_second * _LIMITED_TO),
            }
        )
    return {"live": live, "seconds": seconds, "capacity": capacity.per_second, "trials": rows}


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    world = "live" if report["live"] else "virtual time"
    setting = f"{world}, {report['seconds']:g} s, capacity {report['capacity']:g}/s"
    lines = [
        f"{setting}, the fixed limit at {_LIMITED_TO:.0%} of it",
        f"{'per second':28}{'offered':>10}{'goodput':>10}{'rejected':>10}{'late':>10}{'of limit':>10}",
    ]
    lines += [
        f"{row['defence']:28}{row['offered']:10.1f}{row['goodput']:10.1f}{row['rejected']:10.1f}"
        f"{row['late']:10.1f}{row['of_limit']:10.1%}"
        for row in report["trials"]
    ]
    return "\n".join(lines)


def draw(path: str, seconds: float) -> None:
    """Draw the goodput of each defence while the load goes from half to three times the capacity."""
    from benchmarks.plots import figure  # noqa: PLC0415 - an extra that only this needs

    capacity = Capacity()
    plan = step(capacity.per_second / 2, capacity.per_second * _DRAWN_LOAD, seconds=seconds)
    with figure(path) as axes:
        for defence in DEFENCES:
            windows = list(play(trial(defence, plan, capacity), live=False).windows(_DRAWN_WINDOW_SECONDS))
            axes.plot([each.end for each in windows], [each.goodput for each in windows], label=defence.name)
        axes.axhline(capacity.per_second, color="black", linewidth=0.8, linestyle=":", label="capacity")
        axes.axvline(seconds / 4, color="grey", linewidth=0.8, linestyle="--")
        axes.set(xlabel="seconds", ylabel="answers in time, per second", ylim=(0, None))
        axes.legend(fontsize="small", loc="center right")


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each trial lasts")
    parser.add_argument("--live", action="store_true", help="run on the wall clock, over TCP")
    parser.add_argument("--plot", metavar="FILE", help="draw a step of the load into an SVG file instead")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    if options.plot:
        draw(options.plot, options.seconds)
        return 0
    report = run(seconds=options.seconds, live=options.live)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
