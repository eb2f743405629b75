"""Conversions of binary data: to text and back in five formats, to numbers and back, to arrays and back."""

from __future__ import annotations

import base64
import binascii
import re
import struct
import uuid
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Int64

from fakeserver.errors import CommandError
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import is_nan, is_number, truthy, type_name, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

UUID_SUBTYPE: Final = 4
_VECTOR_SUBTYPE: Final = 9
_UUID_BYTES: Final = 16
_OWN_SUBTYPES: Final = frozenset({*range(10), *range(128, 256)})
"""The subtypes that have a meaning, and those that users give one."""


def _failed(message: str) -> CommandError:
    return CommandError(ErrorCode.CONVERSION_FAILURE, message)


def subtype_of(value: Any) -> int:
    """Return the subtype of binary data."""
    return UUID_SUBTYPE if isinstance(value, uuid.UUID) else int(getattr(value, "subtype", 0))


def _bytes(value: Any) -> bytes:
    return value.bytes if isinstance(value, uuid.UUID) else bytes(value)


def made(data: bytes, subtype: int) -> Any:
    """Return binary data as it is decoded from BSON."""
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


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _uuid_text(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def to_text(value: Any, format_name: str) -> str:
    """Return binary data as text. Raises `CommandError` 241 where a format has none for it."""
    data = _bytes(value)
    is_uuid = subtype_of(value) == UUID_SUBTYPE and len(data) == _UUID_BYTES
    if format_name == "auto":
        format_name = "uuid" if is_uuid else "base64"
    if format_name == "uuid" and not is_uuid:
        raise _textless(value, "UUID")
    try:
        return _WRITERS[format_name](data)
    except UnicodeDecodeError:
        raise _textless(value, "UTF-8 string") from None


def _textless(value: Any, what: str) -> CommandError:
    return _failed(
        f"Failed to convert '{show(value)}' to string in $convert with no onError value: BinData does not"
        f" represent a valid {what}"
    )


_WRITERS: Final[dict[str, Callable[[bytes], str]]] = {
    "base64": _base64,
    "base64url": lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    "hex": lambda data: data.hex().upper(),
    "utf8": bytes.decode,
    "uuid": _uuid_text,
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
    if len(text) % 2 or not _HEX.fullmatch(text):
        raise ValueError("The input is not a hexadecimal string")
    return bytes.fromhex(text)


def _read_uuid(text: str) -> bytes:
    if not _UUID.fullmatch(text):
        raise ValueError(f"Input is not a valid UUID string: {text}")
    return uuid.UUID(text).bytes


_HEX: Final = re.compile("[0-9A-Fa-f]*")
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
        bits = [bool(byte >> shift & 1) for byte in paced(rest) for shift in range(_BITS - 1, -1, -1)]
        return bits[: len(bits) - padding]
    raise _failed("Invalid data in a bindata vector")


def of_array(items: list[Any], byte_order: str) -> Binary:
    """Return an array of numbers or booleans as a vector: bits, bytes or floats, whichever is enough."""
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
