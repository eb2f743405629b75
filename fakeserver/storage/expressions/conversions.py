"""Values in another type, as `$convert` makes them.

`convert` decides by the types of both ends: binary data first, then integers in another base, then the
table `CONVERSIONS` by the target. `type_operators` reads the arguments; null and missing never come here.

What cannot be converted is 241 (ConversionFailure), which `onError` catches. Any other code says that the
arguments of `$convert` are wrong, and is never caught.

A number keeps its value or fails, and nothing wraps around; only a fraction is cut off on the way to an
integer. A bool is an int in Python, so it is asked for before the numbers are. Texts are read as C reads
them, where Python is laxer: no spaces around, no underscores between digits.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import math
import re
import struct
import sys
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Binary, Decimal128, Int64, ObjectId, Timestamp
from bson.binary import OLD_BINARY_SUBTYPE

from fakeserver.errors import CommandError
from fakeserver.storage.values import calendar
from fakeserver.storage.values.arithmetic import DECIMAL128, to_decimal
from fakeserver.storage.values.dates import date_of, date_of_id, is_date
from fakeserver.storage.values.limits import MAX_USER_BYTES
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
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


UUID_SUBTYPE: Final = 4
_TEXT_TOO_LARGE: Final = 16493
_VECTOR_SUBTYPE: Final = 9
_UUID_BYTES: Final = 16
_OWN_SUBTYPES: Final = frozenset({*range(10), *range(128, 256)})
"""The subtypes that have a meaning, and those that users give one."""


def subtype_of(value: Any) -> int:
    """Return the subtype of binary data."""
    return UUID_SUBTYPE if isinstance(value, uuid.UUID) else int(getattr(value, "subtype", 0))


def _bytes(value: Any) -> bytes:
    """Return binary data as BSON has them: the old subtype repeats the length in front of the data."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    data = bytes(value)
    return struct.pack("<i", len(data)) + data if subtype_of(value) == OLD_BINARY_SUBTYPE else data


def made(data: bytes, subtype: int) -> Any:
    """Return binary data as it is decoded from BSON.

    Of subtype 0 the library makes bytes, and those compare unequal to a `Binary`.
    """
    return data if subtype == 0 else Binary(data, subtype)


def check_subtype(value: Any) -> int:
    """Return the subtype that a user asks for. Raises `CommandError` 4341106, 4341107 or 4341108."""
    if not is_number(value):
        found = type_name(value)
        raise CommandError(
            4341108, f"For BinData, $convert's 'subtype' argument must be a number, but is {found}"
        )
    number = whole(value)
    if number is None:
        raise CommandError(4341106, "In $convert, numeric 'subtype' argument is not an integer")
    if number not in _OWN_SUBTYPES:
        message = "In $convert, numeric value for 'subtype' does not correspond to a BinData type"
        raise CommandError(4341107, f"{message}: {number}")
    return number


def same_subtype(value: Any, subtype: int) -> Any:
    """Return binary data that has the subtype already. Raises `CommandError` 241 for other data."""
    if subtype_of(value) != subtype:
        raise _failed("Conversions between different BinData subtypes are not supported")
    return value


# Text.


def to_text(value: Any, format_name: str) -> str:
    """Return binary data as text. Raises `CommandError` 241 where a format has none for it."""
    data = _bytes(value)
    is_uuid = subtype_of(value) == UUID_SUBTYPE and len(data) == _UUID_BYTES
    if format_name == "auto":
        format_name = "uuid" if is_uuid else "base64"
    if format_name == "uuid" and not is_uuid:
        raise _textless(value, "UUID")
    try:
        text = _WRITERS[format_name](data)
    except UnicodeDecodeError:
        raise _textless(value, "UTF-8 string") from None
    # Text of UTF-8 is the text itself, and too long as any other; other formats grow it, which is a failed
    # conversion.
    if len(text) >= MAX_USER_BYTES or len(data) >= MAX_USER_BYTES:
        if format_name == "utf8":
            raise CommandError(_TEXT_TOO_LARGE, "String exceeds 16MB in $convert")
        raise _failed("Failed to convert BinData to string in $convert: it is no string of less than 16MB")
    return text


def _textless(value: Any, what: str) -> CommandError:
    return _failed(
        f"Failed to convert '{show(value)}' to string in $convert with no onError value: BinData does not"
        f" represent a valid {what}"
    )


