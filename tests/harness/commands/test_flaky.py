"""`pushbackd conform --repeat --perturb`, on scenarios that race and on scenarios that do not."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from driver.editions import EDITIONS
from harness.adapters.base import ErrorReport, OperationFailed
from harness.adapters.reference import adapter as reference
from harness.adapters.reference.adapter import ReferenceAdapter
from harness.cli import cli
from harness.planning.result import ExitCode, ResultStatus
from harness.report.results_file import ResultsReader
from harness.world.schedule import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from harness.adapters.base import Handle, Invocation

RACES = Path(__file__).parent / "races"

RACING = {
    "events-of-threads": "two threads send their commands in the order in which they were asked",
    "late-fail-point": "a pool is filled before the fail point is set",
    "counted-too-soon": "a pool is filled after the time of a ping",
}
ROBUST = {
    "events-of-threads": "the second thread begins when the first is done",
    "late-fail-point": "the fail point is set before there is a pool",
    "counted-too-soon": "a pool is filled some time",
}


def lab(pushbackd: Callable[..., Result], *arguments: object, file: str = "") -> Result:
    scenario = RACES / f"{file}.yml" if file else RACES
    return pushbackd("conform", scenario, "--time", "virtual", "--jobs", 1, *arguments)


def cases(done: Result) -> list[dict[str, Any]]:
    *told, _ = map(json.loads, done.stdout.splitlines())
    return told


def test_every_race_is_won_while_nobody_disturbs_it(pushbackd: Callable[..., Result]) -> None:
    done = lab(pushbackd, "-k", "not mongos")
    assert done.exit_code == ExitCode.PASSED, done.output


@pytest.mark.slow
@pytest.mark.parametrize("file", RACING)
def test_the_lab_finds_a_race_and_the_least_that_loses_it(
    pushbackd: Callable[..., Result], file: str
) -> None:
    done = lab(pushbackd, "--repeat", 8, "--perturb", "--json", file=file)
    assert done.exit_code == ExitCode.FAILED, done.output
    (raced,) = [case for case in cases(done) if case["status"] == "failed"]
    assert raced["id"].endswith(RACING[file])
    assert (raced["runs"], 0 < raced["passed"] < 8) == (8, True)
    assert len(parse(raced["smallest"]["schedule"])) in {1, 2}

    program, *again = shlex.split(raced["smallest"]["command"])
    assert program == "pushbackd"
    repeated = pushbackd(*again)
    assert repeated.exit_code == ExitCode.FAILED, repeated.output
    assert raced["reason"].partition("\n")[0] in repeated.stdout
    assert "FAILED in 1 of 1 run" in repeated.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "runs", "least"),
    [
        ("events-of-threads", 30, "88.6%"),
        ("late-fail-point", 20, "83.9%"),
        ("counted-too-soon", 20, "83.9%"),
    ],
)
def test_a_scenario_that_waits_for_what_it_needs_passes_every_time(
    pushbackd: Callable[..., Result], file: str, runs: int, least: str
) -> None:
    done = lab(pushbackd, "--repeat", runs, "--perturb", "-k", f"'{ROBUST[file]}'", file=file)
    assert done.exit_code == ExitCode.PASSED, done.output
    assert f"1 case passed in all of {runs} runs: {least} or more, with 95% confidence" in done.stdout


def test_a_choice_of_dice_is_found_by_repeating_alone_and_needs_no_perturbation(
    pushbackd: Callable[..., Result],
) -> None:
    arguments = ("--topology", "sharded", "--repeat", 10)
    repeated = lab(pushbackd, *arguments, file="choice-of-mongos")
    assert repeated.exit_code == ExitCode.FAILED
    perturbed = lab(pushbackd, *arguments, "--perturb", file="choice-of-mongos")
    assert "It fails with that seed and without any perturbation." in perturbed.stdout


class HastyAdapter(ReferenceAdapter):
    """A driver with a defect: it gives up what takes longer than 8 ms."""

    async def call(self, invocation: Invocation[Handle]) -> Any:
        try:
            async with asyncio.timeout(0.008):
                return await super().call(invocation)
        except TimeoutError:
            raise OperationFailed(ErrorReport("too slow", is_timeout_error=True)) from None


def test_a_driver_that_is_itself_flaky_is_found_too(
    pushbackd: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        reference, "make", lambda deployment, edition: HastyAdapter(deployment, EDITIONS[edition])
    )
    wanted = ("-k", "'the second thread'", "--repeat", 20, "--perturb", "--json")
    done = lab(pushbackd, *wanted, file="events-of-threads")
    (case,) = cases(done)
    assert 0 < case["passed"] < 20
    assert set(case["reasons"]) == {"insertOne failed: too slow"}
    assert len(parse(case["smallest"]["schedule"])) == 1


def test_the_same_command_says_the_same_whichever_processes_run_it(pushbackd: Callable[..., Result]) -> None:
    arguments = ("--topology", "single", "--repeat", 2, "--perturb", "--json")
    here = lab(pushbackd, *arguments, file="counted-too-soon")
    scenario = RACES / "counted-too-soon.yml"
    on_workers = pushbackd("conform", scenario, "--time", "virtual", "--jobs", 2, *arguments)
    assert on_workers.stdout == here.stdout


class Told(NamedTuple):
    """What one run of the lab wrote to the terminal, and to its three files."""

    text: str
    junit: Path
    page: Path
    results: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A run of a file whose first case races, which several tests look at."""
    folder = tmp_path_factory.mktemp("lab")
    junit, page, results = (folder / name for name in ("junit.xml", "lab.html", "results.jsonl"))
    files = ("--junit", junit, "--html", page, "--results", results)
    arguments = ("conform", RACES / "events-of-threads.yml", "--time", "virtual", "--jobs", 1)
    words = [*map(str, (*arguments, "--repeat", 10, "--perturb", *files))]
    return Told(CliRunner().invoke(cli, words).stdout, junit, page, results)


