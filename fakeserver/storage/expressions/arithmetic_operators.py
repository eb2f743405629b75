"""Arithmetic and accumulating expression operators.

Results have the widest type of the operands: int, long, double, decimal. An integer that needs more room
than an int becomes a long, and a double beyond a long (`_arithmetic`); `$abs`, `$round` and `$trunc` refuse
instead. `$divide` makes doubles of integers. Functions of real numbers make doubles, of a decimal decimals
of 34 digits (`decimal_functions`, here `exactly`).

A bool is an int in Python and no number in BSON: types are asked of `is_number` and `type_name`, never of
`isinstance(value, int)`. Python raises where C returns an infinity or NaN (`math.exp(1000)`, `math.fmod` of
infinities); each of these places is caught.

`total`, `average`, `extreme` and `deviation` are shared with accumulators and window functions. They pass
over values that are no numbers, where the operators above refuse them.
"""

from __future__ import annotations

import decimal
import math
import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Decimal128

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import FunctionTable, all_there, null_in, nullish
from fakeserver.storage.values import decimal_functions as exactly
from fakeserver.storage.values.arithmetic import DECIMAL128, Summation, combine, integer, like, to_decimal
from fakeserver.storage.values.dates import Date, date_of, is_date
from fakeserver.storage.values.pacing import order_at_leisure, paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    INT64_MAX,
    INT64_MIN,
    exact,
    is_nan,
    is_number,
    milliseconds,
    truthy,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from decimal import Decimal


_EXACT: Final = 6400
"""Digits that are enough for the largest decimal with as many places as may be asked for."""
_EVERY_DIGIT: Final = decimal.Context(prec=12_500, Emax=999_999, Emin=-999_999, traps=[])
"""Calculates with as many digits as the quotient of any two decimals may have."""
# The places that `$round` and `$trunc` take, both ends included; others are refused with 51083.
_LEAST_PLACE: Final = -20
_MOST_PLACE: Final = 100

functions = FunctionTable()
function = functions.function


def _number(name: str, value: Any) -> Any:
    if not is_number(value):
        raise CommandError(28765, f"{name} only supports numeric types, not {type_name(value)}")
    return value


