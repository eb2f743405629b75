"""The aggregate command: a pipeline over a collection, a view or a database.

Behaviour: The pipeline is checked before anything is read, in this order: stages of a later release (40324);
`explain` and stages outside API version 1 under `apiStrict` (323); stages out of position (40602 behind the
first, 40601 before the last, 73 for a database where a collection is needed, or the reverse); `$match`
conditions that only find takes; a read concern that a stage cannot have (72); `explain` with a write concern
(9); stages that no transaction may hold (263); a missing `cursor` (9). A stage that no release knows is found
after these (40324), when the pipeline is compiled. A pipeline that begins with `$changeStream` becomes a
cursor of its own kind (see the change streams module). `$out` and `$merge` write after all other stages have
ended, and wait while an open transaction uses their target.

Versions: `let` since 5.0; `collectionUUID` and `encryptionInformation` since 6.0; `includeQueryStatsMetrics`
since 8.2. `$unionWith` since 4.4; `$setWindowFields` since 5.0; `$changeStreamSplitLargeEvent`,
`$densify`, `$documents`, `$fill`, `$listSearchIndexes` and `$vectorSearch` since 6.0. Until 4.4 unknown
fields and wrong types are refused in the words of the parser of that time; in 4.2 `comment` must be a string.

Not modelled: The whole pipeline runs when the cursor is opened; a server computes batch by batch, so that a
later getMore there sees later writes and can fail. A mongos runs the pipeline itself, without a part for the
shards. `exchange`, `needsMerge`, `fromMongos`, `runtimeConstants`, `encryptionInformation` and
`includeQueryStatsMetrics` are accepted and have no effect. docs/LIMITS.md lists the stages that are missing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.change_streams.events import EventMaker, Watched
from fakeserver.change_streams.stream import ChangeStream, parse
from fakeserver.commands import local_collections
from fakeserver.commands.context import check_uuid
from fakeserver.commands.cursors import first_batch
from fakeserver.commands.queries import output_stages, source_stages
from fakeserver.commands.queries.explain import explain_aggregate
from fakeserver.commands.queries.plan_cache import check_not_rejected
from fakeserver.commands.queries.reading import (
    NATURAL,
    check_hint,
    indexed_reader,
    query_of,
    reader,
    reader_of_indexes,
    snapshot_time,
    view_of,
    while_aggregating,
)
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.features import STAGES
from fakeserver.idl.fields import Field, Fields, Noticing, duplicate_field, first_argument, noticing
from fakeserver.idl.generic_arguments import read_concern_not_supported
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.plans.search_rules import check_distance_order
from fakeserver.storage.port.engine import Namespace, Query, Scope
from fakeserver.storage.stages.pipeline_stages import (
    adds_fields,
    check_facets,
    compile_optimized,
    stage_name,
    unrecognized_stage,
)
from fakeserver.storage.stages.rank_fusion import FUSIONS, not_first
from fakeserver.storage.values.collation import fold_of
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bson import Binary

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.port.oplog import Oplog, OpTime

    Pipeline = Sequence[Mapping[str, Any]]


table = CommandTable()

_WHOLE_DATABASE: Final = "$cmd.aggregate"
_NOT_IN_TRANSACTION: Final = frozenset(
    {
        *("$out", "$merge", "$unionWith", "$changeStream", "$currentOp", "$collStats", "$indexStats"),
        *("$planCacheStats", "$listSessions", "$listLocalSessions"),
    }
)
_FIRST_ONLY: Final = 40602
_LAST_ONLY: Final = 40601
_CATALOG_OF_DATABASE: Final = 9621301
_FUSED_SERIES: Final = 10557301

FIELDS: Final = Fields.of(
    Field("pipeline", "array", required=True, nullable=False),
    Field("explain", "strictBool", nullable=False),
    Field("allowDiskUse", "strictBool", nullable=False),
    Field("cursor", "object", of=Fields.of(Field("batchSize", "long", minimum=0)), nullable=False),
    Field("bypassDocumentValidation", "bool"),
    Field("hint", "hint"),
    Field("collation", "object"),
    Field("let", "object"),
    Field("runtimeConstants", "object"),
    Field("encryptionInformation", "object"),
    Field("collectionUUID", "binData"),
    Field("needsMerge", "bool"),
    Field("fromMongos", "bool"),
    Field("exchange", "object"),
    Field("includeQueryStatsMetrics", "bool"),
    target="collection|1",
)


@table.command("aggregate", kind="read", in_transaction=True, fields=FIELDS, write_concern=True)
def aggregate(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return what a pipeline makes of a collection, or of a database."""
    target = first_argument(request)
    ns = Namespace(ctx.db, target if type(target) is str else _WHOLE_DATABASE)
    pipeline: Pipeline = request["pipeline"]
    # A server parses the pipeline before it looks at the collection: what is wrong with a stage is reported
    # even where the collection is missing or a view.
    names = [stage_name(stage) for stage in pipeline]
    for name in names:
        if STAGES.get(name, 0) > ctx.node.profile.max_wire_version:
            raise unrecognized_stage(name)
    if request.get("apiStrict", False):
        _check_strict(request, pipeline)
    _check_order(names, pipeline, whole_database=type(target) is not str)
    check_repeated(ctx.request.body, pipeline)
    check_matches(pipeline)
    if not ctx.node.is_replicated:
        _check_no_streams(pipeline)
    check_concern_of_stages(request)
    if request.get("explain", False):
        _check_explain(request)
        return explain_aggregate(ctx, ns, request)
    if ctx.in_transaction:
        _check_in_transaction(names)
    check_not_rejected(ctx, request, "aggregate")
    size = _batch_size(request)
    if names and names[0] == "$changeStream":
        return open_stream(ctx, ns, request, size)
    at = snapshot_time(ctx, request)
    output = (
        output_stages.parse(ctx, ns, request, pipeline[-1])
        if names and names[-1] in output_stages.NAMES
        else None
    )
    if any(each in names for each in ("$lookup", "$unionWith")):
        pipeline = [*source_stages.with_documents(ctx, ctx.db, pipeline)]
    try:
        # All results exist before the first is written: what a pipeline reads of its own target is unchanged.
        documents = run(ctx, ns, request, pipeline if output is None else pipeline[:-1])
        if output is not None:
            ctx.check_writes(output.target.db)
            if ctx.node.transactions.blocks([str(output.target)]):
                raise ctx.waits()
            output.write(documents)
            documents = []
    except CommandError as error:
        raise error.during(while_aggregating(ctx, ns)) from None
    cursor = Cursor(ns, deque(documents), request, at=at, time_left=ctx.time_left)
    return first_batch(ctx, cursor, size)


