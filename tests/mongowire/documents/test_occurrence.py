"""Which matches of a rule or a fault count, and when it is over."""

from __future__ import annotations

from math import inf

import pytest

from mongowire.documents.errors import ControlError
from mongowire.documents.occurrence import Occurrence, OccurrenceCount, check_exclusive


def chosen(occurrence: Occurrence, matches: int, draw: float = 0.5) -> list[int]:
    """Return the numbers of the matches that are acted on, from 1."""
    count = OccurrenceCount(occurrence, inf)
    return [number for number in range(1, matches + 1) if count.chooses(lambda: draw)]


@pytest.mark.parametrize(
    ("occurrence", "expected"),
    [
        (Occurrence(), [1, 2, 3, 4, 5, 6]),
        (Occurrence(nth=3), [3]),
        (Occurrence(every=2), [2, 4, 6]),
        (Occurrence(probability=0.6), [1, 2, 3, 4, 5, 6]),
        (Occurrence(probability=0.5), []),
        (Occurrence(every=3, probability=0.6), [3, 6]),
        (Occurrence(nth=2, probability=0.1), []),
    ],
)
def test_a_match_counts_as_is_stated(occurrence: Occurrence, expected: list[int]) -> None:
    assert chosen(occurrence, 6) == expected


def test_nothing_is_drawn_for_a_match_that_does_not_count() -> None:
    drawn: list[float] = []

    def draw() -> float:
        drawn.append(0.0)
        return 0.0

    count = OccurrenceCount(Occurrence(every=3, probability=0.5), inf)
    for _ in range(6):
        count.chooses(draw)
    assert (count.seen, len(drawn)) == (6, 2)


@pytest.mark.parametrize(
    ("occurrence", "end"),
    [
        (Occurrence(), inf),
        (Occurrence(seconds=5), 15.0),
        (Occurrence(until=4), 6.0),
        (Occurrence(seconds=5, until=4), 6.0),
        (Occurrence(seconds=5, until=40), 15.0),
    ],
)
def test_it_ends_at_the_earlier_of_its_span_and_its_instant(occurrence: Occurrence, end: float) -> None:
    assert occurrence.ends(added=10.0, began=2.0) == end


def test_it_is_over_after_its_last_hit_or_at_its_end() -> None:
    count = OccurrenceCount(Occurrence(times=2), ends=7.0)
    assert not count.is_over(6.9)
    assert count.is_over(7.0)
    count.hits = 2
    assert count.is_over(0.0)


def test_nth_and_every_exclude_each_other() -> None:
    check_exclusive({"nth": 1})
    check_exclusive({"every": 1})
    with pytest.raises(ControlError, match="every: nth and every exclude each other"):
        check_exclusive({"nth": 1, "every": 2})
