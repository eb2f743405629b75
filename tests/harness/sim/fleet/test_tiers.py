"""A scenario has one course on all tiers: as rows of numbers, plain and compiled, and as coroutines.

The coroutines of the virtual tier decide by the driver's policy objects and by the fake's admission and
service times. So what is compared here is also the model's arithmetic with those, over whole runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fleets import SMALL, TIERS, article, scenarios_of_all_tiers
from hypothesis import example, given, settings
from virtual_fleet import play

from fakeserver.admission.service_model import ServiceModel
from harness.sim.article.parameters import Strategy
from harness.sim.article.scenario import scenario_of
from harness.sim.fleet import simulate
from harness.sim.fleet.scenario import ConnectionLimit, Open, Outage, RequestLimit, Scenario, Servers, Service
from harness.sim.fleet.strategies import Backpressure, Exponential, Fixed


def test_coroutines_over_the_real_objects_take_the_course_of_the_columns() -> None:
    outcome = play(scenario_of(SMALL, Strategy.FIXED, backlog=5))
    assert outcome == simulate(scenario_of(SMALL, Strategy.FIXED, backlog=5), engine="plain")
    assert outcome.total("timed_out") > 0
    assert outcome.total("abandoned") > 0
    assert outcome.total("completed") > outcome.total("ok") > 0


def test_a_server_that_is_buried_costs_a_look_at_one_request_of_each_round_and_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    real = ServiceModel.look

    def look(self: ServiceModel, command: str, began: float, now: float) -> float:
        nonlocal looks
        looks += 1
        return real(self, command, began, now)

    monkeypatch.setattr(ServiceModel, "look", look)
    outcome = play(scenario_of(SMALL, Strategy.FIXED, backlog=5))
    periods = SMALL.seconds / SMALL.recompute
    assert outcome.columns["concurrency"][-1] > 50, "it is buried"
    assert looks < outcome.total("completed") + 30 * periods


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Strategy)
def test_the_articles_scenario_has_one_course_on_all_tiers(strategy: Strategy) -> None:
    first, *others = (tier(scenario_of(SMALL, strategy, backlog=5)) for tier in TIERS.values())
    assert all(other == first for other in others)


@pytest.mark.slow
@example(article(30, Backpressure(token_bucket=True, sharing=4), seconds=60))
@given(scenarios_of_all_tiers())
@settings(deadline=None, max_examples=30)
def test_drawn_scenarios_have_one_course_on_all_tiers(scenario: Scenario) -> None:
    first, *others = (tier(scenario) for tier in TIERS.values())
    assert all(other == first for other in others)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("strategy", "trace"),
    [
        (Fixed(), "440338455bae3761"),
        (Exponential(), "764b00ee07d3a58d"),
        (Backpressure(token_bucket=True), "4bfb56f061788d6f"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_interpreter_takes_the_same_course(tier: str, strategy: Any, trace: str) -> None:
    scenario = article(15, strategy, seconds=40, seed=7)
    limited = replace(scenario.servers, request_limit=RequestLimit(rate=5, told_backoff=0.3))
    scenario = replace(scenario, servers=limited, outages=(Outage(start=10, end=20),))
    assert TIERS[tier](scenario).trace == trace


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"arrivals": Open(rate=3)}, "Scenario.arrivals"),
        ({"servers": Servers(members=2)}, "Servers.members"),
        ({"servers": Servers(mongos=1)}, "Servers.mongos"),
        ({"servers": Servers(connection_limit=ConnectionLimit(rate=1))}, "Servers.connection_limit"),
        ({"servers": Servers(tickets=3)}, "Servers.tickets"),
        ({"servers": Servers(request_limit=RequestLimit(rate=1, queue=2))}, "RequestLimit.queue"),
        ({"servers": Servers(service=Service(workers=2))}, "Service.workers"),
        ({"servers": Servers(service=Service(recompute=0))}, "Service.recompute"),
        ({"outages": (Outage(start=1, end=2, kind="crash"),)}, "Outage.kind"),
        ({"seconds": 5000.0}, "Scenario.seconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_virtual_tier_does_not_have_is_refused(changed: dict[str, Any], field: str) -> None:
    scenario = replace(article(5, Fixed()), timeout=None, **changed)
    with pytest.raises(ValueError, match=f"{field}: the virtual tier has one server"):
        play(scenario)
