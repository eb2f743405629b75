"""Cases by the names that reports print, on the command lines of `conform` and `explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.planning.discovery import BadInputError, bundled_root, named
from harness.planning.plan import forget
from harness.planning.result import ExitCode
from harness.world.cache_folder import VARIABLE

if TYPE_CHECKING:
    from scenario_files import WriteScenario

BATCHES = bundled_root() / "retryable-writes" / "batches.yml"
CASE = "the retry of a command has its number, and the next command a larger one"
FAILS = "[{object: testRunner, name: assertEventCount, arguments: {client: nobody}}]"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No checkout is where the commands run, and nothing has failed there."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize(
    "name",
    [
        "retryable-writes/batches",
        "retryable-writes/batches.yml",
        "spec_tests/retryable-writes/batches.yml",
        "retry…/batches",
        "*writes/batches",
        str(BATCHES),
        str(BATCHES.with_suffix("")),
    ],
)
def test_a_bundled_file_has_a_short_name_everywhere(name: str) -> None:
    assert named(name) == (BATCHES,)


@pytest.mark.parametrize("name", ["retryable-writes", "spec_tests/retryable-writes/", "retryable-w…s"])
def test_a_short_name_of_a_folder_is_all_of_its_files(name: str) -> None:
    assert set(named(name)) == {*(bundled_root() / "retryable-writes").rglob("*.yml")}


@pytest.mark.parametrize("name", ["retryable-writes/batch", "writes/batches", "nowhere", "a" * 5000])
def test_what_is_nowhere_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="no such file or folder, and no bundled scenario is called so"):
        named(name)


def test_a_file_here_comes_before_a_bundled_one_and_one_that_failed_between_them(elsewhere: Path) -> None:
    failed = elsewhere / "source" / "retryable-writes" / "batches.yml"
    assert named("retryable-writes/batches", [failed]) == (failed,)
    here = elsewhere / "retryable-writes" / "batches.yml"
    here.parent.mkdir()
    here.write_text("")
    assert named("retryable-writes/batches", [failed]) == (Path("retryable-writes/batches.yml"),)


def ran(done: Any) -> list[str]:
    assert done.exit_code == ExitCode.PASSED, done.output
    return [line["id"] for line in map(json.loads, done.stdout.splitlines()) if "id" in line]


def test_conform_runs_the_case_that_is_named(pushbackd: Any) -> None:
    case = f"retryable-writes/batches::{CASE}"
    assert ran(pushbackd("conform", case, "--json")) == [case]
    assert ran(pushbackd("conform", "retry…/batches::the retry of a command", "--json")) == [case]


def test_conform_runs_named_cases_beside_whole_files(pushbackd: Any, write_scenario: WriteScenario) -> None:
    path = write_scenario("a", "b")
    assert ran(pushbackd("conform", f"{path}::a", f"retryable-writes/batches::{CASE}", "--json")) == [
        "spec/tiny::a",
        f"retryable-writes/batches::{CASE}",
    ]
    assert ran(pushbackd("conform", f"{path}::a", path, "--json")) == ["spec/tiny::a", "spec/tiny::b"]


def test_a_case_that_there_is_not_is_refused_with_those_there_are(
    pushbackd: Any, write_scenario: WriteScenario, elsewhere: Path
) -> None:
    path = write_scenario("a", "b")
    done = pushbackd("conform", f"{path}::c")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.splitlines() == [
        f"Error: {path}: no case is called 'c'; choose one of",
        f"  {path}::a",
        f"  {path}::b",
    ]
    done = pushbackd("conform", f"{elsewhere}::c")
    assert (done.exit_code, "is a folder; a case is named FILE::CASE" in done.stderr) == (2, True)


def test_explain_takes_the_name_that_a_report_prints(pushbackd: Any) -> None:
    done = pushbackd("explain", f"retryable-writes/batches::{CASE}")
    assert (done.exit_code, CASE in done.stdout.splitlines()[0]) == (ExitCode.PASSED, True)


class TestLastFailed:
    def test_the_first_case_that_failed_is_explained_where_it_failed(
        self, pushbackd: Any, write_scenario: WriteScenario
    ) -> None:
        path = write_scenario("a", "b", operations=FAILS)
        pushbackd("conform", path, "--topology", "single", "--topology", "sharded")
        done = pushbackd("explain", "--last-failed")
        assert done.exit_code == ExitCode.FAILED, done.output
        assert done.stdout.splitlines()[0] == "FAILED spec/tiny::a  [reference, single]"
        assert done.stderr.splitlines() == [
            "--last-failed: the first of 4 cases; the others are",
            "  spec/tiny::b  [reference, single]",
            "  spec/tiny::a  [reference, sharded]",
            "  spec/tiny::b  [reference, sharded]",
        ]
        other = pushbackd("explain", "--lf", "--topology", "replicaset")
        assert other.stdout.splitlines()[0] == "FAILED spec/tiny::a  [reference, replicaset]"

    def test_it_is_that_of_the_driver_that_is_asked_for(
        self, pushbackd: Any, write_scenario: WriteScenario
    ) -> None:
        path = write_scenario("a", operations=FAILS)
        pushbackd("conform", path, "--adapter", "pymongo", "--reruns", 0)
        done = pushbackd("explain", "--last-failed")
        assert done.stdout.splitlines()[0] == "FAILED spec/tiny::a  [pymongo, replicaset]"
        done = pushbackd("explain", "--last-failed", "--adapter", "reference")
        assert done.exit_code == ExitCode.BAD_INPUT
        assert "--last-failed: those that failed are of pymongo: name its --adapter" in done.stderr

    def test_a_case_that_has_gone_since_is_told(self, pushbackd: Any, write_scenario: WriteScenario) -> None:
        path = write_scenario("a", operations=FAILS)
        pushbackd("conform", path)
        path.write_text(path.read_text().replace("description: 'a'", "description: 'renamed'"))
        forget()
        done = pushbackd("explain", "--last-failed")
        assert done.exit_code == ExitCode.BAD_INPUT
        assert "spec/tiny::a failed the last time, and is not there now" in done.stderr

    def test_without_a_failure_there_is_nothing_to_explain(self, pushbackd: Any) -> None:
        done = pushbackd("explain", "--last-failed")
        assert (done.exit_code, "--last-failed: no case failed" in done.stderr) == (2, True)

    @pytest.mark.parametrize("arguments", [(), ("--last-failed", "retryable-writes/batches")])
    def test_one_case_is_named_in_one_way(self, pushbackd: Any, arguments: tuple[str, ...]) -> None:
        assert pushbackd("explain", *arguments).exit_code == ExitCode.BAD_INPUT
