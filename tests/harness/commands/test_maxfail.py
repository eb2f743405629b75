"""`pushbackd conform -x` and `--maxfail N`: the run ends when enough cases have failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


def scenario(letters: str) -> str:
    """Return a scenario with a case for each letter: F fails, at a fail point that there is not."""

    def operation(letter: str) -> dict[str, Any]:
        wanted = {"configureFailPoint": "noSuchFailPoint" if letter == "F" else "failCommand", "mode": "off"}
        arguments = {"client": "c", "failPoint": wanted}
        return {"name": "failPoint", "object": "testRunner", "arguments": arguments}

    cases = [
        {"description": f"case {number}", "operations": [operation(letter)]}
        for number, letter in enumerate(letters)
    ]
    entities = [{"client": {"id": "c", "useMultipleMongoses": False}}]
    return json.dumps(
        {"description": "x", "schemaVersion": "1.0", "createEntities": entities, "tests": cases}
    )


@pytest.mark.parametrize(
    ("option", "failed", "not_run"),
    [(["-x"], 1, 4), (["--maxfail", 1], 1, 4), (["--maxfail", 2], 2, 2), (["--maxfail", 9], 3, 0)],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_run_ends_when_enough_cases_have_failed(
    option: list[object],
    failed: int,
    not_run: int,
    time: str,
    pushbackd: Callable[..., Result],
    write: Callable[..., Path],
    tmp_path: Path,
) -> None:
    path, report = write(scenario(".F.FF.")), tmp_path / "r.xml"
    done = pushbackd("conform", path, "--jobs", 1, "--time", time, "--junit", report, *option)
    assert done.exit_code == ExitCode.FAILED
    suites = ET.parse(report).getroot()
    assert (int(suites.attrib["tests"]), len(suites.findall(".//failure"))) == (6, failed)
    reason = f"ended by {failed} failure{'s' * (failed > 1)}"
    left_out = suites.findall(".//skipped[@type='not-run']")
    assert [each.attrib["message"] for each in left_out] == [reason] * not_run
    assert (reason in done.stdout) is bool(not_run)


def test_a_run_without_failures_comes_to_its_end(
    pushbackd: Callable[..., Result], write: Callable[..., Path]
) -> None:
    done = pushbackd("conform", write(scenario("..")), "--jobs", 1, "-x")
    assert done.exit_code == ExitCode.PASSED
    assert "2 passed" in done.stdout


def test_a_case_that_is_known_as_flaky_has_its_second_look(
    pushbackd: Callable[..., Result], write: Callable[..., Path], tmp_path: Path
) -> None:
    path, known = write(scenario("F..")), tmp_path / "known.yml"
    known.write_text('flaky:\n  - {case: "*::case 0", reason: "it is a race"}\n')
    done = pushbackd("conform", path, "--jobs", 1, "--time", "real", "-x", "--expectations", known)
    assert done.exit_code == ExitCode.FAILED
    assert "1 failed" in done.stdout
    assert "2 passed" in done.stdout
    assert "not-run" not in done.stdout


def test_worker_processes_end_too(pushbackd: Callable[..., Result], write: Callable[..., Path]) -> None:
    done = pushbackd("conform", write(scenario("F" * 40)), "--jobs", 2, "-x", "--json")
    assert done.exit_code == ExitCode.FAILED
    *cases, totals = map(json.loads, done.stdout.splitlines())
    assert len(cases) == 40
    assert 1 <= sum(case["status"] == "failed" for case in cases) < 40
    assert totals


@pytest.mark.parametrize(
    ("arguments", "named"), [(("--maxfail", 0), "maxfail"), (("-x", "--repeat", 2), "exitfirst")]
)
def test_what_contradicts_is_refused(
    arguments: tuple[object, ...],
    named: str,
    pushbackd: Callable[..., Result],
    write: Callable[..., Path],
) -> None:
    done = pushbackd("conform", write(scenario(".")), *arguments)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert named in done.stderr
