from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedDeployment

from driver.editions import DEFAULT
from driver.editions import EDITIONS as DRIVER_EDITIONS
from harness.adapters import ADAPTERS, make_adapter
from harness.adapters.base import Feature
from harness.adapters.registry import DRIVERS, EDITIONS
from harness.planning.plan import Settings, cost, load_all, longest_first, plan
from harness.running.run import jobs_for

if TYPE_CHECKING:
    from scenario_files import WriteScenario

TWO_DRIVERS = {"reference": "2026-02-20", "pymongo-async": "2026-07-08"}
FAST = "[]"
BLOCKING = (
    "[{name: failPoint, object: testRunner, arguments: {client: c, failPoint: "
    "{configureFailPoint: failCommand, mode: off, data: {blockTimeMS: 250}}}}]"
)
SLOW = "[{name: wait, object: testRunner, arguments: {ms: 500}}]"


def test_a_plan_has_every_case_with_every_driver_on_every_topology_driver_by_driver(
    write_scenario: WriteScenario,
) -> None:
    scenarios = load_all([write_scenario("a", "b")])
    items = plan(scenarios.cases, drivers=TWO_DRIVERS, topologies=["single", "replicaset"])
    assert [(item.adapter, item.edition, item.topology, item.id[-1]) for item in items] == [
        (adapter, edition, topology, case)
        for adapter, edition in TWO_DRIVERS.items()
        for topology in ("single", "replicaset")
        for case in "ab"
    ]


def test_an_item_leads_back_to_its_case(write_scenario: WriteScenario) -> None:
    scenarios = load_all([write_scenario("a", "b", name="x"), write_scenario("a", name="y")])
    for item in plan(scenarios.cases, drivers=TWO_DRIVERS, topologies=["single"]):
        assert item.case().id == item.id


def test_only_wanted_cases_are_planned(write_scenario: WriteScenario) -> None:
    scenarios = load_all([write_scenario("a", "b")])
    wanted = plan(
        scenarios.cases, drivers=TWO_DRIVERS, topologies=["single"], wanted=lambda name: name[-1] == "b"
    )
    assert [item.id for item in wanted] == ["spec/tiny::b"] * 2


def test_a_broken_file_does_not_hide_the_others(write_scenario: WriteScenario) -> None:
    broken = write_scenario("a", name="broken", operations="[{}]")
    scenarios = load_all([broken, write_scenario("b", name="sound")])
    assert [case.description for case in scenarios.cases] == ["b"]
    assert len(scenarios.complaints) == 1
    assert scenarios.complaints[0].startswith(f"{broken}:5")


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (FAST, 0),
        (SLOW, 501),
        ("[{name: ping, object: testRunner}, {name: ping, object: testRunner}]", 2),
        (BLOCKING, 251),
    ],
)
def test_the_cost_of_a_case_is_what_it_says_it_waits_and_its_operations(
    write_scenario: WriteScenario, operations: str, expected: int
) -> None:
    (case,) = load_all([write_scenario("a", operations=operations)]).cases
    assert cost(case) == expected


def test_the_longest_case_starts_first_and_equals_keep_their_order(write_scenario: WriteScenario) -> None:
    files = [write_scenario("a", "b", name="x"), write_scenario("c", name="y", operations=SLOW)]
    items = plan(load_all(files).cases, drivers={"reference": "2026-02-20"}, topologies=["single"])
    assert longest_first(dict(enumerate(items))) == [2, 0, 1]


FIND = "{name: find, object: c, arguments: {filter: {}}}"


def overload(mode: str) -> str:
    data = "{failCommands: [find], errorCode: 462, errorLabels: [SystemOverloadedError, RetryableError]}"
    fail_point = f"{{configureFailPoint: failCommand, mode: {mode}, data: {data}}}"
    return f"{{name: failPoint, object: testRunner, arguments: {{client: c, failPoint: {fail_point}}}}}"


def test_the_more_often_a_driver_is_refused_the_longer_it_waits(write_scenario: WriteScenario) -> None:
    repeated = f"{{name: repeat, object: testRunner, arguments: {{times: 3, operations: [{FIND}]}}}}"
    shortest_first = [
        f"[{overload('{times: 1}')}]",
        f"[{overload('{times: 4}')}, {FIND}]",
        f"[{overload('alwaysOn')}, {FIND}]",
        f"[{overload('alwaysOn')}, {repeated}]",
    ]
    files = [
        write_scenario("a", name=f"file{place}", operations=operations)
        for place, operations in enumerate(shortest_first)
    ]
    items = plan(load_all(files).cases, drivers={"reference": "2026-02-20"}, topologies=["single"])
    assert longest_first(dict(enumerate(items))) == [3, 2, 1, 0]


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_few_items_are_not_worth_a_process(time: str) -> None:
    settings = Settings(time="virtual" if time == "virtual" else "real")
    assert jobs_for(0, settings) == 1
    assert jobs_for(11, settings) == 1
    assert jobs_for(100_000, settings) >= 1


@pytest.mark.parametrize("name", DRIVERS)
def test_what_is_registered_of_a_driver_is_what_its_adapter_declares(name: str) -> None:
    async def declared() -> frozenset[Feature]:
        adapter = make_adapter(name, ScriptedDeployment())
        await adapter.aclose()
        return adapter.features

    assert DRIVERS[name].virtual_time is (Feature.VIRTUAL_TIME in asyncio.run(declared()))


def test_all_adapters_are_registered() -> None:
    assert set(DRIVERS) == set(ADAPTERS)


def test_the_reference_driver_offers_its_editions_and_its_own_default_first() -> None:
    assert set(DRIVERS["reference"].editions) == set(DRIVER_EDITIONS) == set(EDITIONS)
    assert DRIVERS["reference"].editions[0] == DEFAULT.name
