"""Elementary functions of decimals, right to the 34 digits that a Decimal128 holds.

Python's `decimal` has roots, exponentials, powers and logarithms; angles and hyperbolic functions are made of
them and of power series here.

A server has Intel's decimal library, whose results are compared to the last digit (`test_trigonometry`,
`test_decimals`). So all is computed with 60 digits (`_computed`) and rounded once, by `rounded`; formulas are
chosen so that no difference of nearly equal numbers eats up the 26 to spare. Exponentials and logarithms are
the exception: Intel's go through 113 binary digits, and so do these (`_binary`).

Functions take and return `Decimal`, NaN for NaN. That an argument is in the domain is the caller's to check,
whose errors have a code for each operator; the sine of an infinity would never end.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from bson import Decimal128

from fakeserver.storage.values.arithmetic import DECIMAL128

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGITS: Final = 60
_BITS: Final = 113
_TINY: Final = -25
"""Below ten to this power, two terms of a series are right to more digits than are kept."""
_LEVEL: Final = 200
"""Beyond this the hyperbolic tangent is 1 to all digits that are kept."""


def _context(digits: int = _DIGITS) -> decimal.Context:
    """Return a context that goes on with infinities and NaN instead of raising."""
    return decimal.Context(prec=digits, Emax=999_999, Emin=-999_999, traps=[])


def rounded(number: Decimal) -> Decimal128:
    """Return a number as a Decimal128 holds it: to 34 digits, infinite beyond its range."""
    return Decimal128(DECIMAL128.create_decimal(number))


def _computed(calculate: Callable[..., Decimal]) -> Callable[..., Decimal]:
    # NaN is returned as it came. In a power series it would never end: no sum of NaN equals the one before.
    def within(*arguments: Decimal) -> Decimal:
        for each in arguments:
            if each.is_nan():
                return each
        with decimal.localcontext(_context()):
            return calculate(*arguments)

    within.__doc__ = calculate.__doc__
    return within


@lru_cache(maxsize=32)
def _pi(digits: int) -> Decimal:
    """Return pi by Machin's formula."""
    # In integers, with ten digits more than asked for, which take up the errors of the divisions.
    unity = 10 ** (digits + 10)
    with decimal.localcontext(_context(digits + 10)):
        value = Decimal(4 * (4 * _inverse_arctangent(5, unity) - _inverse_arctangent(239, unity)))
        return value.scaleb(-(digits + 10))