def _arithmetic(calculate: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return a sum, a difference, a product or a power; of integers beyond a long as a double.

    An overflow never wraps around and is no error: `combine` says so by OverflowError, and doubles take
    over.
    """
    try:
        return combine(calculate, left, right)
    except OverflowError:
        return _real_power(left, right) if calculate is operator.pow else calculate(float(left), float(right))


@function("$add", 0, None)
def add(*values: Any) -> Any:
    """Return a sum, of which one part may be a date. Raises `CommandError` for what cannot be added."""
    # An int, so that the sum of nothing and the sum of ints are ints.
    total: Any = 0
    date: Date | None = None
    # All operands are checked before any is added: `{$add: [1, "text", null]}` is an error, and `{$add: [1,
    # null, "text"]}` is null.
    if not all_there(values, _check_summand):
        return None
    for value in paced(values):
        if not is_date(value):
            total = _arithmetic(operator.add, total, value)
        elif date is None:
            date = value
        else:
            raise CommandError(16612, "only one date allowed in an $add expression")
    return total if date is None else _moved("$add", date, total)


def _check_summand(value: Any) -> None:
    if not is_number(value) and not is_date(value):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"$add only supports numeric or date types, not {type_name(value)}"
        )


def _moved(name: str, date: Date, distance: Any, sign: int = 1) -> Date:
    """Return a date some milliseconds away; parts of one are rounded, halves of a decimal to even."""
    try:
        number = exact(distance)
        if isinstance(number, float):
            # Halves of a double go away from zero.
            number = math.copysign(math.floor(abs(number) + 0.5), number)
        elif isinstance(number, decimal.Decimal):
            number = number.to_integral_value(rounding=decimal.ROUND_HALF_EVEN)
        return date_of(milliseconds(date) + sign * int(number))
    except (OverflowError, ValueError):  # infinities, what is no number, and what is beyond 64 bits
        raise CommandError(ErrorCode.OVERFLOW, f"date overflow in {name}") from None


@function("$subtract", 2)
@null_in
def subtract(left: Any, right: Any) -> Any:
    """Return a difference: of dates in milliseconds. Raises `CommandError`."""
    # A date less a date is a long of milliseconds, less a number a date; a number less a date is refused.
    if is_date(left):
        if is_date(right):
            try:
                return integer(milliseconds(left) - milliseconds(right), long=True)
            except OverflowError:
                raise CommandError(ErrorCode.OVERFLOW, "date overflow in $subtract") from None
        if not is_number(right):
            message = f"can't $subtract {type_name(right)} from {type_name(left)}"
            raise CommandError(ErrorCode.TYPE_MISMATCH, message)
        return _moved("$subtract", left, right, -1)
    if not is_number(left) or not is_number(right):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"can't $subtract {type_name(right)} from {type_name(left)}"
        )
    return _arithmetic(operator.sub, left, right)


@function("$multiply", 0, None)
def multiply(*values: Any) -> Any:
    """Return a product. Raises `CommandError`."""
    product: Any = 1
    if not all_there(values, _check_factor):
        return None
    for value in paced(values):
        product = _arithmetic(operator.mul, product, value)
    return product


def _check_factor(value: Any) -> None:
    if not is_number(value):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"$multiply only supports numeric types, not {type_name(value)}"
        )


@function("$divide", 2)
@null_in
def divide(left: Any, right: Any) -> Any:
    """Return a quotient. Raises `CommandError` 2 for a divisor of zero."""
    if not is_number(left) or not is_number(right):
        kinds = f"{type_name(left)} and {type_name(right)}"
        raise CommandError(ErrorCode.TYPE_MISMATCH, f"$divide only supports numeric types, not {kinds}")
    if exact(right) == 0:
        raise CommandError(ErrorCode.BAD_VALUE, "can't $divide by zero")
    if isinstance(left, Decimal128) or isinstance(right, Decimal128):
        return combine(operator.truediv, left, right)
    return float(left) / float(right)


@function("$mod", 2)
@null_in
def _mod(left: Any, right: Any) -> Any:
    if not is_number(left) or not is_number(right):
        kinds = f"{type_name(left)} and {type_name(right)}"
        raise CommandError(16611, f"$mod only supports numeric types, not {kinds}")
    if exact(right) == 0:
        # A server has a code of its own for decimals.
        decimal_too = isinstance(left, Decimal128) or isinstance(right, Decimal128)
        raise CommandError(5733415 if decimal_too else 16610, "can't $mod by zero")
    return combine(remainder, left, right)


def remainder(left: Any, right: Any) -> Any:
    """Return the remainder with the sign of the dividend, as C does.

    Python's own `%` has the sign of the divisor. Integers stay integers, as a double would lose the last
    digits of a long; the quotient of two decimals may need thousands of digits. Raises ZeroDivisionError.
    """
    if isinstance(left, float):
        return math.fmod(left, right) if math.isfinite(left) else math.nan
    if isinstance(left, decimal.Decimal):
        with decimal.localcontext(_EVERY_DIGIT):
            return left % right
    return left - right * int(abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1))


@function("$abs")
@null_in
def _abs(value: Any) -> Any:
    _number("$abs", value)
    # The one long whose absolute value is none.
    if value == INT64_MIN and isinstance(value, int):
        raise CommandError(28680, "can't take $abs of long long min")
    if isinstance(value, Decimal128):
        return Decimal128(value.to_decimal().copy_abs())
    return like(abs(value), value)


def _rounding(name: str, mode: str, through: Callable[[float], int]) -> None:
    """Enter `$ceil` or `$floor`, which keep the type: a double stays one, with the sign of its zero."""

    @function(name)
    @null_in
    def _round(value: Any) -> Any:
        _number(name, value)
        if isinstance(value, Decimal128):
            return Decimal128(value.to_decimal().quantize(_ONE, rounding=mode, context=DECIMAL128))
        if not isinstance(value, float) or not math.isfinite(value):
            return value
        return math.copysign(through(value), value)  # a zero keeps its sign


_ONE: Final = decimal.Decimal(1)
"""To its place a decimal is rounded; one that has no digit there, or an infinite one, becomes NaN."""

_rounding("$ceil", decimal.ROUND_CEILING, math.ceil)
_rounding("$floor", decimal.ROUND_FLOOR, math.floor)


def _to_place(name: str, mode: str) -> None:
    """Enter `$round` or `$trunc`, whose second operand is the number of places, by default 0.

    `$round` goes to the even neighbour from halfway. A double counts with its exact binary fraction, so 2.675
    lies below halfway.
    """

    @function(name, 1, 2)
    @null_in
    def _round(value: Any, digits_wanted: Any = 0) -> Any:
        if not is_number(value):
            raise CommandError(51081, f"{name} only supports numeric types, not {type_name(value)}")
        digits = _place(name, digits_wanted)
        number = DECIMAL128.create_decimal(
            exact(value)
        )  # a double with its binary fraction, not as it is shown
        if not number.is_finite():
            return value
        with decimal.localcontext(prec=_EXACT):
            rounded = number.quantize(decimal.Decimal(1).scaleb(-digits), rounding=mode)
        if isinstance(value, Decimal128):
            return Decimal128(DECIMAL128.create_decimal(rounded))
        if isinstance(value, float):
            return float(rounded)
        # A place before the point may round a long up beyond itself.
        if not INT64_MIN <= rounded <= INT64_MAX:
            message = f"invalid conversion from Decimal128 result in {name} resulting from arguments"
            raise CommandError(51080, f"{message}: [{show(value)}, {digits}]")
        return like(int(rounded), value)


def _place(name: str, digits_wanted: Any) -> int:
    """Return the digits after the point that are kept, negative before it. Raises `CommandError`."""
    if not is_number(digits_wanted):
        raise CommandError(16004, f"can't convert from BSON type {type_name(digits_wanted)} to long")
    if isinstance(digits_wanted, float) and not INT64_MIN <= digits_wanted < INT64_MAX:
        raise CommandError(31109, f"Can't coerce out of range value {show(digits_wanted)} to long")
    # In a server's order: no number, beyond a long, no whole number, too many places.
    digits = whole(digits_wanted)
    if digits is None:
        raise CommandError(51082, f"precision argument to  {name} must be a integral value")
    if not _LEAST_PLACE <= digits <= _MOST_PLACE:
        message = f"value must be in [{_LEAST_PLACE}, {_MOST_PLACE}]"
        raise CommandError(51083, f"cannot apply {name} with precision value {digits} {message}")
    return digits


_to_place("$round", decimal.ROUND_HALF_EVEN)
_to_place("$trunc", decimal.ROUND_DOWN)


def _real(
    name: str,
    of_double: Callable[[float], float],
    of_decimal: Callable[[decimal.Decimal], decimal.Decimal],
    check: Callable[[Any], None] | None = None,
    *,
    logarithm: bool = False,
) -> Callable[[Any], Any]:
    """Enter an operator of one number, which for a decimal has a decimal's digits."""

    @function(name)
    @null_in
    def _calculate(value: Any) -> Any:
        number = exact(_number(name, value))
        if is_nan(value):
            # A logarithm of what is no number is a double's, whichever the type.
            return value if isinstance(value, Decimal128) and not logarithm else math.nan
        if check is not None:
            check(number)
        if isinstance(value, Decimal128):
            return exactly.rounded(of_decimal(number))
        try:
            return of_double(float(number))
        except OverflowError:
            return math.inf

    return _calculate


def _not_negative(number: Any) -> None:
    if number < 0:
        raise CommandError(28714, "$sqrt's argument must be greater than or equal to 0")


def _positive(code: int, what: str) -> Callable[[Any], None]:
    def check(number: Any) -> None:
        if number <= 0:
            raise CommandError(code, f"{what} must be a positive number, but is {float(number):g}")

    return check


_real("$sqrt", math.sqrt, exactly.sqrt, _not_negative)
_real("$ln", math.log, exactly.ln, _positive(28766, "$ln's argument"), logarithm=True)
_real("$log10", math.log10, exactly.log10, _positive(28761, "$log10's argument"), logarithm=True)
exponential: Final = _real("$exp", math.exp, exactly.exp)


@function("$log", 2)
@null_in
def _log(value: Any, base: Any) -> Any:
    for code, which, number in ((28756, "argument", value), (28757, "base", base)):
        if not is_number(number):
            raise CommandError(code, f"$log's {which} must be numeric, not {type_name(number)}")
    if not is_nan(value) and exact(value) <= 0:
        raise CommandError(28758, f"$log's argument must be a positive number, but is {show(value)}")
    if not is_nan(base) and (exact(base) <= 0 or exact(base) == 1):
        raise CommandError(
            28759, f"$log's base must be a positive number not equal to 1, but is {show(base)}"
        )
    if is_nan(value) or is_nan(base):
        return math.nan
    if isinstance(value, Decimal128) or isinstance(base, Decimal128):
        return exactly.rounded(exactly.log(to_decimal(value), to_decimal(base)))
    return math.log(value) / math.log(base)


@function("$pow", 2)
@null_in
def _pow(base: Any, exponent: Any) -> Any:
    for code, which, number in ((28762, "base", base), (28763, "exponent", exponent)):
        if not is_number(number):
            raise CommandError(code, f"$pow's {which} must be numeric, not {type_name(number)}")
    if exact(base) == 0 and not is_nan(exponent) and exact(exponent) < 0:
        raise CommandError(28764, "$pow cannot take a base of 0 and a negative exponent")
    if isinstance(base, Decimal128) or isinstance(exponent, Decimal128):
        return exactly.rounded(exactly.power(to_decimal(base), to_decimal(exponent)))
    if isinstance(base, int) and isinstance(exponent, int):
        if base in (-1, 0, 1):  # the same for all odd exponents, and for all even ones but 0
            # So a negative exponent needs no fraction, and a huge one no time.
            power = 2 - exponent % 2 if exponent else 0
            return like(int(base) ** power, base, exponent)
        if 0 <= exponent < _BITS:
            return _arithmetic(operator.pow, base, exponent)
    return _real_power(base, exponent)


_BITS: Final = 64
"""The least exponent with which no integer but -1, 0 and 1 has a power that is a long."""


def _real_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:  # the root of what is negative
        return math.nan
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


@function("$not")
def _not(value: Any) -> bool:
    return not truthy(value)


def spread(values: Sequence[Any]) -> list[Any]:
    """Return what an accumulator sees as an expression: a single array stands for its elements.

    As the manual has it: one operand that is an array is traversed. Of several operands an array is one
    value, and no number.
    """
    return values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)


