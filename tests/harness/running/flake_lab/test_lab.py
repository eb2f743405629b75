"""The lab on cases that a test makes up: what is run, what is counted, and what is made of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from harness.deployments.targets import NO_SERVER
from harness.planning.expectations import Entry, Expectations
from harness.planning.plan import Item, Settings
from harness.planning.result import Result, ResultStatus
from harness.running.flake_lab.cases import PassRate
from harness.running.flake_lab.lab import TRIES, FlakeLab, Repeats
from harness.world.schedule import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.running.flake_lab.cases import RepeatedCase

PASSED, FAILED, SKIPPED = ResultStatus.PASSED, ResultStatus.FAILED, ResultStatus.SKIPPED
VIRTUAL = Settings(time="virtual")
NOTHING_KNOWN = Expectations()
PERTURBED = Repeats(count=30, perturb=True)


def item(name: str) -> Item:
    return Item(f"spec/tiny::{name}", "tiny.yml", 0, "reference", "2026-07-08", "replicaset")


def met_all(ran: Item) -> tuple[str, ...]:
    """Return what a run tells when everything in its schedule took effect."""
    return tuple(f"{word}  something" for word in (ran.schedule or "").split())


@dataclass
class Runs:
    """Stands for benches: a case ends as the test says, and the last to start is the first to end."""

    end: Callable[[Item], ResultStatus]
    reason: str = "it differs\nhere"
    batches: list[list[Item]] = field(default_factory=list)

    def run(self, items: Mapping[int, Item], on_result: Callable[[int, Result], None]) -> None:
        self.batches.append(list(items.values()))
        for place in sorted(items, reverse=True):
            ran = items[place]
            status = self.end(ran)
            told = Result(ran.id, status, ran.topology, ran.adapter, ran.edition, disturbed=met_all(ran))
            on_result(place, replace(told, reason=self.reason if status is not PASSED else ""))

    def lab(
        self,
        *names: str,
        repeats: Repeats,
        settings: Settings = VIRTUAL,
        book: Expectations = NOTHING_KNOWN,
    ) -> list[RepeatedCase]:
        lab = FlakeLab(repeats, settings, {"reference": book}, self.run)
        lab.run([item(name) for name in names])
        return lab.cases


def known(kind: str) -> Expectations:
    return Expectations((Entry(kind, "spec/tiny::*", "PYTHON-1", "expected.yml:2"),))


def late_start(ran: Item) -> ResultStatus:
    """Fail when any task begins 5 ms late or more."""
    late = [each for each in parse(ran.schedule or "").perturbations if str(each).startswith("start")]
    return FAILED if any(each.ms >= 5 for each in late if hasattr(each, "ms")) else PASSED


def test_each_case_runs_so_often_with_one_seed_after_the_other() -> None:
    runs = Runs(lambda _: PASSED)
    (case, _) = runs.lab("a", "b", repeats=Repeats(count=4), settings=Settings(seed=7))
    assert [each.seed for batch in runs.batches for each in batch if each.id.endswith("a")] == [7, 8, 9, 10]
    assert {each.schedule for batch in runs.batches for each in batch} == {None}
    assert (case.rate, case.result.status) == (PassRate(4, 4), PASSED)


def test_what_does_not_apply_is_found_out_once() -> None:
    runs = Runs(lambda ran: SKIPPED if ran.id.endswith("b") else PASSED)
    case, skipped = runs.lab("a", "b", repeats=Repeats(count=5))
    assert [len(batch) for batch in runs.batches] == [2, 4]
    assert (case.is_skipped, skipped.is_skipped, skipped.result.status) == (False, True, SKIPPED)


def test_a_case_that_the_expectations_skip_never_runs(write: Callable[..., Path]) -> None:
    scenario = write('description: x\nschemaVersion: "1.0"\ntests:\n  - {description: a, operations: []}\n')
    runs = Runs(lambda _: PASSED)
    lab = FlakeLab(Repeats(count=5), VIRTUAL, {"reference": known("skip")}, runs.run)
    lab.run([replace(item("a"), path=str(scenario))])
    assert runs.batches == [[], []]
    assert (lab.cases[0].result.status, lab.cases[0].result.reason) == (SKIPPED, "PYTHON-1")


def test_the_first_failure_is_that_of_the_lowest_seed_whatever_ends_first() -> None:
    (case,) = Runs(lambda ran: FAILED if ran.seed in {3, 5, 6} else PASSED).lab("a", repeats=Repeats(count=8))
    assert case.first is not None
    assert (case.first.item.seed, case.rate) == (3, PassRate(5, 8))
    assert (case.result.status, case.reasons) == (FAILED, {"it differs": 3})
    assert (case.smallest, case.tried) == (None, 0)


def test_each_run_is_disturbed_in_a_way_of_its_own_which_its_seed_repeats() -> None:
    first, again = Runs(lambda _: PASSED), Runs(lambda _: PASSED)
    first.lab("a", "b", repeats=PERTURBED)
    again.lab("a", "b", repeats=PERTURBED)
    assert first.batches == again.batches
    schedules = [each.schedule for batch in first.batches for each in batch]
    assert len(set(schedules)) == 60
    third = Runs(lambda _: PASSED)
    third.lab("a", repeats=Repeats(perturb=True), settings=Settings(time="virtual", seed=29))
    assert third.batches[0][0] == next(each for each in first.batches[1] if each.seed == 29)


def test_cases_without_servers_are_repeated_but_there_is_nothing_to_disturb() -> None:
    runs = Runs(lambda _: PASSED)
    lab = FlakeLab(PERTURBED, VIRTUAL, {"reference": NOTHING_KNOWN}, runs.run)
    lab.run([replace(item("a"), topology=NO_SERVER)])
    assert {each.schedule for batch in runs.batches for each in batch} == {None}
    assert lab.cases[0].rate == PassRate(30, 30)


def test_one_schedule_for_all_runs_is_not_searched() -> None:
    runs = Runs(lambda _: FAILED)
    (case,) = runs.lab("a", repeats=Repeats(count=3, schedule="start:1=5ms"))
    assert {each.schedule for batch in runs.batches for each in batch} == {"start:1=5ms"}
    assert (case.rate, case.smallest) == (PassRate(0, 3), None)


def test_the_smallest_schedule_that_fails_is_found_for_every_case_that_failed() -> None:
    failing, robust = Runs(lambda ran: late_start(ran) if ran.id.endswith("a") else PASSED).lab(
        "a", "b", repeats=PERTURBED
    )
    assert failing.first is not None
    assert failing.smallest is not None
    (culprit,) = parse(failing.smallest.item.schedule or "").perturbations
    assert str(culprit).startswith("start:")
    assert str(culprit).endswith("=5ms")
    assert failing.smallest.item.seed == failing.first.item.seed
    assert failing.tried > 1
    assert (robust.first, robust.tried) == (None, 0)


def test_perturbations_that_met_nothing_are_left_out_from_the_start() -> None:
    runs = Runs(lambda _: FAILED)
    runs.lab("a", repeats=Repeats(perturb=True))
    drawn = runs.batches[0][0].schedule
    assert runs.batches[2][0].schedule == drawn  # here, all met something
    nothing_met = Runs(lambda _: FAILED)

    def run(items: Mapping[int, Item], on_result: Callable[[int, Result], None]) -> None:
        nothing_met.run(items, lambda place, result: on_result(place, replace(result, disturbed=())))

    FlakeLab(Repeats(perturb=True), Settings(time="virtual"), {"reference": Expectations()}, run).run(
        [item("a")]
    )
    assert nothing_met.batches[2][0].schedule == ""


def test_in_real_time_a_schedule_is_tried_several_times_and_fails_when_it_fails_once() -> None:
    tries: dict[str | None, int] = {}

    def every_third(ran: Item) -> ResultStatus:
        tries[ran.schedule] = tries.get(ran.schedule, 0) + 1
        return late_start(ran) if tries[ran.schedule] % 3 == 1 else PASSED

    (case,) = Runs(every_third).lab("a", repeats=PERTURBED, settings=Settings(time="real"))
    assert case.smallest is not None
    assert (case.smallest.failed, case.smallest.runs) == (2, TRIES["real"])


def test_a_schedule_that_does_not_fail_again_says_so_by_having_no_smallest() -> None:
    tries: Counter[str | None] = Counter()

    def once(ran: Item) -> ResultStatus:
        tries[ran.schedule] += 1
        return late_start(ran) if tries[ran.schedule] == 1 else PASSED

    (case,) = Runs(once).lab("a", repeats=PERTURBED)
    assert case.first is not None
    assert (case.smallest, case.tried) == (None, 1)


def test_flaky_cases_are_counted_but_neither_fail_the_run_nor_are_searched() -> None:
    (case,) = Runs(late_start).lab("a", repeats=PERTURBED, book=known("flaky"))
    assert 0 < case.rate.passed < 30
    assert (case.result.status, case.result.reason) == (ResultStatus.KNOWN_FAILING, "PYTHON-1")
    assert case.tried == 0


def test_what_is_known_to_fail_may_fail_every_time() -> None:
    (case,) = Runs(lambda _: FAILED).lab("a", repeats=PERTURBED, book=known("known-failing"))
    assert (case.rate, case.result.status) == (PassRate(0, 30), ResultStatus.KNOWN_FAILING)
    assert case.tried == 0


def test_what_is_known_to_fail_must_not_pass_sometimes() -> None:
    (case,) = Runs(late_start).lab("a", repeats=PERTURBED, book=known("known-failing"))
    assert case.result.status is ResultStatus.UNEXPECTED_PASS
    assert case.result.reason == (
        f"it passed in {case.rate.passed} of 30 runs,"
        " but expected.yml:2 says that it fails (PYTHON-1): it is flaky"
    )


def test_an_interrupted_lab_knows_what_it_has_seen() -> None:
    def tired(ran: Item) -> ResultStatus:
        if ran.seed == 2:
            raise KeyboardInterrupt
        return PASSED

    lab = FlakeLab(Repeats(count=5), Settings(), {"reference": Expectations()}, Runs(tired).run)
    with pytest.raises(KeyboardInterrupt):
        lab.run([item("a")])
    assert lab.cases[0].rate == PassRate(3, 3)
