"""Where there is no terminal, a line tells from time to time how far a run is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from made_results import failed, result

from harness.report.progress import progress

if TYPE_CHECKING:
    import pytest


class Steps:
    """A clock that goes on by some seconds with each look at it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = 0.0

    def utc(self) -> float:
        self._now += self._seconds
        return self._now


def told(capsys: pytest.CaptureFixture[str], seconds: float, *, wanted: bool = True) -> list[str]:
    with progress(9, wanted=wanted, color=False, clock=Steps(seconds)) as advance:  # type: ignore[arg-type]
        for number in range(9):
            advance(failed() if number == 2 else replace(result(), id=str(number)))
    return capsys.readouterr().err.splitlines()


def test_the_first_result_after_ten_seconds_is_a_sign_of_life(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, 4.0) == ["3 of 9 after 12 s (1 failed)", "6 of 9 after 24 s (1 failed)"]


def test_the_last_result_needs_none_and_a_short_run_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, 1.0) == []
    assert told(capsys, 1.2) == []


def test_who_wants_none_gets_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, 60.0, wanted=False) == []
