"""Elementary functions of decimals, right to the 34 digits that a Decimal128 holds.

Python's `decimal` has roots, exponentials and logarithms; angles and hyperbolic functions are made of them
and of power series here.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from bson import Decimal128

if TYPE_CHECKING:
    from collections.abc import Callable

_DECIMAL128: Final = decimal.Context(prec=34, Emax=6144, Emin=-6143, clamp=1, traps=[])
_DIGITS: Final = 60
_TINY: Final = -25
"""Below ten to this power, two terms of a series are right to more digits than are kept."""
_LEVEL: Final = 200
"""Beyond this the hyperbolic tangent is 1 to all digits that are kept."""


def _context(digits: int = _DIGITS) -> decimal.Context:
    """Return a context that goes on with infinities and NaN instead of raising."""
    return decimal.Context(prec=digits, Emax=999_999, Emin=-999_999, traps=[])


def rounded(number: Decimal) -> Decimal128:
    """Return a number as a Decimal128 holds it: to 34 digits, infinite beyond its range."""
    return Decimal128(_DECIMAL128.create_decimal(number))


def _computed(calculate: Callable[..., Decimal]) -> Callable[..., Decimal]:
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
    return atan2(number, ((1 - number) * (1 + number)).sqrt())


@_computed
def acos(number: Decimal) -> Decimal:
    """Return the angle of a cosine, for -1 to 1."""
    return 2 * atan2((1 - number).sqrt(), (1 + number).sqrt())


@_computed
def sinh(number: Decimal) -> Decimal:
    """Return the hyperbolic sine."""
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


@_computed
def radians(degrees: Decimal) -> Decimal:
    """Return an angle in radians."""
    return degrees * _pi(_DIGITS) / 180


@_computed
def degrees(radians: Decimal) -> Decimal:
    """Return an angle in degrees."""
    return radians * 180 / _pi(_DIGITS)
