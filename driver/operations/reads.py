"""Commands that read: find, aggregate, count and distinct (CRUD: Read)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driver.operations.base import Kind, Operation, collection_of, first_name, fixed
from driver.operations.options import NON_TAILABLE, checked, opening, without_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.operations.base import Target

    Document = Mapping[str, Any]

WRITE_STAGES = frozenset({"$out", "$merge"})
CURSOR_TYPES: dict[str, dict[str, bool]] = {
    NON_TAILABLE: {},
    "tailable": {"tailable": True},
    "tailableAwait": {"tailable": True, "awaitData": True},
}


def read(target: Target, command: Document, *, takes_read_concern: bool = True) -> Operation:
    """Return an operation that Retryable Reads supports; a timeoutMS among its options is the driver's."""
    document, timeout = without_timeout(command, target.concerns.timeout)
    return Operation(
        target.database,
        Kind.READ,
        fixed(document),
        timeout=timeout,
        read_preference=target.concerns.read_preference,
        read_concern=target.concerns.read_concern if takes_read_concern else None,
        retryable_read=True,
        name=first_name(command),
        collection=collection_of(command),
    )


def find(target: Target, filter_: Document, options: Document) -> Operation:
    """Return a `find`. A negative limit asks for a single batch."""
    fields = checked("find", options)
    awaited, mode = fields.pop("maxAwaitTimeMS", None), fields.pop("timeoutMode", None)
    cursor_type = fields.pop("cursorType", NON_TAILABLE)
    fields.update(CURSOR_TYPES[cursor_type])
    limit = fields.get("limit", 0)
    # Drivers of old gave a negative limit this meaning, and the server takes none.
    if limit < 0:
        fields.update(limit=-limit, singleBatch=True)
    elif limit and fields.get("batchSize") == limit:
        fields["batchSize"] = limit + 1  # so that the server closes the cursor with the first batch
    operation = read(target, {"find": target.collection, "filter": filter_, **fields})
    return opening(operation, mode=mode, cursor_type=cursor_type, max_await_time_ms=awaited)


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
    fields = checked("aggregate", options)
    awaited, mode = fields.pop("maxAwaitTimeMS", None), fields.pop("timeoutMode", None)
    batch_size = fields.pop("batchSize", None)
    writes = has_write_stage(pipeline)
    # A batch size of 0 asks for a cursor before anything has run; with a write stage nothing ever would.
    cursor = {} if batch_size is None or (writes and batch_size == 0) else {"batchSize": batch_size}
    command = {"aggregate": target.collection, "pipeline": list(pipeline), "cursor": cursor, **fields}
    operation = _writing(target, command) if writes else read(target, command)
    return opening(operation, mode=mode, max_await_time_ms=awaited, writes=writes)


def _writing(target: Target, command: Document) -> Operation:
    """Return an `aggregate` with a write stage."""
    document, timeout = without_timeout(command, target.concerns.timeout)
    return Operation(
        target.database,
        Kind.WRITE,
        fixed({**document, **target.write_concern_field}),
        read_preference=target.concerns.read_preference,
        read_concern=target.concerns.read_concern,
        writes_through_pipeline=True,
        name="aggregate",
        collection=collection_of(command),
        timeout=timeout,
    )


def count_documents(target: Target, filter_: Document, options: Document) -> Operation:
    """Return the aggregation that counts what matches (CRUD: Count API Details)."""
    fields = checked("countDocuments", options)
    pipeline: list[Document] = [{"$match": filter_}]
    pipeline += [{f"${name}": fields.pop(name)} for name in ("skip", "limit") if name in fields]
    pipeline.append({"$group": {"_id": 1, "n": {"$sum": 1}}})
    return read(target, {"aggregate": target.collection, "pipeline": pipeline, "cursor": {}, **fields})


def estimated_document_count(target: Target, options: Document) -> Operation:
    """Return a `count` of everything."""
    return read(target, {"count": target.collection, **checked("estimatedDocumentCount", options)})


def count(target: Target, filter_: Document, options: Document) -> Operation:
    """Return the deprecated `count` of what matches."""
    return read(target, {"count": target.collection, "query": filter_, **checked("count", options)})


def distinct(target: Target, field: str, filter_: Document, options: Document) -> Operation:
    """Return a `distinct`."""
    fields = checked("distinct", options)
    return read(target, {"distinct": target.collection, "key": field, "query": filter_, **fields})


def map_reduce(target: Target, map_: Any, reduce: Any, options: Document) -> Operation:
    """Return a `mapReduce` that replies with its results. Not a retryable read."""
    functions = {"mapReduce": target.collection, "map": map_, "reduce": reduce, "out": {"inline": 1}}
    operation = read(target, {**functions, **checked("mapReduce", options)})
    return replace(operation, retryable_read=False)
