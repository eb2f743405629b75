"""The functions of `$setWindowFields`, compiled: each makes of a partition a value for every document.

Accumulators run over the window of each document. The others need the order of a partition: ranks, shifts,
slopes, areas, averages, fillings. The first half of the file computes: each function takes the partition and
the value of its input for each document, and returns a value for each. The second half checks arguments
when the stage is compiled, one parser for each kind in `_FUNCTIONS`, with a server's codes.
"""

from __future__ import annotations

import decimal
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Decimal128

from fakeserver.errors import CommandError
from fakeserver.idl.features import WINDOWS
from fakeserver.storage.expressions.accumulators import Accumulator, compile_accumulator
from fakeserver.storage.expressions.arithmetic_operators import (
    add,
    divide,
    extreme,
    multiply,
    subtract,
    total,
)
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.forms import null_if_missing
from fakeserver.storage.expressions.functions import constant, nullish
from fakeserver.storage.stages.window_bounds import UNBOUNDED, WHOLE, Bounds, Partition, parse_bounds
from fakeserver.storage.values import calendar
from fakeserver.storage.values.arithmetic import RemovableSum, to_decimal
from fakeserver.storage.values.dates import is_date
from fakeserver.storage.values.decimal_functions import rounded
from fakeserver.storage.values.limits import MAX_OPERATOR_BYTES, Budget
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.sorting import key_values
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    exact,
    is_finite,
    is_nan,
    is_number,
    is_object,
    order,
    type_name,
    whole,
)
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.storage.port.engine import Evaluate, Scope
    from fakeserver.storage.values.types import Fold

    Compute: TypeAlias = Callable[[Partition], list[Any]]
    Spec: TypeAlias = Mapping[str, Any]
    Keys: TypeAlias = Sequence[tuple[str, int]]
    Values = Sequence[Any]


_PAIR: Final = 2


# Positions.


def numbers(partition: Partition) -> list[Any]:
    """Return the position of each document, counted from 1."""
    return list(range(1, len(partition) + 1))


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
        found.append(rank)
    return found


def shifted(values: Values, by: int, default: Any) -> list[Any]:
    """Return for each document the value that is `by` positions further on."""
    count = len(values)
    return [
        null_if_missing(values[index + by]) if 0 <= index + by < count else default for index in range(count)
    ]


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


class Covariance:
    """The covariance of pairs of numbers, which come into a window and leave it.

    Pairs with an infinity or what is no number do not count, but decide the result beside two others. It is
    made in one pass, so that its last digits and the places of decimals are a server's.
    """

    def __init__(self, *, sample: bool) -> None:
        self._sample = sample
        self._count = 0
        self._lefts, self._rights, self._products = RemovableSum(), RemovableSum(), RemovableSum()

    def change(self, value: Any, sign: int) -> None:
        """Take a pair in (`sign` 1) or out (-1); what is no pair of numbers is passed over."""
        if not isinstance(value, list) or len(value) != _PAIR or not all(map(is_number, value)):
            return
        left, right = value
        if not (is_finite(left) and is_finite(right)):
            self._products.change(add(left, right), sign)
            return
        # A pair is measured against the lefts without it, and against the rights with it.
        if sign < 0:
            self._lefts.change(left, sign)
            self._count -= 1
            if self._count:
                self._products.change(self._area(left, right, self._count + 1), sign)
            self._rights.change(right, sign)
            return
        self._rights.change(right, sign)
        if self._count:
            self._products.change(self._area(left, right, self._count + 1), sign)
        self._lefts.change(left, sign)
        self._count += 1

    def _area(self, left: Any, right: Any, count: int) -> Any:
        """Return the distance of the left from the mean of `count` - 1, times the right's from its own."""
        from_left = subtract(left, divide(self._lefts.value, float(count - 1)))
        return multiply(from_left, subtract(right, divide(self._rights.value, float(count))))

    @property
    def value(self) -> Any:
        """The covariance, None where there are too few pairs."""
        if self._count == 1 and not self._sample:
            return 0.0
        counted = self._count - (1 if self._sample else 0)
        return divide(self._products.value, float(counted)) if counted > 0 else None


