"""Expression operators that make hashes, and the sigmoid."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Final

import bson
from bson import Decimal128, Int64

from fakeserver.storage.expressions.arithmetic_operators import add, divide, exponential, multiply
from fakeserver.storage.expressions.functions import FunctionTable, null_in
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import (
    INT64_MAX,
    INT64_MIN,
    MISSING,
    as_mapping,
    exact,
    is_nan,
    is_number,
    type_name,
)

_CANONICAL: Final = {
    "minKey": -1, "maxKey": 127, "null": 5, "undefined": 0, "missing": 0, "int": 10, "long": 10, "double": 10,
    "decimal": 10, "string": 15, "symbol": 15, "object": 20, "array": 25, "binData": 30, "objectId": 35,
    "bool": 40, "date": 45, "timestamp": 47, "regex": 50, "dbPointer": 55, "javascript": 60,
    "javascriptWithScope": 65,
}  # fmt: skip
_END: Final = struct.pack("<i", 0) + b"\0"
_HEADER: Final = 4 + 1 + 1
"""A document of one field with an empty name: its length, the type, the end of the name; then the value."""


def hashed(value: Any) -> Int64:
    """Return a value's hash. Numbers that are equal have the same one, whatever their types."""
    # MD5 with a seed of zero is what a server's format is, not a choice.
    digest = hashlib.md5(struct.pack("<i", 0) + _bytes_of(value, b""), usedforsecurity=False).digest()
    return Int64(struct.unpack("<q", digest[:8])[0])


def _bytes_of(value: Any, name: bytes) -> bytes:
    kind = type_name(value)
    head = struct.pack("<i", _CANONICAL[kind]) + name
    if is_number(value):
        return head + struct.pack("<q", _truncated(value))
    if kind == "object":
        fields = as_mapping(value).items()
        return head + b"".join(_bytes_of(item, key.encode() + b"\0") for key, item in paced(fields)) + _END
    if kind == "array":
        items = (_bytes_of(item, str(index).encode() + b"\0") for index, item in enumerate(paced(value)))
        return head + b"".join(items) + _END
    if kind in {"missing", "undefined"}:
        return head
    return head + bson.encode({"": value})[_HEADER:-1]


def _truncated(value: float | Decimal128) -> int:
    if is_nan(value):
        return 0
    number = exact(value)
    if number >= INT64_MAX:
        return INT64_MAX
    return INT64_MIN if number <= INT64_MIN else int(number)


functions = FunctionTable()
function = functions.function


@function("$toHashedIndexKey")
def _to_hashed_index_key(value: Any) -> Any:
    return hashed(None if value is MISSING else value)


@function("$sigmoid")
@null_in
def _sigmoid(value: Any) -> Any:
    return divide(1, add(1, exponential(multiply(-1, value))))
