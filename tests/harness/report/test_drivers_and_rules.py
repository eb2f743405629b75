"""Drivers against rules: what a cell says, and the page that shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.planning.discovery import bundled_root, discover
from harness.planning.plan import Settings, loaded
from harness.planning.result import ExitCode, Moment, Result, ResultStatus
from harness.report import terminal
from harness.report.results_file import RunHeader
from harness.report.rules import page
from harness.report.rules.rulebook import Rule, notes, rules, shown
from harness.report.rules.table import Driver, RuleTable, RuleVerdict

if TYPE_CHECKING:
    from pathlib import Path

RULES = rules()
RULE = next(rule for rule in RULES.values() if len(shown().get(rule.id, ())) >= 2)
ONE, OTHER = (note.case_id for note in shown()[RULE.id][:2])
UNSHOWN = next(rule for rule in RULES.values() if rule.id not in shown() and rule.unseen)
DRIVER = Driver("d", "2026-07-08")
RUN = RunHeader("2026-11-27T00:00:00+00:00", "0", Settings())


def result(case_id: str, status: ResultStatus, **facts: object) -> Result:
    base = Result(
        id=case_id,
        file="spec_tests/f.yml",
        line=1,
        adapter="d",
        topology="replicaset",
        edition=DRIVER.edition,
        status=status,
        reason="because",
    )
    return replace(base, **facts)  # type: ignore[arg-type]


def table(*results: Result) -> RuleTable:
    made = RuleTable()
    made.add(RUN, results)
    return made


P, F, S = ResultStatus.PASSED, ResultStatus.FAILED, ResultStatus.SKIPPED
K, U, N = ResultStatus.KNOWN_FAILING, ResultStatus.UNEXPECTED_PASS, ResultStatus.NOT_RUN


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (P, P, RuleVerdict.KEPT),
        (P, S, RuleVerdict.KEPT),
        (U, S, RuleVerdict.KEPT),
        (P, F, RuleVerdict.BROKEN),
        (F, S, RuleVerdict.BROKEN),
        (K, P, RuleVerdict.BROKEN),
        (S, S, RuleVerdict.ABSENT),
        (N, S, RuleVerdict.ABSENT),
        (N, N, RuleVerdict.NOT_RUN),
    ],
)
def test_a_cell_says_what_all_scenarios_of_the_rule_came_to(
    one: ResultStatus, other: ResultStatus, verdict: RuleVerdict
) -> None:
    made = table(result(ONE, one), result(OTHER, other))
    assert made.verdict(RULE, DRIVER) is verdict
    assert made.counts([RULE], DRIVER) == {verdict: 1}


def test_a_rule_without_a_scenario_is_not_shown_by_any_results() -> None:
    assert table(result(ONE, P)).verdict(UNSHOWN, DRIVER) is RuleVerdict.NOT_SHOWN


def test_a_case_that_could_not_be_judged_breaks_no_rule() -> None:
    lost = result(ONE, F, is_error=True, reason="the adapter's process ended")
    assert table(lost).verdict(RULE, DRIVER) is RuleVerdict.ABSENT


def test_cases_count_once_however_many_deployments_they_ran_on() -> None:
    cell = table(result(ONE, P), result(ONE, F, topology="sharded"), result(OTHER, P)).cell(RULE, DRIVER)
    assert (cell.broken_cases, cell.cases) == (1, 2)
    assert [each.topology for each in cell.failed] == ["sharded"]


def test_drivers_differ_where_one_keeps_what_another_breaks() -> None:
    made = table(result(ONE, P))
    assert not made.differs(RULE)
    made.add(RUN, [result(ONE, S)], name="third")
    assert not made.differs(RULE)
    made.add(RUN, [result(ONE, F)], name="other")
    assert made.differs(RULE)
    assert made.drivers == (DRIVER, Driver("third", DRIVER.edition), Driver("other", DRIVER.edition))


def test_a_column_tells_the_version_of_its_driver() -> None:
    made = RuleTable()
    settings = Settings(drivers=(("d", "nodejs 7.9.0"),))
    made.add(RunHeader(RUN.started, "0", settings), [result(ONE, P)])
    assert f"d <small>nodejs 7.9.0, {DRIVER.edition}</small>" in page.build(made, created="today")


def test_every_case_with_a_number_is_found_in_results_by_its_id() -> None:
    cases = {case.id for path in discover([bundled_root()]) for case in loaded(str(path)).cases}
    assert {note.case_id for note in notes() if note.rules} <= cases


def test_the_page_has_every_rule_and_escapes_what_drivers_say() -> None:
    moment = Moment(0.1, "client", "c", "commandFailedEvent", text="<script>alert(1)</script>")
    failed = result(ONE, F, reason="<b>no</b>", causes=("<i>why</i>",), timeline=(moment,))
    text = page.build(table(failed, result(OTHER, P)), created="now")
    for number in RULES:
        assert f'<tr id="{number}"' in text
    assert "<script" not in text
    assert "&lt;b&gt;no&lt;/b&gt;" in text
    assert "likely cause: &lt;i&gt;why&lt;/i&gt;" in text
    assert "✗" in text
    assert "1 of 2" in text
    assert "pushbackd conform" in text
    assert "http" not in text.replace("http-equiv", "")


def test_a_reason_stands_where_no_scenario_can_lose() -> None:
    text = page.build(table(result(ONE, P)), created="now")
    assert f"not visible: {escape(str(UNSHOWN.unseen))}" in text


def test_results_of_a_run_become_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = bundled_root() / "retryable-writes" / "applied-once.yml"
    ran = CliRunner().invoke(
        cli, ["conform", str(scenario), "--time", "virtual", "--results", "r.jsonl", "-q"]
    )
    assert ran.exit_code == ExitCode.PASSED
    done = CliRunner().invoke(cli, ["drivers", "r.jsonl", "mine=r.jsonl"])
    assert done.exit_code == ExitCode.PASSED, done.output
    *drivers, last = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in drivers] == ["reference", "mine"]
    assert " kept" in drivers[0]
    assert last == f"drivers.html: {len(RULES)} rules, 2 drivers"
    assert "mine" in (tmp_path / "drivers.html").read_text()


def test_a_file_that_is_no_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps({"schema": "other"}) + "\n")
    done = CliRunner().invoke(cli, ["drivers", str(tmp_path / "r.jsonl"), "-o", str(tmp_path / "d.html")])
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "r.jsonl" in done.stderr
    assert not (tmp_path / "d.html").exists()


def test_rules_are_read_with_their_keywords_and_reasons() -> None:
    assert isinstance(RULE, Rule)
    assert RULES["CMAP-17"].keywords == ("MUST NOT", "SHOULD")
    assert RULES["CMAP-28"].reason


def test_a_run_counts_the_rules_of_its_failed_cases_once_each_and_the_most_first() -> None:
    failures = [result(ONE, F), result(ONE, F, topology="sharded"), result(OTHER, F), result(OTHER, U)]
    told = list(terminal.report(failures, Settings(), terminal.Style(-1)))
    assert sum(f"shows: {RULE.id}" in line or f", {RULE.id}" in line for line in told) == 4
    table_of_rules = told[next(index for index, line in enumerate(told) if "Rules that failed" in line) + 1 :]
    assert table_of_rules[0] == f"      2 x {RULE.id} {', '.join(RULE.keywords)}: {RULE.text}"


def test_a_case_that_passed_unexpectedly_is_no_failure_of_its_rules() -> None:
    told = list(terminal.report([result(ONE, U)], Settings(), terminal.Style(-1)))
    assert not [line for line in told if "Rules that failed" in line]
