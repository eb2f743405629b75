"""What GitHub is told: annotations that it understands and does not drop, and a summary that it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.lint.findings import Finding
from harness.planning.plan import Settings
from harness.planning.result import ExitCode, Result, ResultStatus
from harness.report.github import (
    ANNOTATIONS_MAX,
    SUMMARY_MAX,
    Annotation,
    commands,
    of_findings,
    of_results,
    summary,
)

if TYPE_CHECKING:
    from pathlib import Path

    from scenario_files import WriteScenario

PASSED = Result("crud/insert::works", ResultStatus.PASSED, "replicaset", "reference", "2026-07-08")
FAILED = replace(
    PASSED,
    id="retryable-writes/a::fails: <twice>",
    status=ResultStatus.FAILED,
    reason="not what was expected",
    file="scenarios/a.yml",
    line=31,
    expected="`1`",
    actual="```2```",
)
SETTINGS = Settings(seed=7, drivers=(("reference", "pushbackd 0.1.0"),))


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("WORKSPACE", "SERVER_URL", "REPOSITORY", "SHA", "STEP_SUMMARY"):
        monkeypatch.delenv(f"GITHUB_{name}", raising=False)
    return tmp_path


def unescaped(text: str) -> str:
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)


# Annotations


def test_an_annotation_is_one_line_whatever_it_says() -> None:
    note = Annotation("error", "a: b, c", "100 %\nof it: all,\r\nnothing", "x,y.yml", 3, 4)
    assert str(note) == (
        "::error file=x%2Cy.yml,line=3,col=4,title=a%3A b%2C c::100 %25%0Aof it: all,%0D%0Anothing"
    )


def test_what_has_no_place_has_no_file() -> None:
    assert str(Annotation("warning", "t", "m", "", 3)) == "::warning title=t::m"


def test_a_failure_is_annotated_where_its_scenario_stands() -> None:
    stale = replace(FAILED, status=ResultStatus.UNEXPECTED_PASS)
    (line, other) = commands(of_results([PASSED, FAILED, stale], ()))
    assert line.startswith(
        "::error file=scenarios/a.yml,line=31,title=retryable-writes/a%3A%3Afails%3A <twice>"
    )
    assert "scenarios/a.yml:31: not what was expected\n" in unescaped(line)
    assert other.startswith("::error file=")


def test_files_are_named_from_the_root_of_the_repository(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "deep").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(workspace))
    monkeypatch.chdir("deep")
    outside = replace(FAILED, file=str(workspace.parent / "other.yml"))
    below, beyond = of_results([FAILED, outside], ())
    assert (below.file, beyond.file) == ("deep/scenarios/a.yml", "")


def test_a_file_that_cannot_be_used_is_annotated_where_it_is_wrong(workspace: Path) -> None:
    placed, plain = of_results((), [f"{workspace}/b.yml:5:15: name: no such operation", "no place"])
    assert placed == Annotation("error", "unusable scenario", "name: no such operation", "b.yml", 5, 15)
    assert plain == Annotation("error", "unusable scenario", "no place")


def test_findings_of_lint_are_errors_when_they_refuse_a_file_and_warnings_else() -> None:
    told = Finding("a.yml", 2, 3, "unused-anchor", "anchor &a is never used", "remove it")
    assert list(of_findings([told, replace(told, refused=True, hint="")])) == [
        Annotation("warning", "unused-anchor", "anchor &a is never used; remove it", "a.yml", 2, 3),
        Annotation("error", "unused-anchor", "anchor &a is never used", "a.yml", 2, 3),
    ]


@pytest.mark.parametrize(("count", "left_out"), [(ANNOTATIONS_MAX, 0), (ANNOTATIONS_MAX + 1, 2), (500, 491)])
def test_what_github_would_drop_is_counted(count: int, left_out: int) -> None:
    notes = [Annotation(level, "t", "m") for level in ("error", "warning") for _ in range(count)]
    lines = list(commands(notes))
    assert [sum(line.startswith(f"::{level} ") for line in lines) for level in ("error", "warning")] == [
        ANNOTATIONS_MAX,
        ANNOTATIONS_MAX,
    ]
    assert lines[ANNOTATIONS_MAX - 1].endswith(f"::{left_out} more; see the log and the summary") == bool(
        left_out
    )


# The summary


def text_of(*results: Result, complaints: tuple[str, ...] = ()) -> str:
    return summary(results, SETTINGS, seconds=1.5, complaints=complaints)


def test_the_summary_has_a_table_by_specification_for_each_driver_and_topology() -> None:
    other = replace(PASSED, id="crud/find::works", duration_ms=250.0)
    text = text_of(PASSED, other, FAILED, replace(PASSED, topology="a|b"))
    assert text.startswith("## ❌ pushbackd: 3 passed, 1 failed\n\n1.50 s, real time, seed 7\n")
    assert (
        "**reference** (pushbackd 0.1.0, edition 2026-07-08) on **replicaset**\n\n"
        "| specification | passed | failed | time |\n|---|--:|--:|--:|\n"
        "| crud | 2 | · | 0.25 s |\n| retryable-writes | · | 1 | 0.00 s |\n"
    ) in text
    assert text.count("| specification |") == 2


def test_a_run_in_which_all_passed_is_short() -> None:
    text = text_of(PASSED)
    assert text.startswith("## ✅ pushbackd: 1 passed\n")
    assert "Failures" not in text


def test_a_failure_is_told_in_full_and_nothing_in_it_is_taken_for_markup() -> None:
    text = text_of(FAILED)
    assert "<summary><code>retryable-writes/a::fails: &lt;twice&gt;</code>" in text
    before, _, after = text.partition("\n````text\n")
    assert "<code>scenarios/a.yml:31</code>" in before
    assert "  actual:   ```2```\n" in after.partition("\n````\n")[0]
    assert "pushbackd conform scenarios/a.yml --adapter reference" in after


def test_a_place_is_a_link_into_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/mine")
    monkeypatch.setenv("GITHUB_SHA", "abc")
    link = "https://github.com/me/mine/blob/abc/scenarios/a.yml#L31"
    assert f"[<code>scenarios/a.yml:31</code>]({link})" in text_of(FAILED)


def test_unusable_files_are_listed() -> None:
    text = text_of(PASSED, complaints=("a.yml:1:1: is <empty>",))
    assert text.startswith("## ❌")
    assert "### Unusable files\n\n- <code>a.yml:1:1: is &lt;empty&gt;</code>\n" in text


@pytest.mark.parametrize("width", [10, SUMMARY_MAX // 20])
def test_a_summary_is_never_too_long_to_be_shown(width: int) -> None:
    text = text_of(*[replace(FAILED, reason="é" * width)] * 80)
    assert len(text.encode()) <= SUMMARY_MAX + 100
    shown = text.count("<details>")
    assert 1 <= shown <= 50
    assert text.endswith(f"\n… and {80 - shown} more.\n")


# The commands


@pytest.mark.slow
def test_conform_tells_github_where_it_runs_there(
    write_scenario: WriteScenario, pushbackd: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_scenario("a", operations="[{name: wait, object: testRunner, arguments: {ms: 1}}]")
    broken = write_scenario("b", name="broken", operations="[{name: ping}]")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workspace / "summary.md"))
    (workspace / "summary.md").write_text("before\n")
    run = ("conform", path, broken, "--time", "virtual", "--jobs", 1)
    done = pushbackd(*run)
    assert done.exit_code == ExitCode.BAD_INPUT
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("::")]
    assert line.startswith("::error file=spec/broken.yml,line=5,col=")
    assert (workspace / "summary.md").read_text().startswith("before\n## ❌ pushbackd: 1 passed\n")
    assert "::error" not in pushbackd(*run, "--no-github").output


@pytest.mark.slow
def test_json_lines_stay_json(write_scenario: WriteScenario, pushbackd: Any) -> None:
    broken = write_scenario("b", name="broken", operations="[{name: ping}]")
    path = write_scenario("a")
    done = pushbackd("conform", path, broken, "--github", "--json", "--time", "virtual", "--jobs", 1)
    assert all(line.startswith("{") for line in done.stdout.splitlines())
    assert "::error" in done.stderr


def test_a_summary_that_cannot_be_written_is_told(
    write_scenario: WriteScenario, pushbackd: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workspace))
    done = pushbackd("conform", write_scenario("a"), "--github", "--time", "virtual", "--jobs", 1)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "GITHUB_STEP_SUMMARY: Is a directory" in done.stderr


def test_lint_annotates_too(write_scenario: WriteScenario, pushbackd: Any) -> None:
    path = write_scenario("a", "a")
    done = pushbackd("lint", path, "--github")
    assert "::warning file=spec/tiny.yml,line=6,col=18,title=duplicate-description::" in done.stdout
    assert "::" not in pushbackd("lint", path).stdout
    done = pushbackd("lint", path, "--github", "--json")
    assert "::warning" in done.stderr
