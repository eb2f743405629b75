"""Commands that read: find, aggregate, count and distinct (CRUD: Read)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.operations.base import Kind, Operation, collection_of, first_name, fixed
from driver.operations.options import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.operations.base import Target

    Document = Mapping[str, Any]

WRITE_STAGES = frozenset({"$out", "$merge"})
CURSOR_TYPES: dict[str, dict[str, bool]] = {
    "nonTailable": {},
    "tailable": {"tailable": True},
    "tailableAwait": {"tailable": True, "awaitData": True},
}


def read(target: Target, command: Document, *, takes_read_concern: bool = True) -> Operation:
    """Return an operation that Retryable Reads supports."""
    return Operation(
        target.database,
        Kind.READ,
        fixed(command),
        read_preference=target.concerns.read_preference,
        read_concern=target.concerns.read_concern if takes_read_concern else None,
        retryable_read=True,
        name=first_name(command),
        collection=collection_of(command),
    )


def find(target: Target, filter_: Document, options: Document) -> Operation:
    """Return a `find`. A negative limit asks for a single batch."""
    given = checked("find", options)
    given.pop("maxAwaitTimeMS", None)
    given.update(CURSOR_TYPES[given.pop("cursorType", "nonTailable")])
    limit = given.get("limit", 0)
    if limit < 0:
        given.update(limit=-limit, singleBatch=True)
    elif limit and given.get("batchSize") == limit:
        given["batchSize"] = limit + 1  # so that the server closes the cursor with the first batch
    return read(target, {"find": target.collection, "filter": filter_, **given})


def find_one(target: Target, filter_: Document, options: Document) -> Operation:
    """Return a `find` of one document that leaves no cursor behind."""
    return find(target, filter_, {**options, "limit": -1})


def has_write_stage(pipeline: Sequence[Document]) -> bool:
    """Return whether an aggregation writes: its last stage is `$out` or `$merge`."""
    return bool(pipeline) and not WRITE_STAGES.isdisjoint(pipeline[-1])


def aggregate(target: Target, pipeline: Sequence[Document], options: Document) -> Operation:
    """Return an `aggregate`.

    One with a write stage is a write that is never retried as one (Retryable Writes: Unsupported).
    """
    given = checked("aggregate", options)
    given.pop("maxAwaitTimeMS", None)
    batch_size = given.pop("batchSize", None)
    writes = has_write_stage(pipeline)
    cursor = {} if batch_size is None or (writes and batch_size == 0) else {"batchSize": batch_size}
    command = {"aggregate": target.collection, "pipeline": list(pipeline), "cursor": cursor, **given}
    if not writes:
        return read(target, command)
    return Operation(
        target.database,
        Kind.WRITE,
        fixed({**command, **target.write_concern_field()}),
        read_preference=target.concerns.read_preference,
        read_concern=target.concerns.read_concern,
        writes_through_pipeline=True,
        name="aggregate",
        collection=collection_of(command),
    )


def count_documents(target: Target, filter_: Document, options: Document) -> Operation:
    """Return the aggregation that counts what matches (CRUD: Count API Details)."""
    given = checked("countDocuments", options)
    pipeline: list[Document] = [{"$match": filter_}]
    pipeline += [{f"${name}": given.pop(name)} for name in ("skip", "limit") if name in given]
    pipeline.append({"$group": {"_id": 1, "n": {"$sum": 1}}})
    return read(target, {"aggregate": target.collection, "pipeline": pipeline, "cursor": {}, **given})


def estimated_document_count(target: Target, options: Document) -> Operation:
    """Return a `count` of everything."""
    return read(target, {"count": target.collection, **checked("estimatedDocumentCount", options)})


def count(target: Target, filter_: Document, options: Document) -> Operation:
    """Return the deprecated `count` of what matches."""
    return read(target, {"count": target.collection, "query": filter_, **checked("count", options)})


def distinct(target: Target, field: str, filter_: Document, options: Document) -> Operation:
    """Return a `distinct`."""
    given = checked("distinct", options)
    return read(target, {"distinct": target.collection, "key": field, "query": filter_, **given})
