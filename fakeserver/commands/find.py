"""The find command."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands import local_collections
from fakeserver.commands.cursors import Cursor, first_batch
from fakeserver.commands.reading import (
    NATURAL,
    check_hint,
    check_uuid,
    namespace,
    query_of,
    reader,
    snapshot_time,
)
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from fakeserver.sizes import fit_one_reply
from fakeserver.storage.ending import ends_with_last
from fakeserver.storage.engine import Query
from fakeserver.storage.index_keys import precedes
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.catalog import Collection
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Document, Namespace, StorageEngine

table = CommandTable()

FIELDS: Final = Fields.of(
    Field("filter", "object"),
    Field("projection", "object"),
    Field("sort", "object"),
    Field("hint", "string|object"),
    Field("collation", "object"),
    Field("skip", "long", minimum=0),
    Field("limit", "long", minimum=0),
    Field("batchSize", "long", minimum=0),
    Field("singleBatch", "bool"),
    Field("allowDiskUse", "bool"),
    Field("min", "object"),
    Field("max", "object"),
    Field("returnKey", "bool"),
    Field("showRecordId", "bool"),
    Field("tailable", "bool"),
    Field("awaitData", "bool"),
    Field("oplogReplay", "bool"),
    Field("noCursorTimeout", "bool"),
    Field("mirrored", "bool"),
    Field("allowPartialResults", "bool"),
    Field("let", "object"),
    Field("term", "long"),
    Field("encryptionInformation", "object"),
    Field("collectionUUID", "binData"),
    Field("includeQueryStatsMetrics", "bool"),
    target="collection",
)


@table.command("find", kind="read", in_transaction=True, fields=FIELDS)
def find(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the documents that match a filter."""
    ns = namespace(ctx, request)
    _check(request)
    held = local_collections.documents_of(ctx, ns)
    if held is not None:
        return local_collections.find(ctx, request, ns, held)
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, view, collection = ctx.catalog.resolve(ns)
    at = snapshot_time(ctx, request)
    if request.get("tailable", False):
        return _tailable(ctx, request, ns, collection)
    if view or (collection is not None and ctx.catalog.get(ns) is not collection):
        found, counted = _find_on_view(ctx, request, source, view, collection), False
    else:
        wanted = query(ctx, request, source, collection)
        found = ctx.catalog.engine.find(source, wanted)
        counted = collection is None or ends_with_last(wanted, collection.indexes.values(), len(found))
    cursor = Cursor(
        ns,
        deque(found),
        request,
        small=_is_small(ctx, request, source),
        counted=counted,
        at=at,
        time_left=ctx.time_left,
        no_timeout=request.get("noCursorTimeout", False),
    )
    return first_batch(ctx, cursor, request.get("batchSize"), single=request.get("singleBatch", False))


def _is_small(ctx: CommandContext, request: Mapping[str, Any], source: Namespace) -> bool:
    """Whether whatever the command finds surely fits into one reply."""
    stats = ctx.catalog.engine.stats(source)
    return fit_one_reply(stats.count, stats.size) and not _computes(request)


def _computes(request: Mapping[str, Any]) -> bool:
    """Whether a projection makes values, which may be larger than the documents."""
    projection = request.get("projection") or {}
    return any(not isinstance(value, int | float) for value in projection.values())


def query(
    ctx: CommandContext, request: Mapping[str, Any], ns: Namespace, collection: Collection | None
) -> Query:
    """Return the query that a find command states. Raises `CommandError` for a bad one."""
    hint = check_hint(collection, request.get("hint"), ns, request.get("filter") or {})
    if "min" in request or "max" in request:
        check_bounds(request, hint, collection)
    return query_of(
        ctx,
        request,
        collection,
        filter=request.get("filter") or {},
        sort=request.get("sort"),
        projection=request.get("projection"),
        skip=request.get("skip", 0),
        limit=request.get("limit", 0),
        hint=hint,
        minimum=request.get("min") or None,
        maximum=request.get("max") or None,
        return_key=request.get("returnKey", False),
        show_record_id=request.get("showRecordId", False),
    )


