"""Values in another type, as `$convert` makes them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Decimal128, Int64, ObjectId, Timestamp

from fakeserver.errors import CommandError
from fakeserver.storage.expressions import binary_conversions as binary
from fakeserver.storage.values import calendar
from fakeserver.storage.values.arithmetic import to_decimal
from fakeserver.storage.values.dates import date_of, is_date
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
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
    from collections.abc import Callable


class Manner(NamedTuple):
    """How to convert: the base of integers as text, and what binary data is and looks like."""

    base: int | None = None
    format: str | None = None
    byte_order: str = "little"
    subtype: Any = 0


def convert(value: Any, target: str, manner: Manner) -> Any:
    """Return a value as the type named `target`. Raises `CommandError`, 241 where onError would help."""
    source = type_name(value)
    if source == "binData":
        return _of_binary(value, target, manner)
    if target == "binData":
        return _to_binary(value, manner)
    if manner.base is not None and _has_base(source, target):
        return _with_base(value, target, manner.base)
    conversion = CONVERSIONS.get(target)
    if conversion is None:
        raise _unsupported(value, target)
    return conversion(value)


def _failed(message: str) -> CommandError:
    return CommandError(ErrorCode.CONVERSION_FAILURE, message)


def _unsupported(value: Any, target: str) -> CommandError:
    return _failed(
        f"Unsupported conversion from {type_name(value)} to {target} in $convert with no onError value"
    )


def _unparsable(value: str, reason: str) -> CommandError:
    return _failed(f"Failed to parse number '{value}' in $convert with no onError value: {reason}")


def _overflow(value: Any) -> CommandError:
    return _failed(
        f"Conversion would overflow target type in $convert with no onError value: {text_of(value)}"
    )


def _check_no_hexadecimal(text: str) -> None:
    if text[:2] in {"0x", "0X"}:
        raise _failed(f"Illegal hexadecimal input in $convert with no onError value: {text}")


def _to_integer(value: Any, target: str, least: int, most: int) -> int:
    if isinstance(value, bool):
        return int(value)
    if is_date(value) and target == "long":
        return milliseconds(value)
    if type(value) is str:
        return _parsed_integer(value, least, most)
    if not is_number(value):
        raise _unsupported(value, target)
    number = exact(value)
    for kind, bad in (("NaN", is_nan(value)), ("infinity", number in (math.inf, -math.inf))):
        if bad:
            raise _failed(
                f"Attempt to convert {kind} value to integer type in $convert with no onError value"
            )
    # A double is compared as it is, a decimal without its fraction.
    whole_part = number if isinstance(number, float) else int(number)
    if not least <= whole_part <= most or whole_part == 2.0**63:
        raise _overflow(value)
    return int(number)


def _parsed_integer(text: str, least: int, most: int) -> int:
    _check_no_hexadecimal(text)
    if not _INTEGER.fullmatch(text):
        raise _unparsable(
            text, "Did not consume whole string." if _INTEGER.match(text) else "Did not consume any digits"
        )
    digits = text.lstrip("+-0") or "0"
    number = int(digits) * (-1 if text[0] == "-" else 1) if len(digits) < _MOST_DIGITS else most + 1
    if not least <= number <= most:
        raise _unparsable(text, "Overflow")
    return number


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS: Final = 20
"""Digits with which no integer fits into a long."""
_REAL: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)


def _to_int(value: Any) -> int:
    return int(_to_integer(value, "int", INT32_MIN, INT32_MAX))


def _to_long(value: Any) -> Int64:
    return Int64(_to_integer(value, "long", INT64_MIN, INT64_MAX))


def _to_double(value: Any) -> float:
    if is_date(value):
        return float(milliseconds(value))
    if type(value) is not str and not isinstance(value, bool) and not is_number(value):
        raise _unsupported(value, "double")
    if type(value) is str:
        _check_no_hexadecimal(value)
        if not _REAL.fullmatch(value):
            raise _unparsable(value, "Did not consume whole string.")
    number = float(exact(value))
    if isinstance(value, Decimal128) and _vanishes(value.to_decimal(), number):
        raise _overflow(value)
    if math.isinf(number) and not (
        isinstance(value, float) or str(value).lstrip("+-").lower().startswith("inf")
    ):
        if type(value) is str:
            raise _unparsable(value, "Out of range")
        raise _overflow(value)
    return number


def _vanishes(number: decimal.Decimal, double: float) -> bool:
    """Return whether a decimal is too small for a double that has all its digits."""
    return number.is_finite() and abs(double) < sys.float_info.min and decimal.Decimal(double) != number


def _to_decimal(value: Any) -> Decimal128:
    if isinstance(value, Decimal128):
        return value
    if is_date(value):
        return Decimal128(str(milliseconds(value)))
    if isinstance(value, bool):
        return Decimal128(str(int(value)))
    if type(value) is str:
        _check_no_hexadecimal(value)
        if not _REAL.fullmatch(value):
            raise _unparsable(value, "Failed to parse string to decimal")
        try:
            number = Decimal128(value)
        except decimal.DecimalException:
            raise _unparsable(value, "Conversion from string to decimal would overflow") from None
        if number.to_decimal().is_infinite() and "inf" not in value.lower():
            raise _unparsable(value, "Conversion from string to decimal would overflow")
        return number
    if not is_number(value):
        raise _unsupported(value, "decimal")
    return Decimal128(to_decimal(value))


def text_of(value: Any) -> str:
    """Return a value as `$toString` shows it. Raises `CommandError` 241 for what has no text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_date(value):
        return calendar.show(value, calendar.ISO_FORMAT, dt.UTC)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return repr(value).removesuffix(".0")
    if type(value) is str or isinstance(value, int | Decimal128 | ObjectId):
        return str(value)
    raise _unsupported(value, "string")


