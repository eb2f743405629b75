"""A scan of an index within the bounds of a plan: which keys are read, in what order, and how many.

Bounds that make one range are read from its begin to its end. Others are held against each key: one that
lies beyond them tells where the next key within may stand, and the scan goes on there. Keys beyond count as
read, as a server counts them.

This is a server's `IndexBoundsChecker`: with bounds on `a` and `b` of `{a: 1, b: 1}`, a scan of `a` from 1 to
9 with `b` equal to 5 jumps from (1, 6) to (1, TOP) and from there to (2, 5), and reads a key or two for each
value of `a`. `totalKeysExamined` in `explain` shows these jumps. Positions are found by bisection, so a scan
costs a logarithm for each jump and nothing for keys that it passes over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from fakeserver.storage.plans.bounds import TOP
from fakeserver.storage.plans.index_keys import sign_of
from fakeserver.storage.values.rows import Descending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.storage.plans.bounds import Interval
    from fakeserver.storage.plans.indexes import Entry
    from fakeserver.storage.plans.planning import Plan
    from fakeserver.storage.values.rows import Key


def positions(entries: Sequence[Entry], plan: Plan, count: Callable[[], None]) -> Iterator[int]:
    """Yield where the keys within a plan's bounds stand, in its order; `count` is told of keys read."""
    if not plan.is_one_range:
        yield from _checked(entries, plan, count)
        return
    ((begin, end),) = slices(entries, plan)
    for position in range(end - 1, begin - 1, -1) if plan.backwards else range(begin, end):
        count()
        yield position


def slices(entries: Sequence[Entry], plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield where a plan's ranges of keys stand among an index's entries: from (included), to (excluded)."""
    # An empty range may have its end before its begin, where two bounds contradict each other.
    for low, high in plan.ranges():
        begin = bisect_left(entries, low, key=_key_of)
        yield begin, max(begin, bisect_left(entries, high, key=_key_of))


def _key_of(entry: Entry) -> Any:
    return entry[0]


class _Target(NamedTuple):
    """Where a scan goes on: at the first key with these parts, or behind all keys with them."""

    parts: Key
    behind: bool

    def position(self, entries: Sequence[Entry], *, backwards: bool) -> int:
        # "Behind" is by the direction of the scan: backwards it is in front of all keys with these parts.
        key = (*self.parts, TOP) if self.behind != backwards else self.parts
        return bisect_left(entries, key, key=_key_of) - backwards


class _Field(NamedTuple):
    """The intervals of one field of an index, and whether the scan meets its values in descending order."""

    intervals: Sequence[Interval] | None
    lows: Sequence[Key]
    highs: Sequence[Key]
    sign: int
    down: bool

    def stands(self, part: Key) -> Interval | None:
        """Return the interval that a value lies in, or the next one on the way, None behind all."""
        assert self.intervals is not None
        if self.down:
            number = bisect_right(self.lows, part) - 1
            if number >= 0 and self.lows[number] == part and not self.intervals[number].low_included:
                number -= 1
        else:
            number = bisect_left(self.highs, part)
            if number < len(self.highs) and self.highs[number] == part:
                number += not self.intervals[number].high_included
        return self.intervals[number] if 0 <= number < len(self.intervals) else None

    def begin(self, interval: Interval) -> tuple[Any, bool]:
        """Return with which part of a key an interval begins on the way, and whether it is left out."""
        part = interval.high if self.down else interval.low
        included = interval.high_included if self.down else interval.low_included
        return Descending(part) if self.sign < 0 else part, not included


def _fields(plan: Plan) -> list[_Field]:
    assert plan.spec is not None
    signs = [sign_of(direction) or 1 for direction in plan.spec.key.values()]
    bounds = [*plan.bounds, *[None] * (len(signs) - len(plan.bounds))]
    return [
        _Field(
            allowed,
            [each.low for each in allowed or ()],
            [each.high for each in allowed or ()],
            sign,
            (sign < 0) != plan.backwards,
        )
        for allowed, sign in zip(bounds, signs, strict=True)
    ]


def _checked(entries: Sequence[Entry], plan: Plan, count: Callable[[], None]) -> Iterator[int]:
    fields = _fields(plan)
    # An empty list of intervals: the conditions on a field contradict each other, and no key is read.
    if any(field.intervals is not None and not field.intervals for field in fields):
        return
    position = _first(fields, ()).position(entries, backwards=plan.backwards)
    while 0 <= position < len(entries):
        count()
        target = _beyond(fields, entries[position][0])
        if target is None:
            yield position
            position += -1 if plan.backwards else 1
        # Behind nothing: the first field has left its last interval.
        elif not target.parts:
            return
        else:
            position = target.position(entries, backwards=plan.backwards)


def _first(fields: Sequence[_Field], prefix: Key) -> _Target:
    """Return where the first key with a prefix may stand."""
    parts = prefix
    for field in fields[len(prefix) :]:
        if not field.intervals:
            break
        part, behind = field.begin(field.intervals[-1 if field.down else 0])
        parts = (*parts, part)
        if behind:
            return _Target(parts, behind=True)
    return _Target(parts, behind=False)


def _beyond(fields: Sequence[_Field], key: Key) -> _Target | None:
    """Return where to go on from a key out of bounds, behind nothing at their end; None for one within."""
    for number, field in enumerate(fields):
        if field.intervals is None:
            continue
        part: Any = key[number].part if field.sign < 0 else key[number]
        interval = field.stands(part)
        if interval is None:
            return _Target(key[:number], behind=True)
        begin, behind = field.begin(interval)
        low, high = interval.low, interval.high
        before = (part > high if field.down else part < low) or (
            behind and part == (high if field.down else low)
        )
        if before:
            reached = (*key[:number], begin)
            return _Target(reached, behind=True) if behind else _first(fields, reached)
    return None
