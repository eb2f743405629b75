"""In virtual time a case that is skipped needs no servers, once some have been seen."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from harness.deployments.embedded import embedded
from harness.planning.plan import Item, Settings
from harness.planning.result import ResultStatus
from harness.running.executor import ExecutorParts, ItemExecutor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenario_files import WriteScenario


class Counted:
    """Real deployments, counted."""

    def __init__(self) -> None:
        self.started = 0

    @property
    def parts(self) -> ExecutorParts:
        return ExecutorParts(deployment=self.deployment)

    @asynccontextmanager
    async def deployment(self, *where: Any, **ports: Any) -> AsyncIterator[Any]:
        self.started += 1
        async with embedded(*where, **ports) as deployment:
            yield deployment


def items(scenario: Path, topology: str, *, count: int) -> list[Item]:
    return [
        Item(f"spec/tiny::{index}", str(scenario), index, "reference", "2026-02-20", topology)
        for index in range(count)
    ]


ELSEWHERE = "topologies: [sharded]"


def test_cases_that_are_skipped_start_one_deployment_of_each_kind(write_scenario: WriteScenario) -> None:
    counted, scenario = Counted(), write_scenario("a", "b", "c", requires=ELSEWHERE)
    with ItemExecutor(Settings(time="virtual"), counted.parts) as executor:
        for topology in ("replicaset", "single", "replicaset"):
            for item in items(scenario, topology, count=3):
                assert executor.run(item).status is ResultStatus.SKIPPED
    assert counted.started == 2


@pytest.mark.parametrize(
    "requires",
    [ELSEWHERE, 'minServerVersion: "9.9"', 'maxServerVersion: "4.2"'],
)
def test_a_result_is_the_same_with_servers_and_without(write_scenario: WriteScenario, requires: str) -> None:
    scenario = write_scenario("a", "b", requires=requires)
    _, second = items(scenario, "replicaset", count=2)
    with ItemExecutor(Settings(time="virtual")) as executor:
        with_servers = executor.run(second)
        without = executor.run(second)
    assert with_servers.status is ResultStatus.SKIPPED
    assert without == with_servers


def test_a_case_that_applies_after_one_that_was_skipped_runs(write_scenario: WriteScenario) -> None:
    skipped = write_scenario("a", name="skipped", requires=ELSEWHERE)
    (first,), (second,) = (
        items(path, "replicaset", count=1) for path in (skipped, write_scenario("b", name="runs"))
    )
    with ItemExecutor(Settings(time="virtual")) as executor:
        assert executor.run(first).status is ResultStatus.SKIPPED
        assert executor.run(second).status is ResultStatus.PASSED


@pytest.mark.parametrize("wanted", ["journal", "detail"])
def test_with_every_detail_wanted_each_case_has_servers(
    write_scenario: WriteScenario, tmp_path: Path, wanted: str
) -> None:
    counted, scenario = Counted(), write_scenario("a", "b", requires=ELSEWHERE)
    all_details = (
        Settings(time="virtual", journal_dir=str(tmp_path))
        if wanted == "journal"
        else Settings(time="virtual", detail="all")
    )
    with ItemExecutor(all_details, counted.parts) as executor:
        for item in items(scenario, "replicaset", count=2):
            executor.run(item)
    assert counted.started == 2