def _to_date(value: Any) -> Any:
    if is_date(value):
        return value
    if isinstance(value, ObjectId):
        return value.generation_time.replace(tzinfo=None)
    if isinstance(value, Timestamp):
        return date_of(value.time * 1000)
    if type(value) is str:
        return calendar.parse(value, None, None)
    if not is_number(value) or type_name(value) == "int":
        raise _unsupported(value, "date")
    return date_of(_to_integer(value, "long", INT64_MIN, INT64_MAX))


def _to_object_id(value: Any) -> ObjectId:
    if isinstance(value, ObjectId):
        return value
    if type(value) is not str:
        raise _unsupported(value, "objectId")
    if len(value) != 24:  # noqa: PLR2004 -- the digits of an ObjectId
        reason = f"Invalid string length for parsing to OID, expected 24 but found {len(value)}"
    elif not _HEX.fullmatch(value):
        reason = f"Invalid character found in hex string: {value}"
    else:
        return ObjectId(value)
    raise _failed(f"Failed to parse objectId '{value}' in $convert with no onError value: {reason}")


_HEX: Final = re.compile(r"[0-9A-Fa-f]{24}")

CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _to_int,
    "long": _to_long,
    "double": _to_double,
    "decimal": _to_decimal,
    "string": text_of,
    "bool": truthy,
    "date": _to_date,
    "objectId": _to_object_id,
}
"""The types that other types than binary data are converted to."""


# Binary data.


def _of_binary(value: Any, target: str, manner: Manner) -> Any:
    if target == "bool":
        return True
    if target == "string":
        return binary.to_text(value, _wanted_format(manner, "binData", target))
    if target in {"int", "long", "double"}:
        return binary.to_number(value, target, manner.byte_order)
    if target == "array":
        return binary.to_array(value, manner.byte_order)
    if target != "binData":
        raise _unsupported(value, target)
    return binary.same_subtype(value, binary.check_subtype(manner.subtype))


def _to_binary(value: Any, manner: Manner) -> Any:
    source = type_name(value)
    if source == "string":
        format_name = _wanted_format(manner, source, "binData")
        return binary.of_text(value, format_name, binary.check_subtype(manner.subtype))
    if source in {"int", "long", "double"}:
        return binary.of_number(value, manner.byte_order, binary.check_subtype(manner.subtype))
    if source == "array":
        return binary.of_array(value, manner.byte_order)
    raise _unsupported(value, "binData")


def _wanted_format(manner: Manner, source: str, target: str) -> str:
    if manner.format is None:
        message = f"Format must be speficied when converting from '{source}' to '{target}'"
        raise CommandError(4341115, message)
    return manner.format


# Integers in another base than ten.

BASES: Final = {2: "b", 8: "o", 10: "d", 16: "X"}
_DIGITS: Final = {2: "01", 8: "0-7", 10: "0-9", 16: "0-9A-Fa-f"}
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})


def _has_base(source: Any, target: str) -> bool:
    return (source in _NUMBERS and target == "string") or (source == "string" and target in _NUMBERS)


def _with_base(value: Any, target: str, base: int) -> Any:
    if type(value) is not str:
        number = whole(value)
        if number is None:
            raise _failed(
                "Base conversion is not supported for non-integers in $convert with no onError value: "
            )
        if number != exact(value):
            raise _failed(
                "Magnitude of the number provided for base conversion is too large in $convert with no"
                " onError value: "
            )
        return format(number, BASES[base])
    _check_no_hexadecimal(value)
    if not re.fullmatch(f"[+-]?[{_DIGITS[base]}]+", value):
        raise _unparsable(value, "Did not consume whole string.")
    number = int(value, base)
    if not INT64_MIN <= number <= INT64_MAX:
        raise _unparsable(value, "Overflow")
    return CONVERSIONS[target](Int64(number))
