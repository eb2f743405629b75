"""Planted faults: every checker has one that it notices, and what was replaced is put back."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import PLANTED, Planted
from planted.fault import replaced
from sizes import size

from driver.policy.backpressure import Backoff
from harness.sim.swarm.checkers import CHECKERS
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.judging import judge
from harness.sim.swarm.schedule import Schedule, parse

KNOWN = {
    name: schedule
    for name, _, schedule in (
        line.partition(" ")
        for line in Path(__file__).with_name("planted.txt").read_text(encoding="utf-8").splitlines()
    )
}
"""A schedule by which each planted fault is noticed. Those here were drawn, as their seeds say."""


def test_every_checker_has_a_fault_that_it_must_notice() -> None:
    assert {planted.checker for planted in PLANTED.values()} == set(CHECKERS)


def test_every_planted_fault_has_a_schedule() -> None:
    assert KNOWN.keys() == PLANTED.keys()


def test_a_planted_fault_is_there_within_its_block_alone() -> None:
    with PLANTED["long-backoff"].apply():
        wrong = Backoff().before(1, 1.0)
    assert (wrong, Backoff().before(1, 1.0)) == (1.0, 0.1)


def test_what_was_replaced_is_put_back_after_an_error() -> None:
    class Owner:
        def answer(self) -> float:
            return 1

    with pytest.raises(ZeroDivisionError), replaced(Owner, "answer", lambda _: lambda _self: 1 / 0):
        Owner().answer()
    assert Owner().answer() == 1


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_noticed_by_its_checker(planted: Planted) -> None:
    """With `PUSHBACKD_TESTS=planted=200` so many seeds are searched, rather than the known schedule run."""
    most = size("planted")
    schedules = map(draw, range(most)) if most else [parse(KNOWN[planted.name])]
    with planted.apply():
        assert any(planted.checker in _broken(schedule) for schedule in schedules)


def _broken(schedule: Schedule) -> set[str]:
    """Return the rules that a run of a schedule breaks."""
    return {checker for checker, _ in judge(schedule).violations}
