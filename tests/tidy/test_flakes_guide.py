"""The race in the guide to flaky scenarios is one, and is told as the guide tells it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.planning.result import ExitCode
from harness.world.schedule import parse

GUIDE = (Path(__file__).parents[2] / "docs" / "FLAKES.md").read_text()
WORD = re.compile(r"^\| `((?:to|from|start|seeds)[:=]\S+)` \|", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def without_numbers(line: str) -> str:
    return NUMBER.sub("N", " ".join(line.split()))


@pytest.fixture
def race(tmp_path: Path) -> Path:
    (scenario,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "my-scenarios" / "two-threads.yml"
    path.parent.mkdir()
    path.write_text(scenario)
    return path


def test_the_race_in_the_guide_is_won_undisturbed_and_lost_as_told(race: Path) -> None:
    run = CliRunner().invoke
    arguments = ["conform", str(race), "--time", "virtual", "--jobs", "1"]
    assert run(cli, arguments).exit_code == ExitCode.PASSED
    done = run(cli, [*arguments, "--repeat", "20", "--perturb"])
    assert done.exit_code == ExitCode.FAILED
    (told,) = re.findall(r"^```\n(FAILED.*?)^  …$", GUIDE, re.DOTALL | re.MULTILINE)
    *lines, _perturbation = map(without_numbers, told.splitlines())
    said = set(map(without_numbers, done.stdout.splitlines()))
    assert [line for line in lines if line not in said] == []


def test_the_words_in_the_guide_are_a_schedule() -> None:
    words = WORD.findall(GUIDE)
    assert len(words) == 5
    parse(" ".join(words)).check(("node0", "node1", "node2"))
