"""One scenario has one course: whatever the engine, the process and its surroundings."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from fleets import STRATEGIES, article, scenarios
from hypothesis import given, settings

from harness.sim.fleet import columns as c
from harness.sim.fleet import simulate
from harness.sim.fleet.building import FleetPlan
from harness.sim.fleet.engine import advance
from harness.sim.fleet.running import plain_world
from harness.sim.fleet.strategies import Exponential

if TYPE_CHECKING:
    from harness.sim.fleet.scenario import Scenario

compiler = pytest.mark.skipif(not find_spec("numba"), reason="needs the extra `simulation`")

_PROGRAM = """
from fleets import article
from harness.sim.fleet import simulate
from harness.sim.fleet.strategies import Exponential
print(simulate(article(20, Exponential(), seconds=25, seed=5), engine="plain").trace)
"""


@compiler
@pytest.mark.slow
@given(scenarios())
@settings(deadline=None, max_examples=30)
def test_plain_and_compiled_engine_have_the_same_course(scenario: Scenario) -> None:
    plain, compiled = (simulate(scenario, engine=engine) for engine in ("plain", "compiled"))
    assert plain == compiled


@compiler
@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_engines_agree_on_the_articles_scenario(strategy: object) -> None:
    scenario = article(30, strategy, seconds=60)  # type: ignore[arg-type]
    assert simulate(scenario, engine="plain") == simulate(scenario, engine="compiled")


@pytest.mark.slow
@given(scenarios())
@settings(deadline=None, max_examples=20)
def test_every_attempt_ends_once_or_is_still_under_way(scenario: Scenario) -> None:
    world = plain_world(FleetPlan(scenario))
    advance(world, world.numbers[c.TICKS])
    numbers = world.numbers
    count = [
        sum(numbers[numbers[c.WINDOWS_AT] + row * c.COUNTED + kind] for row in range(numbers[c.WINDOWS]))
        for kind in range(c.COUNTED)
    ]
    events = [world.clients[client * c.ROW + c.EVENT] for client in range(scenario.clients)]
    retries = [world.clients[client * c.ROW + c.RETRY] for client in range(scenario.clients)]
    asking = sum(event > c.WAKE for event in events)
    between = sum(event == c.WAKE and retry > 0 for event, retry in zip(events, retries, strict=True))
    assert count[c.ATTEMPTS] == count[c.OK] + count[c.ERRORS] + count[c.TIMED_OUT] + asking
    assert count[c.OFFERED] == count[c.OK] + count[c.FAILED] + asking + between
    assert count[c.REJECTED] <= count[c.ERRORS]


@pytest.mark.slow
@given(scenarios())
@settings(deadline=None, max_examples=20)
def test_what_a_server_works_on_is_what_it_counts(scenario: Scenario) -> None:
    world = plain_world(FleetPlan(scenario))
    advance(world, world.numbers[c.TICKS])
    numbers, slots = world.numbers, world.slots
    for member in range(scenario.servers.members):
        gone = _left(world, member)
        at_work = _those(world, member, {c.ANSWER, c.EXAMINED, c.DECIDED})
        waits = _those(world, member, {c.QUEUED})
        own = c.MEMBERS_AT + member * c.MEMBER
        if numbers[c.SERVICE] != c.LOOKS and numbers[c.ABANDONED] != c.AT_ONCE and scenario.timeout:
            # Work that ends after the last tick is nowhere but in the count.
            assert numbers[own + c.CONCURRENCY] >= at_work + gone
        else:
            assert numbers[own + c.CONCURRENCY] == at_work + gone
        assert numbers[own + c.TICKET_QUEUE + c.LENGTH] >= waits
        if scenario.servers.tickets:
            assert numbers[own + c.CONCURRENCY] <= scenario.servers.tickets
    members = range(c.MEMBERS_AT, c.MEMBERS_AT + scenario.servers.members * c.MEMBER, c.MEMBER)
    assert numbers[c.AT_WORK] == sum(numbers[own + c.CONCURRENCY] for own in members)
    assert all(slot >= -1 for slot in slots)


def _those(world: c.FleetWorld, member: int, events: set[int]) -> int:
    rows = range(0, len(world.clients), c.ROW)
    return sum(
        world.clients[row + c.EVENT] in events and world.clients[row + c.AT] % c.GATE == member
        for row in rows
    )


def _left(world: c.FleetWorld, member: int) -> int:
    """Count the requests at a member whose clients have gone, as far as they end before the last tick."""
    numbers, left = world.numbers, 0
    if numbers[c.SERVICE] == c.LOOKS:
        begin = numbers[c.GONE_AT] + member * numbers[c.TICKS]
        left += sum(world.slots[begin : begin + numbers[c.TICKS]])
    if numbers[c.HAS_RINGS]:
        begin = numbers[c.LEAVING_AT] + member * (numbers[c.WHEEL] + 1)
        left += sum(world.slots[begin : begin + numbers[c.WHEEL] + 1])
    return left


@pytest.mark.slow
def test_neither_hash_seed_nor_time_zone_matter() -> None:
    expected = simulate(article(20, Exponential(), seconds=25, seed=5), engine="plain").trace
    for surroundings in ({"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"}, {"PYTHONHASHSEED": "2", "TZ": "UTC"}):
        environment = {**os.environ, **surroundings, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", _PROGRAM]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == expected


def test_another_seed_is_another_course() -> None:
    traces = {
        simulate(article(20, Exponential(), seconds=5, seed=seed), engine="plain").trace for seed in range(3)
    }
    assert len(traces) == 3
