"""Whoever watches sees what was saved run again, a broken file shown, and the last exit code at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
import pytest
from scenario_files import WriteScenario, scenario_text
from started import Started

import harness
from harness.planning.result import ExitCode
from harness.running.watch import INTERVAL, watch
from harness.world.interruption import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class User:
    """Does one thing each time that the watcher waits for something to happen, and interrupts in the end."""

    def __init__(self, *steps: Callable[[], Any]) -> None:
        self._steps = iter(steps)

    def pause(self, seconds: float) -> None:
        if seconds == INTERVAL:
            next(self._steps, self._interrupt)()

    @staticmethod
    def _interrupt() -> None:
        raise Interrupted(signal.SIGINT)


def ran(paths: list[Path], user: User, code: ExitCode = ExitCode.PASSED) -> tuple[list[list[Path]], ExitCode]:
    """Return what was run at each time, and the exit code."""
    runs: list[list[Path]] = []

    def run(given: Iterable[Path]) -> ExitCode:
        runs.append(list(given))
        return code

    return runs, watch(paths, run, pause=user.pause)


def test_everything_runs_first_and_then_what_was_saved(write_scenario: WriteScenario, tmp_path: Path) -> None:
    first, second = write_scenario("a", name="first"), write_scenario("a", name="second")
    user = User(lambda: write_scenario("a", "b", name="second"), lambda: None)
    assert ran([tmp_path], user) == ([[tmp_path], [second]], ExitCode.PASSED)
    user = User(lambda: write_scenario("a", "b", name="first"))
    assert ran([first, second], user)[0] == [[first, second], [first]]


def test_a_new_file_is_run_and_one_that_went_is_not(write_scenario: WriteScenario, tmp_path: Path) -> None:
    first = write_scenario("a", name="first")
    user = User(lambda: write_scenario("a", name="new"), first.unlink)
    assert ran([tmp_path], user)[0] == [[tmp_path], [tmp_path / "spec" / "new.yml"]]


def test_other_files_and_twins_are_not_run(write_scenario: WriteScenario, tmp_path: Path) -> None:
    path = write_scenario("a")
    user = User(
        lambda: path.with_name("notes.txt").write_text("x"),
        lambda: path.with_name("settings.yml").write_text("x: 1"),
        lambda: path.with_suffix(".json").write_text('{"schemaVersion": "1.0"}'),
    )
    assert ran([tmp_path], user)[0] == [[tmp_path]]


def test_a_file_is_run_once_it_stays_as_it_is(write_scenario: WriteScenario) -> None:
    path = write_scenario("a")
    texts = iter(["", "descr", scenario_text("a", "b")])
    user = User(lambda: path.write_text(next(texts)))

    def pause(seconds: float) -> None:
        if seconds == INTERVAL:
            user.pause(seconds)
        elif text := next(texts, ""):
            path.write_text(text)

    seen: list[str] = []

    def run(_: object) -> ExitCode:
        seen.append(path.read_text())
        return ExitCode.PASSED

    watch([path], run, pause=pause)
    assert seen == [scenario_text("a"), scenario_text("a", "b")]


def test_a_file_that_cannot_be_used_is_shown_and_watching_goes_on(
    write_scenario: WriteScenario, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_scenario("a")
    broken = [click.ClickException("broken")]

    def run(_: object) -> ExitCode:
        if broken:
            raise broken.pop()
        return ExitCode.FAILED

    user = User(lambda: write_scenario("a", "b"))
    assert watch([path], run, pause=user.pause) is ExitCode.FAILED
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "Error: broken",
        "bad input; watching 1 file, Ctrl-C ends",
        "failed; watching 1 file, Ctrl-C ends",
    ]


def test_a_wrong_command_line_ends_it(write_scenario: WriteScenario) -> None:
    def run(_: object) -> ExitCode:
        raise click.UsageError("wrong")

    with pytest.raises(click.UsageError):
        watch([write_scenario("a")], run, pause=User().pause)


def line_with(stream: IO[str], text: str) -> str:
    """Return the next line that has a text; the end of the stream is none."""
    return next(line for line in stream if text in line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "broken", "code"),
    [
        (("conform", "--time", "virtual", "--jobs", "1"), "case.yml:5", 2),
        (("lint", "--errors-only"), "case.yml:5", 2),
    ],
    ids=["conform", "lint"],
)
def test_the_command_watches_until_it_is_interrupted(
    verb: tuple[str, ...], broken: str, code: int, write: Any
) -> None:
    path = write(scenario_text("a"))
    command = [sys.executable, "-m", "harness.cli", *verb, str(path), "--watch"]
    environment = {**os.environ, "PYTHONPATH": str(Path(harness.__file__).parents[1])}
    with Started(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert line_with(process.stdout, "watching").startswith("passed;")
        write(scenario_text("a", operations="[{name: frobnicate, object: testRunner}]"))
        assert broken in line_with(process.stdout, "frobnicate")
        assert line_with(process.stdout, "watching").startswith("bad input;")
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stdout.read()
        assert process.wait() == code


@pytest.mark.slow
def test_a_run_that_is_interrupted_ends_the_watching(
    write_scenario: WriteScenario, pushbackd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr("harness.running.conformance.run_patiently", interrupted)
    done = pushbackd("conform", write_scenario("a"), "--watch")
    assert done.exit_code == ExitCode.INTERRUPTED
    assert "interrupted" in done.stdout
