from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.planning.plan import Item, Settings
from harness.planning.result import Result, ResultStatus
from harness.running import run
from harness.running.run import MOST_LATE, Patience, run_patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PASSED, FAILED = ResultStatus.PASSED, ResultStatus.FAILED


def item(number: int) -> Item:
    return Item(f"spec/tiny::{number}", "tiny.yml", number, "pymongo", "2026-07-08", "single")


class Cases:
    """Cases that fail so often; what ran in each turn, and what was told of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: int) -> None:
        self._left = list(failures)
        self.items = {place: item(place) for place in range(len(failures))}
        self.turns: list[tuple[int, list[int]]] = []
        self.told: list[tuple[int, ResultStatus]] = []
        self.runs: dict[int, int] = {}
        monkeypatch.setattr(run, "run_items", self._run)

    def _run(
        self,
        items: Mapping[int, Item],
        settings: Settings,
        *,
        jobs: int,
        on_result: Callable[[int, Result], None],
        scheduler: str | None = None,
    ) -> None:
        if items:
            self.turns.append((jobs, list(items)))
        for place, each in items.items():
            status = FAILED if self._left[place] > 0 else PASSED
            self._left[place] -= 1
            on_result(place, Result(each.id, status, each.topology, each.adapter, each.edition))

    def run(self, *, flaky: bool = True, late: bool = False, reruns: int = 2) -> None:
        run_patiently(
            self.items,
            Settings(),
            jobs=4,
            on_result=self._tell,
            patience=Patience(lambda _: flaky, lambda _: late, reruns),
        )

    def _tell(self, place: int, result: Result) -> None:
        self.told.append((place, result.status))
        self.runs[place] = result.runs


def test_flaky_failures_run_again_alone_after_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases(monkeypatch, 0, 1, 2, 3)
    cases.run()
    assert cases.turns == [(4, [0, 1, 2, 3]), (1, [1, 2, 3]), (1, [2, 3])]
    assert cases.told == [(0, PASSED), (1, PASSED), (2, PASSED), (3, FAILED)]


def test_another_failure_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases(monkeypatch, 1, 0)
    cases.run(flaky=False)
    assert cases.turns == [(4, [0, 1])]
    assert cases.told == [(0, FAILED), (1, PASSED)]


def test_a_case_that_was_late_passes_and_says_at_which_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases(monkeypatch, 0, 2, 3)
    cases.run(flaky=False, late=True)
    assert cases.told == [(0, PASSED), (1, PASSED), (2, FAILED)]
    assert cases.runs == {0: 1, 1: 3, 2: 3}


def test_more_failures_than_a_busy_machine_makes_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases(monkeypatch, *[1] * (MOST_LATE + 1))
    cases.run(flaky=False, late=True)
    assert [len(places) for _, places in cases.turns] == [MOST_LATE + 1]
    assert {status for _, status in cases.told} == {FAILED}


def test_with_no_reruns_the_first_failure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases(monkeypatch, 1, 0)
    cases.run(late=True, reruns=0)
    assert cases.told == [(0, FAILED), (1, PASSED)]


def test_an_interrupted_run_tells_the_failures_that_waited_for_another_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = Cases(monkeypatch, 3, 0)
    run_first = run.run_items

    def interrupted(items: Mapping[int, Item], *rest: Any, **more: Any) -> None:
        if len(items) == 1:
            raise KeyboardInterrupt
        run_first(items, *rest, **more)

    monkeypatch.setattr(run, "run_items", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cases.run()
    assert cases.told == [(1, PASSED), (0, FAILED)]