class SlidingDeviation:
    """The standard deviation of numbers that come into a window and leave it: of two sums, as a server's."""

    def __init__(self, *, sample: bool) -> None:
        self._sample = sample
        self._count = self._not_finite = 0
        self._sum, self._squares = RemovableSum(), RemovableSum()

    def change(self, value: Any, sign: int) -> None:
        """Take a number in (`sign` 1) or out (-1)."""
        if not is_number(value):
            return
        if not is_finite(value):
            self._not_finite += sign
        elif self._count + sign == 0 or (self._count == 0 and sign > 0):
            self._sum, self._squares = RemovableSum(), RemovableSum()
            self._count += sign
            if sign > 0:
                self._sum.change(value, sign)
        else:
            distance = self._count * float(exact(value)) - float(exact(self._sum.value))
            self._count += sign
            self._sum.change(value, sign)
            area = distance * distance / (self._count * (self._count - sign))
            self._squares.change(area, sign)

    @property
    def value(self) -> Any:
        """The deviation, None where there are too few numbers or one that is not finite."""
        counted = self._count - (1 if self._sample else 0)
        if self._not_finite or counted <= 0:
            return None
        squares = float(exact(self._squares.value))
        if squares < 0 or (self._count == 1 and not self._sample):
            self._squares = RemovableSum()
            return 0
        return math.sqrt(squares / counted)


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


_WINDOW: Final = "window"
_TOO_MUCH: Final = 5414201
_EXCEEDED: Final = (
    "Exceeded memory limit in DocumentSourceSetWindowFields, used more than the max allowed "
    f"{MAX_OPERATOR_BYTES} bytes"
)
# Units of a fixed length, by which a slope can be multiplied; months, quarters and years vary.
_LARGEST_UNIT: Final = frozenset({"week", "day", "hour", "minute", "second", "millisecond"})


def compile_function(name: str, spec: Any, keys: Keys, scope: Scope) -> Compute:
    """Return the function that `spec` states for the output field `name`. Raises `CommandError`."""
    if not is_object(spec):
        raise _failure(f"The field '{name}' must be an object")
    for operator in spec:
        if not operator.startswith("$"):
            continue
        parse = _FUNCTIONS.get(operator)
        if parse is None or not scope.knows(operator, WINDOWS):
            raise _failure(f"Unrecognized window function, {operator}")
        return parse(operator, spec, keys, scope)
    first = next(iter(spec), "")
    raise _failure("Expected a $-prefixed window function" + (f", {first}" if first else ""))


def _failure(message: str) -> CommandError:
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)


def _check_arguments(operator: str, spec: Spec) -> None:
    for key in spec:
        if key in {operator, _WINDOW}:
            continue
        if key in _FUNCTIONS:
            raise _failure("Cannot specify two functions in window function spec")
        raise _failure(f"Window function found an unknown argument: {key}")


def _check_no_window(operator: str, spec: Spec) -> None:
    if _WINDOW in spec:
        raise _failure(f"'window' field is not allowed in {operator}")


def _bounds(spec: Spec, keys: Keys, scope: Scope) -> Bounds:
    return parse_bounds(spec[_WINDOW], keys, scope) if _WINDOW in spec else WHOLE


def _values(source: Evaluate, partition: Partition) -> list[Any]:
    return [source(frame) for frame in interruptible(partition.frames)]


# Accumulators.


