"""The rate for the limiter, from an operator's numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sizes import in_full

from harness.overload import sizing
from harness.overload.sizing import Deployment, LimiterRun, Sizing, measure, runs

OVERLOADED = Deployment(capacity=100, peak=225, clients=1000, timeout=2.0, usual=50)
FEW_CLIENTS = replace(OVERLOADED, clients=20, margin=0.0)
ROOM_TO_SPARE = replace(OVERLOADED, peak=80, margin=0.0)


def sized(deployment: Deployment) -> Sizing:
    with ThreadPoolExecutor(1) as executor:
        return measure(deployment, 1, executor)


def made(goodput: dict[int | None, list[float]], afterwards: float = 50.0) -> Sizing:
    """Return what these goodputs at the peak come to."""
    played = [
        LimiterRun(rate, 100.0, value, afterwards, rate / 1000 if rate else 2.0, 0.5, (value, value))
        for rate, values in goodput.items()
        for value in values
    ]
    return Sizing(OVERLOADED, 2, played)


def test_the_lowest_rate_is_advised_whose_worst_run_has_nearly_the_most() -> None:
    found = made({None: [5, 9], 70: [70, 70], 85: [84, 85], 90: [86, 90], 100: [40, 100]})
    assert found.is_needed
    assert found.rate == 85
    assert [each.rate for each in found.near] == [85, 90]
    assert found.verdict().startswith("Set ingressRequestAdmissionRatePerSec to 85 ")
    said = "\n".join(found.reasons())
    assert "without a limit 5 to 9 operations/s" in said
    assert "at 85 it answers 84 to 85/s" in said
    assert "up to 90 " in said
    assert "a limit of 100 is too high" in said


def test_no_limit_is_advised_where_the_server_answers_as_much_without() -> None:
    found = made({None: [96, 100], 50: [50, 50], 100: [97, 100]})
    assert not found.is_needed
    assert found.verdict().startswith("Leave the request rate limiter off")
    assert found.rate == 100


def test_a_server_that_does_not_come_back_after_the_peak_needs_one() -> None:
    played = [
        *(replace(each, afterwards=3.0) for each in made({None: [96, 100]}).runs),
        *made({90: [90, 90], 100: [97, 100]}).runs,
    ]
    found = Sizing(OVERLOADED, 2, played)
    assert found.is_needed
    assert "after the peak it stays so: 3 of 50/s" in "\n".join(found.reasons())


@pytest.mark.parametrize("width", [60, 100])
def test_the_picture_fits_the_terminal_and_marks_the_rate(width: int) -> None:
    found = made({None: [5, 9], 85: [84, 85], 100: [40, 100]})
    lines = found.bars(width)
    assert all(len(line) <= width for line in lines)
    assert [line[0] for line in lines] == [" ", ">", " "]
    assert lines[2].count("█") < lines[1].count("█")
    assert lines[2].count("░") > lines[1].count("░")


def test_a_large_server_is_played_at_a_smaller_size_with_the_same_load_for_each_part() -> None:
    large = replace(OVERLOADED, capacity=2000, peak=4500, usual=1000, clients=20_000).scenario(1800, 2000, 7)
    small = OVERLOADED.scenario(90, 100, 7)
    assert large == small
    assert small.servers.request_limit is not None
    assert small.servers.request_limit.rate == 90


def test_every_limit_is_tried_at_both_capacities_with_every_seed() -> None:
    wanted = runs(OVERLOADED, 3)
    assert len(wanted) == len(set(wanted)) == 10 * 2 * 3
    assert {able for _, able, _ in wanted} == {100, 90}
    assert len(runs(replace(OVERLOADED, margin=0.0), 3)) == 10 * 3


@pytest.mark.parametrize("wrong", [{"peak": 40.0}, {"latency": 2.0}, {"timeout": 0.005}])
def test_numbers_that_contradict_each_other_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"below what is usual|none would be answered in time"):
        replace(OVERLOADED, **wrong)


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_an_overloaded_server_with_many_clients_gets_a_limit_below_its_capacity() -> None:
    found = sized(OVERLOADED)
    assert found.is_needed
    assert 80 <= found.rate <= 95
    assert found.without.worst < 50
    assert found.advised.worst > 75
    assert found.deployment.size == 1
    assert sizing.run(OVERLOADED, 90, 100.0, 0) in found.runs, "the same numbers gave another run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deployment", "reason"),
    [(FEW_CLIENTS, "no more than 20 operations can wait"), (ROOM_TO_SPARE, "is below the capacity")],
)
def test_few_clients_or_a_small_peak_need_none_and_the_reason_is_said(
    deployment: Deployment, reason: str
) -> None:
    found = sized(deployment)
    assert not found.is_needed
    assert [each for each in found.reasons() if reason in each]
