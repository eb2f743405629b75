"""The opening of a change stream: an aggregate whose first stage is `$changeStream`.

The deployment must be a replica set or a cluster (40573). The read concern is majority or none, and the
stream ends at the last operation that a majority and this member have, so no event is ever taken back. A
stage that is not allowed behind `$changeStream` is refused with 20, but only once the whole pipeline has
compiled, as a server does; `$changeStreamSplitLargeEvent` is the last (7182802). Errors have the executor's
prefix, because drivers decide by the code alone and people read the text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.change_streams.events import EventMaker, Watched
from fakeserver.change_streams.options import parse
from fakeserver.change_streams.stream import ChangeStream
from fakeserver.commands.cursors import first_batch
from fakeserver.errors import CommandError
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.port.scope import Scope
from fakeserver.storage.stages.pipeline_stages import compile_pipeline, stage_name
from fakeserver.storage.values.collation import fold_of
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bson import Binary

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import Reply
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.port.oplog import Oplog, OpTime

SPLIT: Final = "$changeStreamSplitLargeEvent"
_NEEDS_SET: Final = 40573
_SPLIT_NOT_LAST: Final = 7182802
_ALLOWED: Final = frozenset({
    "$addFields", "$match", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$unset", SPLIT,
})  # fmt: skip


@dataclass(slots=True, eq=False)
class ChangeStreamCursor(Cursor):
    """A cursor over a change stream: each batch has a resume token, and only an invalidation ends it."""

    stream: ChangeStream | None = None

    def take(self, limit: int | None) -> list[Document]:
        """Return the next events."""
        return self._stream.take(limit)

    def fields(self) -> Document:
        """Return the token to resume with after the last batch."""
        return {"postBatchResumeToken": self._stream.token}

    @property
    def is_change_stream(self) -> bool:
        """Whether it is a change stream: it is."""
        return True

    @property
    def exhausted(self) -> bool:
        """Whether the stream was invalidated."""
        return self._stream.closed

    @property
    def _stream(self) -> ChangeStream:
        assert self.stream is not None, "it is made with a stream"
        return self.stream


@dataclass(frozen=True, slots=True)
class MemberSource:
    """The oplog as a member of the set sees it."""

    node: Node

    @property
    def oplog(self) -> Oplog:
        """The set's oplog."""
        return self.node.oplog

    def visible(self) -> OpTime:
        """Return the last operation that a majority and this member have."""
        return min(self.node.majority, self.node.applied)


def open_stream(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], size: int | None) -> Reply:
    """Return the first batch of a change stream, which is empty unless it begins in the past."""
    if not ctx.node.is_replicated:
        raise CommandError(_NEEDS_SET, "The $changeStream stage is only supported on replica sets")
    _check_read_concern(request)
    pipeline: Sequence[Mapping[str, Any]] = request["pipeline"]
    options = parse(pipeline[0]["$changeStream"], ns, ctx.node.profile.max_wire_version)
    _check_target(ctx, ns)
    name = None if ns.collection == "$cmd.aggregate" else ns.collection
    watched = Watched() if options.everything else Watched(ns.db, name)
    release = ctx.node.profile.max_wire_version
    events = EventMaker(watched, options, _looker_up(ctx.node), release)
    transform, splits = _transform(ctx, request, pipeline[1:])
    # From here on errors are those of a change stream, which have labels of their own.
    ctx.request.execution.tails_change_stream = True
    try:
        stream = ChangeStream(
            MemberSource(ctx.node),
            events,
            after=options.after,
            token=options.token,
            at=options.at,
            transform=transform,
            splits=splits,
        )
        cursor = ChangeStreamCursor(ns, deque(), request, stream=stream, await_data=True)
        return first_batch(ctx, cursor, size)
    except CommandError as error:
        prefix = f"Executor error during aggregate command on namespace: {ns} :: caused by :: "
        raise CommandError(error.code, prefix + error.message, extra=error.extra) from None


def _check_read_concern(request: Mapping[str, Any]) -> None:
    if "autocommit" in request:
        raise CommandError(
            ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Stage not supported inside of a multi-document transaction: $changeStream",
        )
    level = (request.get("readConcern") or {}).get("level", "majority")
    if level != "majority":
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "Aggregation stage $changeStream cannot run with a readConcern other than 'majority', or in a "
            f"multi-document transaction. Current readConcern: {level}",
        )


def _check_target(ctx: CommandContext, ns: Namespace) -> None:
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.kind != "collection":
        kind = "view" if collection.is_view else "timeseries collection"
        raise CommandError(
            ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"Namespace {ns} is a {kind}, not a collection"
        )


def _looker_up(node: Node) -> Callable[[Namespace, Binary | None, Any], Document | None]:
    def look_up(ns: Namespace, uuid: Binary | None, key: Any) -> Document | None:
        collection = node.catalog.get(ns)
        # updateLookup finds the document of today, but not one of another collection that has the name now.
        if collection is None or collection.uuid != uuid:
            return None
        found = node.catalog.engine.find(ns, Query({"_id": {"$eq": key}}, limit=1))
        return found[0] if found else None

    return look_up


def _transform(
    ctx: CommandContext, request: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]
) -> tuple[Callable[[list[Document]], list[Document]], bool]:
    """Return what the stages after `$changeStream` do, and whether they split large events."""
    names = [stage_name(stage) for stage in stages]
    splits = SPLIT in names
    if splits and names.index(SPLIT) != len(names) - 1:
        raise CommandError(_SPLIT_NOT_LAST, f"{SPLIT} must be the last stage in the pipeline")
    variables = {**(request.get("let") or {}), "NOW": ctx.utc()}
    scope = Scope(fold=fold_of(request.get("collation")), variables=variables)
    run = compile_pipeline([stage for stage in stages if SPLIT not in stage], scope)
    # After the compilation: a stage that is unknown, or malformed, is reported as that.
    for name in names:
        if name not in _ALLOWED:
            raise CommandError(
                ErrorCode.ILLEGAL_OPERATION, f"{name} is not permitted in a $changeStream pipeline"
            )
    return run, splits
