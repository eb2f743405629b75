"""No line is wider than the terminal: tables become cards, prose and timelines are wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from made_results import REAL, failed, retried
from terminals import at_a_terminal

from fakeserver import ClusterSpec
from fakeserver.deployment.records.operations import OperationTotals
from harness.commands import conform
from harness.commands import output as documents
from harness.explaining.journal import two_columns
from harness.overload import claims as catalogue
from harness.overload import defences, governed, probing
from harness.overload.claims import CLAIMS
from harness.overload.drill import Drill, Summary
from harness.report import fitting, terminal
from harness.report.fitting import aligned, length, wrapped
from harness.sim.article.parameters import ArticleParameters, Strategy
from harness.sim.article.prints import client_lines, table
from harness.sim.article.scenario import run_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTHS = (60, 80, 120)
STATE = {
    "page": "http://127.0.0.1:8080/#token=RZueHYphGm_WQ_LdyZUg7m7_bJoui3ZL",
    "members": [
        {"name": f"node{number}", "address": f"localhost:2701{number}", "state": "PRIMARY", "term": 1}
        | {"optime": "Timestamp(1, 1)", "connections": 12, "set": "rs0", "faults": "delay 200 ms, cut at 3"}
        for number in range(3)
    ],
}
RULES = {
    "rules": [
        {"id": "1", "when": {"command": ["find", "insert"], "appName": "a", "attempt": 2}, "times": 3}
        | {"then": {"error": 462, "labels": ["RetryableError", "SystemOverloadedError"]}, "hits": 0}
    ]
}


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found: int = request.param
    for module in (fitting, documents, terminal, conform):
        monkeypatch.setattr(module, "columns", lambda **_: found)
    return found


def widest(lines: Sequence[str]) -> int:
    """Return the columns of the widest line; a lone address goes on below, and is copied as a whole."""
    return max(0 if "://" in line and len(line.split()) == 1 else length(line) for line in lines)


def fitted(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in wrapped(line, width)]


@pytest.mark.parametrize("document", [STATE, RULES], ids=["state", "rule ls"])
def test_documents_of_servers_fit(
    document: dict[str, Any], width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    documents.show(document, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert widest(lines) <= width
    assert "PRIMARY" in "".join(lines) or "462" in "".join(lines)


def test_the_timeline_of_a_failure_fits(width: int) -> None:
    result = failed(timeline=retried())
    lines = fitted(list(terminal.failure(result, REAL.settings, moments=60)), width)
    assert widest(lines) <= width
    marks = [line[15] for line in lines if line.startswith("     0.0") and "──" not in line]
    assert set(marks) == {"C", "S"} if width < 100 else "S" not in marks


def test_the_comparison_of_strategies_fits(width: int) -> None:
    parameters = ArticleParameters(clients=30, steady=2.0, stopped=1.0, resumed=2.0)
    trials = [run_model(parameters, strategy) for strategy in (Strategy.FIXED, Strategy.EXPONENTIAL)]
    lines = fitted([*table(trials, width), *client_lines(trials[0])], width)
    assert widest(lines) <= width
    assert {"fixed", "exponential"} <= {line.split()[0] for line in lines if line.strip()}
    assert sum("peak concurrency" in line for line in lines) == len(trials)


def test_a_claim_fits(width: int) -> None:
    claim = next(iter(CLAIMS.values()))(1000, 0)
    sides = [
        {"side": side.name, "goodput": {phase.name: 1234.5 for phase in claim.phases}, "failed": 1}
        | {"offered": 3, "attempts_per_success": None, "latency_p99": 0.5}
        for side in claim.sides
    ]
    report = {"clients": 1000, "capacity": 100.0, "seed": 0, "sides": sides}
    assert widest(fitted(catalogue.table(claim, report, width).splitlines(), width)) <= width


NUMBERS = dict.fromkeys(("offered", "goodput", "rejected", "late", "of_limit"), 1017.8)
TRIALS = [{"defence": each.name, **NUMBERS} for each in defences.DEFENCES]
PROBED: dict[str, Any] = {"best": 40, "clients": 44, "seconds": 10.0} | {
    "trials": [
        {"start": 160, "rule": "pool by pool", "tickets": 212.0, "of_best": 5.3}
        | {"throughput": 1899.0, "of_best_throughput": 0.949}
    ]
}
GOVERNED = [{"policy": "follow-throughput", "plan": "spike", "of_possible": 0.865, "at_last": 1.11}]


@pytest.mark.parametrize(
    ("table", "report", "numbers"),
    [
        (defences.table, {"live": False, "seconds": 5.0, "capacity": 100.0, "trials": TRIALS}, "1017.8"),
        (probing.table, PROBED | {"pressed": PROBED}, "1,899"),
        (governed.table, {"live": False, "seconds": 5.0, "capacity": 100.0, "trials": GOVERNED}, "111.0%"),
    ],
    ids=["overload", "probing", "governed"],
)
def test_the_tables_of_simulations_fit_and_no_row_is_broken(
    table: Callable[[Mapping[str, Any], int], str], report: Mapping[str, Any], numbers: str, width: int
) -> None:
    lines = table(report, width).splitlines()
    assert widest(lines[1:]) <= width
    assert any(numbers in line for line in lines)
    if width == min(WIDTHS) and report.get("trials") != GOVERNED:
        assert not any(line.split()[0][0].isdigit() for line in lines if line.startswith("  "))


def test_a_drill_fits(width: int) -> None:
    totals = OperationTotals()
    for number in range(3):
        totals.asked("c", number, {"insert": "orders", "lsid": {"id": bytes([number])}}, 0.0)
        totals.answered("c", number, {"ok": 1}, 0.1)
    summary = Summary(Drill(ClusterSpec.standalone(), share=0.02), 1, totals, {})
    assert widest(fitted(summary.lines(width), width)) <= width


def test_what_to_type_next_fits(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    conform._say_what_next()
    lines = capsys.readouterr().out.splitlines()
    assert widest(lines) <= width
    typed = [line for line in lines if "pushbackd " in line]
    assert [line.split("pushbackd ")[1].split()[0] for line in typed] == ["demo", "conform", "new"]


@pytest.mark.slow
def test_a_verdict_on_standard_error_fits_the_terminal() -> None:
    heard = at_a_terminal("exec", "-t", "single", "--", "true", columns=40)
    assert "  hint: no operation came; the command\r\n    gets the connection string in" in heard.text


def test_a_pipe_has_no_width() -> None:
    wide = "word " * 60
    assert list(wrapped(wide, None)) == [wide]
    assert len(aligned([["a", "b"], ["x" * 90, "y" * 90]], None)) == 2


@pytest.mark.parametrize(
    "line", ["  one two three four five six seven", "\x1b[31mred red red red\x1b[0m end " * 3]
)
def test_no_word_is_lost_and_what_follows_is_indented(line: str) -> None:
    parts = list(wrapped(line, 20))
    assert " ".join(" ".join(parts).split()) == " ".join(line.split())
    assert all(part.startswith("  ") for part in parts[1:])


def test_an_address_is_not_cut_so_that_it_can_be_copied() -> None:
    address = "mongodb://localhost:27017,localhost:27018,localhost:27019/?replicaSet=rs0"
    assert [part.strip() for part in wrapped(f"  uri  {address}", 60)] == ["uri", address]


def test_a_command_over_several_lines_is_one_for_the_shell() -> None:
    line = "  again: pushbackd conform a.yml --adapter reference --seed 1 -k '\"the insert is sent\"'"
    parts = list(wrapped(line, 60))
    assert all(part.endswith(" \\") for part in parts[:-1])
    assert any("'\"the insert is sent\"'" in part for part in parts)
    assert widest(parts) <= 60


def test_one_column_tells_whose_event_it_is() -> None:
    lines = list(two_columns(retried(), width=80))
    assert [line[13] for line in lines if "command" in line][:3] == ["C", "S", "C"]


@pytest.mark.slow
@pytest.mark.parametrize("columns", WIDTHS)
def test_lines_at_a_real_terminal_fit(columns: int) -> None:
    heard = at_a_terminal("simulate", "claim", columns=columns)
    assert widest(heard.text.splitlines()) <= columns