def _accumulated(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    _check_arguments(operator, spec)
    bounds = _bounds(spec, keys, scope)
    if operator in _DEVIATIONS and bounds.lower != UNBOUNDED:
        sample = operator == "$stdDevSamp"
        return _sliding(
            compile_expression(spec[operator], scope), bounds, lambda: SlidingDeviation(sample=sample)
        )
    return _over(compile_accumulator(operator, spec[operator], scope), bounds)


_DEVIATIONS: Final = frozenset({"$stdDevPop", "$stdDevSamp"})


def _sliding(source: Evaluate, bounds: Bounds, make: Callable[[], Covariance | SlidingDeviation]) -> Compute:
    """Return a function whose values come into the window of each document and leave it.

    Each value is taken in once and taken out once, so that the cost is the partition's length, whatever the
    window. `_over` computes each window anew.
    """

    def compute(partition: Partition) -> list[Any]:
        values = _values(source, partition)
        state, first, end = make(), 0, 0
        found: list[Any] = []
        for lower, upper in interruptible(bounds.windows(partition)):
            if lower == upper:
                # A window without documents leaves the sums as they are for the next one.
                found.append(make().value)
                continue
            for index in range(end, upper):
                state.change(values[index], 1)
            for index in range(first, lower):
                state.change(values[index], -1)
            first, end = lower, upper
            found.append(state.value)
        return found

    return compute


def _over(accumulator: Accumulator, bounds: Bounds) -> Compute:
    """Return an accumulator that runs over the window of each document; neighbours often share one."""

    def compute(partition: Partition) -> list[Any]:
        values = _values(accumulator.source, partition)
        found: list[Any] = []
        last: tuple[int, int] | None = None
        budget = Budget(CommandError(_TOO_MUCH, _EXCEEDED))
        for window in interruptible(bounds.windows(partition)):
            if window != last:
                first, end = last = window
                result = accumulator.summarize(values[first:end], None)
            budget.hold(result)
            found.append(result)
        return found

    return compute


def _covariance(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    _check_arguments(operator, spec)
    source = compile_expression(spec[operator], scope)
    sample = operator == "$covarianceSamp"
    return _sliding(source, _bounds(spec, keys, scope), lambda: Covariance(sample=sample))


# Positions.


def _ranked(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    if len(spec) != 1:
        raise CommandError(5371601, "Rank style window functions take no other arguments")
    if spec[operator] != {}:
        raise CommandError(5371603, f"{operator} must be specified with '{{}}' as the value")
    if len(keys) != 1:
        raise CommandError(5371602, _one_key(operator))
    if operator == "$documentNumber":
        return numbers
    dense, fold = operator == "$denseRank", scope.fold
    return lambda partition: ranks(partition, dense=dense, fold=fold)


def _one_key(operator: str) -> str:
    return f"{operator} must be specified with a top level sortBy expression with exactly one element"


def _shift(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    if _WINDOW in spec:
        raise _failure("$shift does not accept a 'window' field")
    _check_arguments(operator, spec)
    argument = spec[operator]
    if not is_object(argument):
        raise _failure("Argument to $shift must be an object")
    for key in argument:
        if key not in {"output", "by", "default"}:
            raise _failure("Unknown argument in $shift")
    if "output" not in argument:
        raise _failure("$shift requires an 'output' expression.")
    if "by" not in argument:
        raise _failure("$shift requires 'by' as an integer value.")
    by = whole(argument["by"])
    if by is None or not INT32_MIN <= by <= INT32_MAX:
        raise _failure(f"'$shift:by' field must be an integer, but found  by: {show(argument['by'])}")
    default = _constant(argument.get("default"), scope)
    if default is MISSING:
        raise _failure("'$shift:default' expression must yield a constant value.")
    if not keys:
        raise _failure("'$shift' requires a sortBy")
    source = compile_expression(argument["output"], scope)
    return lambda partition: shifted(_values(source, partition), by, default)


def _constant(argument: Any, scope: Scope) -> Any:
    return constant(argument, scope, lambda each: compile_expression(each, scope))


# Slopes and areas.


def _with_unit(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    if not keys:
        raise _failure(f"{operator} requires a sortBy")
    if len(keys) != 1:
        raise _failure(f"{operator} requires a non-compound sortBy")
    for key in spec:
        if key not in {operator, _WINDOW}:
            raise _failure(f"{operator} got unexpected argument: {key}")
    argument = spec[operator]
    if not is_object(argument):
        found = f"{type_name(argument)}: {show_field(operator, argument)[1:-1]}"
        raise _failure(f"{operator} expects an object, but got a {found}")
    for key in argument:
        if key not in {"input", "unit"}:
            raise _failure(f"{operator} got unexpected argument: {key}")
    length = _unit_length(argument["unit"]) if "unit" in argument else None
    if "input" not in argument:
        raise _failure(f"{operator} requires an 'input' expression")
    if operator == "$derivative" and _WINDOW not in spec:
        raise _failure("$derivative requires explicit window bounds")
    bounds, source = _bounds(spec, keys, scope), compile_expression(argument["input"], scope)
    calculate = derivatives if operator == "$derivative" else integrals
    return lambda partition: calculate(partition, _values(source, partition), bounds, length)


def _unit_length(unit: Any) -> int:
    """Return a unit in milliseconds. Raises `CommandError` 9, and 5490710 for one that varies."""
    if type(unit) is not str:
        raise _failure(f"unit' must be a string, but got {type_name(unit)}")
    if unit not in calendar.UNITS:
        raise _failure(f"unknown time unit value: {unit}")
    if unit not in _LARGEST_UNIT:
        raise CommandError(5490710, "unit must be 'week' or smaller")
    return calendar.milliseconds_of(unit)


# Averages.


def _moving_average(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    argument = spec[operator]
    if len(spec) != 1 or not is_object(argument):
        raise _failure("$expMovingAvg must have exactly one argument that is an object")
    if len(argument) != 2 or "input" not in argument or not argument.keys() & {"N", "alpha"}:  # noqa: PLR2004
        raise _failure(
            "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' field"
            " or an 'alpha' field"
        )
    if not keys:
        raise _failure("$expMovingAvg requires an explicit 'sortBy'")
    source, alpha = compile_expression(argument["input"], scope), _alpha(argument)
    return lambda partition: moving_averages(_values(source, partition), alpha)


def _alpha(argument: Mapping[str, Any]) -> decimal.Decimal:
    if "N" in argument:
        value = argument["N"]
        if not is_number(value):
            raise _failure(f"'N' field must be an integer, but found type {type_name(value)}")
        number = whole(value)
        if number is None:
            raise _failure(
                f"'N' field must be an integer, but found  N: {show(value)}. To use a non-integer, use the"
                " 'alpha' argument instead"
            )
        if number <= 0:
            raise _failure(f"'N' must be greater than zero. Got {number}")
        return 2 / (decimal.Decimal(number) + 1)
    alpha = argument["alpha"]
    if not is_number(alpha):
        raise _failure("'alpha' must be a number")
    if is_nan(alpha) or not 0 < exact(alpha) < 1:
        raise _failure(f"'alpha' must be between 0 and 1 (exclusive), found alpha: {show(alpha)}")
    return to_decimal(alpha)


def _min_max_scaler(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    for key in spec:
        if key not in {operator, _WINDOW}:
            raise _failure(f"{operator} got unexpected argument: '{key}'")
    argument, bounds = spec[operator], _bounds(spec, keys, scope)
    if not is_object(argument):
        found = f"{type_name(argument)}: {show_field(operator, argument)[1:-1]}"
        raise _failure(f"{operator} expects an object, but got a {found}")
    _check_scaled_window(operator, bounds)
    for key in argument:
        if key not in {"input", "min", "max"}:
            raise _failure(f"{operator} got unexpected internal argument: '{key}'")
    if "input" not in argument:
        raise _failure(f"{operator} requires an 'input' expression")
    if ("min" in argument) != ("max" in argument):
        raise _failure(
            f"Only one of 'min' and 'max' were specified as an argument to {operator}. Neither or both must"
            " be specified"
        )
    least, most = (_end_of_scale(operator, name, argument.get(name, end), scope) for name, end in _SCALE)
    if order(least) >= order(most):
        raise _failure(f"the 'max' must be strictly greater than 'min', as arguments to {operator}")
    source = compile_expression(argument["input"], scope)

    def compute(partition: Partition) -> list[Any]:
        values = _values(source, partition)
        windows = bounds.windows(partition)
        return [
            scaled(values, slice(*window), value, least, most)
            for window, value in interruptible(zip(windows, values, strict=True))
        ]

    return compute


def _check_scaled_window(operator: str, bounds: Bounds) -> None:
    """Refuse a window that may lack its own document, which is scaled by the others."""
    for name, bound, word, sign in (
        ("Lower", bounds.lower, "greater", 1),
        ("Upper", bounds.upper, "less", -1),
    ):
        if is_number(bound) and not is_nan(bound) and exact(bound) * sign > 0:
            raise _failure(
                f"{name} specified bound cannot be {word} than 0 (the current doc), as {operator} must ensure"
                " that the current document being processed is always within the configured window."
                f" {name} specified bound = {float(exact(bound)):f}"
            )


_SCALE: Final = (("min", 0), ("max", 1))


def _end_of_scale(operator: str, name: str, argument: Any, scope: Scope) -> Any:
    value = _constant(argument, scope)
    if value is MISSING:
        raise _failure(f"'{name}' argument to {operator} must be a constant")
    if not is_number(value):
        raise _failure(f"'{name}' argument to {operator} must be a numeric type")
    return value


# Filling.


def _carried_forward(operator: str, spec: Spec, _keys: Keys, scope: Scope) -> Compute:
    _check_arguments(operator, spec)
    _check_no_window(operator, spec)
    source = compile_expression(spec[operator], scope)
    return lambda partition: carried_forward(_values(source, partition))


def _linear_fill(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    _check_arguments(operator, spec)
    _check_no_window(operator, spec)
    if len(keys) != 1:
        raise CommandError(605001, _one_key(operator))
    source = compile_expression(spec[operator], scope)
    return lambda partition: interpolated(partition, _values(source, partition))


_FUNCTIONS: Final[dict[str, Callable[[str, Spec, Keys, Scope], Compute]]] = {
    **dict.fromkeys(
        (
            *("$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$count"),
            *("$stdDevPop", "$stdDevSamp", "$minN", "$maxN", "$firstN", "$lastN", "$concatArrays"),
            *("$setUnion", "$top", "$topN", "$bottom", "$bottomN", "$median", "$percentile"),
        ),
        _accumulated,
    ),
    "$covariancePop": _covariance,
    "$covarianceSamp": _covariance,
    "$rank": _ranked,
    "$denseRank": _ranked,
    "$documentNumber": _ranked,
    "$shift": _shift,
    "$derivative": _with_unit,
    "$integral": _with_unit,
    "$expMovingAvg": _moving_average,
    "$minMaxScaler": _min_max_scaler,
    "$locf": _carried_forward,
    "$linearFill": _linear_fill,
}
NAMES: Final = frozenset(_FUNCTIONS)
"""The functions that an output field of `$setWindowFields` may have."""
