from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from harness.cli import cli
from harness.planning.result import ExitCode
from harness.report.results_file import ResultsReader

SCENARIOS = Path(__file__).parents[3] / "spec_tests"
FILE = SCENARIOS / "client-backpressure" / "overload-retries.yml"
CASE = "a read is sent again"


def pushbackd(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def conform(*arguments: object) -> Result:
    return pushbackd("conform", FILE, "-k", f"'{CASE}'", "--time", "virtual", "-q", *arguments)


def test_a_run_keeps_its_results_and_writes_its_page(tmp_path: Path) -> None:
    results, page = tmp_path / "run.jsonl", tmp_path / "page.html"
    done = conform("--results", results, "--html", page)
    assert done.exit_code == ExitCode.PASSED, done.output
    with ResultsReader(results) as reader:
        [result] = reader.results()
    assert {moment.side for moment in result.timeline} == {"test", "client", "server"}
    assert [row.verdict for row in result.comparison] == ["same"] * 6
    assert page.read_text().startswith("<!doctype html>")


def test_in_virtual_time_the_results_are_the_same_each_time(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    conform("--results", one)
    conform("--results", other)
    assert one.read_text().splitlines()[1:] == other.read_text().splitlines()[1:]


def test_json_lines_and_terminal_are_as_they_were(tmp_path: Path) -> None:
    done = conform("--json", "--html", tmp_path / "page.html")
    first, *_ = map(json.loads, done.stdout.splitlines())
    assert set(first) == {"id", "status", "reason", "topology", "adapter", "driver", "edition", "duration_ms"}


@pytest.mark.parametrize("option", ["--results", "--html"])
def test_a_file_that_cannot_be_written_ends_the_run_before_it_begins(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").write_text("")
    done = conform(option, tmp_path / "file" / "below")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"Error: {tmp_path / 'file' / 'below'}: " in done.output
    assert "passed" not in done.output


def test_report_ends_with_2_for_a_file_of_something_else() -> None:
    done = pushbackd("report", FILE)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{FILE}:1: no JSON in UTF-8" in done.output


def test_report_asks_for_a_run() -> None:
    assert pushbackd("report").exit_code == ExitCode.BAD_INPUT


def test_explain_draws_a_case(tmp_path: Path) -> None:
    picture, page = tmp_path / "case.svg", tmp_path / "case.html"
    done = pushbackd("explain", f"{FILE}::{CASE}", "--svg", picture, "--html", page)
    assert done.exit_code == ExitCode.PASSED, done.output
    texts = ["".join(text.itertext()) for text in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert {"find", "find attempt 2", "find attempt 3", "error 462", "ok"} <= set(texts)
    assert page.read_text().startswith("<!doctype html>")


def test_explain_says_so_when_it_cannot_draw(tmp_path: Path) -> None:
    done = pushbackd("explain", f"{FILE}::{CASE}", "--svg", tmp_path)
    assert done.exit_code == ExitCode.BAD_INPUT
    (tmp_path / "file").write_text("")
    done = pushbackd("explain", f"{FILE}::{CASE}", "--svg", tmp_path / "file" / "case.svg")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"Error: {tmp_path / 'file' / 'case.svg'}: " in done.output
