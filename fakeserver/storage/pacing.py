"""Loops over many items, with yield points at a distance: each turn of such a loop costs next to nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fakeserver.waiting.interrupts import check_for_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

T = TypeVar("T")

PACE: Final = 256
"""Turns between two yield points: a millisecond of Python's at most."""
_RUN: Final = 16_384
"""Items that are sorted at once."""


def paced(items: Collection[T]) -> Iterable[T]:
    """Return what iterates over `items`, with yield points where they are many."""
    return items if len(items) < PACE else _paced(items)


def _paced(items: Iterable[T]) -> Iterator[T]:
    for index, item in enumerate(items):
        if not index % PACE:
            check_for_interrupt()
        yield item


def sorted_at_leisure(
    items: list[T], key: Callable[[T], Any] | None = None, *, reverse: bool = False
) -> list[T]:
    """Return what `sorted` does, many items with yield points between the runs that are merged.

    `key` is called often: it is to look a key up, not to make one.
    """
    ordered = partial(_sorted, key=key, reverse=reverse)
    if len(items) <= _RUN:
        return ordered(items)
    runs = [ordered(items[start : start + _RUN]) for start in _paced_runs(range(0, len(items), _RUN))]
    while len(runs) > 1:
        runs = [
            # Python's sort finds the two runs that are in order, and does nothing but merge them.
            ordered(runs[at] + runs[at + 1]) if at + 1 < len(runs) else runs[at]
            for at in _paced_runs(range(0, len(runs), 2))
        ]
    return runs[0]


def _sorted(items: list[Any], *, key: Callable[[Any], Any] | None, reverse: bool) -> list[Any]:
    return sorted(items, key=key, reverse=reverse)


def _paced_runs(starts: range) -> Iterator[int]:
    for start in starts:
        check_for_interrupt()
        yield start
