"""Expression operators that name and convert types."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Decimal128, Int64, ObjectId, Timestamp

from fakeserver.errors import CommandError
from fakeserver.storage import calendar
from fakeserver.storage.dates import date_of, is_date
from fakeserver.storage.functions import FunctionTable, null_in, nullish
from fakeserver.storage.values import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    TYPE_CODES,
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
    from collections.abc import Callable, Mapping

functions = FunctionTable()
function = functions.function


@function("$type")
def _type(value: Any) -> str:
    return type_name(value)


@function("$isNumber")
def _is_number(value: Any) -> bool:
    return is_number(value)


def _failed(message: str) -> CommandError:
    return CommandError(ErrorCode.CONVERSION_FAILURE, message)


def _unsupported(value: Any, target: str) -> CommandError:
    return _failed(
        f"Unsupported conversion from {type_name(value)} to {target} in $convert with no onError value"
    )


def _unparsable(value: str, reason: str) -> CommandError:
    return _failed(f"Failed to parse number '{value}' in $convert with no onError value: {reason}")


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
    if not least <= int(number) <= most:
        raise _failed(
            f"Conversion would overflow target type in $convert with no onError value: {text_of(value)}"
        )
    return int(number)


def _parsed_integer(text: str, least: int, most: int) -> int:
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
    if type(value) is str and not _REAL.fullmatch(value):
        raise _unparsable(value, "Did not consume whole string.")
    number = float(exact(value))
    if math.isinf(number) and not (
        isinstance(value, float) or str(value).lstrip("+-").lower().startswith("inf")
    ):
        if type(value) is str:
            raise _unparsable(value, "Out of range")
        raise _failed(f"Conversion would overflow target type in $convert with no onError value: {value}")
    return number


def _to_decimal(value: Any) -> Decimal128:
    if isinstance(value, Decimal128):
        return value
    if is_date(value):
        return Decimal128(str(milliseconds(value)))
    if isinstance(value, bool):
        return Decimal128(str(int(value)))
    if type(value) is str:
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
    return Decimal128(decimal.Decimal(str(value)))


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
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            raise _failed(f"Error parsing date string '{value}' in $convert with no onError value") from None
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
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

_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _to_int,
    "long": _to_long,
    "double": _to_double,
    "decimal": _to_decimal,
    "string": text_of,
    "bool": truthy,
    "date": _to_date,
    "objectId": _to_object_id,
}
_ALIASES: Final = {code: name for name, code in TYPE_CODES.items()}


def _parse_convert(parts: Mapping[str, Any]) -> None:
    for key in parts:
        if key not in {"input", "to", "onError", "onNull", "format", "byteOrder", "base"}:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, f"$convert found an unknown argument: {key}")
    for key in ("input", "to"):
        if key not in parts:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, f"Missing '{key}' parameter to $convert")


@function("$convert", named=True, parse=_parse_convert)
def _convert(parts: dict[str, Any]) -> Any:
    value, target = parts["input"], parts["to"]
    if nullish(target):
        return None
    name = _wanted(target)
    if nullish(value):
        return parts.get("onNull")
    try:
        if name not in _CONVERSIONS:
            raise _unsupported(value, name)
        return _CONVERSIONS[name](value)
    except CommandError as error:
        if error.code == ErrorCode.CONVERSION_FAILURE and "onError" in parts:
            return parts["onError"]
        raise


def _wanted(target: Any) -> str:
    """Return the name of the type to convert to. Raises `CommandError` for what names none."""
    if type(target) is str:
        if target not in TYPE_CODES:
            raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name: {target}")
        return target
    if not is_number(target):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$convert's 'to' argument must be a string or number, but is {type_name(target)}",
        )
    number = whole(target)
    if number is None:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "In $convert, numeric 'to' argument is not an integer")
    if number not in _ALIASES:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"In $convert, numeric value for 'to' does not correspond to a BSON type: {number}",
        )
    return _ALIASES[number]


def _shorthand(name: str, convert: Callable[[Any], Any]) -> None:
    @function(name)
    def _call(value: Any) -> Any:
        return None if nullish(value) else convert(value)


for _target, _conversion in _CONVERSIONS.items():
    _shorthand(f"$to{_target[0].upper()}{_target[1:]}", _conversion)


@function("$tsSecond")
@null_in
def _ts_second(value: Any) -> Any:
    return Int64(_timestamp("$tsSecond", 5687301, value).time)


@function("$tsIncrement")
@null_in
def _ts_increment(value: Any) -> Any:
    return Int64(_timestamp("$tsIncrement", 5687302, value).inc)


def _timestamp(name: str, code: int, value: Any) -> Timestamp:
    if not isinstance(value, Timestamp):
        raise CommandError(code, f"Argument to {name} must be a timestamp, but is {type_name(value)}")
    return value


@function("$bsonSize")
@null_in
def _bson_size(value: Any) -> Any:
    if not isinstance(value, dict):
        raise CommandError(31393, f"$bsonSize requires a document input, found: {type_name(value)}")
    return len(bson.encode(value))


@function("$binarySize")
@null_in
def _binary_size(value: Any) -> Any:
    if type(value) is str:
        return len(value.encode())
    if not isinstance(value, bytes):
        raise CommandError(
            51276, f"$binarySize requires a string or BinData argument, found: {type_name(value)}"
        )
    return len(value)
