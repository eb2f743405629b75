"""Offered load: rates, arrivals, and what could have been served."""

from __future__ import annotations

import pytest

from harness.overload import Phase, Plan, ramp, spike, step
from mongowire.system import SeededRng


@pytest.mark.parametrize(
    ("plan", "rates"),
    [
        pytest.param(step(10, 50, seconds=40), [10, 10, 50, 50, 50], id="step"),
        pytest.param(ramp(10, 50, seconds=40), [10, 20, 40, 50, 50], id="ramp"),
        pytest.param(spike(10, 50, seconds=40), [10, 10, 50, 10, 10], id="spike"),
    ],
)
def test_the_offered_load_follows_the_plan(plan: Plan, rates: list[float]) -> None:
    assert plan.seconds == 40
    assert [plan.rate(at) for at in (0, 10 - 1e-9, 20, 35, 40 - 1e-9)] == pytest.approx(
        [10, 20 - 1e-9, 40, 50, 50] if plan.name == "ramp" else rates
    )
    assert plan.rate(40) == 0


def test_arrivals_are_as_many_as_planned_and_the_same_each_time() -> None:
    plan = Plan("both", (Phase.steady(100, 10), Phase(100, 0, 100)))
    arrivals = list(plan.arrivals(SeededRng(1)))
    assert arrivals == sorted(arrivals) == list(plan.arrivals(SeededRng(1)))
    first = sum(at < 100 for at in arrivals)
    assert first == pytest.approx(1000, rel=0.1)
    assert len(arrivals) - first == pytest.approx(5000, rel=0.05)


def test_a_server_could_have_served_what_was_offered_up_to_its_capacity() -> None:
    plan = step(50, 300, seconds=40)
    assert plan.serveable(100, 0, 40) == pytest.approx(10 * 50 + 30 * 100)
    assert plan.serveable(100, 0, 10) == pytest.approx(500)
    assert Plan("grows", (Phase(10, 0, 200),)).serveable(100, 0, 10) == pytest.approx(750, rel=0.01)