def run(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], pipeline: Pipeline) -> list[Document]:
    """Return what the stages that do not write yield."""
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, stages, collection = ctx.catalog.resolve(ns)
    first = stage_name(pipeline[0]) if pipeline else ""
    series = collection if collection is not None and collection.kind == "timeseries" else None
    if first in FUSIONS and (series or ctx.catalog.series_of(ns)) is not None:
        raise CommandError(_FUSED_SERIES, f"{first} is not supported on time-series collections")
    options = query_of(
        ctx,
        request,
        collection,
        view=view_of(ctx, ns, request, pipeline),
        hint=check_hint(collection, request.get("hint"), ns, None),
        read=reader(ctx, ctx.db),
        look_up=indexed_reader(ctx, ctx.db),
        indexes_of=reader_of_indexes(ctx, ctx.db),
    )
    engine = ctx.catalog.engine
    if first in source_stages.SOURCES:
        # Compiled before the source runs: an error in a later stage comes before one of the source.
        compile_optimized(
            pipeline[1:],
            Scope(
                variables={**(options.let or {}), **options.builtins()},
                read=options.read,
                scripts=options.scripts,
                release=options.release,
                failures=[],
            ),
        )
        documents = source_stages.SOURCES[first](ctx, ns, pipeline[0][first])
        return engine.aggregate(source, pipeline[1:], options=options, documents=documents)
    unstored = local_collections.documents_of(ctx, source)
    if first == "$geoNear":
        check_distance_order(options)
    if first == "$geoNear" and collection is None:
        known = {**(options.let or {}), **options.builtins()}
        compile_optimized(pipeline, Scope(variables=known, release=options.release, failures=[]))
        raise CommandError(
            ErrorCode.NAMESPACE_NOT_FOUND,
            f"$geoNear requires a geo index to run, but {ns} does not exist",
        )
    pipeline = [*stages, *pipeline]
    if collection is not None and "clusteredIndex" in collection.options:
        pipeline = _in_order_of_ids(pipeline, backwards=request.get("hint") == {NATURAL: -1})
    return engine.aggregate(source, pipeline, options=options, documents=unstored)


