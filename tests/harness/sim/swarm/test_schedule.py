"""Schedules of the swarm: their text, their draw, and what is smaller than one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.sim.swarm.drawing import LEAST_KINDS, LEAST_OPERATIONS, draw
from harness.sim.swarm.schedule import (
    FAULTS,
    ON_A_SET,
    TOPOLOGIES,
    WORK,
    Schedule,
    ScheduledFault,
    ScheduleError,
    parse,
)

SEEDS = range(300)
DRAWN = [draw(seed) for seed in SEEDS]


def test_the_text_of_a_schedule_is_the_schedule() -> None:
    assert [parse(str(schedule)) for schedule in DRAWN] == DRAWN


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert [draw(seed) for seed in SEEDS] == DRAWN


def test_every_schedule_has_enough_operations_and_kinds_of_fault() -> None:
    assert min(schedule.clients * schedule.operations for schedule in DRAWN) >= LEAST_OPERATIONS
    assert min(len(schedule.kinds) for schedule in DRAWN) >= LEAST_KINDS


def test_all_topologies_faults_and_kinds_of_work_are_drawn() -> None:
    assert {schedule.topology for schedule in DRAWN} == set(TOPOLOGIES)
    assert {kind for schedule in DRAWN for kind in schedule.kinds} == set(FAULTS)
    assert {kind for schedule in DRAWN for kind in schedule.work} == set(WORK)


def test_few_schedules_have_many_clients_and_some_have_more_than_ten() -> None:
    counts = [schedule.clients for schedule in DRAWN]
    assert sum(count <= 3 for count in counts) > len(counts) // 2
    assert 10 < max(counts) <= 50


def test_faults_end_while_operations_are_still_to_come() -> None:
    assert all(
        fault.ends <= schedule.operations * (schedule.gap + 1)
        for schedule in DRAWN
        for fault in schedule.faults
    )


def test_a_single_server_is_given_no_work_of_replica_sets() -> None:
    singles = [schedule for schedule in DRAWN if schedule.topology == "single"]
    assert singles
    assert not any(ON_A_SET.intersection(schedule.work) for schedule in singles)


def test_words_that_are_left_out_have_their_usual_values() -> None:
    assert parse("seed=7") == Schedule(seed=7)
    assert parse("pause:node1@500+800").faults == (ScheduledFault("pause", "node1", "", 500, 800),)


def test_a_fault_of_no_target_is_written_without_one() -> None:
    fault = ScheduledFault("step-down", "", "", 10, 20)
    assert str(fault) == "step-down@10+20"
    assert parse(str(fault)).faults == (fault,)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sead=7", "there is no sead"),
        ("seed=x", "whole number"),
        ("clients=0", "from 1 to 50"),
        ("seed=1 seed=2", "said twice"),
        ("topology=ring", "one of single"),
        ("work=insert,sing", "one of insert"),
        ("causal=yes", "one of on, off"),
        ("topology=single work=mark", "needs a replica set"),
        ("node1", "is no fault"),
        ("flood:node1@1+1", "there is no fault flood"),
        ("pause:node9@1+1", "its target is node0"),
        ("pause:node1:hard@1+1", "is no value of pause"),
        ("latency:node1:20@1+1", "is no value of latency"),
        ("topology=single work=insert step-down@1+1", "not for single"),
    ],
)
def test_a_wrong_word_is_named_with_the_right_form(text: str, complaint: str) -> None:
    with pytest.raises(ScheduleError, match=complaint):
        parse(text)


def test_smaller_schedules_can_be_read_and_are_smaller() -> None:
    schedule = replace(draw(3), clients=4)
    smaller = list(schedule.smaller())
    assert schedule not in smaller
    assert all(parse(str(each)) == each for each in smaller)
    sizes = {
        (len(each.faults), each.clients, each.operations - each.first, len(each.work)) for each in smaller
    }
    whole = (len(schedule.faults), 4, schedule.operations, len(schedule.work))
    assert all(all(one <= other for one, other in zip(size, whole, strict=True)) for size in sizes)


def test_the_first_attempt_at_something_smaller_has_no_faults_at_all() -> None:
    assert next(draw(3).smaller()).faults == ()