def _inverse_arctangent(number: int, unity: int) -> int:
    power = total = unity // number
    square, divisor, sign = number * number, 1, 1
    while power:
        power //= square
        divisor, sign = divisor + 2, -sign
        total += sign * (power // divisor)
    return total


def _series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """Return the sum of terms, each `ratio(n)` times the one before, until they no longer count."""
    total, term, number = first, first, 1
    while True:
        term = term * ratio(number)
        if total + term == total:
            return total
        total += term
        number += 1


def _turned(angle: Decimal) -> Decimal:
    """Return an angle between -pi and pi that differs by whole turns."""
    # Pi needs a digit more for each digit before the angle's point: 1E+6000 turns as exactly as 1 does.
    digits = _DIGITS + max(angle.adjusted(), 0)
    with decimal.localcontext(_context(digits)):
        return angle.remainder_near(2 * _pi(digits))


@_computed
def sin(angle: Decimal) -> Decimal:
    """Return the sine of an angle in radians."""
    turned = _turned(angle)
    square = turned * turned
    return _series(turned, lambda n: -square / ((2 * n) * (2 * n + 1)))


@_computed
def cos(angle: Decimal) -> Decimal:
    """Return the cosine of an angle in radians."""
    square = _turned(angle) ** 2
    return _series(Decimal(1), lambda n: -square / ((2 * n - 1) * (2 * n)))


@_computed
def tan(angle: Decimal) -> Decimal:
    """Return the tangent of an angle in radians."""
    return sin(angle) / cos(angle)


@_computed
def atan(number: Decimal) -> Decimal:
    """Return the angle of a tangent, between -pi/2 and pi/2."""
    if number.is_infinite():
        return (_pi(_DIGITS) / 2).copy_sign(number)
    if abs(number) > 1:
        return (_pi(_DIGITS) / 2).copy_sign(number) - atan(1 / number)
    # The series is quick near 0 alone: the angle is halved three times, and its eighth multiplied again.
    halved = number
    for _ in range(3):
        halved = halved / (1 + (1 + halved * halved).sqrt())
    square = halved * halved
    total, power, divisor = halved, halved, 1
    while True:
        power, divisor = -power * square, divisor + 2
        if total + power / divisor == total:
            return 8 * total
        total += power / divisor


@_computed
def atan2(ordinate: Decimal, abscissa: Decimal) -> Decimal:
    """Return the angle between the positive axis and the point (`abscissa`, `ordinate`), as C does."""
    pi = _pi(_DIGITS)
    if ordinate.is_infinite() and abscissa.is_infinite():
        return (pi / 4 if abscissa > 0 else 3 * pi / 4).copy_sign(ordinate)
    if ordinate.is_zero() or abscissa.is_infinite():
        return (pi if abscissa.is_signed() else Decimal(0)).copy_sign(ordinate)
    if abscissa.is_zero():
        return (pi / 2).copy_sign(ordinate)
    angle = atan(abs(ordinate / abscissa))
    return (pi - angle if abscissa < 0 else angle).copy_sign(ordinate)


@_computed
def asin(number: Decimal) -> Decimal:
    """Return the angle of a sine, for -1 to 1."""
    # The product instead of 1 - x * x, which would lose the digits of an x near 1.
    return atan2(number, ((1 - number) * (1 + number)).sqrt())


@_computed
def acos(number: Decimal) -> Decimal:
    """Return the angle of a cosine, for -1 to 1."""
    return 2 * atan2((1 - number).sqrt(), (1 + number).sqrt())


@_computed
def sinh(number: Decimal) -> Decimal:
    """Return the hyperbolic sine."""
    # Near 0 both exponentials are nearly 1, and their difference would have few digits.
    if abs(number) < 1:
        square = number * number
        return _series(number, lambda n: square / ((2 * n) * (2 * n + 1)))
    return (number.exp() - (-number).exp()) / 2


@_computed
def cosh(number: Decimal) -> Decimal:
    """Return the hyperbolic cosine."""
    return (number.exp() + (-number).exp()) / 2


@_computed
def tanh(number: Decimal) -> Decimal:
    """Return the hyperbolic tangent."""
    if abs(number) > _LEVEL:
        return Decimal(1).copy_sign(number)
    return sinh(number) / cosh(number)


@_computed
def asinh(number: Decimal) -> Decimal:
    """Return the inverse of the hyperbolic sine."""
    if number.is_infinite() or number.is_zero():
        return number
    if number.adjusted() < _TINY:
        return number - number**3 / 6
    size = abs(number)
    return (size + (size * size + 1).sqrt()).ln().copy_sign(number)


@_computed
def acosh(number: Decimal) -> Decimal:
    """Return the inverse of the hyperbolic cosine, from 1 up."""
    return (number + ((number - 1) * (number + 1)).sqrt()).ln()


@_computed
def atanh(number: Decimal) -> Decimal:
    """Return the inverse of the hyperbolic tangent, for -1 to 1."""
    if number.is_zero():
        return number
    if number.adjusted() < _TINY:
        return number + number**3 / 3
    return ((1 + number) / (1 - number)).ln() / 2


def radians(degrees: Decimal) -> Decimal:
    """Return an angle in radians: a product with a factor that has 34 digits itself."""
    return DECIMAL128.multiply(degrees, _factor(to_degrees=False))


def degrees(radians: Decimal) -> Decimal:
    """Return an angle in degrees: a product with a factor that has 34 digits itself."""
    return DECIMAL128.multiply(radians, _factor(to_degrees=True))


@lru_cache(maxsize=2)
def _factor(*, to_degrees: bool) -> Decimal:
    with decimal.localcontext(_context()):
        factor = 180 / _pi(_DIGITS) if to_degrees else _pi(_DIGITS) / 180
    return DECIMAL128.create_decimal(factor)


# Roots, logarithms and powers.


@_computed
def sqrt(number: Decimal) -> Decimal:
    """Return the square root of a number that is not negative."""
    return number.sqrt()


def _binary(number: Decimal) -> Decimal:
    """Return the nearest number of 113 bits: a server computes exponentials and logarithms in those."""
    if not number.is_finite() or number.is_zero():
        return number
    top, bottom = abs(number).as_integer_ratio()
    power = top.bit_length() - bottom.bit_length() - _BITS
    above, below = (top, bottom << power) if power > 0 else (top << -power, bottom)
    # One bit more than are kept, or two; with the remainder they decide how the last one is rounded.
    bits, rest = divmod(above, below)
    spare = bits.bit_length() - _BITS
    if spare > 0:
        bits, low = bits >> spare, (bits & ((1 << spare) - 1)) * below + rest
        half = below << (spare - 1)
    else:
        low, half = rest * 2, below
    bits += low > half or (low == half and bits & 1)
    # Without factors of two, so that a number of few digits is exact, and has no zeros at its end.
    factors = (bits & -bits).bit_length() - 1
    bits, power = bits >> factors, power + max(spare, 0) + factors
    found = Decimal(bits) * Decimal(2) ** power if power >= 0 else Decimal(bits) / Decimal(2) ** -power
    return found.copy_sign(number)


@_computed
def exp(number: Decimal) -> Decimal:
    """Return e to the power of a number."""
    return _binary(_binary(number).exp())


@_computed
def ln(number: Decimal) -> Decimal:
    """Return the natural logarithm of a positive number."""
    return _binary(_binary(number).ln())


@_computed
def log10(number: Decimal) -> Decimal:
    """Return the logarithm of a positive number to the base 10, a whole number for a power of ten."""
    return _binary(_binary(number).log10())


def log(number: Decimal, base: Decimal) -> Decimal:
    """Return the logarithm of a positive number to a positive base other than 1.

    It is the quotient of two logarithms of 34 digits, so that the third root of 1000 may miss its last digit.
    """
    return DECIMAL128.divide(*(DECIMAL128.create_decimal(ln(each)) for each in (number, base)))


_AS_GOOD_AS_WHOLE: Final = Decimal("1E-50")


@_computed
def power(base: Decimal, exponent: Decimal) -> Decimal:
    """Return a power with as many digits as there may be: the square of 2 has 33 zeros behind its point."""
    if exponent == 1 and base.copy_abs() == _LARGEST:  # a server computes it by way of a larger one
        return Decimal("Infinity").copy_sign(base)
    found = Decimal(1) if exponent.is_zero() else base**exponent
    return DECIMAL128.add(DECIMAL128.create_decimal(found), _LEAST_ZERO)


_LARGEST: Final = Decimal("9.999999999999999999999999999999999E+6144")
_LEAST_ZERO: Final = Decimal("0E-6176")
"""What is added to this has all 34 digits."""