def _in_order_of_ids(pipeline: Pipeline, *, backwards: bool) -> Pipeline:
    """Return a pipeline over a clustered collection, whose documents lie in the order of their ids."""
    after = 0
    while after < len(pipeline) and "$match" in pipeline[after]:
        after += 1
    if after < len(pipeline) and stage_name(pipeline[after]) == "$geoNear":
        return pipeline
    return [*pipeline[:after], {"$sort": {"_id": -1 if backwards else 1}}, *pipeline[after:]]


def _check_order(names: Sequence[str], pipeline: Pipeline, *, whole_database: bool) -> None:
    first = names[0] if names else ""
    for stage in pipeline if whole_database else ():
        if isinstance(stage.get("$facet"), dict):
            check_facets(stage["$facet"], on_database=True)
    if whole_database and first not in source_stages.ON_DATABASE:
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            f"{{aggregate: 1}} is not valid for '{first}'; a collection is required."
            if first
            else "{aggregate: 1} is not valid for an empty pipeline.",
        )
    for index, name in enumerate(names):
        if index and name in FUSIONS:
            raise not_first(name)
        if index and name in source_stages.FIRST_ONLY:
            raise CommandError(_FIRST_ONLY, f"{name} is only valid as the first stage in a pipeline")
        if index < len(names) - 1 and name in output_stages.NAMES:
            raise CommandError(_LAST_ONLY, f"{name} can only be the final stage in the pipeline")
    if not whole_database and first in source_stages.ON_DATABASE and first != "$changeStream":
        raise CommandError(
            _CATALOG_OF_DATABASE if first == "$listClusterCatalog" else ErrorCode.INVALID_NAMESPACE,
            f"{first} must be run against the database with {{aggregate: 1}}",
        )


def _check_strict(request: Mapping[str, Any], pipeline: Sequence[Mapping[str, Any]]) -> None:
    if "explain" in request:
        raise CommandError(
            ErrorCode.API_STRICT_ERROR, "BSON field 'aggregate.explain' is not allowed with apiStrict:true."
        )
    for stage in pipeline:
        for name, argument in stage.items():
            if not source_stages.is_stable(name, argument):
                raise CommandError(
                    ErrorCode.API_STRICT_ERROR,
                    f"stage {name} is not allowed with 'apiStrict: true' in API Version 1",
                )
            unstable = source_stages.UNSTABLE_FIELDS.get(name, frozenset())
            for field in argument if unstable and isinstance(argument, dict) else ():
                if field in unstable:
                    raise CommandError(
                        ErrorCode.API_STRICT_ERROR,
                        f"BSON field '{name}.{field}' is not allowed with apiStrict:true.",
                    )


def check_concern_of_stages(request: Mapping[str, Any]) -> None:
    """Refuse a read concern that a stage, or an explanation, cannot have. Raises `CommandError` 72.

    The pipeline may be anything: what is wrong with it is said elsewhere.
    """
    level = (request.get("readConcern") or {}).get("level", "local")
    if level == "local":
        return
    pipeline = request.get("pipeline")
    stages = pipeline if isinstance(pipeline, list) else []
    names = [name for stage in stages if isinstance(stage, dict) for name in stage]
    if level == "linearizable" and not output_stages.NAMES.isdisjoint(names):
        output = next(name for name in names if name in output_stages.NAMES)
        reason = f"{output} cannot be used with a 'linearizable' read concern level"
        raise read_concern_not_supported("aggregate", level, reason)
    who = next((f"Aggregation stage {name}" for name in names if name in source_stages.LOCAL_ONLY), None)
    if who is None and request.get("explain", False):
        who = "Explain for the aggregate command"
    if who is not None:
        reason = f"{who} cannot run with a readConcern other than 'local'. Current readConcern: {level}"
        raise read_concern_not_supported("aggregate", level, reason)


