from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fakeserver.deployment.records.events import ConnectionClosed
from fakeserver.deployment.records.journal import Journal
from harness.adapters.base import Event
from harness.planning.plan import Item, Settings
from harness.planning.result import ResultStatus
from harness.running.executor import ExecutorParts, ItemExecutor
from harness.unified.matching.matcher import Mismatch
from harness.unified.outcome import CaseOutcome, Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from scenario_files import WriteScenario

    from harness.unified.account import Account
    from harness.unified.model import Case
    from mongowire.ports import Clock, Rng


@dataclass
class ScriptedDeployment:
    clock: Clock
    rng: Rng
    journal: Journal = field(default_factory=Journal)
    server_version: tuple[int, ...] = (8, 2, 0)
    wire_record: None = None
    is_marked: bool = False

    def with_rng(self, rng: Rng) -> ScriptedDeployment:
        return replace(self, rng=rng)

    async def recover(self) -> bool:
        return False

    def say(self) -> None:
        self.journal.append(self.clock.now(), "node0", ConnectionClosed(1, self.rng.randbytes(4).hex()))


class ScriptedAdapter:
    async def aclose(self) -> None:
        pass


class LeakingAdapter:
    async def aclose(self) -> None:
        raise ConnectionError("cannot close")


@dataclass
class Script:
    """Parts whose cases do what the test says, and which counts what was started and stopped."""

    play: Callable[[ScriptedDeployment, Case], Awaitable[CaseOutcome]]
    started: int = 0
    stopped: int = 0
    editions: list[str] = field(default_factory=list)

    @property
    def parts(self) -> ExecutorParts:
        return ExecutorParts(self.deployment, adapter=self.adapter, run_case=self.run_case)

    @asynccontextmanager
    async def deployment(self, *_: Any, clock: Clock, rng: Rng, **__: Any) -> AsyncIterator[Any]:
        self.started += 1
        yield ScriptedDeployment(clock, rng)
        self.stopped += 1

    def adapter(self, _name: str, _deployment: Any, *, edition: str) -> Any:
        self.editions.append(edition)
        return ScriptedAdapter()

    async def run_case(self, case: Case, *, deployment: Any, account: Account, **_: Any) -> CaseOutcome:
        outcome = await self.play(deployment, case)
        account.clients = {name: partial(tuple, events) for name, events in (outcome.events or {}).items()}
        return outcome


PASSED = CaseOutcome(Status.PASSED)


