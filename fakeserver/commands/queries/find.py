"""The find command: the documents of a collection or a view that match a filter.

Behaviour: Options that exclude each other are refused first (`awaitData` without `tailable` 9, `tailable`
with a sort but `$natural: 1` or `singleBatch` 2), then a wrong UUID (361); then the view is resolved,
the hint looked up (2), `min` and `max` compared with the hinted index's key (51173 to 51175), and the filter
compiled. On a view the command becomes a pipeline, and what a pipeline has no stage for is refused (168). A
tailable cursor needs a capped collection (2); over an empty or missing one it is closed at once. It returns
what is newer than the last document seen, and fails with 136 if that was overwritten meanwhile.
`local.oplog.rs` and `local.system.replset` of a member, and `local.pushbackd.journal` of every server, are
made when they are read.

Versions: `allowDiskUse` and `mirrored` since 4.4; `let` since 5.0; `collectionUUID` and
`encryptionInformation` since 6.0; `includeQueryStatsMetrics` since 8.2. Until 4.4 fields are refused with 9,
in the words of that time; in 4.2 `comment` must be a string.

Not modelled: All results are found when the cursor is opened (see cursors). `term` spares the command the
ingress ticket; `oplogReplay`, `mirrored`, `allowPartialResults`, `encryptionInformation` and
`includeQueryStatsMetrics` are accepted and have no effect.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands import local_collections
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.cursors import DEFAULT_BATCH, first_batch, whole_batch
from fakeserver.commands.queries.plan_cache import check_not_rejected
from fakeserver.commands.queries.reading import (
    NATURAL,
    check_hint,
    query_of,
    reader,
    snapshot_time,
    view_of,
    while_aggregating,
    while_finding,
)
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.plans.index_keys import precedes
from fakeserver.storage.plans.planning import ends_with_last
from fakeserver.storage.port.engine import Query
from fakeserver.storage.values.limits import fit_one_reply
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document, Namespace, StorageEngine
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_NEAR_IN_SERIES: Final = 5626500
_NEARS: Final = frozenset({"$near", "$nearSphere", "$geoNear"})

LOCAL: Final = "local"
"""The database of the collections that are made when they are read."""

FIELDS: Final = Fields.of(
    Field("filter", "object", nullable=False),
    Field("projection", "object"),
    Field("sort", "object"),
    Field("hint", "hint"),
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


_MORE: Final = frozenset(
    {
        *("projection", "sort", "hint", "collation", "skip", "min", "max", "returnKey", "showRecordId"),
        *("tailable", "awaitData", "let", "collectionUUID", "readConcern"),
    }
)
"""The fields that say more than which documents are wanted, how many, and in which batches."""


@table.command("find", kind="read", in_transaction=True, fields=FIELDS)
def find(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the documents that match a filter."""
    ns = namespace(ctx, request)
    if ns.collection[0] == "$" and not ns.collection.startswith("$cmd"):
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{ns}'")
    check_not_rejected(ctx, request, "find")
    if _MORE.isdisjoint(request):
        reply = _find_plainly(ctx, request, ns)
        if reply is not None:
            return reply
    _check(request)
    unstored = local_collections.documents_of(ctx, ns, request.get("filter"))
    if unstored is not None:
        return local_collections.find(ctx, request, ns, unstored)
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, stages, collection = ctx.catalog.resolve(ns)
    view = view_of(ctx, ns, request)
    at = snapshot_time(ctx, request)
    if request.get("tailable", False):
        if view is not None or (collection is not None and collection.kind == "timeseries"):
            raise _not_on_a_view("tailable")
        return _tailable(ctx, request, ns, collection)
    if collection is not None and collection.kind == "timeseries":
        _check_series(request.get("filter") or {})
    if view is not None:
        options = query_of(ctx, request, collection, view=view, read=reader(ctx, ctx.db))
        found, counted = _find_on_view(ctx, request, source, stages, options), False
    else:
        wanted = query(ctx, request, source, collection)
        try:
            found = ctx.catalog.engine.find(source, wanted)
        except CommandError as error:
            raise error.during(while_finding(ctx, source)) from None
        # Where the plan itself ends with the last document, the first reply already has the cursor id 0.
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


def _find_plainly(ctx: CommandContext, request: Mapping[str, Any], ns: Namespace) -> Reply | None:
    """Answer a find for everything, or for what an index alone finds: most are such ones, and need no plan.

    None for others. A cursor is made where the first batch may not be the last.
    """
    collection = ctx.catalog.get(ns)
    if collection is None or collection.is_view or collection.collation is not None or ns.db == LOCAL:
        return None
    if "clusteredIndex" in collection.options:
        return None
    wanted, limit, size = request.get("filter"), request.get("limit", 0), request.get("batchSize")
    if size is None:
        size = DEFAULT_BATCH
    engine, by_id = ctx.catalog.engine, False
    found: list[Document] | None = None
    if not wanted:
        found = engine.find(ns, Query(limit=limit))
    elif len(wanted) == 1:
        ((path, value),) = wanted.items()
        found, by_id = engine.equal(ns, path, value), path == "_id"
    if found is None:
        return None
    if limit and len(found) > limit:
        found = found[:limit]
    count = len(found)
    small = count <= 1 or _is_small(ctx, request, ns)
    # A batch that is not full has looked for one more; of a full one the plan must know that it is the last.
    counted, single = count > 0 and (by_id or count == limit), request.get("singleBatch", False)
    if small and (count < size or (count == size and (counted or single))):
        return whole_batch(ctx, ns, found)
    cursor = Cursor(ns, deque(found), request, small=small, counted=counted, time_left=ctx.time_left)
    cursor.no_timeout = request.get("noCursorTimeout", False)
    return first_batch(ctx, cursor, size, single=single)


