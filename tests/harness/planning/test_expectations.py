from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.planning import expectations
from harness.planning.expectations import Expectations, ExpectationsError
from harness.planning.result import Result, ResultStatus

CASE = "retryable-writes/insertOne::fails twice"


def load(tmp_path: Path, text: str) -> Expectations:
    path = tmp_path / "driver.yml"
    path.write_text(text)
    return expectations.load(path)


def known_failing(tmp_path: Path, case: str = CASE, extra: str = "") -> Expectations:
    return load(tmp_path, f'known-failing:\n  - case: "{case}"\n    reason: PYTHON-1\n{extra}')


def result(status: ResultStatus, *, topology: str = "replicaset", edition: str = "2026-02-20") -> Result:
    return Result(CASE, status, topology, "reference", edition)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ResultStatus.FAILED, ResultStatus.KNOWN_FAILING),
        (ResultStatus.PASSED, ResultStatus.UNEXPECTED_PASS),
        (ResultStatus.SKIPPED, ResultStatus.SKIPPED),
    ],
)
def test_a_case_that_is_known_to_fail_runs_and_must_fail(
    tmp_path: Path, before: ResultStatus, after: ResultStatus
) -> None:
    assert known_failing(tmp_path).judge(result(before)).status is after


@pytest.mark.parametrize("text", ["", "# none yet\n"])
def test_an_empty_file_expects_nothing_to_fail(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).entries == ()
    assert expectations.load(Path(os.devnull)).entries == ()


def test_a_known_failure_tells_its_reason(tmp_path: Path) -> None:
    assert known_failing(tmp_path).judge(result(ResultStatus.FAILED)).reason == "PYTHON-1"


def test_a_stale_entry_is_named_by_file_and_line(tmp_path: Path) -> None:
    judged = known_failing(tmp_path).judge(result(ResultStatus.PASSED))
    assert f"{tmp_path / 'driver.yml'}:2 expects it to fail (PYTHON-1)" in judged.reason


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        (CASE, True),
        ("retryable-writes/insertOne::*", True),
        ("retryable-writes/*::fails*", True),
        ("*::*", True),
        ("retryable-writes/insertOne::fails", False),
        ("retryable-reads/*::*", False),
        ("retryable-writes/insertOne::[f]ails twice", False),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_is_special(
    tmp_path: Path, pattern: str, *, matches: bool
) -> None:
    entry = known_failing(tmp_path, pattern).find(CASE, "replicaset", "2026-02-20")
    assert (entry is not None) is matches


@pytest.mark.parametrize(
    ("extra", "topology", "edition", "status"),
    [
        ("    topologies: [sharded]\n", "replicaset", "2026-02-20", ResultStatus.FAILED),
        ("    topologies: [sharded, replicaset]\n", "replicaset", "2026-02-20", ResultStatus.KNOWN_FAILING),
        ("    topologies: [replica_set]\n", "replicaset", "2026-07-08", ResultStatus.KNOWN_FAILING),
        ("    editions: [2026-07-08]\n", "replicaset", "2026-02-20", ResultStatus.FAILED),
        ("    editions: [2026-07-08]\n", "replicaset", "2026-07-08", ResultStatus.KNOWN_FAILING),
    ],
)
def test_an_entry_may_hold_for_some_topologies_or_editions_only(
    tmp_path: Path, extra: str, topology: str, edition: str, status: ResultStatus
) -> None:
    book = known_failing(tmp_path, extra=extra)
    assert book.judge(result(ResultStatus.FAILED, topology=topology, edition=edition)).status is status


def test_the_first_entry_that_matches_speaks_for_a_case(tmp_path: Path) -> None:
    book = load(
        tmp_path,
        "known-failing:\n"
        "  - {case: 'retryable-writes/insertOne::fails twice', reason: first}\n"
        "  - {case: 'retryable-writes/*::*', reason: second}\n",
    )
    assert book.judge(result(ResultStatus.FAILED)).reason == "first"


def test_an_entry_that_no_case_of_its_file_matches_is_a_complaint(tmp_path: Path) -> None:
    complaints = known_failing(tmp_path, "retryable-writes/insertOne::gone").unmatched([CASE])
    assert complaints == [
        (
            f"{tmp_path / 'driver.yml'}:2: no case matches 'retryable-writes/insertOne::gone': "
            "delete the entry or mend it"
        )
    ]


@pytest.mark.parametrize("pattern", ["retryable-writes/updateOne::gone", "retryable-writes/*::gone"])
def test_an_entry_for_a_file_outside_of_the_run_is_no_complaint(tmp_path: Path, pattern: str) -> None:
    assert known_failing(tmp_path, pattern).unmatched([CASE]) == []


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("[1]", 1, "has the keys known-failing, skip and flaky"),
        ("hopeless: []", 1, "unknown key 'hopeless'"),
        ("skip: yes please", 1, "'skip' holds a list"),
        ("skip:\n  - case: a/b::c\n", 2, "needs 'reason'"),
        ("skip:\n  - reason: because\n", 2, "needs 'case'"),
        ("skip:\n  - case: a/b::c\n    reason: ' '\n", 3, "the reason is empty: fill in why 'a/b::c'"),
        ('skip:\n  - case: a/b::c\n    reason: ""\n', 3, "the reason is empty: fill in why 'a/b::c'"),
        ("skip:\n  - case: a/b\n    reason: because\n", 2, "is no pattern of ids"),
        ("skip:\n  - case: a/b::c\n    reason: because\n    topology: single\n", 4, "unknown key 'topology'"),
        ("skip:\n  - case: a/b::c\n    reason: because\n    topologies: single\n", 4, "is a list"),
        ("skip:\n  - just words\n", 2, "an entry has the keys"),
        ("skip: [", 1, ""),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int, complaint: str) -> None:
    with pytest.raises(ExpectationsError) as raised:
        load(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'driver.yml'}:{line}")
    assert complaint in str(raised.value)


def test_a_file_of_comments_expects_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing is known to fail\n") == Expectations()


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExpectationsError, match="cannot be read"):
        expectations.load(tmp_path / "missing.yml")


def test_a_flaky_case_may_fail_until_its_attempts_are_used_up(tmp_path: Path) -> None:
    book = load(tmp_path, f'flaky:\n  - case: "{CASE}"\n    reason: slow machines\n')
    assert book.is_flaky(result(ResultStatus.FAILED))
    assert not book.is_flaky(result(ResultStatus.PASSED))
    assert book.judge(result(ResultStatus.FAILED)).status is ResultStatus.FAILED
    assert not known_failing(tmp_path).is_flaky(result(ResultStatus.FAILED))


@pytest.mark.parametrize(
    ("entry", "run", "holds"),
    [
        ("single", "single", True),
        ("single", "single+auth", True),
        ("single+auth", "single+auth", True),
        ("single+auth", "single", False),
        ("single", "sharded", False),
    ],
)
def test_an_entry_for_a_topology_holds_with_access_control_too(
    tmp_path: Path, entry: str, run: str, *, holds: bool
) -> None:
    book = known_failing(tmp_path, extra=f"    topologies: [{entry}]\n")
    assert (book.find(CASE, run, "2026-02-20") is not None) is holds


def test_an_adapter_has_a_file_of_its_own_or_that_of_its_driver() -> None:
    names = ("java", "java-reactive", "java-elsewhere", "nobody")
    own, reactive, elsewhere, unknown = (expectations.of_adapter(name) for name in names)
    assert own == elsewhere
    assert own.entries
    assert reactive.entries
    assert reactive != own
    assert not unknown.entries
