from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning.result import ExitCode, Moment, Result, ResultStatus, Row, Tally
from harness.running.run import InOrder

P, F, S, K, U, N = ResultStatus


def result(status: ResultStatus = P, *, case: str = "spec/file::case") -> Result:
    return Result(case, status, "replicaset", "reference", "2026-02-20")


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([P], ExitCode.PASSED),
        ([P, S, K], ExitCode.PASSED),
        ([K], ExitCode.PASSED),
        ([P, F], ExitCode.FAILED),
        ([F, U], ExitCode.FAILED),
        ([P, U], ExitCode.UNEXPECTED_PASS),
        ([S, S], ExitCode.NOTHING_RAN),
        ([], ExitCode.NOTHING_RAN),
    ],
)
def test_the_exit_code_says_how_the_worst_case_ended(statuses: list[ResultStatus], code: ExitCode) -> None:
    assert Tally.of(map(result, statuses)).exit_code is code


def test_the_exit_codes_are_those_that_ci_servers_know_from_pytest() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 5, 6, 129, 130, 141, 143]


def test_a_result_crosses_to_another_process_unchanged() -> None:
    before = Result(
        "a/b::c",
        F,
        "single",
        "reference",
        "2026-07-08",
        "why",
        1.5,
        "b.yml",
        7,
        "8.2.3",
        "x",
        "1",
        None,
        (Row("client0", "missing", "commandStartedEvent", None, 12, ""),),
        (Moment(0.5, "client", "client0", "commandStartedEvent", "insert", 7, "insert {}"),),
        ("one attempt too few",),
    )
    assert Result.from_dict(json.loads(json.dumps(before.to_dict()))) == before


@given(st.permutations(range(6)))
def test_results_are_delivered_in_the_order_of_the_plan_however_they_come(arrivals: list[int]) -> None:
    delivered: list[str] = []
    in_order = InOrder(lambda result: delivered.append(result.id))
    for place in arrivals:
        in_order.add(place, result(case=str(place)))
    assert delivered == [str(place) for place in range(6)]


def test_a_result_is_delivered_as_soon_as_all_before_it_are() -> None:
    delivered: list[str] = []
    in_order = InOrder(lambda result: delivered.append(result.id))
    in_order.add(1, result(case="1"))
    assert delivered == []
    in_order.add(0, result(case="0"))
    assert delivered == ["0", "1"]


def test_an_interrupted_run_still_delivers_what_has_come() -> None:
    delivered: list[str] = []
    in_order = InOrder(lambda result: delivered.append(result.id))
    in_order.add(2, result(case="2"))
    in_order.add(1, result(case="1"))
    in_order.flush()
    assert delivered == ["1", "2"]
