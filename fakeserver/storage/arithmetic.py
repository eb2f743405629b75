"""Arithmetic that keeps BSON's number types: int grows to long, long to double, and decimal wins."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

from bson import Decimal128, Int64
from bson.decimal128 import create_decimal128_context

from fakeserver.storage.values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTEXT = create_decimal128_context()
_CONTEXT.clear_traps()  # what is no number is NaN, as to a server


def combine(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return `operation` of two numbers in the wider of their types; OverflowError beyond a long."""
    if isinstance(left, Decimal128) or isinstance(right, Decimal128):
        with decimal.localcontext(_CONTEXT):
            return Decimal128(_CONTEXT.plus(operation(to_decimal(left), to_decimal(right))))
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
    """Return a number as a decimal; a double is rounded to 15 digits, as a server does."""
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if isinstance(value, float):
        return decimal.Context(prec=15).create_decimal(value)
    return decimal.Decimal(int(value))


def like(value: Any, *examples: Any) -> Any:
    """Return a whole or broken number in the widest type of the examples, never narrower than it needs."""
    if any(isinstance(example, Decimal128) for example in examples):
        return Decimal128(to_decimal(value))
    if isinstance(value, float) or any(isinstance(example, float) for example in examples):
        return float(value)
    return integer(value, long=any(_is_long(example) for example in examples))
