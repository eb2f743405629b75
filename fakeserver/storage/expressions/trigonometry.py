"""Expression operators on angles, and the hyperbolic functions: of doubles, and of decimals to 34 digits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from bson import Decimal128

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import FunctionTable, null_in
from fakeserver.storage.values import decimal_functions as exactly
from fakeserver.storage.values.arithmetic import to_decimal
from fakeserver.storage.values.types import exact, is_nan, is_number, type_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

functions = FunctionTable()
function = functions.function

_NOT_A_NUMBER = 28765
_FIRST_NOT_A_NUMBER = 51044
_SECOND_NOT_A_NUMBER = 51045
_OUT_OF_BOUNDS = 50989
_INFINITE = float("inf")


class _Bounds(NamedTuple):
    """The numbers that an operator applies to; `closed` says that the ends are among them."""

    least: float
    most: float
    closed: bool = True

    def check(self, name: str, value: Any) -> None:
        """Refuse a number outside. Raises `CommandError` 50989."""
        number = exact(value)
        if self.least < number < self.most or (self.closed and number in (self.least, self.most)):
            return
        left, right = "[]" if self.closed else "()"
        raise CommandError(
            _OUT_OF_BOUNDS,
            f"cannot apply {name} to {_shown(number)}, value must in"
            f" {left}{self.least:g},{self.most:g}{right}",
        )


def _shown(number: Any) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


_FINITE = _Bounds(-_INFINITE, _INFINITE, closed=False)
_UNIT = _Bounds(-1, 1)
_FROM_ONE = _Bounds(1, _INFINITE)


def _enter(
    name: str,
    of_double: Callable[[float], float],
    of_decimal: Callable[[Decimal], Decimal],
    bounds: _Bounds | None = None,
) -> None:
    @function(name)
    @null_in
    def _calculate(value: Any) -> Any:
        if not is_number(value):
            raise CommandError(_NOT_A_NUMBER, f"{name} only supports numeric types, not {type_name(value)}")
        if is_nan(value):
            return value
        if bounds is not None:
            bounds.check(name, value)
        if isinstance(value, Decimal128):
            return exactly.rounded(of_decimal(value.to_decimal()))
        return of_double(float(value))


def _unbounded(calculate: Callable[[float], float]) -> Callable[[float], float]:
    """Return infinity where a result is too large for a double, and Python raises."""

    def within(number: float) -> float:
        try:
            return calculate(number)
        except OverflowError:
            return math.copysign(_INFINITE, number) if calculate is math.sinh else _INFINITE

    return within


def _atanh(number: float) -> float:
    return math.copysign(_INFINITE, number) if abs(number) == 1 else math.atanh(number)


_enter("$sin", math.sin, exactly.sin, _FINITE)
_enter("$cos", math.cos, exactly.cos, _FINITE)
_enter("$tan", math.tan, exactly.tan, _FINITE)
_enter("$asin", math.asin, exactly.asin, _UNIT)
_enter("$acos", math.acos, exactly.acos, _UNIT)
_enter("$atan", math.atan, exactly.atan)
_enter("$sinh", _unbounded(math.sinh), exactly.sinh)
_enter("$cosh", _unbounded(math.cosh), exactly.cosh)
_enter("$tanh", math.tanh, exactly.tanh)
_enter("$asinh", math.asinh, exactly.asinh)
_enter("$acosh", math.acosh, exactly.acosh, _FROM_ONE)
_enter("$atanh", _atanh, exactly.atanh, _UNIT)
_enter("$degreesToRadians", math.radians, exactly.radians)
_enter("$radiansToDegrees", math.degrees, exactly.degrees)


@function("$atan2", 2)
@null_in
def _atan2(ordinate: Any, abscissa: Any) -> Any:
    for code, value in ((_FIRST_NOT_A_NUMBER, ordinate), (_SECOND_NOT_A_NUMBER, abscissa)):
        if not is_number(value):
            raise CommandError(code, f"$atan2 only supports numeric types, not {type_name(value)}")
    if isinstance(ordinate, Decimal128) or isinstance(abscissa, Decimal128):
        return exactly.rounded(exactly.atan2(to_decimal(ordinate), to_decimal(abscissa)))
    return math.atan2(float(ordinate), float(abscissa))
