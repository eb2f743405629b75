"""Windows of `$setWindowFields`: the documents of a partition that a function sees from each of them.

A window is bounded by positions (`documents`), or by the distance of the sorted field (`range`, with a `unit`
if it is a date).

`parse_bounds` checks a `window` when the stage is compiled and gives `Bounds`; `windows` yields for each
document of a `Partition` two positions, as of a slice. Functions work on these positions alone and need not
know which kind of window it is.

A `documents` window needs an order (5339901) unless it is the whole partition, since without one nobody can
say which document is the next. A `range` needs a single, ascending field (5339902, 8947401), as its bounds
are added to the value: they are numbers, or whole units of time for dates. Bounds are constants; `current`
is the document itself, and a lower bound above the upper one is refused (5339900).
"""

from __future__ import annotations

import datetime as dt
import decimal
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from bson import Decimal128

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.functions import constant
from fakeserver.storage.values import calendar
from fakeserver.storage.values.dates import date_of, is_date
from fakeserver.storage.values.paths import gather, split
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    INT64_MAX,
    INT64_MIN,
    MISSING,
    exact,
    is_number,
    is_object,
    order,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Frame, Scope

_CURRENT: Final = "current"
UNBOUNDED: Final = "unbounded"
# A window that lies outside of the partition: a function answers as for no documents, which is not an error.
_EMPTY: Final = (0, 0)

Bound = Any
"""A number, `current` or `unbounded`."""


@dataclass(slots=True)
class Partition:
    """Documents that belong together, in order; `keys` are the fields that they are sorted by."""

    frames: list[Frame]
    keys: Sequence[tuple[str, int]]
    values: list[Any] = field(init=False)
    """The sorted field of each document, where it is a single one."""

    def __post_init__(self) -> None:
        """Read the sorted field."""
        # With several keys there is no value to measure distances by, and the functions that would need it
        # are refused.
        parts = split(self.keys[0][0]) if len(self.keys) == 1 else None
        self.values = [gather(each["CURRENT"], parts) for each in self.frames] if parts is not None else []

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.frames)


class Bounds(NamedTuple):
    """The bounds of a window, both included."""

    kind: Literal["documents", "range"] = "documents"
    lower: Bound = UNBOUNDED
    upper: Bound = UNBOUNDED
    unit: str | None = None

    def windows(self, partition: Partition) -> Iterator[tuple[int, int]]:
        """Yield the window of each document: its first position, and the one after its last.

        Raises `CommandError` where a `range` meets what is no number, or no date.
        """
        # Only here is a wrong value found, when a document is there: sorted fields may be of any type.
        if self.kind == "range":
            ranges = _Ranges(self, partition.values)
            yield from (ranges.window(index) for index in range(len(partition)))
            return
        count = len(partition)
        for index in range(count):
            first = 0 if self.lower == UNBOUNDED else max(index + _offset(self.lower), 0)
            last = count if self.upper == UNBOUNDED else min(index + _offset(self.upper) + 1, count)
            yield (first, last) if first < last else _EMPTY


WHOLE: Final = Bounds()
"""The window that a function has unless it states one: the partition."""


def _offset(bound: Bound) -> int:
    return 0 if bound == _CURRENT else int(bound)


class _Ranges:
    """The windows of a `range` over the sorted values of one partition.

    Null, texts and values of other types sort before or after those of the range, and are in no window that
    is bounded by a distance; an unbounded end stops at the edge of the type, too. Finding an end is a
    search in sorted keys, so that a window costs the logarithm of the partition, not its length.
    """

    def __init__(self, bounds: Bounds, values: list[Any]) -> None:
        self.bounds = bounds
        self.values = values

    @cached_property
    def typed(self) -> tuple[int, int]:
        """The span of the values that have the range's type; sorting put them together."""
        has_type = is_number if self.bounds.unit is None else is_date
        fits = [has_type(value) for value in self.values]
        if True not in fits:
            return _EMPTY
        return fits.index(True), len(fits) - fits[::-1].index(True)

    @cached_property
    def keys(self) -> list[tuple[Any, ...]]:
        first, end = self.typed
        return [order(value) for value in self.values[first:end]]

    def window(self, index: int) -> tuple[int, int]:
        base, unit = self.values[index], self.bounds.unit
        # A document without a fitting value has no place to measure from: the stage fails for it, as on a
        # server.
        _check_base(base, unit)
        first, end = self.typed
        lower, upper = self.bounds.lower, self.bounds.upper
        if lower == _CURRENT:
            first = index
        elif lower != UNBOUNDED:
            first += bisect_left(self.keys, order(_moved(base, lower, unit)))
        if upper == _CURRENT:
            end = index + 1
        elif upper != UNBOUNDED:
            end = self.typed[0] + bisect_right(self.keys, order(_moved(base, upper, unit)))
        return (first, end) if first < end else _EMPTY


