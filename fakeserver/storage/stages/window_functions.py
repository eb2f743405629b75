"""The functions of `$setWindowFields`, compiled: each makes of a partition a value for every document."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.features import WINDOWS
from fakeserver.storage.expressions.accumulators import Accumulator, compile_accumulator
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.constants import constant
from fakeserver.storage.stages import window_calculus as calculus
from fakeserver.storage.stages.window_bounds import WHOLE, Bounds, Partition, parse_bounds
from fakeserver.storage.values import calendar
from fakeserver.storage.values.arithmetic import to_decimal
from fakeserver.storage.values.memory import MAX_OPERATOR_BYTES, Budget
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    exact,
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

    from fakeserver.storage.port.scope import Evaluate, Scope

    Compute: TypeAlias = Callable[[Partition], list[Any]]
    Spec: TypeAlias = Mapping[str, Any]
    Keys: TypeAlias = Sequence[tuple[str, int]]

_WINDOW: Final = "window"
_TOO_MUCH: Final = 5414201
_EXCEEDED: Final = (
    "Exceeded memory limit in DocumentSourceSetWindowFields, used more than the max allowed "
    f"{MAX_OPERATOR_BYTES} bytes"
)
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
    return _over(compile_accumulator(operator, spec[operator], scope), bounds)


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
    accumulator = Accumulator(source, lambda values, _first: calculus.covariance(values, sample=sample))
    return _over(accumulator, _bounds(spec, keys, scope))


# Positions.


def _ranked(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    if len(spec) != 1:
        raise CommandError(5371601, "Rank style window functions take no other arguments")
    if spec[operator] != {}:
        raise CommandError(5371603, f"{operator} must be specified with '{{}}' as the value")
    if len(keys) != 1:
        raise CommandError(5371602, _one_key(operator))
    if operator == "$documentNumber":
        return calculus.numbers
    dense, fold = operator == "$denseRank", scope.fold
    return lambda partition: calculus.ranks(partition, dense=dense, fold=fold)


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
    return lambda partition: calculus.shifted(_values(source, partition), by, default)


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
    calculate = calculus.derivatives if operator == "$derivative" else calculus.integrals
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
    return lambda partition: calculus.moving_averages(_values(source, partition), alpha)


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
            calculus.scaled(values, slice(*window), value, least, most)
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
    return lambda partition: calculus.carried_forward(_values(source, partition))


def _linear_fill(operator: str, spec: Spec, keys: Keys, scope: Scope) -> Compute:
    _check_arguments(operator, spec)
    _check_no_window(operator, spec)
    if len(keys) != 1:
        raise CommandError(605001, _one_key(operator))
    source = compile_expression(spec[operator], scope)
    return lambda partition: calculus.interpolated(partition, _values(source, partition))


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
