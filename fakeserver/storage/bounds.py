"""The conditions of a filter, and the intervals of an index's field in which what they match must lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.storage.match_operators import is_operators
from fakeserver.storage.matching import compile_filter
from fakeserver.storage.paths import assign, split
from fakeserver.storage.printing import show
from fakeserver.storage.rows import Descending, Key
from fakeserver.storage.values import SCALARS, equal, is_nan, is_number, order, rank, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.storage.values import Fold

_LEAST: Final = {
    "number": "-inf.0", "string": '""', "bool": "false", "date": "new Date(-9223372036854775808)",
    "objectId": "ObjectId('000000000000000000000000')",
}  # fmt: skip
_GREATEST: Final = {
    "number": "inf.0", "string": "{}", "bool": "true", "date": "new Date(9223372036854775807)",
    "objectId": "ObjectId('ffffffffffffffffffffffff')",
}  # fmt: skip
_RANGES: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})


class Clause(NamedTuple):
    """One condition on one path; `name` is an operator, `$eq` for a value without one."""

    path: str
    name: str
    value: Any


class _End(str):
    """The end of all values of a type, as `explain` prints it."""

    __slots__ = ()


class Interval(NamedTuple):
    """The range between two parts of keys; `ends` are the values that they are made of."""

    low: Key
    high: Key
    low_included: bool
    high_included: bool
    ends: tuple[Any, Any]

    @property
    def is_point(self) -> bool:
        """Whether one value lies in it."""
        return self.low == self.high

    def printed(self, direction: int) -> str:
        """Return it as `explain` prints it for a scan in a direction."""
        low, high = (each if isinstance(each, _End) else show(each) for each in self.ends)
        ends = [(low, self.low_included), (high, self.high_included)]
        (begin, opened), (end, closed) = ends if direction > 0 else ends[::-1]
        return f"{'[' if opened else '('}{begin}, {end}{']' if closed else ')'}"

    def meets(self, other: Interval) -> Interval | None:
        """Return what lies in both, None for nothing."""
        low = max((self.low, not self.low_included), (other.low, not other.low_included))
        high = min((self.high, self.high_included), (other.high, other.high_included))
        if low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1])):
            return None
        begin = self if (self.low, not self.low_included) == low else other
        end = self if (self.high, self.high_included) == high else other
        return Interval(low[0], high[0], not low[1], high[1], (begin.ends[0], end.ends[1]))


def clauses(*filters: Mapping[str, Any]) -> Iterator[Clause]:
    """Yield the conditions of filters that all hold, those within `$and` too; other trees are left out."""
    for each in filters:
        for path, condition in each.items():
            if path == "$and" and isinstance(condition, list):
                yield from clauses(*(item for item in condition if isinstance(item, dict)))
            elif path.startswith("$"):
                continue
            elif is_operators(condition):
                yield from (Clause(path, name, value) for name, value in condition.items())
            else:
                yield Clause(path, "$eq", condition)


def is_flat(wanted: Mapping[str, Any]) -> bool:
    """Return whether the conditions that `clauses` yields of a filter are all of it."""
    for path, condition in wanted.items():
        if path == "$and":
            if not all(is_flat(each) for each in condition):
                return False
        elif path.startswith("$"):
            return False
    return True


def is_pin(clause: Clause) -> bool:
    """Return whether a condition is an equality with a scalar."""
    return clause.name == "$eq" and type(clause.value) in SCALARS


def is_exact(clause: Clause) -> bool:
    """Return whether the bounds of a condition hold its matches and nothing else."""
    if clause.name == "$in":
        return excludes_missing(clause)
    return clause.name in {"$eq", *_RANGES} and type(clause.value) in SCALARS


def excludes_missing(clause: Clause) -> bool:
    """Return whether a document without the field never fulfils a condition."""
    if clause.name == "$exists":
        return bool(clause.value)
    if clause.name == "$in":
        return isinstance(clause.value, list) and all(type(value) in SCALARS for value in clause.value)
    return (clause.name == "$eq" or clause.name in _RANGES) and type(clause.value) in SCALARS


def intervals(clause: Clause, fold: Fold | None, *, strings: bool) -> list[Interval] | None:
    """Return in which intervals of an index's field a condition's matches have a key, None for anywhere.

    `strings` says whether the index orders strings as the query does.
    """
    if clause.name == "$exists" and clause.value:
        return None
    by_position = any(part.isdigit() for part in split(clause.path))
    if clause.name == "$in" and isinstance(clause.value, list):
        if not all(_is_usable(value, strings=strings) for value in clause.value):
            return None
        if by_position and None in clause.value:
            return None
        points = {point.low: point for point in (_point(value, fold) for value in clause.value)}
        return [points[low] for low in sorted(points)]
    if not _is_usable(clause.value, strings=strings):
        return None
    if by_position and clause.value is None:
        return None  # An element that is no document lacks the field, beside the one at the position.
    if clause.name == "$eq":
        return [_point(clause.value, fold)]
    if clause.name in _RANGES and clause.value is not None and not _is_nan(clause.value):
        return [_range(clause.name, clause.value, fold)]
    return None


def is_relevant(clause: Clause, fold: Fold | None, *, strings: bool) -> bool:
    """Return whether a condition makes an index on its field worth considering."""
    exists = clause.name == "$exists" and bool(clause.value)
    return exists or intervals(clause, fold, strings=strings) is not None


def _is_nan(value: Any) -> bool:
    return is_number(value) and is_nan(value)


def _is_usable(value: Any, *, strings: bool) -> bool:
    return value is None or (type(value) in SCALARS and (strings or not isinstance(value, str)))


def _point(value: Any, fold: Fold | None) -> Interval:
    part = order(value, fold)
    return Interval(part, part, True, True, (value, value))  # noqa: FBT003 -- the ends, named above


def _range(name: str, value: Any, fold: Fold | None) -> Interval:
    part, rank_of = order(value, fold), rank(value)
    kind = "number" if is_number(value) else type_name(value)
    if name in {"$gt", "$gte"}:
        closed = kind != "string"
        end = _End(_GREATEST.get(kind, "MaxKey"))
        return Interval(part, (rank_of + 1,), name == "$gte", closed, (value, end))
    return Interval((rank_of,), part, True, name == "$lte", (_End(_LEAST.get(kind, "MinKey")), value))  # noqa: FBT003


def implied(wanted: Clause, known: Sequence[Clause]) -> bool:
    """Return whether each document that fulfils `known` fulfils `wanted`, too, as far as is known."""
    return any(_implies(clause, wanted) for clause in known if clause.path == wanted.path)


def _implies(clause: Clause, wanted: Clause) -> bool:
    if clause.name == wanted.name and equal(clause.value, wanted.value):
        return True
    if is_pin(clause):
        document: dict[str, Any] = {}
        assign(document, split(clause.path), clause.value)
        return bool(compile_filter({wanted.path: {wanted.name: wanted.value}})(document))
    if wanted.name == "$exists":
        return bool(wanted.value) and excludes_missing(clause)
    return wanted.name in _RANGES and clause.name in _RANGES and _within(clause, wanted)


def _within(clause: Clause, wanted: Clause) -> bool:
    if not all(type(each.value) in SCALARS and not _is_nan(each.value) for each in (clause, wanted)):
        return False
    inner, outer = (_range(each.name, each.value, None) for each in (clause, wanted))
    return inner.meets(outer) == inner


class _Top:
    """Stands above every part of a key."""

    __slots__ = ()

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __lt__(self, other: object) -> bool:
        return False


_TOP: Final = _Top()


def ranges(
    bounds: Sequence[Sequence[Interval] | None], signs: Sequence[int], prefix: Key = ()
) -> Iterator[tuple[Key, Key]]:
    """Yield the ranges of keys within the bounds of each field, in order: from (included), to (excluded).

    The bounds after the first field that is no point are not used.
    """
    position = len(prefix)
    allowed = bounds[position] if position < len(bounds) else None
    if allowed is None:
        yield prefix, (*prefix, _TOP)
        return
    down = signs[position] < 0
    for each in reversed(allowed) if down else allowed:
        low: Any = Descending(each.high) if down else each.low
        high: Any = Descending(each.low) if down else each.high
        if each.is_point:
            yield from ranges(bounds, signs, (*prefix, low))
            continue
        low_included, high_included = each.low_included, each.high_included
        if down:
            low_included, high_included = high_included, low_included
        begin = (*prefix, low) if low_included else (*prefix, low, _TOP)
        end = (*prefix, high, _TOP) if high_included else (*prefix, high)
        yield begin, end
