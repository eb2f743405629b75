"""The explain command: the plan of a command, and how much it examines.

Behaviour: It explains find, count, distinct, aggregate, update, delete and findAndModify (20 for any other
command, 59 for an unknown one) of its own database (73 for a `$db` of another), checks the fields of the
explained command, and changes nothing. Updates and deletes have one statement (16). A command on a view is
explained as the pipeline that it becomes; what a query can do of a pipeline's head (`$match`, `$sort`,
`$skip`, `$limit`, in this order) stands in `$cursor`. Verbosities but `queryPlanner` run the query and count
keys and documents. A hint that names no index is refused with 2, as when the command runs. An `$or` is read
by the indexes of its branches; a projection of nothing but fields of an index (PROJECTION_COVERED) and a
count within bounds (COUNT_SCAN) read no document. A hashed, wildcard or geographic index is the plan of a
condition that it serves.

Versions: Since 8.0 an equality that finds one document is shown as an EXPRESS stage: by `_id`, and for reads
by another index where it is unique or one document is enough; with a projection since 9.0.

Not modelled: No plan is tried before it is chosen: `rejectedPlans` are those of the other indexes that could
serve, and `allPlansExecution` shows what each comes to in the end, up to 101 documents. `isCached` is false,
`executionTimeMillis` 0. There is neither `works` nor memory in a stage, no `explainVersion` 2, no stage for a
mongos or a shard. `queryShapeHash`, `planCacheShapeHash` and `planCacheKey` are equal where a server's are,
and have other values. mapReduce and bulkWrite are not explained.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.commands.queries import output_stages
from fakeserver.commands.queries.count import limit_of
from fakeserver.commands.queries.distinct import index_to_scan
from fakeserver.commands.queries.find import check_bounds
from fakeserver.commands.queries.plan_cache import plan_hash, query_hash
from fakeserver.commands.queries.reading import (
    check_hint,
    collation_of,
    indexes_of,
    query_of,
    reader,
    variables,
    view_of,
)
from fakeserver.commands.queries.source_stages import SOURCES
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, check_inner_db, first_argument
from fakeserver.profile import WIRE_60, WIRE_80, WIRE_90
from fakeserver.storage.plans.bounds import conjuncts, parsed
from fakeserver.storage.plans.index_keys import is_ordered, is_wildcard
from fakeserver.storage.plans.search_rules import is_served_by, metadata_of_pipeline
from fakeserver.storage.port.engine import Namespace, Query, Scope
from fakeserver.storage.stages.lookup import DOCUMENTS
from fakeserver.storage.stages.pipeline_stages import compile_optimized, stage_name
from fakeserver.storage.values.collation import fold_of
from fakeserver.storage.values.paths import prefixes
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.sorting import check_sort
from fakeserver.storage.values.types import INT64_MAX, SCALARS
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document, Explanation
    from fakeserver.storage.store.catalog import Collection


table = CommandTable()

_EXPLAINABLE: Final = frozenset(
    {"find", "count", "distinct", "aggregate", "update", "delete", "findAndModify"}
)
_VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")
_UNRETURNED: Final = frozenset({"update", "delete", "count"})
"""The commands that return no documents."""
_PUSHED: Final = {"$match": "filter", "$sort": "sort", "$skip": "skip", "$limit": "limit"}
"""The stages at the head of a pipeline that are run as a query, in this order, with its parts."""


_MEMORY: Final = 100 * 1024 * 1024
_PARAMETERS: Final = {
    "internalQueryFacetBufferSizeBytes": _MEMORY,
    "internalQueryFacetMaxOutputDocSizeBytes": _MEMORY,
    "internalLookupStageIntermediateDocumentMaxSizeBytes": _MEMORY,
    "internalDocumentSourceGroupMaxMemoryBytes": _MEMORY,
    "internalQueryMaxBlockingSortMemoryUsageBytes": _MEMORY,
    "internalQueryProhibitBlockingMergeOnMongoS": 0,
    "internalQueryMaxAddToSetBytes": _MEMORY,
    "internalDocumentSourceSetWindowFieldsMaxMemoryBytes": _MEMORY,
    "internalQueryFrameworkControl": "trySbeRestricted",
}
"""The parameters that decide how a query is run, as a server shows them with every plan."""


class _Statement(NamedTuple):
    """The query of a command, and the stages of a pipeline that run on its results."""

    name: str
    options: Mapping[str, Any]
    filter: Mapping[str, Any]
    parts: Mapping[str, Any]
    stages: Sequence[Mapping[str, Any]] = ()


@table.command(
    "explain",
    kind="read",
    fields=Fields.of(Field("explain", "object"), Field("verbosity", "string", choices=_VERBOSITIES)),
)
def explain(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return how a command would be run."""
    command = request["explain"]
    check_inner_db(command, ctx.db)
    name = next(iter(command), "")
    spec = ctx.node.commands.get(name)
    if spec is None:
        raise CommandError(ErrorCode.COMMAND_NOT_FOUND, f"Explain failed due to unknown command: {name}")
    if spec.name not in _EXPLAINABLE:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"Cannot explain cmd: {name}")
    # The explained command never passes the pipeline's parser, so its fields are checked here.
    if spec.fields is not None:
        spec.fields.check_command(command)
    ns = Namespace(ctx.db, str(first_argument(command)))
    return described(ctx, ns, command, spec.name, request.get("verbosity", "allPlansExecution"))