_WRITERS: Final[dict[str, Callable[[bytes], str]]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64url": lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    "hex": lambda data: data.hex().upper(),
    "utf8": bytes.decode,
    "uuid": lambda data: str(uuid.UUID(bytes=data)),
}
FORMATS: Final = frozenset({*_WRITERS, "auto"})


def of_text(text: str, format_name: str, subtype: int) -> Any:
    """Return the binary data that a text shows. Raises `CommandError` 241 where it shows none."""
    if (format_name == "uuid") != (subtype == UUID_SUBTYPE):
        raise _unreadable(text, "Only the 'uuid' format is allowed with the UUID subtype")
    if format_name == "auto":
        raise _unreadable(text, "Invalid format 'auto'")
    try:
        return made(_READERS[format_name](text), subtype)
    except ValueError as error:
        raise _unreadable(text, str(error)) from None


def _unreadable(text: str, reason: str) -> CommandError:
    return _failed(f"Failed to parse BinData '{text}' in $convert with no onError value: {reason}")


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("Invalid base64 string") from None


def _read_base64_url(text: str) -> bytes:
    if "+" in text or "/" in text:
        raise ValueError("Invalid base64url string")
    bare = text.rstrip("=")
    return _read_base64(bare.replace("-", "+").replace("_", "/") + "=" * (-len(bare) % 4))


def _read_hex(text: str) -> bytes:
    if len(text) % 2 or not _HEX_DIGITS.fullmatch(text):
        raise ValueError("The input is not a hexadecimal string")
    return bytes.fromhex(text)


def _read_uuid(text: str) -> bytes:
    if not _UUID.fullmatch(text):
        raise ValueError(f"Input is not a valid UUID string: {text}")
    return uuid.UUID(text).bytes


_HEX_DIGITS: Final = re.compile("[0-9A-Fa-f]*")
_UUID: Final = re.compile("-".join(f"[0-9A-Fa-f]{{{count}}}" for count in (8, 4, 4, 4, 12)))
_READERS: Final[dict[str, Callable[[str], bytes]]] = {
    "base64": _read_base64,
    "base64url": _read_base64_url,
    "hex": _read_hex,
    "utf8": str.encode,
    "uuid": _read_uuid,
}


# Numbers.

_ORDERS: Final = {"little": "<", "big": ">"}
BYTE_ORDERS: Final = frozenset(_ORDERS)
_READ: Final = {"int": "bhi", "long": "bhiq", "double": "fd"}
"""For each type the formats of `struct` by rising size: the number of bytes chooses one."""
_WRITTEN: Final = {"int": "i", "long": "q", "double": "d"}


def to_number(value: Any, target: str, byte_order: str) -> Any:
    """Return the int, long or double whose bytes these are. Raises `CommandError` 241 by their number."""
    data = _bytes(value)
    for code in _READ[target]:
        if struct.calcsize(f"<{code}") == len(data):
            (found,) = struct.unpack(_ORDERS[byte_order] + code, data)
            return Int64(found) if target == "long" else found
    raise _failed(
        f"Failed to convert '{show(value)}' to number in $convert because of invalid length: {len(data)}"
    )


def of_number(value: Any, byte_order: str, subtype: int) -> Any:
    """Return the bytes of an int, a long or a double."""
    return made(struct.pack(_ORDERS[byte_order] + _WRITTEN[type_name(value)], value), subtype)


# Arrays: a vector begins with the type of its elements, and how many bits of its last byte do not count.

_INT8, _FLOAT32, _PACKED_BIT = 0x03, 0x27, 0x10
_BITS: Final = 8


def to_array(value: Any, byte_order: str) -> list[Any]:
    """Return the elements of a vector. Raises `CommandError` 241 for other data."""
    data = _bytes(value)
    if subtype_of(value) != _VECTOR_SUBTYPE:
        raise _failed(
            "Conversion from binData to array is only supported for bindata with the vector subtype"
        )
    if not data:
        return []
    kind, padding, rest = data[0], data[1] if len(data) > 1 else 0, data[2:]
    if kind == _INT8:
        return list(struct.unpack(f"{len(rest)}b", rest))
    if kind == _FLOAT32 and len(rest) % 4 == 0:
        return list(struct.unpack(f"{_ORDERS[byte_order]}{len(rest) // 4}f", rest))
    if kind == _PACKED_BIT:
        # The first element is the highest bit of the first byte.
        bits = [bool(byte >> shift & 1) for byte in paced(rest) for shift in range(_BITS - 1, -1, -1)]
        return bits[: len(bits) - padding]
    raise _failed("Invalid data in a bindata vector")