def total(values: Sequence[Any]) -> Any:
    """Return the sum of the numbers among `values`."""
    return _summed(values)[0].value


def average(values: Sequence[Any]) -> Any:
    """Return the mean of the numbers among `values`, or None."""
    found, count = _summed(values)
    return found.mean(count) if count else None


def _summed(values: Sequence[Any]) -> tuple[Summation, int]:
    """Return the sum of the numbers among `values`, and how many there are."""
    found, count = Summation(), 0
    for value in paced(values):
        if is_number(value):
            found.add(value)
            count += 1
    return found, count


def extreme(values: Sequence[Any], sign: int, fold: Any = None) -> Any:
    """Return the greatest (`sign` 1) or the least (-1) that is not null, or None."""
    found = [value for value in paced(values) if not nullish(value)]
    if not found:
        return None
    chosen = max if sign > 0 else min
    # Each key is made once; of equal values the first one is the answer.
    keys = [order_at_leisure(value, fold) for value in paced(found)]
    return found[keys.index(chosen(keys))]


def deviation(values: Sequence[Any], *, sample: bool) -> float | None:
    """Return the standard deviation of the numbers among `values`, or None where there is none.

    It is made in one pass (by Welford), so that its last digits are a server's.
    """
    count, mean, squares = 0, 0.0, 0.0
    for value in paced(values):
        if is_number(value):
            number = float(exact(value))
            count += 1
            delta = number - mean
            if delta != 0:
                mean += delta / count
                squares += delta * (number - mean)
    # One number has no deviation as a sample: null. As a population it is 0.
    counted = count - 1 if sample else count
    if counted <= 0:
        return None
    return math.sqrt(squares / counted) if squares >= 0 else math.nan  # beyond what doubles hold