def explain_aggregate(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any]) -> Reply:
    """Return how an aggregate with `explain: true` would be run."""
    return described(ctx, ns, request, "aggregate", "queryPlanner")


def _statement(name: str, command: Mapping[str, Any]) -> _Statement:
    """Return what a command would read. Raises `CommandError` for a command of several statements."""
    if name in {"update", "delete"}:
        statements = command[f"{name}s"]
        if len(statements) != 1:
            raise CommandError(ErrorCode.INVALID_LENGTH, "explained write batches must be of size 1")
        (only,) = statements
        many = only.get("multi") if name == "update" else only["limit"] == 0
        return _Statement(name, only, only["q"], {"sort": only.get("sort"), "limit": 0 if many else 1})
    wanted = command.get("query") or command.get("filter") or {}
    parts: dict[str, Any] = {"sort": command.get("sort")}
    if name == "findAndModify":
        kind = "findAndDelete" if command.get("remove", False) else "findAndUpdate"
        return _Statement(kind, command, wanted, {**parts, "limit": 1})
    limit = limit_of(command) if name == "count" else abs(command.get("limit", 0))
    parts |= {"skip": command.get("skip", 0), "limit": limit}
    if name == "find":
        parts |= {
            "projection": command.get("projection"),
            "minimum": command.get("min") or None,
            "maximum": command.get("max") or None,
            "return_key": command.get("returnKey", False),
            "show_record_id": command.get("showRecordId", False),
        }
    return _Statement(name, command, wanted, parts)


def _pipeline(command: Mapping[str, Any], pipeline: Sequence[Mapping[str, Any]]) -> _Statement:
    parts: dict[str, Any] = {}
    rest = list(pipeline)
    for stage, part in _PUSHED.items():
        if rest and stage in rest[0]:
            parts[part] = rest.pop(0)[stage]
    return _Statement("aggregate", command, parts.pop("filter", {}), parts, rest)


