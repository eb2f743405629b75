"""Expression operators that tell and convert types."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Decimal128, Int64, ObjectId, Timestamp
from bson.errors import InvalidId

from fakeserver.errors import CommandError
from fakeserver.storage.functions import FunctionTable, null_in, nullish
from fakeserver.storage.values import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    TYPE_CODES,
    exact,
    is_number,
    milliseconds,
    truthy,
    type_name,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

functions = FunctionTable()
function = functions.function

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC


@function("$type")
def _type(value: Any) -> str:
    return type_name(value)


@function("$isNumber")
def _is_number(value: Any) -> bool:
    return is_number(value)


def _unsupported(value: Any, target: str) -> CommandError:
    return CommandError(
        ErrorCode.CONVERSION_FAILURE,
        f"Unsupported conversion from {type_name(value)} to {target} in $convert with no onError value",
    )


def _unparsable(value: Any, target: str) -> CommandError:
    return CommandError(
        ErrorCode.CONVERSION_FAILURE,
        f"Failed to parse {target} '{value}' in $convert with no onError value: Did not consume "
        "whole string.",
    )


def _to_integer(value: Any, target: str, least: int, most: int) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, dt.datetime) and target == "long":
        return milliseconds(value)
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            raise _unparsable(value, "number") from None
    elif is_number(value):
        number = int(exact(value))
    else:
        raise _unsupported(value, target)
    if not least <= number <= most:
        raise CommandError(
            ErrorCode.CONVERSION_FAILURE,
            f"Conversion would overflow target type in $convert with no onError value: {value}",
        )
    return number


def _to_int(value: Any) -> int:
    return int(_to_integer(value, "int", INT32_MIN, INT32_MAX))


def _to_long(value: Any) -> Int64:
    return Int64(_to_integer(value, "long", INT64_MIN, INT64_MAX))


def _to_double(value: Any) -> float:
    if isinstance(value, dt.datetime):
        return float(milliseconds(value))
    if not isinstance(value, str | bool) and not is_number(value):
        raise _unsupported(value, "double")
    try:
        return float(exact(value))
    except ValueError:
        raise _unparsable(value, "number") from None


def _to_decimal(value: Any) -> Decimal128:
    if isinstance(value, Decimal128):
        return value
    if isinstance(value, bool):
        return Decimal128(str(int(value)))
    if not isinstance(value, str) and not is_number(value):
        raise _unsupported(value, "decimal")
    try:
        return Decimal128(decimal.Decimal(str(value)))
    except decimal.InvalidOperation:
        raise _unparsable(value, "number") from None


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, str | int | Decimal128 | ObjectId):
        return str(value)
    raise _unsupported(value, "string")


def _to_date(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, ObjectId):
        return value.generation_time.replace(tzinfo=None)
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            raise CommandError(
                ErrorCode.CONVERSION_FAILURE,
                f"Error parsing date string '{value}' in $convert with no onError value",
            ) from None
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    if not is_number(value):
        raise _unsupported(value, "date")
    return _EPOCH + dt.timedelta(milliseconds=int(exact(value)))


def _to_object_id(value: Any) -> ObjectId:
    if isinstance(value, ObjectId):
        return value
    if not isinstance(value, str):
        raise _unsupported(value, "objectId")
    try:
        return ObjectId(value)
    except InvalidId:
        raise CommandError(
            ErrorCode.CONVERSION_FAILURE,
            f"Failed to parse objectId '{value}' in $convert with no onError value: "
            f"Invalid string length for parsing to OID, expected 24 but found {len(value)}",
        ) from None


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _to_int,
    "long": _to_long,
    "double": _to_double,
    "decimal": _to_decimal,
    "string": _to_string,
    "bool": truthy,
    "date": _to_date,
    "objectId": _to_object_id,
}
_ALIASES: Final = {code: name for name, code in TYPE_CODES.items()}


@function("$convert", named=True)
def _convert(parts: dict[str, Any]) -> Any:
    value, target = parts.get("input"), parts.get("to")
    if nullish(value):
        return parts.get("onNull")
    name = target if isinstance(target, str) else _ALIASES.get(int(target or 0), "")
    if name not in _CONVERSIONS:
        raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name: {target}")
    try:
        return _CONVERSIONS[name](value)
    except CommandError as error:
        if error.code == ErrorCode.CONVERSION_FAILURE and "onError" in parts:
            return parts["onError"]
        raise


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
    if isinstance(value, str):
        return len(value.encode())
    if not isinstance(value, bytes):
        raise CommandError(
            51276, f"$binarySize requires a string or BinData argument, found: {type_name(value)}"
        )
    return len(value)
