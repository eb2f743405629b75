"""The conditions of a filter, and the intervals of an index's field in which what they match must lie.

A filter is taken apart into clauses (`conjuncts`): one path, one operator, one value. A clause has intervals
(`intervals`), in the order of `types.order` whatever the direction of the index; `ranges` turns them into
ranges of whole keys, where a descending field is turned around.

Intervals may be too wide, and never too narrow: a document outside is not looked at again. What they let in
and should not is left to ask, of the key or of the document (`fit`). None means that a clause gives no
bounds; an empty list, that nothing can match. For `explain`, each interval carries the values of its ends.

A comparison keeps to the type of its value, as a server's type bracketing has it: `{$gt: 5}` ends with the
last number. A part of a key is a tuple that begins with the rank of the type, so `(rank,)` stands below all
values of a type, and `(rank + 1,)` above them.
"""

from __future__ import annotations

import enum
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import DatetimeMS, MaxKey, MinKey, ObjectId, Regex

from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.values.paths import assign, split
from fakeserver.storage.values.printing import regex_options, show
from fakeserver.storage.values.rows import Descending, Key
from fakeserver.storage.values.types import SCALARS, equal, is_nan, is_number, order, rank, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.storage.values.types import Fold


_LEAST: Final = {
    "number": "-inf.0", "string": '""', "bool": "false", "date": "new Date(-9223372036854775808)",
    "objectId": "ObjectId('000000000000000000000000')",
}  # fmt: skip
_GREATEST: Final = {
    "number": "inf.0", "string": "{}", "bool": "true", "date": "new Date(9223372036854775807)",
    "objectId": "ObjectId('ffffffffffffffffffffffff')",
}  # fmt: skip
_END_VALUES: Final[dict[str, Any]] = {
    "MinKey": MinKey(), "MaxKey": MaxKey(), "-inf.0": -math.inf, "inf.0": math.inf, '""': "", "{}": {},
    "false": False, "true": True, "new Date(-9223372036854775808)": DatetimeMS(-(2**63)),
    "new Date(9223372036854775807)": DatetimeMS(2**63 - 1), "ObjectId('000000000000000000000000')":
    ObjectId(bytes(12)), "ObjectId('ffffffffffffffffffffffff')": ObjectId(b"\xff" * 12),
}  # fmt: skip
_RANGES: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})
_OPPOSITES: Final = {"$ne": "$eq", "$nin": "$in"}
_REGEX: Final = (Regex, re.Pattern)
_OF_KEYS: Final = frozenset({"$mod"})
"""Operators that give no bounds, and that a key alone decides."""


class Fit(enum.Enum):
    """What is left to ask where the keys within a condition's bounds have been read."""

    EXACT = enum.auto()
    """Nothing: each key fulfils the condition."""
    KEY = enum.auto()
    """The key decides."""
    DOCUMENT = enum.auto()
    """The document decides."""


class Clause(NamedTuple):
    """One condition on one path; `name` is an operator, `$eq` for a value without one."""

    path: str
    name: str
    value: Any


class End(str):
    """The end of all values of a type, as `explain` prints it."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The end as a value."""
        return _END_VALUES[self]


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

    def holds(self, part: Key) -> bool:
        """Return whether a part of a key lies in it."""
        above = self.low < part or (self.low_included and self.low == part)
        return above and (part < self.high or (self.high_included and self.high == part))

    def printed(self, direction: int) -> str:
        """Return it as `explain` prints it for a scan in a direction."""
        low, high = (each if isinstance(each, End) else show(each) for each in self.ends)
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
    return (each for each in conjuncts(*filters) if isinstance(each, Clause))


def conjuncts(*filters: Mapping[str, Any]) -> Iterator[Clause | dict[str, Any]]:
    """Yield what must hold of filters: conditions on one path, and other trees as filters of their own."""
    for each in filters:
        for path, condition in each.items():
            if path == "$and" and isinstance(condition, list):
                yield from conjuncts(*(item for item in condition if isinstance(item, dict)))
            # A server rewrites `{$or: [{a: 1}, {a: 2}]}` to `$in` before it plans, and shows it so.
            elif path == "$or" and (one := _one_of(condition)) is not None:
                yield one
            elif path.startswith("$"):
                if path != "$comment":
                    yield {path: condition}
            elif is_operators(condition):
                yield from _operators(path, condition)
            else:
                yield Clause(path, "$regex" if isinstance(condition, _REGEX) else "$eq", condition)


