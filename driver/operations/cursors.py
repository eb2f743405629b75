"""Commands that continue and end cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from driver.operations.base import Kind, Operation, fixed, without_none

if TYPE_CHECKING:
    from driver.concerns import ReadPreference


def get_more(
    database: str,
    collection: str,
    cursor_id: int,
    *,
    address: str,
    read_preference: ReadPreference | None,
    batch_size: int | None = None,
    max_time_ms: int | None = None,
    comment: Any = None,
) -> Operation:
    """Return a `getMore` to the server that holds the cursor: no retryable read, as batches would be lost."""
    command = without_none(
        {
            "getMore": Int64(cursor_id),
            "collection": collection,
            "batchSize": batch_size,
            "maxTimeMS": max_time_ms,
            "comment": comment,
        }
    )
    return Operation(
        database,
        Kind.READ,
        fixed(command),
        read_preference=read_preference,
        address=address,
        name="getMore",
        collection=collection,
    )


def kill_cursors(database: str, collection: str, cursor_id: int, *, address: str) -> Operation:
    """Return a `killCursors`."""
    command = {"killCursors": collection, "cursors": [Int64(cursor_id)]}
    return Operation(
        database, Kind.READ, fixed(command), address=address, name="killCursors", collection=collection
    )