def check_bounds(request: Mapping[str, Any], hint: Any, collection: Collection | None) -> None:
    """Refuse a `min` or `max` that is no key of the hinted index. Raises `CommandError` 51173 to 51175."""
    bounds = [request[name] for name in ("min", "max") if request.get(name)]
    if not bounds:
        return
    if type(hint) is not str:
        raise CommandError(51173, "When using min()/max() a hint of which index to use must be provided")
    if collection is None or hint not in collection.indexes:
        return
    key = collection.indexes[hint].key
    if any(list(bound) != list(key) for bound in bounds):
        raise CommandError(51174, "The index chosen is not compatible with min/max")
    if len(bounds) > 1 and not precedes(bounds[0], bounds[1], key):
        raise CommandError(
            51175,
            "The value provided for min() does not come before the value provided for max() in the hinted"
            " index",
        )


def _check(request: Mapping[str, Any]) -> None:
    tailable = request.get("tailable", False)
    if request.get("awaitData", False) and not tailable:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE, "Cannot set 'awaitData' without also setting 'tailable'"
        )
    sort = request.get("sort")
    if tailable and sort and not (set(sort) == {NATURAL} and sort[NATURAL] == 1):
        raise CommandError(
            ErrorCode.BAD_VALUE, "cannot use tailable option with a sort other than {$natural: 1}"
        )
    if tailable and request.get("singleBatch", False):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE, "Cannot use tailable cursors with the 'singleBatch' option"
        )


def _find_on_view(
    ctx: CommandContext,
    request: Mapping[str, Any],
    source: Namespace,
    view: list[Mapping[str, Any]],
    collection: Collection | None,
) -> list[Document]:
    for name in ("tailable", "returnKey", "showRecordId", "min", "max"):
        if request.get(name):
            raise CommandError(ErrorCode.INVALID_PIPELINE_OPERATOR, f"Option {name} not supported on a view.")
    stages: list[Mapping[str, Any]] = [*view, {"$match": request.get("filter") or {}}]
    for name, stage in (
        ("sort", "$sort"),
        ("skip", "$skip"),
        ("limit", "$limit"),
        ("projection", "$project"),
    ):
        if request.get(name):
            stages.append({stage: request[name]})
    options = query_of(ctx, request, collection)._replace(read=reader(ctx, ctx.db))
    return ctx.catalog.engine.aggregate(source, stages, options=options)


def _tailable(
    ctx: CommandContext, request: Mapping[str, Any], ns: Namespace, collection: Collection | None
) -> Reply:
    if collection is None:
        return first_batch(ctx, Cursor(ns, deque(), request), None)
    if not collection.is_capped:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"error processing query: ns={ns} tailable cursor requested on non capped collection",
        )
    if ctx.catalog.engine.stats(ns).count == 0:
        return first_batch(ctx, Cursor(ns, deque(), request), None)
    cursor = Cursor(
        ns,
        deque(),
        request,
        refill=follow(ctx, query(ctx, request, ns, collection), ns),
        await_data=request.get("awaitData", False),
        time_left=ctx.time_left,
        no_timeout=request.get("noCursorTimeout", False),
    )
    return first_batch(ctx, cursor, request.get("batchSize"))


def follow(ctx: CommandContext, wanted: Query, ns: Namespace) -> Callable[[], list[Document]]:
    """Return a function that returns the documents of a capped collection that came since its last call.

    The function raises `CommandError` 136 when what it saw last is no longer there.
    """
    engine, seen = ctx.catalog.engine, 0
    numbered = wanted._replace(show_record_id=True, projection=None, return_key=False)
    project = {**wanted.projection} if wanted.projection else None

    def refill() -> list[Document]:
        nonlocal seen
        oldest = _edge(engine, ns, 1)
        if seen and (oldest is None or oldest > seen):
            raise _position_lost(seen)
        new = [document for document in engine.find(ns, numbered) if document["$recordId"] > seen]
        seen = _edge(engine, ns, -1) or seen
        for document in new:
            if not wanted.show_record_id:
                del document["$recordId"]
        return (
            new
            if project is None
            else engine.aggregate(ns, [{"$project": project}], options=wanted, documents=new)
        )

    return refill


def _edge(engine: StorageEngine, ns: Namespace, direction: int) -> int | None:
    """Return the record id at the beginning (1) or the end (-1) of a collection, None if it is empty."""
    found = engine.find(ns, Query(hint={NATURAL: direction}, limit=1, show_record_id=True))
    return int(found[0]["$recordId"]) if found else None


def _position_lost(seen: int) -> CommandError:
    return CommandError(
        ErrorCode.CAPPED_POSITION_LOST,
        "CollectionScan died due to position in capped collection being deleted. Last seen record id: "
        f"RecordId({seen})",
    )
