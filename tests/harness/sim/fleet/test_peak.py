"""The most requests at a time are counted at every arrival and departure, on every tier, and not sampled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleets import TIERS, Tier, article, scenarios
from hypothesis import given, settings

from harness.sim.fleet import simulate
from harness.sim.fleet.scenario import Open, Outage, Scenario, Servers, Service
from harness.sim.fleet.strategies import Exponential

WAITING = article(100, Exponential(), seconds=60)
"""A server that goes on at 50 s."""


@pytest.mark.parametrize("tier", TIERS.values(), ids=TIERS)
def test_all_who_waited_for_a_stopped_server_are_at_it_at_once_when_it_goes_on(tier: Tier) -> None:
    outcome = tier(WAITING)
    waited = outcome.columns["queue"][49]
    assert waited > 30
    assert outcome.columns["peak_concurrency"][50] >= waited
    assert max(outcome.columns["concurrency"]) < waited, "a sample at the end of a window does not see them"
    assert outcome.peak_concurrency == simulate(WAITING, engine="plain").peak_concurrency


@pytest.mark.slow
@given(scenarios())
@settings(deadline=None, max_examples=20)
def test_the_peak_is_the_same_whatever_the_length_of_a_window(scenario: Scenario) -> None:
    longer, shorter = (
        simulate(replace(scenario, window=window), engine="plain") for window in (scenario.seconds, 0.02)
    )
    assert longer.peak_concurrency == shorter.peak_concurrency
    columns = shorter.columns
    ends = [0.0, *columns["concurrency"]]
    for before, after, most in zip(ends, columns["concurrency"], columns["peak_concurrency"], strict=False):
        assert most >= max(before, after)


def test_a_peak_that_lasts_for_a_tenth_of_a_second_is_seen_and_a_crash_ends_it() -> None:
    scenario = replace(
        article(10, Exponential()),
        clients=500,
        seconds=4.0,
        arrivals=Open(rate=100),
        servers=Servers(service=Service(base=0.05, recompute=0.0, limit=1000), members=2),
        outages=(Outage(start=2.0, end=2.5, kind="crash"),),
    )
    outcome = simulate(scenario, engine="plain")
    before, crashed, after = (outcome.columns["peak_concurrency"][second] for second in (1, 2, 3))
    assert before >= 5
    assert after == pytest.approx(before, abs=6), "what was lost in a crash is not at work any more"
    assert crashed > 0
