from __future__ import annotations

from typing import TYPE_CHECKING

from harness.running import run
from harness.running.plan import Item, Settings
from harness.running.result import Result, ResultStatus
from harness.running.run import run_patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

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
        monkeypatch.setattr(run, "run_items", self._run)

    def _run(
        self,
        items: Mapping[int, Item],
        settings: Settings,
        *,
        jobs: int,
        on_result: Callable[[int, Result], None],
    ) -> None:
        if items:
            self.turns.append((jobs, list(items)))
        for place, each in items.items():
            status = FAILED if self._left[place] > 0 else PASSED
            self._left[place] -= 1
            on_result(place, Result(each.id, status, each.topology, each.adapter, each.edition))

    def run(self, *, flaky: bool = True) -> None:
        run_patiently(
            self.items,
            Settings(),
            jobs=4,
            on_result=lambda place, result: self.told.append((place, result.status)),
            is_flaky=lambda result: flaky and result.status is FAILED,
        )


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
