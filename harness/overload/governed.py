"""The share of a server's capacity that each policy uses, through a step, a ramp and a spike of the load.

`of_possible` is the goodput as a part of what such a server could have answered, `at_last` that of the end
of the busy time, an eighth of the plan. The second shows what the mean hides: a policy that finds the rate
late, and one whose queue has grown until nothing is in time.

Every policy begins without knowing the capacity, so the share of the whole plan has the time of its search
in it. The plans are short against a real morning; their `seconds` weigh that search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.overload.plan import ramp, spike, step
from harness.overload.policy import POLICIES
from harness.overload.trial import Trial, capacity, play
from harness.report.fitting import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.overload.plan import Plan

_CALM: Final = 0.5
_BUSY: Final = 3
_SPIKE: Final = 5
"""The loads of the plans, in capacities."""


def _plans(per_second: float, seconds: float) -> tuple[Plan, ...]:
    calm, busy, high = per_second * _CALM, per_second * _BUSY, per_second * _SPIKE
    return (
        step(calm, busy, seconds=seconds),
        ramp(calm, busy, seconds=seconds),
        spike(calm, high, seconds=seconds),
    )


def trials(*, live: bool) -> int:
    """Return how many trials `report` runs."""
    # The seconds do not matter here: only the number of plans is asked for.
    return len(POLICIES) * len(_plans(capacity(live=live).per_second, 1.0))


def report(*, seconds: float, live: bool, on_trial: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Run every plan of so many seconds with every policy, and return a document of numbers.

    `on_trial` hears of each trial that has ended.
    """
    able = capacity(live=live)
    rows = []
    for policy in POLICIES:
        for plan in _plans(able.per_second, seconds):
            came = play(Trial(plan=plan, policy=POLICIES[policy], capacity=able), live=live)
            # A spike ends before its plan does; a step and a ramp stay busy to the end.
            busy_until = plan.seconds * (3 / 4 if plan.name == "spike" else 1)
            last = busy_until - plan.seconds / 8
            rows.append(
                {
                    "plan": plan.name,
                    "policy": policy,
                    "of_possible": came.held(),
                    "at_last": came.held(last, busy_until),
                }
            )
            on_trial()
    return {"live": live, "seconds": seconds, "capacity": able.per_second, "trials": rows}


def table(report: Mapping[str, Any], width: int | None = None) -> str:
    """Return a report as text; its rows are cards beyond a width."""
    world = "live" if report["live"] else "virtual time"
    rows = [
        (row["policy"], row["plan"], f"{row['of_possible']:.1%}", f"{row['at_last']:.1%}")
        for row in report["trials"]
    ]
    setting = f"{world}, {report['seconds']:g} s, capacity {report['capacity']:g}/s"
    return "\n".join([setting, *aligned([_HEADINGS, *rows], width, words=2)])


_HEADINGS: Final = ("policy", "plan", "of possible", "at last")