def _check_base(base: Any, unit: str | None) -> None:
    """Refuse a value that no distance can be added to. Raises `CommandError` 5429513, 5429413 or 5429414."""
    if unit is not None:
        if not is_date(base):
            raise CommandError(
                5429513,
                f"Invalid range: Expected the sortBy field to be a Date, but it was {type_name(base)}",
            )
        return
    if is_date(base):
        raise CommandError(
            5429413,
            "Invalid range: For windows that involve date or time ranges, a unit must be provided.",
        )
    if not is_number(base):
        raise CommandError(
            5429414, f"Invalid range: Expected the sortBy field to be a number, but it was {type_name(base)}"
        )


def _moved(base: Any, distance: Any, unit: str | None) -> Any:
    """Return the value at some distance from a document's own, as a decimal or a date.

    Integers, doubles and decimals may be mixed, and 34 digits keep an integer of 64 bits exact. A date
    beyond all dates is the last one there is: nothing is behind it.
    """
    if unit is None:
        with decimal.localcontext(decimal.Context(prec=34)):
            return Decimal128(decimal.Decimal(exact(base)) + decimal.Decimal(exact(distance)))
    try:
        return calendar.add(base, unit, int(distance), dt.UTC)
    except OverflowError:
        return date_of(INT64_MAX if distance > 0 else INT64_MIN)


# Parsing.


class EmptySort(list[tuple[str, int]]):
    """A `sortBy` without fields, which is one all the same for a window that counts documents."""


def parse_bounds(window: Any, keys: Sequence[tuple[str, int]], scope: Scope) -> Bounds:
    """Return the window that a function states. Raises `CommandError` for a bad one."""
    if not is_object(window):
        raise _failure("'window' field must be an object")
    if "documents" in window and "range" in window:
        raise _failure("Window bounds can specify either 'documents' or 'unit', not both.")
    if "range" not in window and "unit" in window:
        raise _failure("Window bounds can only specify 'unit' with range-based bounds.")
    if "documents" in window:
        if len(window) != 1:
            raise _failure("'window' field that specifies documents cannot have other fields")
        lower, upper = (_bound(each, scope) for each in _pair(window["documents"]))
        for each in (lower, upper):
            if type(each) is not str and whole(each) is None:
                raise _failure("Numeric document-based bounds must be an integer")
        _check_order(lower, upper)
        bounds = Bounds("documents", lower, upper)
        # `sortBy: {}` sorts by nothing, but states that it does: a server takes it.
        if bounds != WHOLE and not keys and not isinstance(keys, EmptySort):
            raise CommandError(5339901, "Document-based bounds require a sortBy")
        return bounds
    if "range" in window:
        return _range(window, keys, scope)
    if window:
        raise _failure(
            "'window' field can only contain 'documents' as the only argument or 'range' with an optional"
            " 'unit' field"
        )
    return WHOLE


def _range(window: Mapping[str, Any], keys: Sequence[tuple[str, int]], scope: Scope) -> Bounds:
    lower, upper = (_bound(each, scope) for each in _pair(window["range"]))
    unit = window.get("unit")
    if unit is not None:
        if set(window) != {"range", "unit"}:
            raise _failure("'window' field that specifies unit cannot have other fields besides 'range'")
        if type(unit) is not str:
            raise _failure("'unit' must be a string")
    elif len(window) != 1:
        raise _failure("'window' field that specifies range cannot have other fields besides 'unit'")
    for each in (lower, upper):
        if type(each) is str:
            continue
        if unit is not None and whole(each) is None:
            raise _failure("With 'unit', range-based bounds must be an integer")
        if not is_number(each):
            raise _failure("Range-based bounds expression must be a number")
    _check_order(lower, upper)
    if unit is not None and unit not in calendar.UNITS:
        raise _failure(f"unknown time unit value: {unit}")
    if len(keys) != 1:
        raise CommandError(5339902, "Range-based bounds require sortBy a single field")
    if keys[0][1] < 0:
        raise CommandError(8947401, "Range-based bounds require an ascending sortBy")
    return Bounds("range", lower, upper, unit)


def _pair(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 -- a window has two ends
        raise _failure(f"Window bounds must be a 2-element array: {show(value)}")
    return value


def _bound(value: Any, scope: Scope) -> Bound:
    """Return a bound: a word as it stands, else the value of a constant. Raises `CommandError` 9.

    A constant may be an expression, such as `{$add: [1, 1]}`, but not one that gives a text.
    """
    if type(value) is str:
        if value not in {UNBOUNDED, _CURRENT}:
            raise _failure("Window bounds must be 'unbounded', 'current', or a number.")
        return value
    found = constant(value, scope, lambda each: compile_expression(each, scope))
    if found is MISSING:
        raise _failure("Window bounds expression must be a constant.")
    if type(found) is str:
        raise _failure("Window bounds must be 'unbounded', 'current', or a number.")
    return found


def _check_order(lower: Bound, upper: Bound) -> None:
    """Refuse a lower bound above the upper one. Raises `CommandError` 5339900.

    `current` counts as 0, and an unbounded end is always in order.
    """
    if UNBOUNDED in {str(lower), str(upper)}:
        return
    first, last = (0 if each == _CURRENT else each for each in (lower, upper))
    if order(first) > order(last):
        raise CommandError(5339900, f"Lower bound must not exceed upper bound: [{show(first)}, {show(last)}]")


def _failure(message: str) -> CommandError:
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)