def _one_of(branches: Any) -> Clause | None:
    """Return equalities with one path, of which one must hold, as the one condition that they come to."""
    if not isinstance(branches, list) or len(branches) < 2:  # noqa: PLR2004
        return None
    found = [each for branch in branches for each in (conjuncts(branch) if len(branch) == 1 else [None])]
    values = []
    for each in found:
        if not isinstance(each, Clause) or each.name != "$eq" or type(each.value) not in SCALARS:
            return None
        values.append(each.value)
    paths = {each.path for each in found if isinstance(each, Clause)}
    return Clause(paths.pop(), "$in", values) if len(paths) == 1 else None


def _operators(path: str, condition: Mapping[str, Any]) -> Iterator[Clause]:
    for name, value in condition.items():
        # `$options` belongs to the `$regex` beside it; the two are one clause.
        if name == "$regex" and isinstance(value, str | Regex):
            pattern, flags = (value, "") if isinstance(value, str) else (value.pattern, value.flags)
            yield Clause(path, name, Regex(pattern, condition.get("$options", flags)))
        elif name != "$options":
            yield Clause(path, name, value)


def is_flat(wanted: Mapping[str, Any]) -> bool:
    """Return whether the conditions that `clauses` yields of a filter are all of it."""
    return all(isinstance(each, Clause) for each in conjuncts(wanted))


def is_pin(clause: Clause) -> bool:
    """Return whether a condition is an equality with a scalar."""
    return clause.name == "$eq" and type(clause.value) in SCALARS


def fit(clause: Clause, *, multikey: bool) -> Fit:
    """Return what the bounds of a condition leave to ask; `multikey` says that arrays have led to keys.

    Of the elements of an array each has a key, and what no element may be is asked of the document.
    """
    name, value = clause.name, clause.value
    if name == "$in" and isinstance(value, list):
        regexes = [each for each in value if isinstance(each, _REGEX)]
        if not all(type(each) in SCALARS or isinstance(each, _REGEX) for each in value):
            return Fit.DOCUMENT
        return _of_regexes(regexes, multikey=multikey)
    if name == "$regex":
        return _of_regexes([value], multikey=multikey)
    if name in _OF_KEYS:
        return Fit.DOCUMENT if multikey else Fit.KEY
    negated = _negated(clause)
    if negated is not None:
        return Fit.DOCUMENT if multikey else fit(negated, multikey=False)
    # A key tells neither null from what is missing, nor the array of which its value is an element.
    exact = name in {"$eq", *_RANGES} and type(value) in SCALARS and not _is_nan(value)
    return Fit.EXACT if exact else Fit.DOCUMENT


def _of_regexes(regexes: Sequence[Any], *, multikey: bool) -> Fit:
    if all(prefix_of(each).alone for each in regexes):
        return Fit.EXACT
    return Fit.DOCUMENT if multikey else Fit.KEY


def _negated(clause: Clause) -> Clause | None:
    """Return the condition that must not hold, None for a condition that must."""
    if clause.name in _OPPOSITES:
        return Clause(clause.path, _OPPOSITES[clause.name], clause.value)
    if clause.name == "$not" and is_operators(clause.value) and len(clause.value) == 1:
        ((name, value),) = clause.value.items()
        return Clause(clause.path, name, value) if name in {"$eq", "$in", *_RANGES} else None
    return None


def excludes_null(clause: Clause) -> bool:
    """Return whether a condition is that nothing is null, which holds of an empty array on the way, too.

    The key of that is null or none at all, so an index with arrays on the way does not know such a match.
    """
    negated = _negated(clause)
    if negated is None:
        return False
    if negated.name == "$in":
        return isinstance(negated.value, list) and None in negated.value
    return negated.value is None


def excludes_missing(clause: Clause) -> bool:
    """Return whether a document without the field never fulfils a condition."""
    name, value = clause.name, clause.value
    negated = _negated(clause)
    if negated is not None:
        return negated.name == "$eq" and negated.value is None
    if name == "$exists":
        return bool(value)
    if name == "$in":
        return isinstance(value, list) and all(
            type(each) in SCALARS or isinstance(each, _REGEX) for each in value
        )
    return name == "$regex" or ((name == "$eq" or name in _RANGES) and type(value) in SCALARS)