def _is_small(ctx: CommandContext, request: Mapping[str, Any], source: Namespace) -> bool:
    """Return whether the results surely fit into one reply, so that nobody needs to measure them."""
    stats = ctx.catalog.engine.stats(source)
    projection = request.get("projection") or {}
    # A projection with expressions makes values, which may be larger than the documents.
    computes = any(not isinstance(value, int | float) for value in projection.values())
    return fit_one_reply(stats.count, stats.size) and not computes


def query(
    ctx: CommandContext, request: Mapping[str, Any], ns: Namespace, collection: Collection | None
) -> Query:
    """Return the query that a find command states. Raises `CommandError` for a bad one."""
    # Bounds say themselves whether they fit the index.
    bounded = request.get("min") or request.get("max")
    hint = check_hint(collection, request.get("hint"), ns, None if bounded else request.get("filter") or {})
    if "min" in request or "max" in request:
        check_bounds(request, hint, collection)
    sort = request.get("sort")
    if collection is not None and "clusteredIndex" in collection.options:
        if not sort:
            sort, hint = _natural_order(hint)
        elif NATURAL in sort:
            sort = {"_id": sort[NATURAL]}
    return query_of(
        ctx,
        request,
        collection,
        filter=request.get("filter") or {},
        sort=sort,
        projection=request.get("projection"),
        skip=request.get("skip", 0),
        limit=request.get("limit", 0),
        hint=hint,
        minimum=request.get("min") or None,
        maximum=request.get("max") or None,
        return_key=request.get("returnKey", False),
        show_record_id=request.get("showRecordId", False),
    )


def _natural_order(hint: Any) -> tuple[Any, Any]:
    """Return the sort and the hint that read a clustered collection: its documents lie in order of `_id`."""
    if hint is None:
        return {"_id": 1}, None
    if isinstance(hint, dict) and NATURAL in hint:
        return {"_id": hint[NATURAL]}, None
    return None, hint


def check_bounds(request: Mapping[str, Any], hint: Any, collection: Collection | None) -> None:
    """Refuse a `min` or `max` that is no key of the hinted index. Raises `CommandError` 51173 to 51175."""
    bounds = [request[name] for name in ("min", "max") if request.get(name)]
    if not bounds:
        return
    if collection is None:
        # The planner asks for these, and nothing is planned where there is nothing to find.
        return
    if type(hint) is not str:
        raise CommandError(51173, "When using min()/max() a hint of which index to use must be provided")
    if hint not in collection.indexes:
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
        raise CommandError(ErrorCode.BAD_VALUE, "Cannot use tailable cursors with the 'singleBatch' option")


def _not_on_a_view(option: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_PIPELINE_OPERATOR, f"Option {option} not supported on a view.")


def _check_series(wanted: Mapping[str, Any]) -> None:
    """Refuse a search by distance in a time series. Raises `CommandError` 5626500."""
    for name, value in wanted.items():
        if name == "$and" and isinstance(value, list):
            for each in value:
                _check_series(each)
        elif isinstance(value, dict) and not _NEARS.isdisjoint(value):
            raise CommandError(_NEAR_IN_SERIES, "a time series cannot be searched by distance: use $geoNear")


def _find_on_view(
    ctx: CommandContext,
    request: Mapping[str, Any],
    source: Namespace,
    view: list[Mapping[str, Any]],
    options: Query,
) -> list[Document]:
    # A server turns the command into an aggregate, which has no stage for these.
    for name in ("returnKey", "showRecordId", "min", "max"):
        if request.get(name):
            raise _not_on_a_view(name)
    stages: list[Mapping[str, Any]] = [*view, {"$match": request.get("filter") or {}}]
    for name, stage in (
        ("sort", "$sort"),
        ("skip", "$skip"),
        ("limit", "$limit"),
        ("projection", "$project"),
    ):
        if request.get(name):
            stages.append({stage: request[name]})
    try:
        return ctx.catalog.engine.aggregate(source, stages, options=options)
    except CommandError as error:
        raise error.during(while_aggregating(ctx, source)) from None


def _tailable(
    ctx: CommandContext, request: Mapping[str, Any], ns: Namespace, collection: Collection | None
) -> Reply:
    # A tailable cursor needs a position to go on from: over nothing a server closes it with the first reply.
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
        # The last document seen was overwritten: what came between it and the oldest one is lost, so the
        # cursor dies rather than leave a gap.
        if seen and (oldest is None or oldest > seen):
            raise CommandError(
                ErrorCode.CAPPED_POSITION_LOST,
                "CollectionScan died due to position in capped collection being deleted. Last seen record id:"
                f" RecordId({seen})",
            )
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
