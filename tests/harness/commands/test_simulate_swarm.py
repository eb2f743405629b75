"""`pushbackd simulate swarm`: lines of seeds, timelines, pages, and wrong options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, TypeAlias

import pytest
from started import Started

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Pushbackd: TypeAlias = Callable[..., Result]

QUIET = "seed=1 operations=6 gap=20 work=insert,increment,swap"


@pytest.fixture
def swarm(pushbackd: Pushbackd) -> Pushbackd:
    """Return a function that runs `simulate swarm`."""

    def run(*arguments: object) -> Result:
        return pushbackd("simulate", "swarm", *arguments)

    return run


@pytest.mark.slow
def test_each_seed_has_a_line_that_says_what_ran_and_what_came_of_it(swarm: Pushbackd) -> None:
    done = swarm("--seeds", 2, "--from", 11, "--jobs", 1)
    assert done.exit_code == 0
    *drawn, first, second, summary = done.output.splitlines()
    assert [line.partition(":")[0] for line in drawn] == ["deployments", "work", "faults"]
    assert first.split()[0] == "11"
    assert second.split()[0] == "12"
    assert first.endswith("passed")
    assert summary.startswith("2 of 2 schedules, 0 failed; operations: ")


@pytest.mark.slow
def test_a_seed_is_replayed_as_text_and_as_page(swarm: Pushbackd, tmp_path: Path) -> None:
    page = tmp_path / "seed.html"
    text = swarm("--replay", 3)
    assert text.exit_code == 0
    assert text.output.startswith("seed=3 topology=")
    assert swarm("--replay", 3, "--html", page).exit_code == 0
    assert "<svg" in page.read_text(encoding="utf-8")


def test_a_schedule_is_replayed_from_its_text_and_from_a_file(swarm: Pushbackd, tmp_path: Path) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text(f"{QUIET}\n", encoding="utf-8")
    by_text, by_file = swarm("--schedule", QUIET), swarm("--schedule", file)
    assert by_text.exit_code == 0
    assert by_text.output == by_file.output
    assert "8 operations ok, 0 failed" in by_text.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--schedule", "seed=1 clients=none"), "'clients=none' needs a whole number from 1 to 50"),
        (("--schedule", "nowhere.txt"), "nowhere.txt"),
    ],
)
def test_a_wrong_schedule_is_one_line_and_exit_code_2(
    swarm: Pushbackd, arguments: tuple[str, ...], complaint: str
) -> None:
    done = swarm(*arguments)
    assert done.exit_code == 2
    assert complaint in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--replay", 1, "--schedule", QUIET), "--replay: not with --schedule"),
        (("--html", "page.html"), "needs --replay or --schedule"),
        (("--seeds", 0), "--seeds"),
    ],
)
def test_wrong_options_are_named(swarm: Pushbackd, arguments: tuple[object, ...], complaint: str) -> None:
    done = swarm(*arguments)
    assert done.exit_code == 2
    assert complaint in done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=["Ctrl-C", "terminated", "killed"],
)
def test_a_swarm_that_is_ended_says_what_was_done_and_leaves_no_process(
    number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "harness.cli", "simulate", "swarm", "--seeds", "2000", "--jobs", "2"]
    with Started(
        command,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "passed" not in process.stdout.readline():
            assert process.poll() is None
        if number is signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        # All of its processes write to these pipes, which have no end before the last one has ended.
        out, error = process.stdout.read(), process.stderr.read()
    assert process.returncode == code, error
    if number is not signal.SIGKILL:
        *lines, summary = out.splitlines()
        assert summary.startswith(f"{len(lines) + 1} of 2000 schedules, 0 failed; operations: ")
        assert error.strip() == f"interrupted by {number.name}"
