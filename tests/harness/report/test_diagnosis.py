"""Failures by cause, and the wrong drivers of the catalogue that fail as a driver does."""

from __future__ import annotations

from typing import Any

import click
import pytest

from harness.explaining.kill_matrix import WrongDriver, wrong_drivers
from harness.planning.plan import Settings
from harness.planning.result import Result, ResultStatus, Row
from harness.report.diagnosis import behaves_like, failure_groups
from harness.report.terminal import Style, report


def result(name: str, status: ResultStatus = ResultStatus.FAILED, **fields: Any) -> Result:
    return Result(f"spec/{name}", status, "replicaset", "mine", "2026-02-20", **fields)


def passed(name: str) -> Result:
    return result(name, ResultStatus.PASSED)


AT_ONCE: dict[str, Any] = {"cause": "no backoff", "rules": ("CB-2",)}
ROW = Row("client", "differs", "insert", "find")


def test_failures_with_one_cause_are_one_group_whose_example_shows_both_sides() -> None:
    failed = [
        result("a", **AT_ONCE),
        result("b", **AT_ONCE, comparison=(ROW,)),
        result("c", cause="no jitter"),
    ]
    first, second = failure_groups(failed)
    assert (first.cause, first.rules, first.best.id) == ("no backoff", ("CB-2",), "spec/b")
    assert [each.id for each in first.others] == ["spec/a"]
    assert (second.cause, second.best.id, second.others) == ("no jitter", "spec/c", ())


def test_failures_without_a_cause_are_grouped_by_what_their_reasons_have_in_common() -> None:
    reasons = ("'a' sent 2 commands", "'b' sent 17 commands", "'a' sent nothing")
    groups = failure_groups(result(str(index), reason=reason) for index, reason in enumerate(reasons))
    assert [1 + len(group.others) for group in groups] == [2, 1]


def test_two_drivers_have_groups_of_their_own() -> None:
    other = Result("spec/a", ResultStatus.FAILED, "replicaset", "theirs", "2026-02-20", **AT_ONCE)
    assert len(failure_groups([result("a", **AT_ONCE), other])) == 2


def wrong(name: str, *cases: str) -> WrongDriver:
    return WrongDriver(name, "CB-2", "It is wrong.", frozenset(f"spec/{case}" for case in cases))


CATALOGUE = (wrong("no backoff", *"abc"), wrong("new number", *"de"), wrong("everything", *"abcdefgh"))


@pytest.mark.parametrize(
    ("red", "green", "names"),
    [
        ("abc", "defgh", ["no backoff"]),
        ("abcde", "fgh", ["no backoff", "new number"]),
        ("abcdefgh", "", ["everything"]),
        ("a", "bcdefgh", []),
        ("x", "abcdefgh", []),
        ("", "abcdefgh", []),
        ("ab", "", ["no backoff"]),
    ],
)
def test_a_driver_behaves_like_those_that_fail_the_same_cases(red: str, green: str, names: list[str]) -> None:
    results = [*map(result, red), *map(passed, green)]
    assert [each.driver.name for each in behaves_like(results, CATALOGUE)] == names


def test_a_case_that_failed_on_one_deployment_is_red() -> None:
    results = [*map(result, "abc"), *map(passed, "abcdefgh")]
    assert [each.driver.name for each in behaves_like(results, CATALOGUE)] == ["no backoff"]


def test_twins_that_no_case_of_the_run_tells_apart_are_named_and_a_cause_decides() -> None:
    catalogue = (wrong("no jitter", *"abx"), wrong("no backoff", *"aby"))
    (alike,) = behaves_like([result("a", **AT_ONCE), result("b")], catalogue)
    assert (alike.driver.name, [twin.name for twin in alike.twins]) == ("no backoff", ["no jitter"])
    (alike,) = behaves_like([result("a", **AT_ONCE), result("b"), passed("y")], catalogue)
    assert (alike.driver.name, alike.twins) == ("no jitter", ())


def test_cases_whose_adapter_was_lost_say_nothing_of_the_driver() -> None:
    assert behaves_like([result(each, is_error=True) for each in "abc"], CATALOGUE) == ()


def test_each_wrong_driver_is_recognised_by_the_cases_that_it_fails() -> None:
    drivers = wrong_drivers()
    every = {case for driver in drivers for case in driver.fails}
    failed, passed = (
        {case: Result(case, status, "replicaset", "mine", "2026-02-20") for case in every}
        for status in (ResultStatus.FAILED, ResultStatus.PASSED)
    )
    for driver in drivers:
        results = [(failed if case in driver.fails else passed)[case] for case in every]
        alike = behaves_like(results, drivers)[0]
        assert driver in (alike.driver, *alike.twins)


def lines(results: list[Result], verbosity: int = 0) -> str:
    return click.unstyle("\n".join(report(results, Settings(), Style(verbosity))))


def test_a_report_has_one_block_for_a_cause_and_the_others_by_name() -> None:
    failed = [result(name, **AT_ONCE, reason=f"reason {name}") for name in "abc"]
    text = lines(failed)
    assert text.count("FAILED spec/") == 1
    assert "2 more with the same cause, no backoff [CB-2]; -v shows them:" in text
    assert "    spec/b  [mine, replicaset]\n    spec/c  [mine, replicaset]" in text
    assert lines(failed, verbosity=1).count("FAILED spec/") == 3


def test_a_report_names_the_wrong_drivers_that_fail_the_same_cases() -> None:
    driver = next(each for each in wrong_drivers() if each.name == "no backoff")
    failed = [
        Result(case, ResultStatus.FAILED, "replicaset", "mine", "2026-02-20", reason="no", **AT_ONCE)
        for case in driver.fails
    ]
    others = {case for each in wrong_drivers() for case in each.fails - driver.fails}
    green = [Result(case, ResultStatus.PASSED, "replicaset", "mine", "2026-02-20") for case in others]
    text = lines([*failed, *green])
    assert 'mine behaves like "no backoff"' in text
    assert f"  CB-2: {driver.wrong}" in text
