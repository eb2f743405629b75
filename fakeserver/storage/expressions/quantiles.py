"""`$percentile` and `$median`: as expressions, accumulators and window functions.

A server's `approximate` percentiles are exact while a t-digest keeps each value apart, and near them
beyond; these are exact always. The price is that all numbers are kept and sorted.

A percentile is one of the numbers, never a mean of two: the least one that at least `p` of all numbers do
not exceed. Results are doubles, whatever the type of the numbers; values that are no numbers, and NaN, are
passed over, and null is the answer where nothing is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.expressions.functions import constant
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import MISSING, exact, is_nan, is_number, is_object
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.port.engine import Evaluate, Frame, Scope

    Compile = Callable[[Any], Evaluate]

_MEDIAN: Final = "$median"
_METHOD: Final = "approximate"
_COMMON: Final = (Field("input", "any", required=True), Field("method", "string", required=True))
_FIELDS: Final = {
    "$percentile": Fields.of(_COMMON[0], Field("p", "any", required=True), _COMMON[1]),
    _MEDIAN: Fields.of(*_COMMON),
}
NAMES: Final = frozenset(_FIELDS)
_NOT_AN_OBJECT: Final = {
    ("$percentile", "expression"): 7436200,
    ("$percentile", "accumulator"): 7429703,
    (_MEDIAN, "expression"): 7436201,
    (_MEDIAN, "accumulator"): 7436100,
}


class Quantile(NamedTuple):
    """A compiled operator: what it reads of each document, and what it makes of the values."""

    source: Evaluate
    summarize: Callable[[Sequence[Any]], Any]


def compile_quantile(
    name: str, argument: Any, scope: Scope, compile_operand: Compile, kind: str = "accumulator"
) -> Quantile:
    """Return `$percentile` or `$median`. Raises `CommandError` for a malformed one.

    `kind` is `expression` or `accumulator`, which refuse what is no object with codes of their own.
    """
    if not is_object(argument):
        raise CommandError(
            _NOT_AN_OBJECT[name, kind], f"specification must be an object; found {name}: {show(argument)}"
        )
    _FIELDS[name].check(dict(argument), name)
    if argument["method"] != _METHOD:
        raise CommandError(
            ErrorCode.BAD_VALUE, "Currently only 'approximate' can be used as percentile 'method'."
        )
    source = compile_operand(argument["input"])
    if name == _MEDIAN:
        return Quantile(source, lambda values: percentiles(values, (0.5,))[0])
    wanted = _probabilities(argument["p"], scope, compile_operand)
    return Quantile(source, lambda values: percentiles(values, wanted))


def quantile_of(quantile: Quantile) -> Evaluate:
    """Return a quantile as an expression: of the numbers in an array, or of one number."""

    def evaluate(frame: Frame) -> Any:
        value = quantile.source(frame)
        return quantile.summarize(value if isinstance(value, list) else [value])

    return evaluate


def percentiles(values: Sequence[Any], wanted: Sequence[float]) -> list[float | None]:
    """Return for each probability the least number that so large a part of the numbers does not exceed.

    The rank is the ceiling of `p` times their number; `p` 0 is the least, 1 the greatest number.
    """
    numbers = sorted(float(exact(value)) for value in paced(values) if is_number(value) and not is_nan(value))
    if not numbers:
        return [None] * len(wanted)
    last = len(numbers) - 1
    ranks = [min(max(math.ceil(len(numbers) * each) - 1, 0), last) for each in wanted]
    return [numbers[rank] for rank in ranks]


def _probabilities(argument: Any, scope: Scope, compile_operand: Compile) -> tuple[float, ...]:
    """Return the constants of `p`, in the order in which results are wanted.

    Codes: 7750300 for an expression that is no constant, 7750301 for no array or an empty one, 7750302 for
    an element that is no number, 7750303 for one outside 0 to 1.
    """
    found = constant(argument, scope, compile_operand)
    if found is MISSING:
        raise CommandError(
            7750300,
            "The $percentile 'p' field must be an array of constant values, but found value:"
            f" {show(argument)}.",
        )
    message = "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: "
    if not isinstance(found, list) or not found:
        raise CommandError(7750301, message + show(found))
    for each in found:
        if not is_number(each):
            raise CommandError(7750302, message + show(each))
        if is_nan(each) or not 0 <= exact(each) <= 1:
            raise CommandError(7750303, message + show(each))
    return tuple(float(exact(each)) for each in found)
