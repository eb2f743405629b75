"""The command on real servers: what it runs, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from started import Started

import harness
from harness.cli import cli
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from scenario_files import WriteScenario

FAILS = (
    "[{name: assertCollectionExists, object: testRunner,"
    " arguments: {databaseName: shop, collectionName: nowhere}}]"
)
NOT_AN_OPERATION = "[{name: frobnicate, object: testRunner}]"
LONG = "[{name: wait, object: testRunner, arguments: {ms: 600000}}]"
WAITS = "[{name: wait, object: testRunner, arguments: {ms: 1000}}]"


def conform(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["conform", *map(str, arguments)])


def json_lines(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def expecting(tmp_path: Path, kind: str, case: str = "spec/tiny::a") -> Path:
    path = tmp_path / "expected.yml"
    path.write_text(f"{kind}:\n  - {{case: '{case}', reason: PYTHON-1}}\n")
    return path


def test_a_run_in_which_all_cases_pass_ends_with_0(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a", "b"))
    assert done.exit_code == ExitCode.PASSED, done.output
    assert done.stdout.splitlines()[0] == "reference (pushbackd 0.1.0, edition 2026-02-20) on replicaset"
    assert "2 passed in" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("arguments", "shown"), [([], True), (["--seed", "1"], False)])
def test_a_newcomers_run_says_what_to_type_next(
    write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch, arguments: list[str], *, shown: bool
) -> None:
    scenario = write_scenario("a")
    monkeypatch.setattr("harness.commands.conform.files_of", lambda _: [scenario])
    assert ("pushbackd demo" in conform(*arguments).stdout) is shown


def test_a_case_that_fails_is_shown_with_its_line_and_ends_the_run_with_1(
    write_scenario: WriteScenario,
) -> None:
    scenario = write_scenario("a", operations=FAILS)
    done = conform(scenario)
    assert done.exit_code == ExitCode.FAILED
    assert f"  {scenario}:5: " in done.stdout
    assert "nowhere" in done.stdout
    assert "1 failed" in done.stdout.splitlines()[-1]


def test_a_case_of_which_every_run_would_fail_fails_alone_and_is_bad_input(
    write_scenario: WriteScenario,
) -> None:
    scenario = write_scenario("a", operations=NOT_AN_OPERATION)
    bad, sound = scenario.read_text().partition("tests:\n")[2], "  - { description: b, operations: [] }\n"
    scenario.write_text(scenario.read_text().replace(bad, bad + sound))
    done = conform(scenario, "--json", "--adapter", "reference", "--adapter", "pymongo-async")
    assert done.exit_code == ExitCode.BAD_INPUT
    message = f"{scenario}:5:25: tests[0].operations[0].name: a testRunner has no operation"
    assert [line for line in done.stderr.splitlines() if line.startswith(message)] != []
    assert done.stderr.count(message) == 1
    results = [(line["id"], line["status"]) for line in json_lines(done)[:-1]]
    assert results == 2 * [("spec/tiny::a", "failed"), ("spec/tiny::b", "passed")]
    assert json_lines(done)[-1]["summary"]["unusable-files"] == 0


def test_a_flaw_outside_of_the_cases_is_one_of_each(write_scenario: WriteScenario) -> None:
    scenario = write_scenario("a", "b")
    text = scenario.read_text()
    twice = "createEntities: [{ client: { id: c } }, { client: { id: c } }]\n"
    scenario.write_text(text.replace("tests:", f"{twice}tests:"))
    done = conform(scenario)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.count("the name 'c' is taken") == 1
    assert "2 failed" in done.stdout


def test_a_flawed_case_that_does_not_apply_here_is_skipped_as_any_other(
    write_scenario: WriteScenario,
) -> None:
    scenario = write_scenario("a", operations=NOT_AN_OPERATION)
    text = scenario.read_text()
    needs = 'runOnRequirements: [{ minServerVersion: "99.0" }]\n'
    scenario.write_text(text.replace("tests:", f"{needs}tests:"))
    assert conform(scenario).exit_code == ExitCode.NOTHING_RAN


def test_cases_that_cannot_run_here_are_counted_by_reason_and_nothing_ran(
    write_scenario: WriteScenario,
) -> None:
    done = conform(write_scenario("a", "b", requires='topologies: ["sharded"]'))
    assert done.exit_code == ExitCode.NOTHING_RAN
    assert "Skipped: 2" in done.stdout
    assert "    2 x " in done.stdout
    assert "sharded" in done.stdout


def test_a_case_that_is_known_to_fail_does_not_fail_the_run(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    scenario = write_scenario("a", operations=NOT_AN_OPERATION)
    done = conform(scenario, "--expectations", expecting(tmp_path, "known-failing"))
    assert done.exit_code == ExitCode.PASSED
    assert "1 known-failing" in done.stdout
    assert "PYTHON-1" in done.stdout


def test_a_case_that_is_known_to_fail_and_passes_ends_the_run_with_6(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    done = conform(write_scenario("a"), "--expectations", expecting(tmp_path, "known-failing"))
    assert done.exit_code == ExitCode.UNEXPECTED_PASS
    assert f"{tmp_path / 'expected.yml'}:2 expects it to fail" in done.stdout


def test_failures_are_drafted_as_known_ones_and_count_as_such_once_the_reasons_are_there(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    scenario, known = write_scenario("a", "b", operations=FAILS), tmp_path / "known.yml"
    done = conform(scenario, "--write-expectations", known)
    assert done.exit_code == ExitCode.FAILED
    assert f"{known}: 2 entries added: fill in the reasons" in done.stderr
    refused = conform(scenario, "--expectations", known)
    assert refused.exit_code == ExitCode.BAD_INPUT
    assert f"{known}:6: the reason is empty: fill in why 'spec/tiny::a' is in this list" in refused.stderr
    known.write_text(known.read_text().replace('reason: ""', "reason: PYTHON-2"))
    again = conform(scenario, "--expectations", known, "--write-expectations", known)
    assert again.exit_code == ExitCode.PASSED
    assert f"{known}: nothing to add, 2 kept" in again.stderr


def test_a_case_that_cannot_be_used_is_no_known_failure(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    scenario = write_scenario("a", operations=NOT_AN_OPERATION)
    done = conform(scenario, "--write-expectations", tmp_path / "known.yml")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert not (tmp_path / "known.yml").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("known-failing: 1", "'known-failing' holds a list"), (None, "Is a directory")],
)
def test_a_file_that_cannot_take_known_failures_is_refused_before_the_run(
    tmp_path: Path, write_scenario: WriteScenario, text: str | None, complaint: str
) -> None:
    known = tmp_path / "known.yml"
    known.mkdir() if text is None else known.write_text(text)
    done = conform(write_scenario("a", operations=FAILS), "--write-expectations", known)
    assert done.exit_code in (ExitCode.BAD_INPUT, ExitCode.BAD_INPUT)
    assert "FAILED" not in done.stdout
    assert complaint in done.stderr or "is a directory" in done.stderr


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            ["--adapter", "reference", "--adapter", "pymongo"],
            "the failures of one driver: name one --adapter",
        ),
        (["--repeat", "3"], "the results of one run, not of repeated ones"),
    ],
)
def test_known_failures_are_those_of_one_driver_in_one_run(
    tmp_path: Path, write_scenario: WriteScenario, more: list[str], complaint: str
) -> None:
    done = conform(write_scenario("a"), "--write-expectations", tmp_path / "known.yml", *more)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert complaint in done.stderr


def test_a_bundled_entry_is_not_held_against_files_of_the_same_name(write_scenario: WriteScenario) -> None:
    scenario = write_scenario("a", spec="retryable-writes", name="never-retried")
    assert conform(scenario, "--adapter", "pymongo-async").exit_code == ExitCode.PASSED


def test_every_bundled_entry_speaks_of_a_case_of_its_file() -> None:
    options = ("--adapter", "pymongo-async", "--adapter", "reference", "-k", "nothing-at-all")
    assert conform(*options).exit_code == ExitCode.NOTHING_RAN


def test_a_case_that_an_expectations_file_skips_is_not_run(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    scenario = write_scenario("a", "b", operations=LONG)
    done = conform(scenario, "--expectations", expecting(tmp_path, "skip", "spec/tiny::*"), "--json")
    assert [line.get("reason") for line in json_lines(done)] == ["PYTHON-1", "PYTHON-1", None]
    assert done.exit_code == ExitCode.NOTHING_RAN


def test_a_broken_file_does_not_keep_the_others_from_running(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    write_scenario("a")
    (tmp_path / "spec" / "broken.yml").write_text('schemaVersion: "1.0"\n')
    done = conform(tmp_path / "spec")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{tmp_path / 'spec' / 'broken.yml'}:1" in done.stderr
    assert "1 passed" in done.stdout
    assert "1 unusable file" in done.stdout


def test_json_is_all_that_stands_on_standard_output(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a", "b"), "--json", "-v")
    first, second, last = json_lines(done)
    names = ["id", "status", "reason", "topology", "adapter", "driver", "edition", "duration_ms"]
    assert list(first) == names
    assert (first["id"], second["id"]) == ("spec/tiny::a", "spec/tiny::b")
    assert last == {
        "summary": {
            "passed": 2,
            "failed": 0,
            "skipped": 0,
            "known-failing": 0,
            "unexpected-pass": 0,
            "not-run": 0,
            "unusable-files": 0,
        }
    }


@pytest.mark.slow
def test_results_come_in_the_same_order_whatever_the_number_of_processes(
    write_scenario: WriteScenario,
) -> None:
    write_scenario("slow", name="a", operations=WAITS)
    write_scenario(*"abcdef", name="b")
    folder = write_scenario("slow", name="c", operations=WAITS).parent
    runs = [json_lines(conform(folder, "--json", "--jobs", jobs, "--time", "virtual")) for jobs in (1, 3)]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 9


def test_all_topologies_are_those_that_the_fake_server_has(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "--topology", "all", "--json")
    assert [line["topology"] for line in json_lines(done)[:-1]] == [
        *("single", "replicaset", "sharded", "load-balanced"),
    ]
    assert done.exit_code == ExitCode.PASSED


def test_two_drivers_can_be_run_in_one_go(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "--adapter", "pymongo-async", "--adapter", "reference", "--json")
    told = [(line["adapter"], line["edition"], line["status"]) for line in json_lines(done)[:-1]]
    assert told == [("pymongo-async", "2026-07-08", "passed"), ("reference", "2026-02-20", "passed")]


def test_in_virtual_time_nobody_waits_and_a_run_repeats_itself(write_scenario: WriteScenario) -> None:
    scenario = write_scenario(
        "a", "b", operations="[{name: wait, object: testRunner, arguments: {ms: 59000}}]"
    )
    first, second = (conform(scenario, "--time", "virtual", "--json").stdout for _ in range(2))
    assert first == second
    assert all(json.loads(line)["duration_ms"] >= 59000 for line in first.splitlines()[:-1])


def test_a_case_that_hangs_fails_after_its_timeout(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a", operations=LONG), "--case-timeout", "50ms", "--json")
    assert json_lines(done)[0]["reason"] == "the case did not end within 0.05 seconds"
    assert done.exit_code == ExitCode.FAILED


def test_junit_is_written_beside_the_terminal_report(tmp_path: Path, write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "--junit", tmp_path / "out" / "junit.xml", "--seed", "7")
    assert done.exit_code == ExitCode.PASSED
    root = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    assert root.find(".//property[@name='seed']").get("value") == "7"  # type: ignore[union-attr]  # it is there
    assert root.find(".//testcase").get("classname") == "spec"  # type: ignore[union-attr]  # as above


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, write_scenario: WriteScenario) -> None:
    (tmp_path / "file").write_text("")
    done = conform(write_scenario("a"), "--junit", tmp_path / "file" / "junit.xml")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{tmp_path / 'file' / 'junit.xml'}: " in done.stderr


def test_each_case_has_a_journal(tmp_path: Path, write_scenario: WriteScenario) -> None:
    conform(write_scenario("a", "b"), "--journal", tmp_path / "journals", "--time", "virtual")
    journals = sorted((tmp_path / "journals").iterdir())
    assert [path.name.split(".")[0] for path in journals] == ["spec-tiny-a", "spec-tiny-b"]
    assert all(path.suffix == ".jsonl" for path in journals)


def test_a_line_for_each_case_with_verbose_and_none_but_failures_with_quiet(
    write_scenario: WriteScenario,
) -> None:
    scenario = write_scenario("a")
    assert any(line.startswith("PASSED") for line in conform(scenario, "-v").stdout.splitlines())
    assert len(conform(scenario, "-q").stdout.splitlines()) == 1


# As a process of its own


def start(*arguments: object, hash_seed: str = "random", **options: Any) -> Started[str]:
    paths = {"PYTHONPATH": str(Path(harness.__file__).parents[1]), "PYTHONHASHSEED": hash_seed}
    environment = {**os.environ, **paths}
    command = [sys.executable, "-m", "harness.cli", "conform", *map(str, arguments)]
    return Started(command, text=True, env=environment, **options)


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("jobs", [1, 2])
def test_control_c_ends_the_run_tells_what_was_done_and_leaves_no_process(
    write_scenario: WriteScenario, jobs: int
) -> None:
    write_scenario("a", "b", name="a")
    folder = write_scenario("hangs", "hangs too", name="b", operations=LONG).parent
    arguments = (folder, "--json", "--jobs", jobs, "--case-timeout", "3000s")
    with start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        if jobs == 1:
            lines = [process.stdout.readline() for _ in range(2)]
        else:
            lines = []
            while len(children(process.pid)) < jobs:
                assert process.poll() is None
        workers = children(process.pid)
        process.send_signal(signal.SIGINT)
        try:
            rest, _ = process.communicate(timeout=30)
        finally:
            process.kill()  # so that a run which goes on fails this test instead of holding it up
    assert process.returncode == ExitCode.INTERRUPTED
    assert len(workers) == (jobs if jobs > 1 else 0)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert "summary" in json.loads([*lines, *rest.splitlines()][-1])


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_defect(write_scenario: WriteScenario) -> None:
    with start(write_scenario("a"), "-v", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == ExitCode.NOBODY_READS


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("plain", [{}, {"NO_COLOR": "1"}], ids=["color", "NO_COLOR"])
def test_a_terminal_sees_a_progress_bar_and_colors_and_no_colors_where_they_are_unwanted(
    write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch, plain: dict[str, str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in plain.items():
        monkeypatch.setenv(name, value)
    ours, theirs = os.openpty()
    with start(write_scenario("a"), stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = read_all(ours)
        process.wait()
    assert "1/1" in seen
    assert "1 passed" in seen.replace("\x1b[32m\x1b[1m", "").replace("\x1b[0m", "")
    assert ("\x1b[32m" in seen) is not bool(plain)


def read_all(descriptor: int) -> str:
    seen = b""
    try:
        while chunk := os.read(descriptor, 65536):
            seen += chunk
    except OSError:
        pass  # Linux says so when the other end of a terminal is gone
    finally:
        os.close(descriptor)
    return seen.decode()
