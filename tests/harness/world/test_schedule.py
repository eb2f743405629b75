"""Schedules: what they can hold, as text and back, and what dice make of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import schedules

from harness.world.schedule import (
    STEPS,
    FlakeSchedule,
    FlakeScheduleError,
    Late,
    Seeds,
    Start,
    Way,
    draw,
    parse,
)
from mongowire.system import SeededRng

SERVERS = ("node0", "node1", "node2")


@given(schedules())
def test_a_schedule_is_what_its_text_says(schedule: FlakeSchedule) -> None:
    assert parse(str(schedule)) == schedule


def test_every_kind_of_perturbation_is_a_word_and_a_sentence() -> None:
    schedule = parse("to:node1=20ms from:node1:2=5ms from:node1:2:3=1ms start:4=0ms seeds=2,0,1")
    assert schedule.perturbations == (
        Late(Way.TO, "node1", None, None, 20),
        Late(Way.FROM, "node1", 2, None, 5),
        Late(Way.FROM, "node1", 2, 3, 1),
        Start(4, 0),
        Seeds((2, 0, 1)),
    )
    assert [each.described() for each in schedule.perturbations] == [
        "all packets to node1 are late",
        "all packets from node1 on its 2nd connection are late",
        "the 3rd packet from node1 on its 2nd connection is late",
        "the 4th task begins late",
        "the connection string names its servers in another order",
    ]


@pytest.mark.parametrize(
    ("number", "ordinal"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")],
)
def test_ordinals_are_english(number: int, ordinal: str) -> None:
    assert Start(number, 1).described() == f"the {ordinal} task begins late"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("slow", "'slow' is no perturbation: write to:SERVER=MSms"),
        ("to:node1=20", "'to:node1=20' is no perturbation"),
        ("to:node1:0=20ms", "'to:node1:0=20ms' is no perturbation"),
        ("via:node1=20ms", "'via:node1=20ms' is no perturbation"),
        ("start:1=1ms start:1=2ms", "'start:1=2ms' and 'start:1=1ms' have the same target"),
        ("seeds=0,1 seeds=1,0", "'seeds=1,0' and 'seeds=0,1' have the same target"),
    ],
)
def test_what_is_no_schedule_is_refused_by_its_word(text: str, complaint: str) -> None:
    with pytest.raises(FlakeScheduleError) as refused:
        parse(text)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("to:node3=1ms", "'to:node3=1ms': there is no node3; there is node0, node1, node2"),
        ("seeds=1,0", "'seeds=1,0': it takes each number from 0 to 2 once"),
        ("seeds=0,1,1", "'seeds=0,1,1': it takes each number from 0 to 2 once"),
    ],
)
def test_a_schedule_for_other_servers_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(FlakeScheduleError) as refused:
        parse(text).check(SERVERS)
    assert str(refused.value) == complaint


def drawn(seed: int, *, most: int = 50, servers: tuple[str, ...] = SERVERS) -> FlakeSchedule:
    return draw(SeededRng(seed), servers, max_delay_ms=most)


def test_a_seed_draws_the_same_schedule_every_time_and_another_one_another() -> None:
    assert drawn(7) == drawn(7)
    assert len({drawn(seed) for seed in range(100)}) == 100


@given(st.integers(0, 2**32), st.sampled_from((1, 3, 50, 2000)), st.integers(1, 3))
def test_what_is_drawn_suits_its_servers_and_is_no_later_than_it_may(
    seed: int, most: int, count: int
) -> None:
    schedule = drawn(seed, most=most, servers=SERVERS[:count])
    schedule.check(SERVERS[:count])
    assert parse(str(schedule)) == schedule
    assert schedule.longest_ms <= most


def test_everything_that_can_be_disturbed_is_drawn_sooner_or_later() -> None:
    perturbations = [each for seed in range(300) for each in drawn(seed).perturbations]
    late = [each for each in perturbations if isinstance(each, Late)]
    assert {(each.way, each.server) for each in late} == {(way, server) for way in Way for server in SERVERS}
    assert {each.connection for each in late} == {None, 1, 2, 3, 4}
    assert {each.packet for each in late} == {None, *range(1, 9)}
    assert {each.ms for each in late} == {ms for ms in STEPS if 1 <= ms <= 50}
    assert {each.number for each in perturbations if isinstance(each, Start)} == set(range(1, 17))
    assert 0 in {each.ms for each in perturbations if isinstance(each, Start)}
    assert len({each for each in perturbations if isinstance(each, Seeds)}) == 5
