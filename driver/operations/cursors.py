"""Commands that open change streams, and those that continue and end cursors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from driver.errors import InvalidReplyError
from driver.operations.base import Kind, MaxTime, Operation, fixed, without_none
from driver.operations.options import check_await_time, checked
from driver.operations.reads import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson import Timestamp

    from driver.concerns import ReadPreference
    from driver.operations.base import Target

    Document = Mapping[str, Any]


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
        max_time=MaxTime.NONE if max_time_ms is None else MaxTime.AWAITED,
    )


def kill_cursors(database: str, collection: str, cursor_id: int, *, address: str) -> Operation:
    """Return a `killCursors`."""
    command = {"killCursors": collection, "cursors": [Int64(cursor_id)]}
    return Operation(
        database, Kind.READ, fixed(command), address=address, name="killCursors", collection=collection
    )


OPERATION_TIME_WIRE_VERSION: Final = 7
"""Servers from 4.0 on can start at an operation time."""

_OF_COMMAND: Final = frozenset({"batchSize", "collation", "comment", "maxAwaitTimeMS", "timeoutMS"})
_STARTS: Final = frozenset({"resumeAfter", "startAfter", "startAtOperationTime"})


@dataclass(slots=True)
class ResumePoint:
    """The position in the stream after what the application has seen.

    `options` are the application's. `token` is the newest resume token, `operation_time` the time of the
    first reply of a server that gave none; `delivered` says that an event was handed out.
    """

    options: Mapping[str, Any]
    token: Document | None = None
    operation_time: Timestamp | None = None
    delivered: bool = False

    def opened(self, reply: Document, wire_version: int) -> None:
        """Take note of the reply of an aggregate (`Change Streams: Updating the Cached Resume Token`)."""
        cursor = reply["cursor"]
        latest = cursor.get("postBatchResumeToken")
        if latest is not None and not cursor["firstBatch"]:
            self.token = latest
        elif self.token is None:
            self.token = self.options.get("startAfter") or self.options.get("resumeAfter")
        # With events at hand there will be a token as soon as the first is handed out.
        if cursor["firstBatch"]:
            return
        starts_now = self.token is None and self.options.get("startAtOperationTime") is None
        if starts_now and self.operation_time is None and wire_version >= OPERATION_TIME_WIRE_VERSION:
            self.operation_time = reply.get("operationTime")

    def reached(self, event: Document, latest: Document | None) -> None:
        """Take note of an event that is handed out; `latest` is its batch's token if it is the last there.

        Raises InvalidReplyError for an event without a token.
        """
        token = event.get("_id")
        if token is None:
            raise InvalidReplyError("Cannot provide resume functionality when the resume token is missing.")
        self.token = latest if latest is not None else token
        self.delivered = True

    def passed(self, latest: Document | None) -> None:
        """Take note of a batch without events."""
        if latest is not None:
            self.token = latest

    def start(self) -> dict[str, Any]:
        """Return how the next aggregate says where to begin (`Change Streams: Resume Process`)."""
        # startAfter may point at an invalidate event, which resumeAfter refuses. Once an event was delivered
        # the token is that event's, and resumeAfter takes it.
        if self.token is not None:
            started = self.options.get("startAfter") is not None and not self.delivered
            return {"startAfter" if started else "resumeAfter": self.token}
        if self.operation_time is not None:
            return {"startAtOperationTime": self.operation_time}
        return {name: value for name, value in self.options.items() if name in _STARTS}


def watch(target: Target, pipeline: Sequence[Document], point: ResumePoint, *, everything: bool) -> Operation:
    """Return the `aggregate` that opens a stream at a point; of the whole deployment, if `everything`."""
    fields = checked("watch", point.options)
    stage = {name: value for name, value in fields.items() if name not in _OF_COMMAND | _STARTS}
    stage |= point.start()
    if everything:
        stage["allChangesForCluster"] = True
    command: dict[str, Any] = {
        "aggregate": target.collection,
        "pipeline": [{"$changeStream": stage}, *pipeline],
        "cursor": {name: fields[name] for name in ("batchSize",) if name in fields},
    }
    command |= {name: fields[name] for name in ("collation", "comment", "timeoutMS") if name in fields}
    operation = read(target, command)
    check_await_time(operation.timeout, fields.get("maxAwaitTimeMS"))
    return operation