def test_people_are_told_the_rate_the_schedule_and_the_command(told: Told) -> None:
    said = told.text.splitlines()
    assert said[0] == "reference (pushbackd 0.1.0, edition 2026-02-20) on replicaset"
    assert "95% interval" in said[1]
    assert said[2].startswith(f"  races/events-of-threads::{RACING['events-of-threads']}")
    assert said[3] == "  1 case passed in all of 10 runs: 72.2% or more, with 95% confidence"
    assert any(line.startswith("  The smallest schedule of ") for line in said)
    assert any("--schedule" in line and "--seed" in line for line in said if line.startswith("  again: "))
    assert said[-1].startswith("1 passed, 1 failed in ")


def test_with_v_every_case_has_a_row_and_with_q_none(pushbackd: Callable[..., Result]) -> None:
    wanted = ("-k", "'the second thread'", "--repeat", 3)
    verbose = lab(pushbackd, *wanted, "-v", file="events-of-threads")
    assert (
        "::the second thread begins when the first is done      3       3  100.0%  43.9% to 100.0%"
        in verbose.stdout
    )
    quiet = lab(pushbackd, *wanted, "-q", file="events-of-threads")
    assert len(quiet.stdout.splitlines()) == 1


def test_a_junit_report_has_the_statistics_as_properties(told: Told) -> None:
    raced, robust = ET.parse(told.junit).iter("testcase")
    statistics = {each.get("name"): each.get("value") for each in raced.iter("property")}
    assert statistics.keys() == {"runs", "passed", "rate", "interval", "seed", "schedule"}
    assert raced.find("failure") is not None
    assert {each.get("name"): each.get("value") for each in robust.iter("property")} == {
        "runs": "10",
        "passed": "10",
        "rate": "1.0000",
        "interval": "0.7225 to 1.0000",
    }


def test_flaky_cases_show_their_statistics_and_fail_nothing(
    pushbackd: Callable[..., Result], tmp_path: Path
) -> None:
    expected = tmp_path / "expected.yml"
    case = f"races/events-of-threads::{RACING['events-of-threads']}"
    expected.write_text(f"flaky:\n  - {{case: '{case}', reason: They race.}}\n")
    done = lab(pushbackd, "--repeat", 10, "--perturb", "--expectations", expected, file="events-of-threads")
    assert done.exit_code == ExitCode.PASSED, done.output
    assert "(They race.)" in done.stdout
    assert "The smallest schedule" not in done.stdout


def test_journals_of_different_seeds_do_not_overwrite_each_other(
    pushbackd: Callable[..., Result], tmp_path: Path
) -> None:
    lab(
        pushbackd, "--repeat", 3, "--journal", tmp_path, "-k", "'the second thread'", file="events-of-threads"
    )
    assert sorted(path.suffixes[-2] for path in tmp_path.iterdir()) == [".seed0", ".seed1", ".seed2"]


def test_repeated_cases_are_kept_with_one_result_each(
    pushbackd: Callable[..., Result], tmp_path: Path
) -> None:
    kept, page, report = (tmp_path / name for name in ("kept.jsonl", "page.html", "report.xml"))
    lab(pushbackd, "--repeat", 3, "--results", kept, "--html", page, "--junit", report)
    with ResultsReader(kept) as reader:
        results = [*reader.results()]
    suite = ET.parse(report).getroot()
    assert len({result.id for result in results}) == len(results) == len(suite.findall(".//testcase"))
    assert all(result.timeline or result.status is ResultStatus.SKIPPED for result in results)
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ["pymongo", "pymongo-async"])
def test_other_drivers_are_disturbed_in_real_time(pushbackd: Callable[..., Result], adapter: str) -> None:
    late = "from:node0=20ms from:node1=20ms from:node2=20ms"
    slow = lab_in_real_time(pushbackd, adapter, late)
    assert slow.exit_code == ExitCode.PASSED, slow.output
    (case,) = cases(slow)
    assert (case["runs"], case["passed"]) == (2, 2)


def lab_in_real_time(pushbackd: Callable[..., Result], adapter: str, schedule: str) -> Result:
    wanted = ("-k", "'the second thread'", "--adapter", adapter, "--repeat", 2, "--schedule", schedule)
    return pushbackd("conform", RACES / "events-of-threads.yml", "--jobs", 1, "--json", *wanted)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--schedule", "slowly"], "--schedule, on replicaset: 'slowly' is no perturbation"),
        (["--schedule", "to:node3=1ms"], "there is no node3; there is node0, node1, node2"),
        (["--schedule", "to:node0=1ms", "--topology", "sharded"], "there is mongos0, mongos1"),
        (["--schedule", "to:node0=1ms", "--perturb"], "--schedule: not with --perturb"),
        (["--schedule", ""], "the value is empty"),
        (["--repeat", "0"], "'--repeat'"),
        (["--max-delay", "0"], "'--max-delay'"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(
    pushbackd: Callable[..., Result], arguments: list[str], complaint: str
) -> None:
    done = lab(pushbackd, *arguments)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert complaint in " ".join(done.output.split())


def test_the_page_and_the_results_of_repeated_cases_are_written(told: Told) -> None:
    assert "<h1>Flake lab</h1>" in told.page.read_text()
    assert "<h2 " in told.page.read_text()
    assert told.results.read_text().count("\n") > 2


def test_a_page_that_cannot_be_written_is_found_out_before_the_first_run(
    pushbackd: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = lab(pushbackd, "--repeat", 4, "--html", tmp_path / "file" / "lab.html")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "passed" not in done.output
