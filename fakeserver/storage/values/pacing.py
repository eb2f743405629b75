"""Loops over many items, with yield points at a distance: each turn of such a loop costs next to nothing.

`waiting.interrupts.interruptible` has a yield point before each item, for loops over documents. The functions
here are for loops inside a document: elements of an array, fields, keys of a sort. What is short passes
through untouched, so callers need not ask for the length.

At a yield point other commands run and may write. So none of these may stand between the check of a change
and its store; use `types.order` and `types.copy_value` there, or `in_one_turn` around the whole.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bson import Int64

from fakeserver.storage.values.types import DEEP, identity, order, rank
from fakeserver.waiting.interrupts import check_for_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

T = TypeVar("T")

PACE: Final = 256
"""Turns between two yield points: a millisecond of Python's at most."""
_RUN: Final = 16_384
"""Items that are sorted at once: one call into C, which has no yield points."""


def paced(items: Collection[T]) -> Iterable[T]:
    """Return what iterates over `items`, with yield points where they are many."""
    return items if len(items) < PACE else _paced(items)


def _paced(items: Iterable[T]) -> Iterator[T]:
    for index, item in enumerate(items):
        if not index % PACE:
            check_for_interrupt()
        yield item


def order_at_leisure(value: Any, fold: Callable[[str], Any] | None = None) -> tuple[Any, ...]:
    """Return the key of `values.order`, that of a long value with yield points.

    Not for what a write does between its checks and its end, where nobody else may have a turn.
    """
    if isinstance(value, list):
        if len(value) >= PACE and not _SHORT.issuperset(map(type, value)):
            return (rank(value), tuple([order_at_leisure(item, fold) for item in paced(value)]))
    elif isinstance(value, dict) and len(value) >= PACE:
        items = paced(value.items())
        return (
            rank(value),
            tuple([(rank(each), name, order_at_leisure(each, fold)) for name, each in items]),
        )
    return order(value, fold)


def identity_at_leisure(value: Any, fold: Callable[[str], Any] | None = None) -> Hashable:
    """Return a key that equal values share, as `fold` sees strings; of a long value in turns."""
    if fold is not None or isinstance(value, list | dict):
        return order_at_leisure(value, fold)
    return identity(value)


_SHORT: Final = frozenset({int, Int64})
"""The types of elements whose keys are made at once."""


def copied_at_leisure(value: Any) -> Any:
    """Return what `values.copy_value` does, with yield points where it is long."""
    if isinstance(value, dict):
        return {
            name: copied_at_leisure(item) if type(item) in DEEP else item
            for name, item in paced(value.items())
        }
    if isinstance(value, list):
        return [copied_at_leisure(item) if type(item) in DEEP else item for item in paced(value)]
    return value


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
