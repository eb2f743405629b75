"""Window functions that need the order of a partition: ranks, shifts, slopes, areas, averages, fillings.

Each takes the partition and the value of its input for each document, and returns a value for each.
"""

from __future__ import annotations

import decimal
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from bson import Decimal128, Int64

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.arithmetic_operators import (
    add,
    divide,
    extreme,
    multiply,
    subtract,
    total,
)
from fakeserver.storage.expressions.functions import nullish
from fakeserver.storage.values.arithmetic import to_decimal
from fakeserver.storage.values.dates import is_date
from fakeserver.storage.values.decimal_functions import rounded
from fakeserver.storage.values.sorting import key_values
from fakeserver.storage.values.types import MISSING, exact, is_nan, is_number, order, type_name
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fakeserver.storage.stages.window_bounds import Bounds, Partition
    from fakeserver.storage.values.types import Fold

    Values = Sequence[Any]

_PAIR: Final = 2


# Positions.


def numbers(partition: Partition) -> list[Any]:
    """Return the position of each document, counted from 1."""
    return [Int64(index) for index in range(1, len(partition) + 1)]


def ranks(partition: Partition, *, dense: bool, fold: Fold | None) -> list[Any]:
    """Return the rank of each document; equals share one, after which a dense rank leaves no gap.

    Equal is what sorts alike: null and what is missing, and arrays by the element that they sort by.
    """
    found: list[Any] = []
    last: Any = None
    rank, sort = 0, dict(partition.keys)
    for index, frame in enumerate(interruptible(partition.frames), start=1):
        key = [order(value, fold) for value in key_values(frame["CURRENT"], sort, fold)]
        if key != last:
            rank = rank + 1 if dense else index
            last = key
        found.append(Int64(rank))
    return found


def shifted(values: Values, by: int, default: Any) -> list[Any]:
    """Return for each document the value that is `by` positions further on."""
    count = len(values)
    return [_null(values[index + by]) if 0 <= index + by < count else default for index in range(count)]


# Slopes and areas.


def derivatives(partition: Partition, values: Values, bounds: Bounds, unit_length: int | None) -> list[Any]:
    """Return the slope between the ends of each window, per unit (milliseconds) where there is one."""
    return [
        None if first == end else _slope(partition.values, values, first, end - 1, unit_length)
        for first, end in interruptible(bounds.windows(partition))
    ]


def _slope(times: Values, values: Values, first: int, last: int, unit_length: int | None) -> Any:
    start, end = times[first], times[last]
    dates = is_date(start), is_date(end)
    if unit_length is not None:
        if not all(dates):
            raise CommandError(5624900, "$derivative with 'unit' expects the sortBy field to be a Date")
    elif any(dates):
        raise CommandError(5624901, "$derivative where the sortBy is a Date requires an 'unit'")
    elif not is_number(start) or not is_number(end):
        raise CommandError(5624902, "$derivative (with no 'unit') expects the sortBy field to be numeric")
    rise, run = subtract(values[last], values[first]), subtract(end, start)
    if rise is None:
        raise CommandError(5624903, "$derivative input must not be null or missing")
    if exact(run) == 0:
        return None
    slope = divide(rise, run)
    return slope if unit_length is None else multiply(slope, unit_length)


def integrals(partition: Partition, values: Values, bounds: Bounds, unit_length: int | None) -> list[Any]:
    """Return the area below the points of each window, by trapezoids, in units where there is one."""
    points = list(zip(partition.values, values, strict=True))
    for time, value in points:
        _check_point(time, value, unit_length)
    areas = [_trapezoid(left, right) for left, right in interruptible(pairwise(points))]
    found: list[Any] = []
    for first, end in interruptible(bounds.windows(partition)):
        if first == end:
            found.append(None)
        elif any(is_nan(each) for point in points[first:end] for each in point):
            found.append(math.nan)
        else:
            area = total(areas[first : end - 1])
            found.append(area if unit_length is None else divide(area, unit_length))
    return found


def _check_point(time: Any, value: Any, unit_length: int | None) -> None:
    dated = is_date(time)
    if not is_number(value) or not (dated or is_number(time)):
        raise CommandError(
            5423900,
            "The input value of $integral window function must be a vector of 2 value, the first value must"
            " be numeric or date type and the second must be numeric.",
        )
    if unit_length is not None and not dated:
        raise CommandError(5423901, "$integral with 'outputUnit' expects the sortBy field to be a Date")
    if unit_length is None and dated:
        raise CommandError(5423902, "$integral (with no 'outputUnit') expects the sortBy field to be numeric")


