"""Expression operators that make identifiers and hashes, and the sigmoid."""

from __future__ import annotations

import uuid
from typing import Any, Final

from bson import Binary

from fakeserver.errors import CommandError
from fakeserver.storage.expression_math import add, divide, exponential, multiply
from fakeserver.storage.functions import FunctionTable, null_in
from fakeserver.storage.hashing import hashed
from fakeserver.storage.values import MISSING, type_name
from mongowire.codes import ErrorCode

functions = FunctionTable()
function = functions.function

_UUID_SUBTYPE: Final = 4


@function("$toUUID")
@null_in
def _to_uuid(value: Any) -> Any:
    if isinstance(value, uuid.UUID) or getattr(value, "subtype", None) == _UUID_SUBTYPE:
        return value
    if type(value) is not str:
        raise CommandError(
            ErrorCode.CONVERSION_FAILURE,
            f"Unsupported conversion from {type_name(value)} to binData in $convert with no onError value",
        )
    try:
        parsed = uuid.UUID(value)
    except ValueError:
        parsed = None
    if parsed is None or str(parsed) != value.lower():
        raise CommandError(
            ErrorCode.CONVERSION_FAILURE,
            f"Failed to parse BinData '{value}' in $convert with no onError value: Input is not a valid UUID"
            f" string: {value}",
        )
    return Binary(parsed.bytes, _UUID_SUBTYPE)


@function("$toHashedIndexKey")
def _to_hashed_index_key(value: Any) -> Any:
    return hashed(None if value is MISSING else value)


@function("$sigmoid")
@null_in
def _sigmoid(value: Any) -> Any:
    return divide(1, add(1, exponential(multiply(-1, value))))
