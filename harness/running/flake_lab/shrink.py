"""The search for the smallest schedule that still fails: fewer perturbations, then smaller ones.

The search runs nothing: it yields a candidate, is sent whether that failed, and returns at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from typing import Final, TypeAlias, TypeVar

from harness.world.schedule import FlakeSchedule

MOST: Final = 150
"""The number of schedules that are tried at most."""

S = TypeVar("S", bound=Hashable)

Search: TypeAlias = Generator[FlakeSchedule, bool, None]


def search(schedule: FlakeSchedule, *, most: int = MOST) -> Search:
    """Yield schedules to try, each smaller than the smallest that has failed so far; send whether it fails.

    The first is `schedule` itself; when that does not fail, the search ends. The last that failed is the
    smallest: none of its perturbations can go, be of fewer packets, or have a shorter delay (by the steps
    of `schedule.STEPS`), unless `most` schedules did not suffice.
    """
    return search_among(schedule, _smaller, most=most)


def search_among(
    whole: S, smaller: Callable[[S], Iterator[S]], *, most: int = MOST
) -> Generator[S, bool, None]:
    """Do what `search` does with schedules of another kind: `smaller` yields those to try instead of one."""
    tried: dict[S, bool] = {}
    smallest = whole
    queue = iter((whole,))
    while len(tried) < most:
        candidate = next((each for each in queue if each not in tried), None)
        if candidate is None:
            return
        tried[candidate] = yield candidate
        if tried[candidate]:
            smallest = candidate
            queue = smaller(smallest)
        elif candidate == whole:
            return


def _smaller(schedule: FlakeSchedule) -> Iterator[FlakeSchedule]:
    """Yield schedules with fewer perturbations, the much smaller ones first, then with smaller ones.

    One long delay often does what several short ones do together, and says more.
    """
    if schedule:
        yield FlakeSchedule()
    if len(schedule) > 1:
        alone = [FlakeSchedule((each,)) for each in schedule.perturbations]
        yield from alone
        yield from (each.lengthened(schedule.longest_ms) for each in alone)
    yield from _parts(schedule)
    yield from (each.lengthened(schedule.longest_ms) for each in _parts(schedule))
    for index in range(len(schedule)):
        yield from schedule.smaller_at(index)


def _parts(schedule: FlakeSchedule) -> Iterator[FlakeSchedule]:
    """Yield the schedule without a half of it, then without a quarter, at last without a single one."""
    size = len(schedule) // 2
    while size:
        for start in range(0, len(schedule), size):
            yield schedule.without(start, start + size)
        size //= 2
