"""Values on their way to a script and back: JSON, with an object of one field for types that JSON lacks.

The other end is `javascript_prelude.js`. Integers become numbers, and numbers come back as doubles, but for
those that a script hands back where it found them.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from fakeserver.storage.values.dates import date_of
from fakeserver.storage.values.types import MISSING, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

TAG: Final = "$:"

_FLAGS: Final = (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL))


def pack(value: Any) -> str:
    """Return a value as the prelude reads it."""
    return json.dumps(_packed(value), separators=(",", ":"))


def _tag(kind: str, payload: Any) -> dict[str, Any]:
    return {TAG: [kind, payload]}


def _packed(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is dict:
        fields = {name: _packed(item) for name, item in value.items()}
        return _tag("doc", list(fields.items())) if TAG in fields else fields
    if kind is list:
        return [_packed(item) for item in value]
    packer = _PACKERS.get(kind)
    if packer is not None:
        return packer(value)
    if isinstance(value, dict):
        return _packed(dict(value))
    return _tag("undefined", 0) if value is MISSING else str(value)


def _packed_float(value: float) -> Any:
    if math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0):
        return value
    shown = "NaN" if math.isnan(value) else "-0" if value == 0 else "Infinity" if value > 0 else "-Infinity"
    return _tag("number", shown)


def _packed_regex(value: Any) -> Any:
    flags = "".join(letter for letter, flag in _FLAGS if value.flags & flag)
    return _tag("regex", [value.pattern, flags])


def _packed_binary(value: bytes) -> Any:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return _tag("BinData", [subtype, base64.b64encode(value).decode()])


def _packed_code(value: Code) -> Any:
    return _tag("Code", [str(value), None if value.scope is None else _packed(dict(value.scope))])


_PACKERS: Final[dict[type, Callable[[Any], Any]]] = {
    int: lambda value: _tag("int", value),
    float: _packed_float,
    Int64: lambda value: _tag("NumberLong", str(int(value))),
    Decimal128: lambda value: _tag("NumberDecimal", str(value)),
    ObjectId: lambda value: _tag("ObjectId", str(value)),
    dt.datetime: lambda value: _tag("date", milliseconds(value)),
    DatetimeMS: lambda value: _tag("date", milliseconds(value)),
    Timestamp: lambda value: _tag("Timestamp", [value.time, value.inc]),
    bytes: _packed_binary,
    Binary: _packed_binary,
    Regex: _packed_regex,
    re.Pattern: _packed_regex,
    MinKey: lambda _value: _tag("MinKey", 0),
    MaxKey: lambda _value: _tag("MaxKey", 0),
    Code: _packed_code,
    DBRef: lambda value: _tag("DBRef", [value.collection, _packed(value.id), value.database]),
}


def unpack(value: Any) -> Any:
    """Return what a script gave back, from JSON whose numbers were read as floats. It raises nothing."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, dict):
        return value
    if TAG in value:
        kind, payload = value[TAG]
        return _UNPACKERS[kind](payload)
    return {_name(name): unpack(item) for name, item in value.items()}


def _text(value: str) -> str:
    """Return a string without halves of characters, which BSON cannot hold."""
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _name(value: str) -> str:
    """Return a field's name without the zero bytes that would end it."""
    return _text(value).replace("\0", "")


def _unpacked_date(total: float | None) -> Any:
    return None if total is None else date_of(int(total))


def _unpacked_binary(payload: list[Any]) -> Any:
    subtype, text = int(payload[0]), payload[1]
    try:
        data = base64.b64decode(text)
    except ValueError:
        data = b""
    return data if subtype == 0 else Binary(data, subtype & 0xFF)


def _unpacked_code(payload: list[Any]) -> Code:
    text, scope = payload
    return Code(text) if scope is None else Code(text, unpack(scope))


def _unpacked_decimal(text: str) -> Any:
    try:
        return Decimal128(text)
    except (ValueError, ArithmeticError):
        return Decimal128("NaN")


def _unpacked_timestamp(payload: list[Any]) -> Timestamp:
    seconds, increment = (int(part or 0) % (1 << 32) for part in payload)
    return Timestamp(seconds, increment)


_UNPACKERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": int,
    "number": float,
    "NumberInt": lambda text: int(float(text)),
    "NumberLong": lambda text: Int64(((int(text) + (1 << 63)) % (1 << 64)) - (1 << 63)),
    "NumberDecimal": _unpacked_decimal,
    "ObjectId": ObjectId,
    "date": _unpacked_date,
    "Timestamp": _unpacked_timestamp,
    "BinData": _unpacked_binary,
    "regex": lambda payload: Regex(payload[0], "".join(set(payload[1]) & set("imsx"))),
    "MinKey": lambda _payload: MinKey(),
    "MaxKey": lambda _payload: MaxKey(),
    "Code": _unpacked_code,
    "undefined": lambda _payload: None,
    "doc": lambda pairs: {_name(name): unpack(item) for name, item in pairs},
}
