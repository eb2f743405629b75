"""Arithmetic that keeps BSON's number types: int grows to long, long to double, and decimal wins."""

from __future__ import annotations

import decimal
import math
from typing import TYPE_CHECKING, Any, Final

from bson import Decimal128, Int64
from bson.decimal128 import create_decimal128_context

from fakeserver.storage.values.types import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

DECIMAL128: Final = create_decimal128_context()
"""Calculates as decimals do: to 34 digits, with NaN for what is no number instead of an exception."""
DECIMAL128.clear_traps()
_DIGITS_OF_A_DOUBLE: Final = 15


def combine(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return `operation` of two numbers in the wider of their types; OverflowError beyond a long."""
    if isinstance(left, Decimal128) or isinstance(right, Decimal128):
        with decimal.localcontext(DECIMAL128):
            return Decimal128(DECIMAL128.plus(operation(to_decimal(left), to_decimal(right))))
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