def described(
    ctx: CommandContext, ns: Namespace, command: Mapping[str, Any], name: str, verbosity: str
) -> Reply:
    """Return the plan of a command, and what it comes to."""
    if name == "aggregate" and any(stage_name(each) in SOURCES for each in command["pipeline"][:1]):
        return {**_of_source(ctx, ns, command), **_surroundings(ctx, ns, command, name)}
    source, stages, collection = ctx.catalog.resolve(ns)
    view = view_of(ctx, ns, command, command["pipeline"] if name == "aggregate" else ())
    if name == "aggregate" or view is not None:
        pipeline = [*stages, *_as_pipeline(name, command)]
        # What writes its results is explained without writing them.
        names = [stage_name(each) for each in pipeline]
        read = pipeline[:-1] if names and names[-1] in output_stages.NAMES else pipeline
        scope = _scope(ctx, command, read, view or collection)
        compile_optimized(read, scope)
        if read is not pipeline:
            output_stages.parse(ctx, ns, command, pipeline[-1])
        statement = _pipeline(command, pipeline)
    else:
        statement = _statement(name, command)
    if statement.parts.get("sort"):
        check_sort(statement.parts["sort"], natural=True)
    hint = check_hint(collection, statement.options.get("hint"), source, statement.filter)
    if name == "distinct":
        hint = hint or index_to_scan(collection, command)
    if name == "find":
        check_bounds(command, hint, collection)
    query = query_of(
        ctx, statement.options, collection, view=view, filter=statement.filter, hint=hint, **statement.parts
    )
    # No other verbosity changes data either: an explained write finds its documents and leaves them.
    run = verbosity != "queryPlanner"
    explanation = ctx.catalog.engine.explain(source, query, run=run)
    all_plans = verbosity == "allPlansExecution"
    cursor = _cursor(ctx, source, statement, query, explanation, run=run, all_plans=all_plans)
    around = _surroundings(ctx, ns, command, name)
    if statement.stages:
        stages = [{"$cursor": cursor}, *({**stage} for stage in statement.stages)]
        return {"explainVersion": "1", "stages": stages, **around}
    return {"explainVersion": "1", **cursor, **around}


def _of_source(ctx: CommandContext, ns: Namespace, command: Mapping[str, Any]) -> Reply:
    """Return the plan of a pipeline that reads no collection: its stages."""
    pipeline: Sequence[Mapping[str, Any]] = command["pipeline"]
    rest = pipeline[1:]
    if rest and stage_name(rest[-1]) in output_stages.NAMES:
        output_stages.parse(ctx, ns, command, rest[-1])
        rest = rest[:-1]
    scope = _scope(ctx, command, rest, None)
    compile_optimized(rest, scope)
    if stage_name(pipeline[0]) == DOCUMENTS:
        SOURCES[DOCUMENTS](ctx, ns, pipeline[0][DOCUMENTS])
    return {"explainVersion": "1", "stages": [{**stage} for stage in pipeline]}


def _surroundings(ctx: CommandContext, ns: Namespace, command: Mapping[str, Any], name: str) -> Document:
    """Return what an explanation says of the command and the server."""
    shown = {field: value for field, value in command.items() if field not in {"lsid", "$clusterTime"}}
    host, _, port = ctx.node.address.rpartition(":")
    around: Document = {"command": shown, "serverInfo": {"host": host, "port": int(port)}}
    if ctx.node.profile.max_wire_version >= WIRE_60:
        around["serverParameters"] = {**_PARAMETERS}
    if ctx.node.profile.max_wire_version >= WIRE_80:
        around["queryShapeHash"] = query_hash(command, name, ns.db)
    return around


def _hashes(ctx: CommandContext, statement: _Statement, query: Query, winning: Document) -> Document:
    """Return the hashes of a query's shape and of its plan; a query without a plan has none."""
    if winning["stage"] == "IDHACK" or winning["stage"].startswith("EXPRESS"):
        return {}
    shape = plan_hash(query.filter, query.sort, query.projection, query.collation, statement.stages)
    names = ["queryHash"]
    if ctx.node.profile.max_wire_version >= WIRE_80:
        names.append("planCacheShapeHash")
    return {**dict.fromkeys(names, shape), "planCacheKey": shape}