def _trapezoid(left: tuple[Any, Any], right: tuple[Any, Any]) -> Any:
    if any(is_nan(each) for each in (*left, *right)):
        return 0
    return divide(multiply(add(left[1], right[1]), subtract(right[0], left[0])), 2.0)


# Averages.


def moving_averages(values: Values, alpha: decimal.Decimal) -> list[Any]:
    """Return the exponential moving average up to each document: a decimal once one was among them."""
    found: list[Any] = []
    current: decimal.Decimal | None = None
    is_decimal = False
    with decimal.localcontext(decimal.Context(prec=34, traps=[])):
        for value in values:
            if is_number(value):
                is_decimal = is_decimal or isinstance(value, Decimal128)
                number = to_decimal(value)
                current = number if current is None else number * alpha + current * (1 - alpha)
            if current is None:
                found.append(None)
            else:
                found.append(rounded(current) if is_decimal else float(current))
    return found


def covariance(values: Iterable[Any], *, sample: bool) -> Any:
    """Return the covariance of the pairs of numbers among `values`, or None where there is none."""
    pairs = [
        each for each in values
        if isinstance(each, list) and len(each) == _PAIR and all(map(is_number, each))
    ]  # fmt: skip
    count = len(pairs) - (1 if sample else 0)
    if count <= 0:
        return None
    if any(isinstance(each, Decimal128) for pair in pairs for each in pair):
        with decimal.localcontext(decimal.Context(prec=50, traps=[])):
            return rounded(_covariance([[to_decimal(each) for each in pair] for pair in pairs], count))
    return _covariance([[float(each) for each in pair] for pair in pairs], count)


def _covariance(pairs: list[list[Any]], count: int) -> Any:
    means = [sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1)]
    return sum((left - means[0]) * (right - means[1]) for left, right in pairs) / count


# Filling.


def carried_forward(values: Values) -> list[Any]:
    """Return the last value that was neither null nor missing, up to each document."""
    found: list[Any] = []
    last: Any = None
    for value in values:
        last = last if nullish(value) else value
        found.append(last)
    return found


def interpolated(partition: Partition, values: Values) -> list[Any]:
    """Return the values with those that are null or missing put on the line between their neighbours.

    Raises `CommandError` 14 for what is no number, and 6050106 for a sorted value that comes twice.
    """
    _check_interpolation(partition.values, values)
    known = [index for index, value in enumerate(values) if not nullish(value)]
    found = [None if nullish(value) else value for value in values]
    times = partition.values
    for left, right in pairwise(known):
        for index in interruptible(range(left + 1, right)):
            slope = divide(subtract(values[right], values[left]), subtract(times[right], times[left]))
            found[index] = add(values[left], multiply(subtract(times[index], times[left]), slope))
    return found


def _check_interpolation(times: Values, values: Values) -> None:
    last: Any = MISSING
    for time, value in interruptible(zip(times, values, strict=True)):
        if not is_number(value) and not nullish(value):
            raise _wrong_type(f"Value to be filled must be numeric or nullish, but found {type_name(value)}")
        if not is_number(time) and not is_date(time):
            raise _wrong_type(
                f"Value of the sortBy field must be numeric or a date, but found {type_name(time)}"
            )
        if last is not MISSING:
            if order(time) == order(last):
                raise CommandError(6050106, "There can be no repeated values in the sort field")
            if is_number(time) != is_number(last):
                raise _wrong_type(
                    f"Conflicting sort value types, previously received type {type_name(last)}, but found"
                    f" {type_name(time)}"
                )
        last = time


def scaled(values: Values, window: slice, value: Any, least: Any, most: Any) -> Any:
    """Return where a value stands between the extremes of its window, on a scale from `least` to `most`."""
    within = values[window]
    low, high = extreme(within, -1), extreme(within, 1)
    if order(low) == order(high):
        return least
    part = divide(subtract(value, low), subtract(high, low))
    return add(multiply(part, subtract(most, least)), least)


def _wrong_type(message: str) -> CommandError:
    return CommandError(ErrorCode.TYPE_MISMATCH, message)


def _null(value: Any) -> Any:
    return None if value is MISSING else value