function("$sum", 0, None)(lambda *values: total(spread(values)))
function("$avg", 0, None)(lambda *values: average(spread(values)))
function("$max", 0, None, folds=True)(lambda *values, fold=None: extreme(spread(values), 1, fold))
function("$min", 0, None, folds=True)(lambda *values, fold=None: extreme(spread(values), -1, fold))
function("$stdDevPop", 0, None)(lambda *values: deviation(spread(values), sample=False))
function("$stdDevSamp", 0, None)(lambda *values: deviation(spread(values), sample=True))


def _bitwise(name: str, calculate: Callable[[int, int], int], start: int) -> None:
    """Enter an operator of ints and longs; `start` is its result without operands, and changes no other."""

    @function(name, 0, None)
    def _call(*values: Any) -> Any:
        found = start
        if not all_there(values, lambda value: _check_integer(name, value)):
            return None
        for value in paced(values):
            found = calculate(found, int(value))
        return like(found, *values)


def _check_integer(name: str, value: Any) -> None:
    if type_name(value) not in {"int", "long"}:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"{name} only supports int and long operands, not {type_name(value)}."
        )


_bitwise("$bitAnd", operator.and_, -1)
_bitwise("$bitOr", operator.or_, 0)
_bitwise("$bitXor", operator.xor, 0)


@function("$bitNot")
@null_in
def _bit_not(value: Any) -> Any:
    # What is no number has the code 28765, a double or a decimal 14.
    _check_integer("$bitNot", _number("$bitNot", value))
    return like(~int(value), value)


# Expression operators on angles, and the hyperbolic functions: of doubles, and of decimals to 34 digits.


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
        shown = f"{number:g}" if isinstance(number, float) else str(number)
        raise CommandError(
            _OUT_OF_BOUNDS,
            f"cannot apply {name} to {shown}, value must in {left}{self.least:g},{self.most:g}{right}",
        )


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
        # NaN is within no bounds, and refused by none: it comes back in its own type.
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