def intervals(clause: Clause, fold: Fold | None, *, strings: bool) -> list[Interval] | None:
    """Return in which intervals of an index's field a condition's matches have a key, None for anywhere.

    `strings` says whether the index orders strings as the query does.
    """
    negated = _negated(clause)
    if negated is not None:
        regexes = negated.name == "$in" and any(isinstance(each, _REGEX) for each in negated.value)
        # The complement of bounds that are too wide is too narrow: only what is exact may be turned around.
        by_position = any(part.isdigit() for part in split(clause.path))
        inside = None if regexes or by_position else intervals(negated, fold, strings=strings)
        return _complement(inside) if inside else None
    if clause.name == "$in" and isinstance(clause.value, list):
        found = [_of_one(clause.path, value, fold, strings=strings) for value in clause.value]
        return None if None in found else _union([each for one in found for each in one or ()])
    if clause.name in {"$eq", "$regex"}:
        return _of_one(clause.path, clause.value, fold, strings=strings, literal=clause.name == "$eq")
    if clause.name not in _RANGES or not _is_usable(clause.value, strings=strings):
        return None
    # `{$gte: null}` matches what is missing, and `{$gte: NaN}` NaN alone: no range of keys says that.
    if clause.value is None or _is_nan(clause.value):
        return None
    return [_range(clause.name, clause.value, fold)]


def _of_one(
    path: str, value: Any, fold: Fold | None, *, strings: bool, literal: bool = False
) -> list[Interval] | None:
    """Return where the keys of what a value stands for lie: itself, and of an expression its strings."""
    if isinstance(value, _REGEX) and not literal:
        return None if fold is not None or not strings else _matching(value)
    if not _is_usable(value, strings=strings):
        return None
    if value is None and any(part.isdigit() for part in split(path)):
        return None  # An element that is no document lacks the field, beside the one at the position.
    return [_point(value, fold)]


def _matching(regex: Any) -> list[Interval]:
    """Return where the strings that an expression matches lie, and the expression itself."""
    text = prefix_of(regex).text
    begin, end = order(text), order(prefix_of(regex).end)
    if not prefix_of(regex).end:
        end = (rank("") + 1,)
    shown = (text, prefix_of(regex).end or End(_GREATEST["string"]))
    return [Interval(begin, end, True, False, shown), _point(regex, None)]  # noqa: FBT003


def _union(found: Sequence[Interval]) -> list[Interval]:
    """Return intervals in order and apart, those that overlap as one."""
    joined: list[Interval] = []
    for each in sorted(found, key=lambda one: (one.low, not one.low_included)):
        last = joined[-1] if joined else None
        if last is None or not (each.low < last.high or (each.low == last.high and last.high_included)):
            joined.append(each)
        elif (each.high, each.high_included) > (last.high, last.high_included):
            joined[-1] = last._replace(
                high=each.high, high_included=each.high_included, ends=(last.ends[0], each.ends[1])
            )
    return joined


def _complement(inside: Sequence[Interval]) -> list[Interval]:
    """Return all that lies between some intervals, which come in order and apart."""
    # The end of each interval is the begin of the next gap, from below all values to above all.
    edges: list[tuple[Any, bool, Any]] = [(_LEAST_KEY, True, End("MinKey"))]
    outside = []
    for each in inside:
        low, included, shown = edges.pop()
        if low != each.low:
            outside.append(Interval(low, each.low, included, not each.low_included, (shown, each.ends[0])))
        edges.append((each.high, not each.high_included, each.ends[1]))
    low, included, shown = edges.pop()
    return [*outside, Interval(low, _GREATEST_KEY, included, True, (shown, End("MaxKey")))]  # noqa: FBT003


def is_relevant(clause: Clause, fold: Fold | None, *, strings: bool) -> bool:
    """Return whether a condition makes an index on its field worth considering."""
    exists = clause.name == "$exists" and bool(clause.value)
    return exists or intervals(clause, fold, strings=strings) is not None


_LEAST_KEY: Final[Key] = (-math.inf,)
_GREATEST_KEY: Final[Key] = (math.inf,)
"""Below and above the part of every value."""


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
        # The end of all strings is the first object, which is none of them: `["a", {})` in `explain`.
        closed = kind != "string"
        end = End(_GREATEST.get(kind, "MaxKey"))
        return Interval(part, (rank_of + 1,), name == "$gte", closed, (value, end))
    return Interval((rank_of,), part, True, name == "$lte", (End(_LEAST.get(kind, "MinKey")), value))  # noqa: FBT003