def of_array(items: list[Any], byte_order: str) -> Binary:
    """Return an array of numbers or booleans as a vector: bits, bytes or floats, whichever is enough."""
    # The widest element decides for all; an empty array is a vector of no bits.
    kind = max((_element_kind(item) for item in paced(items)), key=_WIDTHS.index, default=_PACKED_BIT)
    if kind == _PACKED_BIT:
        bits = [truthy(item) for item in items]
        padding = -len(bits) % _BITS
        bits += [False] * padding
        packed = (
            sum(bit << (_BITS - 1 - place) for place, bit in enumerate(bits[start : start + _BITS]))
            for start in range(0, len(bits), _BITS)
        )
        return Binary(bytes([kind, padding, *packed]), _VECTOR_SUBTYPE)
    if kind == _INT8:
        body = struct.pack(f"{len(items)}b", *map(int, items))
    else:
        body = struct.pack(f"{_ORDERS[byte_order]}{len(items)}f", *map(float, items))
    return Binary(bytes([kind, 0]) + body, _VECTOR_SUBTYPE)


_WIDTHS: Final = (_PACKED_BIT, _INT8, _FLOAT32)


def _element_kind(item: Any) -> int:
    """Return the least kind of vector that holds an element. Raises `CommandError` 241 for what fits none.

    A double that is a small whole number is a byte, an int beyond a byte is refused and never a float.
    """
    kind = type_name(item)
    if kind == "bool" or (kind == "int" and item in (0, 1)):
        return _PACKED_BIT
    if kind == "int":
        if -(2**7) <= item < 2**7:
            return _INT8
        raise _failed("Converting a BSON array with integers larger than INT8 is not supported.")
    if kind == "double":
        small = not is_nan(item) and float(item).is_integer() and -(2**7) <= item < 2**7
        return _INT8 if small else _FLOAT32
    raise _failed("Converting array to BinData requires an array with numeric or bool content")


class Manner(NamedTuple):
    """How to convert: the base of integers as text, what binary data is, looks like, and is made of."""

    base: int | None = None
    format: str | None = None
    byte_order: str = "little"
    subtype: Any = 0
    has_vectors: bool = True


def convert(value: Any, target: str, manner: Manner) -> Any:
    """Return a value as the type named `target`. Raises `CommandError`, 241 where onError would help."""
    source = type_name(value)
    if source == "binData":
        return _of_binary(value, target, manner)
    if target == "binData":
        return _to_binary(value, manner)
    # What has a base is a number that is written, or read, as a text.
    has_base = source in _NUMBERS if target == "string" else source == "string" and target in _NUMBERS
    if manner.base is not None and has_base:
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
    if text.startswith("0x"):  # "0X" is left to the parser of the type
        raise _failed(f"Illegal hexadecimal input in $convert with no onError value: {text}")


def _to_integer(value: Any, target: str, least: int, most: int) -> int:
    """Return a bool, a date, a text or a number as an integer between two bounds. Raises `CommandError` 241.

    A date is its milliseconds, and too long for an int. A text is digits with a sign, nothing else.
    """
    if isinstance(value, bool):
        return int(value)
    if is_date(value) and target == "long":
        return milliseconds(value)
    if type(value) is str:
        _check_no_hexadecimal(value)
        if not _INTEGER.fullmatch(value):
            raise _unparsable(
                value,
                "Did not consume whole string." if _INTEGER.match(value) else "Did not consume any digits",
            )
        # A text of any length is measured before it is read: Python refuses to read thousands of digits.
        digits = value.lstrip("+-0") or "0"
        number = int(digits) * (-1 if value[0] == "-" else 1) if len(digits) < _MOST_DIGITS else most + 1
        if not least <= number <= most:
            raise _unparsable(value, "Overflow")
        return number
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


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS: Final = 20
"""Digits with which no integer fits into a long."""
_REAL: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)


