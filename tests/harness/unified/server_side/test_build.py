"""The key `pushbackd` of a case: what may stand in it, what it becomes, and what is said of mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.unified.server_side.model import CountRule, GapRule, Range, RunOn

if TYPE_CHECKING:
    from pathlib import Path

    from harness.unified.server_side.model import ServerSide

HEAD = 'description: d\nschemaVersion: "1.0"\ntests:\n  - description: one\n    operations: []\n'


def key(tmp_path: Path, text: str) -> ServerSide:
    path = tmp_path / "case.yml"
    path.write_text(f"{HEAD}    pushbackd: {text}\n")
    found = load(path).cases[0].server_side
    assert found is not None
    return found


def test_a_plain_file_does_not_have_it(tmp_path: Path) -> None:
    path = tmp_path / "case.yml"
    path.write_text(HEAD)
    assert load(path).cases[0].server_side is None


def test_all_three_sections_and_where_the_case_runs_are_read(tmp_path: Path) -> None:
    found = key(
        tmp_path,
        "{runOn: {editions: ['2026-02-20'], time: virtual, features: [SESSIONS], profile: {min: '8.2'}},"
        " expectAttempts: [{command: find}], expectConnections: [{established: 2, closedInOrder: [1, 0]}],"
        " expectMetrics: [{path: a.b, change: {min: 1}, value: {$$type: long}}]}",
    )
    assert found.run_on == RunOn(("2026-02-20",), "virtual", ("SESSIONS",), "8.2")
    assert found.attempts[0].commands == ("find",)
    assert (found.connections[0].established, found.connections[0].closed_in_order) == (Range(2, 2), (1, 0))
    assert (found.metrics[0].change, found.metrics[0].value) == (Range(least=1), {"$$type": "long"})
    assert found.is_judged


def test_a_case_that_only_says_where_it_runs_asks_nothing_of_servers(tmp_path: Path) -> None:
    assert not key(tmp_path, "{runOn: {time: virtual}}").is_judged


def test_rules_are_asked_by_name_and_pass_over_what_is_known(tmp_path: Path) -> None:
    rules = key(tmp_path, "{expectRules: [limit, 'labels:of reads$']}").rules
    assert rules is not None
    assert rules.names == ("limit", "labels")
    assert rules.passes_over("labels", "the labels of reads")
    assert not rules.passes_over("labels", "the labels of writes")
    assert not rules.passes_over("limit", "the limit of reads")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("3", Range(3, 3)),
        ("'1'", Range(1, 1)),
        ("{min: 2, max: 3}", Range(2, 3)),
        ("overload retries", CountRule()),
        ("overload retries + 1", CountRule(1)),
    ],
)
def test_a_number_of_attempts_is_a_number_or_a_rule(text: str, count: object, tmp_path: Path) -> None:
    assert key(tmp_path, f"{{expectAttempts: [{{command: find, count: {text}}}]}}").attempts[0].count == count


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("none", GapRule("none")),
        ("overload backoff", GapRule("overload backoff")),
        ("'overload backoff, attempt 2'", GapRule("overload backoff", 2)),
        ("full overload backoff", GapRule("full overload backoff")),
        ("transaction backoff", GapRule("transaction backoff")),
        ("0.5", Range(0.5, 0.5)),
        ("{max: 1}", Range(most=1)),
    ],
)
def test_a_gap_is_seconds_or_a_rule(text: str, gap: object, tmp_path: Path) -> None:
    found = key(tmp_path, f"{{expectAttempts: [{{command: find, retries: {{gap: {text}}}}}]}}")
    assert found.attempts[0].retries is not None
    assert found.attempts[0].retries.gap == gap


def test_a_list_of_attempts_is_about_one_operation(tmp_path: Path) -> None:
    listed = key(tmp_path, "{expectAttempts: [{command: find, attempts: [{meets: ok}]}, {command: find}]}")
    assert [each.operations for each in listed.attempts] == [Range(1, 1), None]


REFUSED = {
    "{expectAttempt: []}": "pushbackd.expectAttempt: unknown field (did you mean 'expectAttempts'?)",
    "{expectAttempts: [{command: find, cout: 1}]}": "cout: unknown field (did you mean 'count'?)",
    "{expectAttempts: [{command: find, each: {meet: ok}}]}": "meet: unknown field (did you mean 'meets'?)",
    "{expectAttempts: [{command: find, each: {meets: ko}}]}": (
        "each.meets: 'ko' is no end of an attempt and no name of an error (one of ok, disconnect, silence, or"
    ),
    "{expectAttempts: [{command: find, each: {meets: [ok, BadValu]}}]}": "(did you mean 'BadValue'?)",
    "{expectAttempts: [{command: find, each: {on: primry}}]}": (
        "each.on: 'primry' is no server (did you mean 'primary'?)"
    ),
    "{expectAttempts: [{command: find, retries: {gap: overload bakoff}}]}": (
        "retries.gap: 'overload bakoff' is no rule for a gap (did you mean 'overload backoff'?)"
    ),
    "{expectAttempts: [{command: find, retries: {gap: 'none, attempt 2'}}]}": "is no rule for a gap",
    "{expectAttempts: [{command: find, retries: {gap: 'overload backoff, attempt 0'}}]}": "is no rule for a",
    "{expectAttempts: [{command: find, count: overload + 1}]}": (
        "count: 'overload + 1' is no rule for a number of attempts (write overload retries + 1)"
    ),
    "{expectAttempts: [{command: find, first: {gap: none}}]}": (
        "first.gap: the first attempt has no gap before it (leave gap out)"
    ),
    "{expectAttempts: [{command: find, attempts: [{connection: same}]}]}": (
        "attempts[0].connection: the first attempt has no attempt before it (leave connection out)"
    ),
    "{expectAttempts: [{command: find, first: {on: same}}]}": "first.on: the first attempt has",
    "{runOn: {editions: [2026]}}": "runOn.editions[0]:",
    "{runOn: {features: [SESION]}}": "(did you mean 'SESSIONS'?)",
    "{runOn: {time: virtaul}}": "(did you mean 'virtual'?)",
    "{expectMetrics: [{change: 1}]}": "expectMetrics[0]: field 'path' is missing (add path)",
    "{expectConnections: [{established: {most: 1}}]}": "established.most: unknown field",
    "{expectRules: [limits]}": "there is no oracle 'limits' (did you mean 'limit'?)",
    "{expectRules: ['limit:(']}": "'('",
    "{}": "pushbackd: is empty (leave it out, or give at least one)",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items())
def test_a_mistake_is_named_with_its_place_and_the_fix(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as raised:
        key(tmp_path, text)
    assert said in str(raised.value)
    assert "case.yml:6:" in str(raised.value)
