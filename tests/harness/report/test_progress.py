"""Where there is no terminal, a line tells from time to time how far a run is."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

import click
from made_results import failed, result

from harness.report import progress as progress_module
from harness.report.progress import SignsOfLife, is_animated, progress, work

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


def test_a_case_that_takes_long_is_told_of_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    heard = Event()

    def echo(text: str, **_: object) -> None:
        lines.append(text)
        heard.set()

    monkeypatch.setattr(progress_module, "_SIGN_OF_LIFE", 0.01)
    monkeypatch.setattr(click, "echo", echo)
    with progress(2, wanted=True, color=False):
        assert heard.wait(10)
    assert lines[0].startswith("0 of 2 after ")


def test_who_wants_none_gets_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, 60.0, wanted=False) == []


class Now:
    def __init__(self) -> None:
        self.now = 0.0

    def utc(self) -> float:
        return self.now


def test_work_tells_every_ten_seconds_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Now()
    signs = SignsOfLife("trials", 4, clock=clock)  # type: ignore[arg-type]
    for clock.now in range(0, 36, 3):
        if clock.now == 15:
            signs.advance()
        signs.tell()
    assert capsys.readouterr().err.splitlines() == [
        "trials: 0 of 4 after 12 s",
        "trials: 1 of 4 after 24 s",
    ]


def test_a_single_long_step_is_told_of_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    told = Event()

    def echo(text: str, **_: object) -> None:
        lines.append(text)
        told.set()

    monkeypatch.setattr(progress_module, "_SIGN_OF_LIFE", 0.01)
    monkeypatch.setattr(click, "echo", echo)
    with work("drawing"):
        assert told.wait(60)
    assert lines[0].startswith("drawing: after ")


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert is_animated()
    monkeypatch.setenv("TERM", "dumb")
    assert not is_animated()