async def passes(_deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
    return PASSED


async def fails(deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
    mismatch = Mismatch("a.b", 1, 2, "the numbers differ")
    command = {"insert": "stock", "lsid": {}, "$clusterTime": {}}
    now = deployment.clock.now()
    events = {"client0": (Event("commandStartedEvent", {"commandName": "insert", "command": command}, now),)}
    return CaseOutcome(Status.FAILED, "wrong", mismatch, events=events)


async def errs(_deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
    return CaseOutcome(Status.ERROR, "no such entity")


async def breaks(_deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
    raise LookupError("a defect")


async def sleeps(deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
    await deployment.clock.sleep_until(deployment.clock.now() + 1.5)
    deployment.say()
    return PASSED


async def waits_for_nothing(_deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
    await asyncio.get_running_loop().create_future()
    return PASSED


def items(scenario: Path, *, count: int = 1, topology: str = "replicaset") -> list[Item]:
    return [
        Item(f"spec/tiny::{index}", str(scenario), index, "reference", "2026-07-08", topology)
        for index in range(count)
    ]


def test_in_real_time_one_deployment_serves_all_cases_of_a_topology(write_scenario: WriteScenario) -> None:
    script, scenario = Script(passes), write_scenario("a", "b")
    with ItemExecutor(Settings(), script.parts) as executor:
        for item in (*items(scenario, count=2), *items(scenario, count=2, topology="single")):
            assert executor.run(item).status is ResultStatus.PASSED
        assert (script.started, script.stopped) == (2, 0)
    assert (script.started, script.stopped) == (2, 2)


def test_in_real_time_no_two_cases_have_the_same_dice(write_scenario: WriteScenario) -> None:
    drawn: list[float] = []

    async def draws(deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
        drawn.append(deployment.rng.spawn("client").random())
        return PASSED

    item = items(write_scenario("a"))[0]
    with ItemExecutor(Settings(), Script(draws).parts) as executor:
        executor.run(item)
        executor.run(item)
    assert len(set(drawn)) == 2


def test_a_deployment_is_replaced_after_a_case_that_failed(write_scenario: WriteScenario) -> None:
    script, scenario = Script(fails), write_scenario("a", "b")
    with ItemExecutor(Settings(), script.parts) as executor:
        for item in items(scenario, count=2):
            executor.run(item)
    assert (script.started, script.stopped) == (2, 2)


def test_a_deployment_is_replaced_after_a_case_that_left_rules(write_scenario: WriteScenario) -> None:
    async def is_skipped_in_the_middle(deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
        deployment.is_marked = True
        return CaseOutcome(Status.SKIPPED, "the driver has no clientBulkWrite")

    script, scenario = Script(is_skipped_in_the_middle), write_scenario("a", "b")
    with ItemExecutor(Settings(), script.parts) as executor:
        for item in items(scenario, count=2):
            executor.run(item)
    assert (script.started, script.stopped) == (2, 2)


def test_in_virtual_time_each_case_has_a_deployment_of_its_own(write_scenario: WriteScenario) -> None:
    script, scenario = Script(passes), write_scenario("a", "b")
    with ItemExecutor(Settings(time="virtual"), script.parts) as executor:
        for item in items(scenario, count=2):
            executor.run(item)
    assert (script.started, script.stopped) == (2, 2)


def test_a_failure_carries_what_explains_it(write_scenario: WriteScenario) -> None:
    scenario = write_scenario("a")
    with ItemExecutor(Settings(), Script(fails).parts) as executor:
        result = executor.run(items(scenario)[0])
    assert result.status is ResultStatus.FAILED
    assert (result.reason, result.mismatch) == ("wrong", "a.b: the numbers differ")
    assert (result.expected, result.actual) == ("1", "2")
    assert [moment.text for moment in result.timeline] == ['insert {"insert": "stock"}']
    assert (result.location, result.server_version) == (f"{scenario}:4", "8.2.0")


@pytest.mark.parametrize(("play", "reason"), [(errs, "no such entity"), (breaks, "LookupError: a defect")])
def test_a_scenario_or_a_harness_that_is_wrong_fails_the_case(
    write_scenario: WriteScenario, play: Callable[..., Awaitable[CaseOutcome]], reason: str
) -> None:
    with ItemExecutor(Settings(), Script(play).parts) as executor:
        result = executor.run(items(write_scenario("a"))[0])
    assert result.status is ResultStatus.FAILED
    assert reason in result.reason


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_a_case_that_does_not_end_fails_after_its_timeout(write_scenario: WriteScenario, time: Any) -> None:
    with ItemExecutor(Settings(time=time, case_timeout=0.01), Script(sleeps).parts) as executor:
        result = executor.run(items(write_scenario("a"))[0])
    assert result.status is ResultStatus.FAILED
    assert result.reason == "the case did not end within 0.01 seconds"


@pytest.mark.parametrize(("seconds", "passes"), [(0.026, True), (0.024, False)])
def test_a_case_for_virtual_time_alone_may_take_sixty_times_as_long(
    write_scenario: WriteScenario, seconds: float, *, passes: bool
) -> None:
    scenario = write_scenario("a")
    scenario.write_text(scenario.read_text() + "    pushbackd: { runOn: { time: virtual } }\n")
    with ItemExecutor(Settings(time="virtual", case_timeout=seconds), Script(sleeps).parts) as executor:
        status = executor.run(items(scenario)[0]).status
    assert status is (ResultStatus.PASSED if passes else ResultStatus.FAILED)


def test_in_virtual_time_a_case_that_can_never_end_fails_at_its_timeout(
    write_scenario: WriteScenario,
) -> None:
    with ItemExecutor(Settings(time="virtual"), Script(waits_for_nothing).parts) as executor:
        assert executor.run(items(write_scenario("a"))[0]).reason == "the case did not end within 60 seconds"


def test_in_virtual_time_servers_that_can_never_stop_fail_the_case(write_scenario: WriteScenario) -> None:
    @asynccontextmanager
    async def never_stops(*_: Any, clock: Clock, rng: Rng, **__: Any) -> AsyncIterator[Any]:
        yield ScriptedDeployment(clock, rng)
        await asyncio.get_running_loop().create_future()

    parts = replace(Script(passes).parts, deployment=never_stops)
    with ItemExecutor(Settings(time="virtual"), parts) as executor:
        result = executor.run(items(write_scenario("a"))[0])
    assert result.status is ResultStatus.FAILED
    assert result.reason.startswith("the case can never end: nothing is scheduled")


def test_a_case_that_spins_fails_alone_and_says_who_does(write_scenario: WriteScenario) -> None:
    async def spins(_deployment: ScriptedDeployment, case: Case) -> CaseOutcome:
        while "first" in case.id:
            await asyncio.wait_for(asyncio.sleep(0), None)
        return PASSED

    first, second = items(write_scenario("the first", "the second"), count=2)
    with ItemExecutor(Settings(time="virtual"), Script(spins).parts) as executor:
        results = [executor.run(first), executor.run(second)]
    assert [result.status for result in results] == [ResultStatus.FAILED, ResultStatus.PASSED]
    assert results[0].reason.startswith("the case can never end: no end after 100000 turns at 0.000000 s")
    assert "task-1: " in results[0].reason
    assert " spins > " in results[0].reason


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        (Settings(time="virtual"), 60.0),
        (Settings(time="virtual", case_timeout=0.5), 60.0),
        (Settings(time="virtual", case_timeout=3600.0), 3600.0),
        (Settings(time="real", case_timeout=0.5), 0.5),
    ],
    ids=str,
)
def test_no_case_in_virtual_time_is_ended_by_a_wall_clock_that_a_slow_machine_could_meet(
    settings: Settings, seconds: float
) -> None:
    assert settings.wall_limit == seconds


def test_a_driver_that_cannot_be_closed_fails_its_case(write_scenario: WriteScenario) -> None:
    script = Script(passes)
    leaking = replace(script.parts, adapter=lambda *_args, **_options: LeakingAdapter())  # type: ignore[arg-type]  # a fake
    with ItemExecutor(Settings(), leaking) as executor:
        result = executor.run(items(write_scenario("a"))[0])
    assert result.status is ResultStatus.FAILED
    assert "ConnectionError: cannot close" in result.reason


def test_the_driver_is_made_for_the_edition_of_the_item(write_scenario: WriteScenario) -> None:
    script = Script(passes)
    with ItemExecutor(Settings(), script.parts) as executor:
        executor.run(items(write_scenario("a"))[0])
    assert script.editions == ["2026-07-08"]


def test_in_virtual_time_the_duration_is_that_of_the_virtual_clock(write_scenario: WriteScenario) -> None:
    with ItemExecutor(Settings(time="virtual"), Script(sleeps).parts) as executor:
        assert executor.run(items(write_scenario("a"))[0]).duration_ms == 1500.0


def journals(folder: Path, scenario: Path, *, seed: int = 0, order: int = 1) -> dict[str, str]:
    settings = Settings(time="virtual", seed=seed, journal_dir=str(folder))
    with ItemExecutor(settings, Script(sleeps).parts) as executor:
        for item in items(scenario, count=2)[::order]:
            executor.run(item)
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_in_virtual_time_a_journal_depends_on_the_seed_and_the_case_alone(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    scenario = write_scenario("a", "b")
    first = journals(tmp_path / "1", scenario)
    assert journals(tmp_path / "2", scenario, order=-1) == first
    assert len(set(first.values())) == 2
    assert not set(journals(tmp_path / "3", scenario, seed=1).values()) & set(first.values())


def test_in_real_time_a_journal_holds_the_records_of_its_own_case_only(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    async def speaks(deployment: ScriptedDeployment, _case: Case) -> CaseOutcome:
        deployment.say()
        return PASSED

    settings = Settings(journal_dir=str(tmp_path / "journals"))
    with ItemExecutor(settings, Script(speaks).parts) as executor:
        for item in items(write_scenario("a", "b", "c"), count=3):
            executor.run(item)
    assert [path.read_text().count("\n") for path in (tmp_path / "journals").iterdir()] == [1, 1, 1]


def test_a_case_that_passes_and_that_nobody_asks_about_costs_no_timeline(
    write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr("harness.running.executor.CaseTimeline.of", lambda *_, **__: made.append(1))
    with ItemExecutor(Settings(), Script(passes).parts) as executor:
        assert executor.run(items(write_scenario("a"))[0]).status is ResultStatus.PASSED
    assert made == []
