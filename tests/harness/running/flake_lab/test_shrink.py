"""The smallest schedule that fails: nothing in it can go, and nothing be smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st
from schedules import schedules

from harness.running.flake_lab.shrink import search
from harness.world.schedule import STEPS, Disturbance, FlakeSchedule, Start, Way, draw, parse
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable

    Fails = Callable[[FlakeSchedule], bool]


def shrunk(
    schedule: FlakeSchedule, fails: Fails, *, most: int = 10_000
) -> tuple[FlakeSchedule | None, list[FlakeSchedule]]:
    """Return the smallest schedule that was found, and all that were tried."""
    searching, tried, smallest = search(schedule, most=most), [], None
    candidate: FlakeSchedule | None = next(searching)
    while candidate is not None:
        tried.append(candidate)
        failed = fails(candidate)
        smallest = candidate if failed else smallest
        try:
            candidate = searching.send(failed)
        except StopIteration:
            candidate = None
    return smallest, tried


def total(schedule: FlakeSchedule) -> int:
    return sum(each.ms for each in schedule.perturbations if hasattr(each, "ms"))


@st.composite
def races(draw: st.DrawFn) -> tuple[FlakeSchedule, Fails]:
    """A schedule, and some of its perturbations that fail together when they are late enough."""
    schedule = draw(schedules())
    assume(schedule)
    culprits = draw(st.lists(st.sampled_from(schedule.perturbations), max_size=3, unique=True))
    enough = {each.site: draw(st.integers(0, getattr(each, "ms", 0))) for each in culprits}

    def fails(tried: FlakeSchedule) -> bool:
        late = {each.site: getattr(each, "ms", 0) for each in tried.perturbations}
        return all(site in late and late[site] >= ms for site, ms in enough.items())

    return schedule, fails


@given(races())
def test_nothing_of_the_smallest_can_go_and_nothing_can_be_smaller(race: tuple[FlakeSchedule, Fails]) -> None:
    schedule, fails = race
    smallest, _ = shrunk(schedule, fails)
    assert smallest is not None
    assert fails(smallest)
    for place in range(len(smallest)):
        assert not fails(smallest.without(place, place + 1))
        assert not any(map(fails, smallest.smaller_at(place)))


@given(schedules(), st.data())
def test_whatever_fails_the_search_ends_and_tries_nothing_twice(
    schedule: FlakeSchedule, data: st.DataObject
) -> None:
    verdicts: dict[FlakeSchedule, bool] = {}
    smallest, tried = shrunk(schedule, lambda each: verdicts.setdefault(each, data.draw(st.booleans())))
    assert len(set(tried)) == len(tried)
    if smallest is not None:
        assert (len(smallest), total(smallest)) <= (len(schedule), total(schedule))
        assert verdicts[smallest]


def test_a_schedule_that_does_not_fail_again_is_not_searched() -> None:
    assert shrunk(parse("start:1=1ms to:node0=5ms"), lambda _: False) == (
        None,
        [parse("start:1=1ms to:node0=5ms")],
    )


def test_what_fails_by_itself_needs_no_perturbation() -> None:
    assert shrunk(parse("start:1=1ms to:node0=5ms"), lambda _: True)[0] == FlakeSchedule()


def test_one_long_delay_is_preferred_to_several_short_ones() -> None:
    def fails(schedule: FlakeSchedule) -> bool:
        return total(schedule) >= 9

    assert shrunk(parse("start:1=2ms start:2=10ms"), fails)[0] == parse("start:2=10ms")
    assert shrunk(parse("start:1=2ms start:2=2ms start:3=5ms"), fails)[0] == parse("start:2=5ms start:3=5ms")


def test_the_packet_that_matters_is_found() -> None:
    def fails(schedule: FlakeSchedule) -> bool:
        disturbance = Disturbance(schedule, {1: "node0"})
        connections = [disturbance.accept(1) for _ in range(3)]
        late = [disturbance.packet(Way.TO, each, 2, "") for each in connections if each is not None]
        return late[2] >= 0.005

    assert shrunk(parse("to:node0=20ms from:node0=5ms"), fails)[0] == parse("to:node0:3:2=5ms")


def test_one_culprit_among_many_is_found_in_few_tries() -> None:
    schedule = draw(SeededRng(3), ("node0", "node1", "node2"), max_delay_ms=50)
    culprit = next(each for each in schedule.perturbations if isinstance(each, Start))
    smallest, tried = shrunk(schedule, lambda each: any(p.site == culprit.site for p in each.perturbations))
    assert smallest == FlakeSchedule((Start(culprit.number, STEPS[0]),))
    assert len(tried) <= len(schedule) + 5


def test_the_search_gives_up_after_so_many_tries_with_the_smallest_so_far() -> None:
    smallest, tried = shrunk(parse("start:1=50ms start:2=50ms"), lambda each: len(each) == 2, most=3)
    assert len(tried) == 3
    assert smallest == parse("start:1=50ms start:2=50ms")
