"""Arithmetic that keeps BSON's number types: int grows to long, long to double, and decimal wins.

The type of a result is that of the widest operand, and only wider where the value needs it: two ints that
overflow make a long, `Int64(1) + 1` stays a long. Beyond a long, an expression makes a double and an update
fails; that is the caller's choice, who gets an OverflowError (`combine`, `integer`).

`Summation` adds up for `$sum`, `$avg` and `$add`, `RemovableSum` for windows that slide. Their digits are
those of a server, whose `DoubleDoubleSummation` carries the rounding error of each addition along.
"""

from __future__ import annotations

import decimal
import math
import operator
from typing import TYPE_CHECKING, Any, Final

from bson import Decimal128, Int64
from bson.decimal128 import create_decimal128_context

from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    exact,
    is_finite,
    is_nan,
)

if TYPE_CHECKING:
    from collections.abc import Callable


DECIMAL128: Final = create_decimal128_context()
"""Calculates as decimals do: to 34 digits, with NaN for what is no number instead of an exception."""
DECIMAL128.clear_traps()
_DIGITS_OF_A_DOUBLE: Final = 15


def combine(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return `operation` of two numbers in the wider of their types; OverflowError beyond a long."""
    # The same context twice: operators of plain decimals take the local one, and `create_decimal` rounds what
    # an operation returns as it got it, such as a minimum.
    if isinstance(left, Decimal128) or isinstance(right, Decimal128):
        with decimal.localcontext(DECIMAL128):
            return Decimal128(DECIMAL128.create_decimal(operation(to_decimal(left), to_decimal(right))))
    if isinstance(left, float) or isinstance(right, float):
        return operation(float(left), float(right))
    return integer(operation(int(left), int(right)), long=_is_long(left) or _is_long(right))


def integer(value: int, *, long: bool = False) -> int:
    """Return an int where it fits, else a long, or a long where asked; OverflowError beyond."""
    if not INT64_MIN <= value <= INT64_MAX:
        raise OverflowError(value)
    return Int64(value) if long or not INT32_MIN <= value <= INT32_MAX else int(value)


def _is_long(value: Any) -> bool:
    return isinstance(value, Int64) or not INT32_MIN <= value <= INT32_MAX


def to_decimal(value: Any) -> decimal.Decimal:
    """Return a number as a decimal; a double has 15 digits, neither more nor less, as a server makes it."""
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if not isinstance(value, float):
        return decimal.Decimal(int(value))
    if value == 0 or not math.isfinite(value):
        return decimal.Decimal(f"{value:g}")
    # `Decimal128(double, kRoundTo15Digits)` in a server's source: 0.1 becomes 0.100000000000000, not the 34
    # digits of the double nearest to it, and not 0.1 either.
    number = DECIMAL128.create_decimal_from_float(value)
    place = number.adjusted() - _DIGITS_OF_A_DOUBLE + 1
    rounded = number.quantize(decimal.Decimal(1).scaleb(place), context=DECIMAL128)
    if len(rounded.as_tuple().digits) > _DIGITS_OF_A_DOUBLE:  # nines that became a one and zeros
        rounded = number.quantize(decimal.Decimal(1).scaleb(place + 1), context=DECIMAL128)
    return rounded


def like(value: Any, *examples: Any) -> Any:
    """Return a whole or broken number in the widest type of the examples, never narrower than it needs."""
    if any(isinstance(example, Decimal128) for example in examples):
        return Decimal128(to_decimal(value))
    if isinstance(value, float) or any(isinstance(example, float) for example in examples):
        return float(value)
    return integer(value, long=any(_is_long(example) for example in examples))


_HALF: Final = 2**32
"""A long is split here, so that each part is exact as a double."""


class Summation:
    """A sum that grows.

    Integers are exact. Once a double is among them, the sum is a double and what is missing from it, so that
    0.1, 0.2 and 0.3 make 0.6. Decimals are summed apart, and the rest is added to them in the end.
    """

    __slots__ = (
        "_addend",
        "_decimals",
        "_has_decimal",
        "_has_double",
        "_has_long",
        "_special",
        "_sum",
        "_whole",
    )

    def __init__(self) -> None:
        self._whole = 0
        self._sum = self._addend = self._special = 0.0
        self._decimals = decimal.Decimal(0)
        self._has_long = self._has_double = self._has_decimal = False

    def add(self, number: Any) -> None:
        """Add an int, a long, a double or a decimal."""
        if isinstance(number, float):
            self._has_double = True
            self._add_double(number)
        elif isinstance(number, Decimal128):
            self._has_decimal = True
            self._decimals = DECIMAL128.add(self._decimals, number.to_decimal())
        else:
            self._has_long = (
                self._has_long or isinstance(number, Int64) or not INT32_MIN <= number <= INT32_MAX
            )
            # Both sums run from the first integer on: which one counts is known at the end alone.
            self._whole += int(number)
            high = int(number / _HALF) * _HALF if abs(number) >= _HALF else 0
            if number != high:
                self._add_double(float(number - high))
            if high:
                self._add_double(float(high))

    def _add_double(self, number: float) -> None:
        # The error terms make NaN of an infinity (inf - inf). This plain sum is what counts then.
        self._special += number
        number, self._addend = _fast_two_sum(number, self._addend)
        # Knuth's TwoSum: the exact error of a sum, whichever of its parts is the larger.
        total = self._sum + number
        of_left = total - number
        self._sum, rest = total, (self._sum - of_left) + (number - (total - of_left))
        self._addend += rest

    @property
    def value(self) -> Any:
        """The sum in the widest type of its parts; a double where it is beyond a long."""
        if self._has_decimal:
            return Decimal128(DECIMAL128.add(self._decimals, self._as_decimal()))
        if not self._has_double and INT64_MIN <= self._whole <= INT64_MAX:
            return integer(self._whole, long=self._has_long)
        return self._as_double()

    def mean(self, count: int) -> Any:
        """Return the sum divided by a count: a decimal or a double."""
        if self._has_decimal:
            total = DECIMAL128.add(self._decimals, self._as_decimal())
            return Decimal128(DECIMAL128.divide(total, decimal.Decimal(count)))
        return self._as_double() / count

    def _as_double(self) -> float:
        return self._special if math.isnan(self._sum) else self._sum

    def _as_decimal(self) -> decimal.Decimal:
        if not self._has_double:
            return DECIMAL128.create_decimal(self._whole)
        if not math.isfinite(self._sum):
            return DECIMAL128.create_decimal(self._special)
        return DECIMAL128.add(
            DECIMAL128.create_decimal_from_float(self._sum),
            DECIMAL128.create_decimal_from_float(self._addend),
        )


class RemovableSum:
    """A sum whose parts may be taken out again: infinities and what is no number leave no trace.

    They are counted and never added, because `inf - inf` is not 0. Taking a number out adds its opposite, so
    the sum stays exact for integers and decimals, and as good as `Summation` is for doubles.
    """

    __slots__ = ("_has_decimal", "_nans", "_negative", "_positive", "_sum")

    def __init__(self) -> None:
        self._sum = Summation()
        self._has_decimal = False
        self._nans = self._positive = self._negative = 0

    def change(self, number: Any, sign: int) -> None:
        """Add a number (`sign` 1), or take one out that was added (-1)."""
        self._has_decimal = self._has_decimal or isinstance(number, Decimal128)
        if is_nan(number):
            self._nans += sign
        elif is_finite(number):
            self._sum.add(number if sign > 0 else combine(operator.mul, number, -1))
        elif exact(number) > 0:
            self._positive += sign
        else:
            self._negative += sign

    @property
    def value(self) -> Any:
        """The sum."""
        if not (self._nans or self._positive or self._negative):
            return self._sum.value
        infinity = math.inf if self._positive else -math.inf
        special = math.nan if self._nans or (self._positive and self._negative) else infinity
        return Decimal128(to_decimal(special)) if self._has_decimal else special


def _fast_two_sum(larger: float, smaller: float) -> tuple[float, float]:
    """Return a sum and what is missing from it; `smaller` is not larger than `larger`."""
    total = larger + smaller
    return total, smaller - (total - larger)
