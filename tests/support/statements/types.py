"""A statement with a value of every BSON type in the place of each of its values, however deep it lies."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

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

from statements.commands import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31 - 1, Int64(2**63 - 1), 0.5, -1e300, float("nan"), float("inf")),
    *(Decimal128("1.5"), Decimal128("NaN"), Decimal128("-Infinity"), Decimal128("1E+6000")),
    *("", "a", "$a", "\0", "\u00e9" * 300, Code("a"), Code("a", {"b": 1}), Regex("("), Regex("a", "ix")),
    *(Binary(b""), Binary(b"\0" * 16, 4), Binary(b"\1" * 5, 3), ObjectId(b"\1" * 12)),
    *(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), DatetimeMS(2**62), Timestamp(0, 0), Timestamp(2**32 - 1, 1)),
    *(
        MinKey(),
        MaxKey(),
        {},
        {"": 1},
        {"$a": 1},
        {"a": {"b": [1]}},
        DBRef("c", 1),
        [],
        [[]],
        [None, Code("a")],
    ),
)
DEEPEST = 6
WEEKS = 2**31 - 1
"""As milliseconds: who polls for that long does nothing else."""


def places(value: Any, deep: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document or an array."""
    if deep == DEEPEST or not isinstance(value, dict | list):
        return
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (name,)
        for path in places(inner, deep + 1):
            yield (name, *path)


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a copy with another value at a place."""
    if not path:
        return other
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], other)
    return copied


def changed(statement: Statement) -> Iterator[Statement]:
    """Yield a statement with every type in every place."""
    yield statement
    for path in places({name: each for name, each in statement.command.items() if name != "$db"}):
        polls = statement.name == "waitForFailPoint" and path == ("maxTimeMS",)
        for other in VALUES:
            if polls and type(other) is int and other == WEEKS:
                continue
            yield Statement(replaced(statement.command, path, other), statement.names)
