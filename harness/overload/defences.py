"""Goodput under more load than a server can take: undefended, with a limit, and governed by a policy.

Goodput is answers a second that came within the clients' patience of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.overload.plan import step
from harness.overload.played import capacity, play
from harness.overload.policy import Aimd, FollowThroughput
from harness.overload.trial import Trial
from harness.report import plots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.overload.plan import Plan
    from harness.overload.policy import Policy
    from harness.overload.trial import Capacity, LoadWindow

_LIMITED_TO: Final = 0.9
"""The rate of the fixed limit, as a part of the capacity."""

_OVERLOAD: Final = 10
"""The load of the table, in capacities."""

_DRAWN_LOADS: Final = (0.5, 3)
_DRAWN_WINDOW_SECONDS: Final = 1.0


class Defence(NamedTuple):
    """What stands between the load and the server."""

    name: str
    policy: Callable[[], Policy] | None = None
    limited: bool = False


DEFENCES: Final = (
    Defence("no limiter"),
    Defence("fixed limit", limited=True),
    Defence("policy: AIMD", Aimd),
    Defence("policy: follow throughput", FollowThroughput),
)


def _trial(defence: Defence, plan: Plan, able: Capacity) -> Trial:
    limit: Mapping[str, Any] = {
        "ingressRequestRateLimiterEnabled": True,
        "ingressRequestAdmissionRatePerSec": round(able.per_second * _LIMITED_TO),
        "ingressRequestAdmissionBurstCapacitySecs": 0.1,
    }
    return Trial(plan=plan, policy=defence.policy, capacity=able, parameters=limit if defence.limited else {})


def report(*, seconds: float, live: bool) -> dict[str, Any]:
    """Try each defence for so many seconds of a steady overload, and return a document of numbers."""
    able = capacity(live=live)
    offered = able.per_second * _OVERLOAD
    rows = []
    for defence in DEFENCES:
        plan = step(offered, offered, seconds=seconds)
        window = play(_trial(defence, plan, able), live=live).window(0, seconds)
        rows.append(
            {
                "defence": defence.name,
                "offered": window.offered,
                "goodput": window.goodput,
                "rejected": window.rejected,
                "late": window.late,
                "of_limit": window.goodput / (able.per_second * _LIMITED_TO),
            }
        )
    return {"live": live, "seconds": seconds, "capacity": able.per_second, "trials": rows}


def table(report: Mapping[str, Any]) -> str:
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


def picture(seconds: float) -> str:
    """Return an SVG of each defence's goodput while the load goes from half to three times the capacity.

    Raises `MissingPlotsError`.
    """
    plots.check()
    able = capacity(live=False)
    low, high = (able.per_second * load for load in _DRAWN_LOADS)
    lines = {defence.name: _windows(defence, step(low, high, seconds=seconds), able) for defence in DEFENCES}

    def draw(axes: Any) -> None:
        for colour, (name, windows) in zip(plots.COLOURS, lines.items(), strict=False):
            ends, goodputs = [each.end for each in windows], [each.goodput for each in windows]
            axes.plot(ends, goodputs, label=name, color=colour)
        axes.axhline(able.per_second, color="black", linewidth=0.8, linestyle=":", label="capacity")
        axes.axvline(seconds / 4, color="grey", linewidth=0.8, linestyle="--")
        axes.set(xlabel="seconds", ylabel="answers in time, per second", ylim=(0, None))
        axes.legend(fontsize="small", loc="center right")

    return plots.svg(draw)


def _windows(defence: Defence, plan: Plan, able: Capacity) -> Sequence[LoadWindow]:
    return list(play(_trial(defence, plan, able), live=False).windows(_DRAWN_WINDOW_SECONDS))