def _scope(
    ctx: CommandContext,
    command: Mapping[str, Any],
    pipeline: Sequence[Mapping[str, Any]],
    collection: Collection | None,
) -> Scope:
    """Return the surroundings in which a pipeline is only compiled."""
    metadata = metadata_of_pipeline(pipeline)
    collation = collation_of(command, collection)
    return Scope(
        fold_of(collation) if collation else None,
        variables={**(variables(ctx, command.get("let")) or {}), **ctx.builtins()},
        read=reader(ctx, ctx.db),
        meta={} if metadata is None else metadata.readers(),
        make_id=ctx.object_id,
        scripts=ctx.scripts,
        indexes=indexes_of(collection),
        release=ctx.node.profile.max_wire_version,
        failures=[],
    )


def _as_pipeline(name: str, command: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if name == "aggregate":
        return list(command["pipeline"])
    stages: list[Mapping[str, Any]] = [{"$match": command.get("filter") or command.get("query") or {}}]
    pairs = (("sort", "$sort"), ("skip", "$skip"), ("limit", "$limit"), ("projection", "$project"))
    return stages + [{stage: command[part]} for part, stage in pairs if command.get(part)]


def _cursor(
    ctx: CommandContext,
    ns: Namespace,
    statement: _Statement,
    query: Query,
    explanation: Explanation,
    *,
    run: bool,
    all_plans: bool = False,
) -> Document:
    release = ctx.node.profile.max_wire_version
    explained = ExplainedCommand(
        statement.name,
        query,
        statement.options.get("key"),
        batch_size=statement.options.get("batchSize", 0) if statement.name == "find" else 0,
        may_be_express=release >= WIRE_80,
        covered_express=release >= WIRE_90,
    )
    explanation = examined(explained, explanation)
    winning = tree(explained, explanation)
    shown: Document = {
        "queryPlanner": {
            "namespace": str(ns),
            "parsedQuery": parsed(query.filter),
            "indexFilterSet": query.allowed is not None,
            **_hashes(ctx, statement, query, winning),
            "maxIndexedOrSolutionsReached": False,
            "maxIndexedAndSolutionsReached": False,
            "maxScansToExplodeReached": False,
            "winningPlan": {"isCached": False, **winning},
            "rejectedPlans": [tree(explained, other) for other in explanation.others],
        }
    }
    if run:
        shown["executionStats"] = {
            "executionSuccess": True,
            "nReturned": 0 if statement.name in _UNRETURNED else explanation.returned,
            "executionTimeMillis": 0,
            "totalKeysExamined": explanation.keys,
            "totalDocsExamined": explanation.documents,
            "executionStages": tree(explained, explanation, counted=True),
        }
    if all_plans:
        shown["executionStats"]["allPlansExecution"] = [
            tried(explained, each, place)
            for place, each in enumerate((explanation, *explanation.others))
            if explanation.others
        ]
    return shown


_TRIED: Final = 101
"""The documents that a candidate finds at most before one is chosen."""


def tried(command: ExplainedCommand, explanation: Explanation, place: int) -> Document:
    """Return what a candidate came to while it was tried; the one that was chosen has the best score."""
    returned = min(explanation.returned, _TRIED)
    return {
        "nReturned": returned,
        "executionTimeMillisEstimate": 0,
        "totalKeysExamined": min(explanation.keys, _TRIED),
        "totalDocsExamined": min(explanation.documents, _TRIED),
        "score": 1.0002 if place else 2.0002,
        "executionStages": tree(command, explanation, counted=True),
    }


# The stages of a plan as explain shows them, made from the engine's explanation.
#
# The tree is built from the inside: the stages that read documents, then those that make the command's result
# of them, the last outermost. With `counted`, each stage also says what it returned and examined.


_SORT_MEMORY: Final = 104_857_600
_NEAREST: Final = ("GEO_NEAR_2D", "GEO_NEAR_2DSPHERE")
_WRITES: Final = {
    "update": "UPDATE",
    "delete": "DELETE",
    "findAndUpdate": "UPDATE",
    "findAndDelete": "DELETE",
}


_WOULD: Final = {"UPDATE": "nWouldModify", "DELETE": "nWouldDelete"}

_EXPRESS: Final = frozenset({"find", "aggregate", "update", "delete"})


class ExplainedCommand(NamedTuple):
    """The explained command: its name, its query, the field of a `distinct`, and what its release has.

    `batch_size` is that of a find; `covered_express` says that an equality may be answered by its key alone.
    """

    name: str
    query: Query
    key: str | None = None
    batch_size: int = 0
    may_be_express: bool = False
    covered_express: bool = False


def tree(command: ExplainedCommand, explanation: Explanation, *, counted: bool = False) -> Document:
    """Return the stages of a plan, the last one outermost; `counted` with what each came to."""
    plan = _around(command, explanation, _source(command, explanation))
    return _counted(plan, explanation) if counted else plan


def examined(command: ExplainedCommand, explanation: Explanation) -> Explanation:
    """Return an explanation with what the command itself reads: a count needs no documents for its keys."""
    if command.name != "count":
        return explanation
    source = _source(command, explanation)
    if source["stage"] == "RECORD_STORE_FAST_COUNT":
        return replace(explanation, keys=0, documents=0)
    if source["stage"] == "COUNT_SCAN":
        return replace(explanation, keys=explanation.keys + 1, documents=0)  # it looks behind its last key
    return replace(explanation, documents=0) if source["stage"] in {"IXSCAN", "OR"} else explanation


def _filtered(wanted: Mapping[str, Any]) -> Document:
    return {"filter": parsed(wanted)} if wanted else {}


def _source(command: ExplainedCommand, explanation: Explanation) -> Document:
    """Return the stages that read documents."""
    query = command.query
    if not explanation.exists:
        return {"stage": "EOF", "type": "nonExistentNamespace"}
    if command.name == "count" and not query.filter and query.hint is None:
        return {"stage": "RECORD_STORE_FAST_COUNT"}
    if explanation.branches:
        return _branched(command, explanation)
    if explanation.index is None:
        direction = "backward" if explanation.backwards else "forward"
        return {"stage": "COLLSCAN", **_filtered(query.filter), "direction": direction}
    if command.may_be_express and _is_express(command, explanation):
        return _express(command, explanation)
    if command.name not in {"count", "distinct"} and _is_id_lookup(query):
        return {"stage": "IDHACK"}
    if is_served_by(query.filter, explanation.index):
        return _search(query, explanation)
    return _by_index(command, explanation)


def _by_index(command: ExplainedCommand, explanation: Explanation) -> Document:
    """Return the stages that read an index in its bounds, and the documents if need be."""
    left = _filtered(explanation.of_document)
    if command.name == "count" and not left and not explanation.of_key and explanation.ends is not None:
        (start, start_included), (end, end_included) = explanation.ends
        bounds = {
            "startKey": start,
            "startKeyInclusive": start_included,
            "endKey": end,
            "endKeyInclusive": end_included,
        }
        return {"stage": "COUNT_SCAN", **_index(explanation), "indexBounds": bounds}
    scan = _scan(explanation)
    if explanation.covers or (command.name == "count" and not left):
        return scan
    if command.name == "distinct" and _is_distinct_scan(command, explanation):
        del scan["stage"]
        shown = {"_id": int(command.key == "_id"), str(command.key): 1}
        return {
            "stage": "PROJECTION_COVERED",
            "transformBy": shown,
            "inputStage": {"stage": "DISTINCT_SCAN", **scan},
        }
    return {"stage": "FETCH", **left, "inputStage": scan}


def _scan(explanation: Explanation) -> Document:
    return {
        "stage": "IXSCAN",
        **_filtered(explanation.of_key),
        **_index(explanation),
        "direction": "backward" if explanation.backwards else "forward",
        "indexBounds": dict(explanation.bounds),
    }


def _is_distinct_scan(command: ExplainedCommand, explanation: Explanation) -> bool:
    """Return whether the keys of an index are all values; with a filter none of them may be an element."""
    assert explanation.index is not None
    if command.key not in explanation.index.key or explanation.of_document or explanation.of_key:
        return False
    return not (explanation.arrays and command.query.filter)


def _branched(command: ExplainedCommand, explanation: Explanation) -> Document:
    """Return the stages that read the branches of an `$or`, each by its index."""
    stages = []
    for branch in explanation.branches:
        if branch.branches:
            stages.append(_branched(command, branch))
        elif branch.of_document:
            fetched = {"stage": "FETCH", **_filtered(branch.of_document), "inputStage": _scan(branch)}
            stages.append(fetched)
        else:
            stages.append(_scan(branch))
    either: Document = {"stage": "OR", "inputStages": stages}
    left = _filtered(explanation.of_document)
    if command.name == "count" and not left:
        return either
    return {"stage": "FETCH", **left, "inputStage": either}


def _search(query: Query, explanation: Explanation) -> Document:
    """Return the stages of a search by text or by distance."""
    index = _index(explanation)
    if "text" in index["keyPattern"].values():
        left = {name: value for name, value in query.filter.items() if name != "$text"}
        scan = {"stage": "IXSCAN", **index, "direction": "forward", "indexBounds": dict(explanation.bounds)}
        fetch = {"stage": "FETCH", **_filtered(left), "inputStage": scan}
        return {"stage": "TEXT_MATCH", "indexName": index["indexName"], "inputStage": fetch}
    kind = "2D" if "2d" in index["keyPattern"].values() else "2DSPHERE"
    return {"stage": f"GEO_NEAR_{kind}", **index}


def _index(explanation: Explanation) -> Document:
    index = explanation.index
    assert index is not None
    pattern = index.key if explanation.pattern is None else explanation.pattern
    shown = {
        "keyPattern": dict(pattern),
        "indexName": index.name,
        "isMultiKey": bool(explanation.arrays),
        "multiKeyPaths": {
            name: [each for each in prefixes(name) if each in explanation.arrays] for name in pattern
        },
        "isUnique": index.unique,
        "isSparse": index.sparse,
        "isPartial": "partialFilterExpression" in index.document,
        "indexVersion": index.document.get("v", 2),
    }
    if not is_ordered(index) and not is_wildcard(index.key):
        del shown["multiKeyPaths"]
    return shown


def _is_id_lookup(query: Query) -> bool:
    if list(query.filter) != ["_id"] or query.hint is not None or query.skip or query.show_record_id:
        return False
    return type(query.filter["_id"]) in SCALARS and query.minimum is None and query.maximum is None


def _is_express(command: ExplainedCommand, explanation: Explanation) -> bool:
    """Return whether one equality finds one document, without a plan.

    By `_id` for writes too; by another index for reads alone, where it is unique or one document is enough,
    and nothing else is asked for.
    """
    query, index = command.query, explanation.index
    assert index is not None
    if command.name not in _EXPRESS or command.batch_size or query.return_key:
        return False
    if not _is_simple(query.projection):
        return False
    if _is_id_lookup(query):
        return not query.sort
    if (
        command.name in _WRITES
        or len(query.filter) != 1
        or query.sort
        or query.skip
        or query.hint is not None
    ):
        return False
    if query.show_record_id or query.minimum is not None or query.maximum is not None:
        return False
    if query.projection and not command.covered_express:
        return False
    ((name, value),) = query.filter.items()
    if next(iter(index.key)) != name or type(value) not in SCALARS or explanation.of_document:
        return False
    return (index.unique and len(index.key) == 1) or query.limit == 1


def _express(command: ExplainedCommand, explanation: Explanation) -> Document:
    index, query = explanation.index, command.query
    assert index is not None
    stage = {"update": "EXPRESS_UPDATE", "delete": "EXPRESS_DELETE"}.get(command.name, "EXPRESS_IXSCAN")
    shown: Document = {
        "stage": stage,
        "keyPattern": show_document(index.key),
        "indexName": index.name,
    }
    if query.projection and stage == "EXPRESS_IXSCAN":
        shown["projection"] = dict(query.projection)
        shown["projectionCovered"] = explanation.covers
    return shown


def _is_simple(projection: Any) -> bool:
    return all(
        "." not in name and isinstance(value, bool | int | float)
        for name, value in (projection or {}).items()
    )


def _around(command: ExplainedCommand, explanation: Explanation, plan: Document) -> Document:
    """Return the stages that make the command's result of documents."""
    query = command.query
    if plan["stage"] == "EOF" or plan["stage"].startswith("EXPRESS"):
        return plan
    if command.name == "count":
        return _subplan(query, {"stage": "COUNT", "inputStage": plan})
    sorts = bool(query.sort) and not explanation.is_sorted
    if sorts:
        bound = {"limitAmount": min(query.skip + query.limit, INT64_MAX)} if query.limit else {}
        plan = {
            "stage": "SORT",
            "sortPattern": dict(query.sort or {}),
            "memLimit": _SORT_MEMORY,
            **bound,
            "type": "simple",
            "inputStage": plan,
        }
    if query.skip:
        plan = {"stage": "SKIP", "skipAmount": query.skip, "inputStage": plan}
    if query.projection:
        kind = "PROJECTION_SIMPLE" if _is_simple(query.projection) else "PROJECTION_DEFAULT"
        kind = "PROJECTION_COVERED" if explanation.covers else kind
        plan = {"stage": kind, "transformBy": dict(query.projection), "inputStage": plan}
    if query.return_key:
        plan = {"stage": "RETURN_KEY", "inputStage": plan}
    if query.limit and not sorts and command.name not in _WRITES:
        plan = {"stage": "LIMIT", "limitAmount": query.limit, "inputStage": plan}
    plan = _subplan(query, plan)
    if command.name in _WRITES:
        return {"stage": _WRITES[command.name], "inputStage": plan}
    return plan


def _subplan(query: Query, plan: Document) -> Document:
    """Return a plan as that of a filter which is one `$or`: its branches are planned apart."""
    found = list(conjuncts(query.filter))
    is_rooted = len(found) == 1 and isinstance(found[0], dict) and "$or" in found[0]
    return {"stage": "SUBPLAN", "inputStage": plan} if is_rooted else plan


def _counted(plan: Document, explanation: Explanation) -> Document:
    """Return stages with how much each returned and examined."""
    stage = plan["stage"]
    shown = {name: value for name, value in plan.items() if name not in {"inputStage", "inputStages"}}
    returned = explanation.keys if stage == "IXSCAN" and not explanation.of_key else explanation.returned
    shown["nReturned"] = 0 if stage == "COUNT" else returned
    if stage in _WOULD:
        shown["nReturned"] = 0
        shown[_WOULD[stage]] = explanation.returned
    if stage == "COUNT":
        shown["nCounted"] = explanation.returned
    if stage in {"IXSCAN", "IDHACK", "DISTINCT_SCAN", "EXPRESS_IXSCAN", "COUNT_SCAN", *_NEAREST}:
        shown["keysExamined"] = explanation.keys
    if stage in {"COLLSCAN", "FETCH", "IDHACK", "EXPRESS_IXSCAN", *_NEAREST}:
        shown["docsExamined"] = explanation.documents
    if "inputStage" in plan:
        shown["inputStage"] = _counted(plan["inputStage"], explanation)
    if "inputStages" in plan:
        pairs = zip(plan["inputStages"], explanation.branches, strict=True)
        shown["inputStages"] = [_counted(each, branch) for each, branch in pairs]
    return shown
