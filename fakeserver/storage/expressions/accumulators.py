"""Accumulators of `$group`, `$bucketAuto` and `$setWindowFields`: one value from those of many documents.

A stage compiles each field once. For each group it calls `source` for the frame of each document, in their
order, and hands all values to `summarize` at once; a window calls `summarize` for each of its positions. So
nothing is kept between two documents, at the price of holding the values of a group.

Missing values differ by operator. `$sum`, `$avg` and the deviations pass over whatever is no number. `$min`
and `$max` pass over null and missing. `$push` and `$addToSet` leave out what is missing and keep null.
`$first` and `$last` take the first and last document, whose missing value is null.

The codes of a field that is no accumulator are those of `compile_field`; 15952 is an unknown operator, or
one that the release does not have. `$push` and its kin are refused beyond 100 MB (146).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.features import ACCUMULATORS
from fakeserver.storage.expressions import scripted
from fakeserver.storage.expressions.arithmetic_operators import deviation, divide, extreme, total
from fakeserver.storage.expressions.array_operators import merge_objects, unique
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.forms import null_if_missing
from fakeserver.storage.expressions.quantiles import NAMES as QUANTILES
from fakeserver.storage.expressions.quantiles import compile_quantile
from fakeserver.storage.values.limits import Budget, too_much
from fakeserver.storage.values.pacing import paced, sorted_at_leisure
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.sorting import check_sort, sort_documents
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    is_number,
    is_object,
    order,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.port.engine import Evaluate, Frame, Scope

    Values: TypeAlias = Sequence[Any]

_UNKNOWN: Final = 15952


class Accumulator(NamedTuple):
    """A compiled accumulator: what it reads of each document, and what it makes of the values.

    `summarize` takes the values of the documents in order and the variables of the first one, None where
    there is no document.

    Only `n` and `initArgs` are evaluated with the variables of the first one, once for a group. What `source`
    returns may be `MISSING`.
    """

    source: Evaluate
    summarize: Callable[[Values, Frame | None], Any]


def compile_accumulator(operator: str, argument: Any, scope: Scope) -> Accumulator:
    """Return an accumulator. Raises `CommandError` for one that is unknown or malformed."""
    if not scope.knows(operator, ACCUMULATORS):
        raise CommandError(_UNKNOWN, f"unknown group operator '{operator}'")
    if operator in _WITH_COUNT:
        return _counted(operator, argument, scope)
    if operator in _BY_ORDER:
        return _picked(operator, argument, scope)
    if operator in QUANTILES:
        quantile = compile_quantile(operator, argument, scope, lambda each: compile_expression(each, scope))
        return Accumulator(quantile.source, lambda values, _first: quantile.summarize(values))
    if operator == "$count":
        if argument != {}:
            raise CommandError(ErrorCode.TYPE_MISMATCH, "$count takes no arguments, i.e. $count:{}")
        # Ones that are summed, so that a count has the type of a sum: int, or long beyond it.
        return Accumulator(lambda _frame: 1, lambda values, _first: total(values))
    if operator == "$accumulator":
        return Accumulator(*scripted.compile_accumulator(argument, scope, compile_expression))
    accumulate = _ACCUMULATORS.get(operator)
    if accumulate is None:
        raise CommandError(_UNKNOWN, f"unknown group operator '{operator}'")
    source, fold = compile_expression(argument, scope), scope.fold
    return Accumulator(source, lambda values, _first: accumulate(values, fold))


_OF_OBJECTS: Final = frozenset({*("$firstN", "$lastN", "$minN", "$maxN"), *QUANTILES, "$accumulator"}) | {
    *("$top", "$topN", "$bottom", "$bottomN")
}
"""The accumulators that refuse an array in their own words."""


def compile_field(name: str, spec: Any, scope: Scope) -> Accumulator:
    """Return the accumulator of a field of `$group`. Raises `CommandError` for a bad one."""
    if "." in name:
        raise CommandError(40235, f"The field name '{name}' cannot contain '.'")
    if name.startswith("$"):
        raise CommandError(40236, f"The field name '{name}' cannot be an operator name")
    if not is_object(spec):
        raise CommandError(40234, f"The field '{name}' must be an accumulator object")
    if not next(iter(spec), "").startswith("$"):
        raise CommandError(40234, f"The field '{name}' must be an accumulator object")
    if len(spec) != 1:
        raise CommandError(40238, f"The field '{name}' must specify one accumulator")
    operator, argument = next(iter(spec.items()))
    # Not even an array of one: unlike an expression, an accumulator takes no list of operands.
    if isinstance(argument, list) and operator not in _OF_OBJECTS:
        raise CommandError(40237, f"The {operator} accumulator is a unary operator")
    return compile_accumulator(operator, argument, scope)


# A number of values.


def _counted(operator: str, argument: Any, scope: Scope) -> Accumulator:
    """Return `$firstN`, `$lastN`, `$minN` or `$maxN`.

    `n` is an expression of the first document, checked when a group is summarized: 5787902 for no number,
    5787903 for no 32-bit integer, 5787908 for less than one.
    """
    if not is_object(argument):
        raise _no_object(_NOT_AN_OBJECT[operator], operator, argument)
    for key in argument:
        if key not in {"n", "input"}:
            raise CommandError(5787901, f"Unknown argument for 'n' operator: {key}")
    for key, code in (("n", 5787906), ("input", 5787907)):
        if key not in argument:
            raise CommandError(code, f"Missing value for '{key}'")
    count, source = compile_expression(argument["n"], scope), compile_expression(argument["input"], scope)
    take, fold = _WITH_COUNT[operator], scope.fold

    def summarize(values: Values, first: Frame | None) -> Any:
        number = _number(count(scope.frame({}) if first is None else first))
        return take([null_if_missing(value) for value in values], number, fold)

    return Accumulator(source, summarize)


def _number(value: Any) -> int:
    """Return the `n` of an accumulator. Raises `CommandError` 5787902, 5787903 or 5787908."""
    if not is_number(value):
        raise CommandError(5787902, f"Value for 'n' must be of integral type, but found {_shown(value)}")
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        raise CommandError(5787903, f"Value for 'n' must be of integral type, but found {_shown(value)}")
    if number <= 0:
        raise CommandError(5787908, f"'n' must be greater than 0, found {number}")
    return number


def _shown(value: Any) -> str:
    return "missing" if value is MISSING else show(value)


def _picked(operator: str, argument: Any, scope: Scope) -> Accumulator:
    """Return an accumulator of what comes first or last in an order of its own."""
    several = operator.endswith("N")
    if not is_object(argument):
        raise _no_object(5788001, operator, argument)
    needed = {"output": 5788004, "sortBy": 5788005, **({"n": 5788003} if several else {})}
    for key in argument:
        if key not in needed:
            raise CommandError(5788002, f"Unknown argument to {operator} '{key}'")
    for key, code in needed.items():
        if key not in argument:
            raise CommandError(code, f"Missing value for '{key}'")
    sort = argument["sortBy"]
    if not is_object(sort):
        raise CommandError(
            5788604, f"expected 'sortBy' to already be an object in the arguments to {operator}"
        )
    check_sort(sort)
    output = compile_expression(argument["output"], scope)
    count = compile_expression(argument["n"], scope) if several else None
    # What is sorted holds the document beside the value, so the fields of the order are one level down.
    within = {f"document.{name}": direction for name, direction in sort.items()}

    def source(frame: Frame) -> Any:
        return {"document": frame["ROOT"], "value": null_if_missing(output(frame))}

    def summarize(values: Values, first: Frame | None) -> Any:
        found = [each["value"] for each in sort_documents(list(values), within, scope.fold)]
        if count is None:
            # A group without documents, as of an empty window, has no first one: null.
            return (found[0] if operator == "$top" else found[-1]) if found else None
        number = _number(count(scope.frame({}) if first is None else first))
        return found[:number] if operator == "$topN" else found[-number:]

    return Accumulator(source, summarize)


def _no_object(code: int, operator: str, argument: Any) -> CommandError:
    return CommandError(
        code, f"specification must be an object; found {show_field(operator, argument)[1:-1]}"
    )


_BY_ORDER: Final = frozenset({"$top", "$topN", "$bottom", "$bottomN"})
_NOT_AN_OBJECT: Final = {"$firstN": 5787801, "$lastN": 5787801, "$minN": 5787900, "$maxN": 5787900}


# One value of many.


def _mean(values: Values) -> Any:
    """Return the sum, in its own type, by the number of numbers: that of the largest longs is not lost."""
    numbers = [value for value in paced(values) if is_number(value)]
    return divide(total(numbers), len(numbers)) if numbers else None


def _present(values: Values) -> list[Any]:
    """Return the values without missing ones; nulls stay."""
    return [value for value in values if value is not MISSING]


def _ordered(values: Values, fold: Any) -> list[Any]:
    """Return values in the order of BSON types, without nulls; sorted by place, as values do not compare."""
    found = [value for value in values if value is not None]
    keys = [order(value, fold) for value in paced(found)]
    return [found[index] for index in sorted_at_leisure(list(range(len(found))), keys.__getitem__)]


def _bounded(operator: str, values: Values) -> list[Any]:
    """Return the values that are there. Raises `CommandError` 146 where they are too much to hold."""
    budget, found = Budget(too_much(operator)), []
    for value in paced(values):
        if value is not MISSING:
            budget.hold(value)
            found.append(value)
    return found


def _concatenated(operator: str, values: Values) -> list[Any]:
    """Return the elements of all arrays.

    All values are checked before any is joined: an array that is too large in front of a wrong value is 14,
    and not 146.
    """
    budget, found = Budget(too_much(operator)), []
    arrays = _present(values)
    for value in paced(arrays):
        if not isinstance(value, list):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"{operator} requires array inputs, but input {show(value)} is of type {type_name(value)}",
            )
    for array in arrays:
        budget.hold(array)
        found.extend(array)
    return found


_WITH_COUNT: Final[dict[str, Callable[[list[Any], int, Any], Any]]] = {
    "$firstN": lambda values, count, _fold: values[:count],
    "$lastN": lambda values, count, _fold: values[-count:],
    "$minN": lambda values, count, fold: _ordered(values, fold)[:count],
    "$maxN": lambda values, count, fold: _ordered(values, fold)[::-1][:count],
}
_ACCUMULATORS: Final[dict[str, Callable[[Values, Any], Any]]] = {
    "$sum": lambda values, _fold: total(values),
    "$avg": lambda values, _fold: _mean(values),
    "$min": lambda values, fold: extreme(values, -1, fold),
    "$max": lambda values, fold: extreme(values, 1, fold),
    "$first": lambda values, _fold: null_if_missing(values[0]) if values else None,
    "$last": lambda values, _fold: null_if_missing(values[-1]) if values else None,
    "$push": lambda values, _fold: _bounded("$push", values),
    "$addToSet": lambda values, fold: _bounded("$addToSet", unique(_present(values), fold)),
    # The null at the end changes nothing, and keeps a single value from being read as a list of operands.
    "$mergeObjects": lambda values, _fold: merge_objects(*_present(values), None),
    "$stdDevPop": lambda values, _fold: deviation(values, sample=False),
    "$stdDevSamp": lambda values, _fold: deviation(values, sample=True),
    "$concatArrays": lambda values, _fold: _concatenated("$concatArrays", values),
    "$setUnion": lambda values, fold: unique(_concatenated("$setUnion", values), fold),
}
NAMES: Final = frozenset({*_ACCUMULATORS, *_WITH_COUNT, *_BY_ORDER, *QUANTILES, "$count", "$accumulator"})
"""All accumulators."""