def _to_double(value: Any) -> float:
    """Return a value as a double. Raises `CommandError` 241 beyond the range of doubles.

    Infinity comes of an infinity alone, and zero of a zero: what is rounded to one of them is out of range.
    """
    if is_date(value):
        return float(milliseconds(value))
    if type(value) is not str and not isinstance(value, bool) and not is_number(value):
        raise _unsupported(value, "double")
    number = _parsed_double(value) if type(value) is str else float(exact(value))
    if isinstance(value, Decimal128) and _vanishes(value.to_decimal(), number):
        raise _overflow(value)
    if math.isinf(number) and not (
        isinstance(value, float) or str(value).lstrip("+-").lower().startswith("inf")
    ):
        if type(value) is str:
            raise _unparsable(value, "Out of range")
        raise _overflow(value)
    return number


def _parsed_double(text: str) -> float:
    """Return the double that a text shows, as C reads it: hexadecimal too, where a sign stands in front."""
    _check_no_hexadecimal(text)
    if _HEXADECIMAL.fullmatch(text):
        return float.fromhex(text)
    if not _REAL.fullmatch(text):
        raise _unparsable(text, "Did not consume whole string.")
    number = float(text)
    if number == 0 and _NOT_ZERO.match(text):
        raise _unparsable(text, "Out of range")
    return number


def _parsed_decimal(text: str) -> Decimal128:
    try:
        return Decimal128(text)
    except decimal.Inexact:  # more digits than there are places for
        return Decimal128(_CUT_OFF.create_decimal(text))


_CUT_OFF: Final = decimal.Context(
    prec=DECIMAL128.prec,
    rounding=decimal.ROUND_DOWN,
    Emin=DECIMAL128.Emin,
    Emax=DECIMAL128.Emax,
    clamp=DECIMAL128.clamp,
    traps=[decimal.Overflow],
)
"""For text with more digits than there are places."""
_HEXADECIMAL: Final = re.compile(
    r"(?:[+-]0x|0X)(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?", re.IGNORECASE
)
_NOT_ZERO: Final = re.compile("[^1-9e]*[1-9]", re.IGNORECASE)


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
            number = _parsed_decimal(value)
        except decimal.DecimalException:
            raise _unparsable(value, "Conversion from string to decimal would overflow") from None
        if number.to_decimal().is_infinite() and "inf" not in value.lower():
            raise _unparsable(value, "Conversion from string to decimal would overflow")
        if number.to_decimal().is_zero() and _NOT_ZERO.match(value):
            raise _unparsable(value, "Conversion from string to decimal would underflow")
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
        # The fewest digits that make the same double again; a whole number has no point.
        return repr(value).removesuffix(".0")
    if type(value) is str or isinstance(value, int | Decimal128 | ObjectId):
        return str(value)
    raise _unsupported(value, "string")


def _to_date(value: Any) -> Any:
    if is_date(value):
        return value
    if isinstance(value, ObjectId):
        return date_of_id(value)
    if isinstance(value, Timestamp):
        return date_of(value.time * 1000)
    if type(value) is str:
        return calendar.parse(value, None, None)
    # A server makes dates of longs, doubles and decimals, and of no int, whose milliseconds end after 25
    # days.
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
    "int": lambda value: int(_to_integer(value, "int", INT32_MIN, INT32_MAX)),
    "long": lambda value: Int64(_to_integer(value, "long", INT64_MIN, INT64_MAX)),
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
        return to_text(value, _wanted_format(manner, "binData", target))
    if target in {"int", "long", "double"}:
        return to_number(value, target, manner.byte_order)
    if target == "array" and manner.has_vectors:
        return to_array(value, manner.byte_order)
    if target != "binData":
        raise _unsupported(value, target)
    return same_subtype(value, check_subtype(manner.subtype))


def _to_binary(value: Any, manner: Manner) -> Any:
    source = type_name(value)
    if source == "string":
        format_name = _wanted_format(manner, source, "binData")
        return of_text(value, format_name, check_subtype(manner.subtype))
    if source in {"int", "long", "double"}:
        return of_number(value, manner.byte_order, check_subtype(manner.subtype))
    if source == "array" and manner.has_vectors:
        return of_array(value, manner.byte_order)
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


def _with_base(value: Any, target: str, base: int) -> Any:
    if type(value) is not str:
        number = whole(value)
        if number is None:
            raise _failed(
                "Base conversion is not supported for non-integers in $convert with no onError value: "
            )
        # `whole` bounds what it returns to a long; a number beyond is told by that.
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
