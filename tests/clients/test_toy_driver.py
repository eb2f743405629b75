"""The toy driver is judged by the bundled scenarios alone: it passes, and each of its bugs is found."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from click.testing import CliRunner
from sizes import size

from harness.cli import cli
from harness.planning.discovery import bundled_root
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    Conform: TypeAlias = Callable[..., tuple[int, list[dict[str, Any]]]]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "toy_driver"
GUIDE = (ROOT / "docs" / "TOY-DRIVER.md").read_text()
ROW = re.compile(r"^\| `([\w-]+)` \| (.+?) \| `([\w/.-]+)` \| (.+) \|$", re.MULTILINE)
BUGS = {bug: (sentence, file, cause) for bug, sentence, file, cause in ROW.findall(GUIDE)}
"""Each bug in the guide: what it does, the file that finds it, and the beginning of the likely cause."""

FEW = sorted({ROOT / "spec_tests" / file for _, file, _ in BUGS.values()})
SCENARIOS = () if size("deployments") else FEW
"""The files that find its bugs, and all of them where adapters run bundled scenarios (`tox -e adapters`)."""

LONG = {"too-many-retries", "unlimited-connecting"}
"""Bugs whose scenarios wait for long backoffs and connections."""

in_tox = pytest.mark.skipif(not size("deployments"), reason="waits for half a minute: `tox -e adapters`")

pytestmark = pytest.mark.slow


@pytest.fixture
def conform(tmp_path: Path) -> Conform:
    """Return a function that returns the exit code and the results of a run on two kinds of deployment."""

    def run(*arguments: object, bug: str = "") -> tuple[int, list[dict[str, Any]]]:
        command = [sys.executable, str(FOLDER / "adapter.py"), *(["--bug", bug] if bug else [])]
        adapter, results = f"cmd:{shlex.join(command)}", tmp_path / "results.jsonl"
        where = ["--topology", "replicaset", "--topology", "sharded"]
        options = [
            "conform",
            "--reruns",
            0 if bug else 2,
            "--adapter",
            adapter,
            "--results",
            results,
            *where,
            *arguments,
        ]
        done = CliRunner().invoke(cli, [str(each) for each in options])
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        return done.exit_code, [line for line in lines if "id" in line]

    return run


def test_the_guide_has_every_bug_of_the_driver() -> None:
    text = (FOLDER / "toy_driver.py").read_text()
    table = text.partition("BUGS = {")[2].partition("\n}")[0]
    known = dict(re.findall(r'^    "([\w-]+)": "(.+)",$', table, re.MULTILINE))
    assert len(known) >= 10
    assert {bug: sentence for bug, (sentence, _, _) in BUGS.items()} == known


def test_without_bugs_it_passes_all_that_it_declares(conform: Conform) -> None:
    code, results = conform("--jobs", 2, *SCENARIOS)
    wrong = {each["id"]: each["reason"] for each in results if each["status"] not in ("passed", "skipped")}
    assert (code, wrong) == (ExitCode.PASSED, {})
    assert sum(each["status"] == "passed" for each in results) > (100 if SCENARIOS == () else 40)


@pytest.mark.parametrize("bug", [pytest.param(bug, marks=[in_tox] if bug in LONG else []) for bug in BUGS])
def test_each_bug_is_named_by_the_likely_cause_of_a_scenario_that_fails(bug: str, conform: Conform) -> None:
    _, file, cause = BUGS[bug]
    code, results = conform(bundled_root() / file, bug=bug)
    assert code == ExitCode.FAILED
    told = [sentence for each in results if each["status"] == "failed" for sentence in each["causes"]]
    assert any(re.search(re.sub(" ?… ?", ".*", cause), sentence) for sentence in told), told
