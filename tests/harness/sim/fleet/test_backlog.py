"""A server that stood still hears those who still wait, and a few of those who have gone."""

from __future__ import annotations

import pytest

from harness.sim.fleet import simulate
from harness.sim.fleet.scenario import Closed, Outage, Scenario, Servers, Service
from harness.sim.fleet.strategies import Fixed

STILL = Outage(start=0.001, end=9)


def heard(backlog: int) -> float:
    """Return how many requests a server hears after a pause in which 100 clients asked again and again."""
    service = Service(base=60)  # nothing is done before the end
    scenario = Scenario(
        clients=100,
        seconds=10,
        arrivals=Closed(gap=2),
        fleet=((1.0, Fixed(interval=0.1)),),
        servers=Servers(service=service, abandoned="never", backlog=backlog),
        timeout=1,
        outages=(STILL,),
    )
    columns = simulate(scenario, engine="plain").columns
    return columns["concurrency"][-1] - columns["started"][-1]


def test_whoever_still_waits_is_heard_whatever_the_backlog() -> None:
    # A client waits for 1 s of each 1.1 s.
    assert heard(0) == pytest.approx(91, abs=7)


@pytest.mark.parametrize("backlog", [1, 40, 400])
def test_of_those_who_have_gone_as_many_are_heard_as_the_backlog_held(backlog: int) -> None:
    assert heard(backlog) == heard(0) + backlog
