"""What a server does to a document before it is inserted: its `_id`, its limits, its timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Binary, Int64, ObjectId, Regex, Timestamp

from fakeserver.errors import WriteError
from fakeserver.sizes import MAX_USER_BYTES
from fakeserver.storage.storable import check_insert
from fakeserver.storage.values import is_object
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Document

MAX_DEPTH: Final = 180
_NO_TIME: Final = Timestamp(0, 0)
_SURELY_SHALLOW: Final = 1024
_PLAIN_IDS: Final = frozenset({ObjectId, int, Int64, str, Binary})
"""What most documents have for an `_id`."""


def prepare(ctx: CommandContext, document: Document, *, keep_times: bool = False) -> Document:
    """Return the document to store, its `_id` made if it is missing and moved to the front.

    `keep_times` leaves empty timestamps as they are. Raises `WriteError` for one that a server refuses.
    """
    check_limits(document)
    if not ctx.node.profile.stores_dollar_fields:
        check_insert(document)
    if "_id" not in document:
        document = {"_id": ctx.object_id(), **document}
    else:
        check_id(document["_id"])
        if next(iter(document)) != "_id":
            document = {"_id": document["_id"], **document}
    return document if keep_times else with_times(ctx, document)


def with_times(ctx: CommandContext, document: Document) -> Document:
    """Return a document whose empty timestamps, but for those inside other values, are the present time."""
    if Timestamp not in map(type, document.values()):
        return document
    return {
        name: ctx.timestamp() if name != "_id" and value == _NO_TIME else value
        for name, value in document.items()
    }


def check_id(value: Any) -> None:
    """Refuse what cannot be an `_id`. Raises `WriteError`."""
    if type(value) in _PLAIN_IDS:
        return
    if isinstance(value, list):
        raise WriteError(ErrorCode.INVALID_ID_FIELD, "The '_id' value cannot be of type array")
    if isinstance(value, Regex):
        raise WriteError(ErrorCode.INVALID_ID_FIELD, "The '_id' value cannot be of type regex")
    if is_object(value):
        for name in value:
            if name.startswith("$"):
                raise WriteError(
                    ErrorCode.DOLLAR_PREFIXED_FIELD_NAME,
                    f"_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.",
                )


def check_limits(document: Document) -> None:
    """Refuse to insert what is too large, or nested too deep. Raises `WriteError` 2 or 15."""
    size = len(bson.encode(document))
    if size > MAX_USER_BYTES:
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"object to insert too large. size in bytes: {size}, max size: {MAX_USER_BYTES}",
        )
    if size > _SURELY_SHALLOW and depth(document) > MAX_DEPTH:
        raise WriteError(
            ErrorCode.OVERFLOW, f"cannot insert document because it exceeds {MAX_DEPTH} levels of nesting"
        )


def depth(value: Any) -> int:
    """Return how deep documents and arrays are nested in a value; one that holds none is at depth 1."""
    deepest = 0
    level: list[Any] = [value]
    while level:
        deepest += 1
        children = (child for each in level for child in (each.values() if isinstance(each, dict) else each))
        level = [child for child in children if isinstance(child, dict | list)]
    return deepest