def implied(wanted: Clause, known: Sequence[Clause]) -> bool:
    """Return whether each document that fulfils `known` fulfils `wanted`, too, as far as is known."""
    return any(_implies(clause, wanted) for clause in known if clause.path == wanted.path)


def _implies(clause: Clause, wanted: Clause) -> bool:
    if clause.name == wanted.name and equal(clause.value, wanted.value):
        return True
    # A value that is known is asked itself, as the only field of a document.
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


TOP: Final = _Top()
"""Behind every part of a key."""


def ranges(
    bounds: Sequence[Sequence[Interval] | None], signs: Sequence[int], prefix: Key = ()
) -> Iterator[tuple[Key, Key]]:
    """Yield the ranges of keys within the bounds of each field, in order: from (included), to (excluded).

    The bounds after the first field that is no point are not used.
    """
    position = len(prefix)
    allowed = bounds[position] if position < len(bounds) else None
    if allowed is None:
        yield prefix, (*prefix, TOP)
        return
    down = signs[position] < 0
    # A prefix `p` stands before all keys that begin with it, and `(*p, TOP)` behind them: so ends that are
    # left out or included are both plain comparisons of tuples.
    for each in reversed(allowed) if down else allowed:
        low: Any = Descending(each.high) if down else each.low
        high: Any = Descending(each.low) if down else each.high
        if each.is_point:
            yield from ranges(bounds, signs, (*prefix, low))
            continue
        low_included, high_included = each.low_included, each.high_included
        if down:
            low_included, high_included = high_included, low_included
        begin = (*prefix, low) if low_included else (*prefix, low, TOP)
        end = (*prefix, high, TOP) if high_included else (*prefix, high)
        yield begin, end


# The strings that a regular expression can match, as a range of an index.
#
# `^ab` matches the strings from `ab` to `ac`, and nothing else lies between them. What comes after an
# anchored prefix is asked of each key; an expression without an anchor is asked of every string.

_SPECIAL: Final = frozenset("^$.[(){+*?|")
_OPTIONAL: Final = frozenset("*?{")
"""Signs after which the character before them may be missing."""
_LAST_CHARACTER: Final = "\U0010ffff"
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = "\ud7ff", "\ue000"
_ANCHORED_FLAGS: Final = re.UNICODE | re.DOTALL


class Prefix(NamedTuple):
    """The characters with which each match begins; `alone` says that all strings with them match."""

    text: str
    alone: bool

    @property
    def end(self) -> str:
        """The first string behind all that begin with the prefix, empty where there is none."""
        last = self.text[-1:]
        if not last or last == _LAST_CHARACTER:
            return ""
        following = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1)
        return self.text[:-1] + following


def prefix_of(regex: Any) -> Prefix:
    """Return with what each match of an expression begins."""
    pattern: str = regex.pattern
    # An alternative may have another beginning, and so may a match in a later line, or in another case.
    anchor = next((each for each in ("^", r"\A") if pattern.startswith(each)), None)
    if anchor is None or regex.flags & ~_ANCHORED_FLAGS or "|" in pattern:
        return Prefix("", alone=False)
    rest, text = pattern[len(anchor) :], ""
    while rest and rest != ".*":
        first = rest[0]
        if first == "\\":
            literal = rest[:2] if len(rest) > 1 and not rest[1].isalnum() else None
        else:
            literal = None if first in _SPECIAL else first
        if literal is None:
            return Prefix(text[:-1] if rest[0] in _OPTIONAL else text, alone=False)
        text += literal[-1]
        rest = rest[len(literal) :]
    return Prefix(text, alone=bool(text) and (not rest or bool(regex.flags & re.DOTALL)))


def parsed(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter as `parsedQuery` shows it: each condition by its operator, all in one `$and`."""
    found = [_shown(each) if isinstance(each, Clause) else _of_trees(each) for each in conjuncts(wanted)]
    return {"$and": found} if len(found) > 1 else next(iter(found), {})


def _shown(clause: Clause) -> dict[str, Any]:
    name, value = clause.name, clause.value
    if name == "$regex" and isinstance(value, Regex | re.Pattern):
        options = regex_options(value)
        return {clause.path: {name: value.pattern, **({"$options": options} if options else {})}}
    return {clause.path: {name: value}}


def _of_trees(tree: Mapping[str, Any]) -> dict[str, Any]:
    ((name, branches),) = tree.items()
    if name in {"$or", "$nor"} and isinstance(branches, list):
        return {name: [parsed(each) for each in branches]}
    return dict(tree)