def _check_explain(request: Mapping[str, Any]) -> None:
    if "writeConcern" in request:
        raise CommandError(  # the space that is missing is the server's
            ErrorCode.FAILED_TO_PARSE, "Aggregation explain does not support the'writeConcern' option"
        )


def _check_in_transaction(names: Sequence[str]) -> None:
    for name in names:
        if name in _NOT_IN_TRANSACTION:
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Operation not permitted in transaction :: caused by :: Aggregation stage {name} cannot run"
                " within a multi-document transaction",
            )


def _batch_size(request: Mapping[str, Any]) -> int | None:
    options = request.get("cursor")
    if options is None:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "The 'cursor' option is required, except for aggregate with the explain argument",
        )
    size: int | None = options.get("batchSize")
    return size


# Fields that stand twice in the argument of a stage, which most stages refuse.
#
# A stage with a declared list of fields refuses one that has two values (40413); null is no value, so that of
# `{count: {}, count: null}` the first is taken. `$sort`, `$planCacheStats` and the `_id` of a `$group` have
# checks of their own. Other stages take the last one, as do documents in them.


_DECLARED: Final = frozenset({
    "$changeStream", "$collStats", "$densify", "$fill", "$listClusterCatalog", "$listLocalSessions",
    "$listSessions", "$lookup", "$merge", "$out", "$querySettings", "$queryStats", "$setWindowFields",
    "$unionWith",
})  # fmt: skip
_OWN: Final = frozenset({"$sort", "$planCacheStats", "$group"})
_CHECKED: Final = _DECLARED | _OWN
_LARGEST: Final = 1 << 16
"""The bytes of a command up to which fields are counted."""
_FEW: Final = 64


