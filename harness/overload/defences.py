"""Goodput under more load than a server can take: undefended, with a limit, and governed by a policy.

Goodput is answers a second that came within the clients' patience of a second.

The table is of a steady load of ten times the capacity from a cold start, which is the hardest for a policy
that does not know the capacity. The picture is of another plan, from half to three times, so that the
collapse itself is to be seen; it is always in virtual time, and costs one trial for each defence more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.overload.plan import step
from harness.overload.policy import Aimd, FollowThroughput
from harness.overload.trial import Trial, capacity, play
from harness.report.fitting import aligned
from harness.report.pages import chart, frame
from harness.report.pages.chart import Instant, Level, Line, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.overload.plan import Plan
    from harness.overload.policy import Policy
    from harness.overload.trial import Capacity

_LIMITED_TO: Final = 0.9
"""The rate of the fixed limit, as a part of the capacity."""

_OVERLOAD: Final = 10
"""The load of the table, in capacities."""

_DRAWN_LOADS: Final = (0.5, 3)
"""The loads of the picture before and after its step, in capacities."""

_DRAWN_WINDOW_SECONDS: Final = 1.0


class Defence(NamedTuple):
    """A defence that stands between the load and the server."""

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


def report(*, seconds: float, live: bool, on_trial: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Try each defence for so many seconds of a steady overload, and return a document of numbers.

    `on_trial` hears of each trial that has ended.
    """
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
        on_trial()
    return {"live": live, "seconds": seconds, "capacity": able.per_second, "trials": rows}


def table(report: Mapping[str, Any], width: int | None = None) -> str:
    """Return a report as text; its rows are cards beyond a width."""
    return "\n".join([_setting(report), *aligned([_HEADINGS, *_rows(report)], width, words=1)])


_HEADINGS: Final = ("per second", "offered", "goodput", "rejected", "late", "of limit")


def _rows(report: Mapping[str, Any]) -> list[Sequence[str]]:
    return [
        (
            row["defence"],
            *(f"{row[name]:.1f}" for name in ("offered", "goodput", "rejected", "late")),
            f"{row['of_limit']:.1%}",
        )
        for row in report["trials"]
    ]


def _setting(report: Mapping[str, Any]) -> str:
    world = "live" if report["live"] else "virtual time"
    setting = f"{world}, {report['seconds']:g} s, capacity {report['capacity']:g}/s"
    return f"{setting}, the fixed limit at {_LIMITED_TO:.0%} of it"


_TITLE: Final = "Goodput while the load goes from half to three times the capacity"


def picture(seconds: float) -> str:
    """Return an SVG of each defence's goodput while the load goes from half to three times the capacity."""
    return chart.file([panel(seconds)], title=_TITLE)


def page(report: Mapping[str, Any], seconds: float) -> str:
    """Return a page with the table of a report and the picture."""
    many = f"Under {_OVERLOAD} times the load that the server can take"
    return frame.page(
        "Goodput under overload",
        [
            frame.section(
                many, frame.table(_HEADINGS, _rows(report), caption=f"{many}: requests per second")
            ),
            frame.section(_TITLE, frame.panels([panel(seconds)], title=_TITLE)),
        ],
        facts=f"{_setting(report)}. Goodput is answers a second within the clients' patience.",
    )


def panel(seconds: float) -> Panel:
    """Return the chart of each defence's goodput, for so many seconds of virtual time."""
    able = capacity(live=False)
    low, high = (able.per_second * load for load in _DRAWN_LOADS)
    plan = step(low, high, seconds=seconds)
    return Panel(
        title="Answers in time",
        x="seconds of virtual time",
        y="per second",
        lines=[
            Line(defence.name, _goodput(defence, plan, able), chart.SERIES[number], dash=number)
            for number, defence in enumerate(DEFENCES)
        ],
        instants=[Instant(seconds / 4, "three times the capacity from here on")],
        levels=[Level(able.per_second, "capacity")],
        x_least=0.0,
        x_most=seconds,
    )


def _goodput(defence: Defence, plan: Plan, able: Capacity) -> list[tuple[float, float]]:
    return [
        (each.end, each.goodput)
        for each in play(_trial(defence, plan, able), live=False).windows(_DRAWN_WINDOW_SECONDS)
    ]
