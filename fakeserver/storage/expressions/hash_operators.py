"""Expression operators that make hashes, and the sigmoid."""

from __future__ import annotations

from typing import Any

from fakeserver.storage.expressions.arithmetic_operators import add, divide, exponential, multiply
from fakeserver.storage.expressions.functions import FunctionTable, null_in
from fakeserver.storage.values.hashing import hashed
from fakeserver.storage.values.types import MISSING

functions = FunctionTable()
function = functions.function


@function("$toHashedIndexKey")
def _to_hashed_index_key(value: Any) -> Any:
    return hashed(None if value is MISSING else value)


@function("$sigmoid")
@null_in
def _sigmoid(value: Any) -> Any:
    return divide(1, add(1, exponential(multiply(-1, value))))