def check_repeated(body: bytes, pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a field that stands twice in a stage of a command, and put the value that counts in its place.

    Raises `CommandError` 40413, 7472500, 9 or 15948.
    """
    checked = [stage[name] for stage in pipeline for name in stage if name in _CHECKED]
    fields = [list(each) for each in checked if isinstance(each, dict)] if len(body) <= _LARGEST else []
    if not any(
        len(names) > _FEW or any(body.count(f"{name}\0".encode()) > 1 for name in names) for names in fields
    ):
        return
    command: Any = noticing(body)
    for stage, noticed in zip(pipeline, command["pipeline"], strict=True):
        for name, argument in noticed.items():
            if name in _CHECKED and isinstance(argument, Noticing) and argument.repeated is not None:
                _check_repeated(name, argument, stage[name])


def _check_repeated(name: str, noticed: Noticing, argument: dict[str, Any]) -> None:
    repeated = noticed.repeated
    if name == "$sort":
        raise CommandError(7472500, f"$sort key must not contain duplicate keys (duplicate: '{repeated}')")
    if name == "$planCacheStats":
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$planCacheStats parameters object may contain only one field: {repeated}",
        )
    if name == "$group":
        if "_id" in dict(noticed.earlier):
            raise CommandError(15948, "a group's _id may only be specified once")
        return
    values = [each for each in noticed.earlier if each[1] is not None]
    for field, value in values:
        if argument[field] is not None:
            raise duplicate_field(f"{name}.{field}")
        argument[field] = value


# Conditions that a `$match` stage may not hold, though find accepts them.
#
# `$where` (2), searches by distance, which would have to sort (5626500), and `$text` behind the first
# stage (17313), because only a query at the head of a pipeline uses the text index. A stage within `$lookup`
# or `$unionWith` begins a pipeline of its own; one within `$facet` does not, as it follows the stages before.

_TEXT_FIRST: Final = 17313
_NEAR: Final = 5626500
_NEARS: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
_PIPELINES: Final = ("$lookup", "$unionWith")


def check_matches(pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse scripts, searches by distance, and text searches behind the first stage.

    Raises `CommandError` 2, 5626500 or 17313.
    """
    for index, stage in enumerate(pipeline):
        for name, argument in stage.items():
            if name == "$match":
                _check_match(argument, first=index == 0)
            elif name in _PIPELINES and isinstance(argument, dict):
                # A pipeline of its own: its first stage reads a collection, and may search it.
                check_matches(_stages_of(argument.get("pipeline")))
            elif name == "$facet" and isinstance(argument, dict):
                for branch in argument.values():
                    # {} stands for the stages before, so that no stage of a branch is the first.
                    check_matches([{}, *_stages_of(branch)])


def _check_no_streams(pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a change stream within a stage, on a server that has none. Raises `CommandError` 40573."""
    for stage in pipeline:
        for name in _PIPELINES:
            argument = stage.get(name)
            inner = _stages_of(argument.get("pipeline")) if isinstance(argument, dict) else []
            if any("$changeStream" in each for each in inner):
                raise _no_streams()
            _check_no_streams(inner)


def _no_streams() -> CommandError:
    return CommandError(_NEEDS_SET, "The $changeStream stage is only supported on replica sets")


def _stages_of(pipeline: Any) -> list[Mapping[str, Any]]:
    return [stage for stage in pipeline if isinstance(stage, dict)] if isinstance(pipeline, list) else []


def _check_match(condition: Any, *, first: bool) -> None:
    if isinstance(condition, list):
        for item in condition:
            _check_match(item, first=first)
    if not isinstance(condition, dict):
        return
    for name, value in condition.items():
        if name == "$where":
            raise CommandError(ErrorCode.BAD_VALUE, "$where is not allowed in this context")
        if name == "$text" and not first:
            raise CommandError(_TEXT_FIRST, "$match with $text is only allowed as the first pipeline stage")
        if name in _NEARS:
            raise CommandError(
                _NEAR,
                "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require"
                " sorting geospatial data. If you do not need sort, consider using $geoWithin instead.",
            )
        if name != "$expr":
            _check_match(value, first=first)


# The opening of a change stream: an aggregate whose first stage is `$changeStream`.
#
# The deployment must be a replica set or a cluster (40573). The read concern is majority or none, and the
# stream ends at the last operation that a majority and this member have, so no event is ever taken back. A
# stage that is not allowed behind `$changeStream` is refused with 20, but only once the whole pipeline has
# compiled, as a server does; `$changeStreamSplitLargeEvent` is the last (7182802). Errors have the executor's
# prefix, because drivers decide by the code alone and people read the text.


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
        raise _no_streams()
    _check_stream_concern(request)
    pipeline: Sequence[Mapping[str, Any]] = request["pipeline"]
    options = parse(pipeline[0]["$changeStream"], ns, ctx.node.profile.max_wire_version)
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.kind != "collection":
        kind = "view" if collection.is_view else "timeseries collection"
        raise CommandError(
            ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"Namespace {ns} is a {kind}, not a collection"
        )
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
        error.executing = True
        raise error.during(while_aggregating(ctx, ns)) from None


def _check_stream_concern(request: Mapping[str, Any]) -> None:
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
    variables = {**(request.get("let") or {}), **ctx.builtins()}
    scope = Scope(fold=fold_of(request.get("collation")), variables=variables, failures=[])
    run = compile_optimized([stage for stage in stages if SPLIT not in stage], scope)
    # After the compilation: a stage that is unknown, or malformed, is reported as that.
    for name, stage in zip(names, stages, strict=True):
        if name not in _ALLOWED and not adds_fields(stage):
            raise CommandError(
                ErrorCode.ILLEGAL_OPERATION, f"{name} is not permitted in a $changeStream pipeline"
            )
    return run, splits
