"""The explain command: the plan of a command, and how much it examines.

Behaviour: It explains find, count, distinct, aggregate, update, delete and findAndModify (59 for any other)
of its own database (73 for a `$db` of another), checks the fields of the explained command, and changes
nothing. Updates and deletes have one statement (16). A command on a view is explained as the pipeline that it
becomes; what a query can do of a pipeline's head (`$match`, `$sort`, `$skip`, `$limit`, in this order) stands
in `$cursor`. Verbosities but `queryPlanner` run the query and count keys and documents. A hint that names no
index is refused with 2, as when the command runs. An `$or` is read by the indexes of its branches; a
projection of nothing but fields of an index (PROJECTION_COVERED) and a count within bounds (COUNT_SCAN) read
no document.

Versions: Since 8.0 an equality that finds one document is shown as an EXPRESS stage: by `_id`, and for reads
by another index where it is unique or one document is enough; with a projection since 9.0.

Not modelled: The planner has one plan: `rejectedPlans` is empty, `isCached` false, `executionTimeMillis` 0,
and `allPlansExecution` shows what `executionStats` does. There is neither `works` nor memory in a stage, no
`explainVersion` 2, no stage for a mongos or a shard. mapReduce and bulkWrite are not explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.commands.queries.count import limit_of
from fakeserver.commands.queries.distinct import index_to_scan
from fakeserver.commands.queries.find import check_bounds
from fakeserver.commands.queries.plan_stages import ExplainedCommand, examined, parsed, tree
from fakeserver.commands.queries.reading import check_hint, indexes_of, query_of, reader, view_of
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, check_inner_db, first_argument
from fakeserver.profile import WIRE_80, WIRE_90
from fakeserver.storage.plans.search_rules import metadata_of_pipeline
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.port.scope import Scope
from fakeserver.storage.stages.pipeline_stages import compile_pipeline
from fakeserver.storage.values.sorting import check_sort
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
    if spec is None or spec.name not in _EXPLAINABLE:
        raise CommandError(ErrorCode.COMMAND_NOT_FOUND, f"Explain failed due to unknown command: {name}")
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
    source, stages, collection = ctx.catalog.resolve(ns)
    view = view_of(ctx, ns, command, command["pipeline"] if name == "aggregate" else ())
    if name == "aggregate" or view is not None:
        pipeline = [*stages, *_as_pipeline(name, command)]
        compile_pipeline(pipeline, _scope(ctx, pipeline, collection))
        statement = _pipeline(command, pipeline)
    else:
        statement = _statement(name, command)
    if statement.parts.get("sort"):
        check_sort(statement.parts["sort"])
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
    cursor = _cursor(ctx, source, statement, query, explanation, run=run)
    shown = {name: value for name, value in command.items() if name not in {"lsid", "$clusterTime"}}
    host, _, port = ctx.node.address.rpartition(":")
    around = {"command": shown, "serverInfo": {"host": host, "port": int(port)}}
    if statement.stages:
        stages = [{"$cursor": cursor}, *({**stage} for stage in statement.stages)]
        return {"explainVersion": "1", "stages": stages, **around}
    return {"explainVersion": "1", **cursor, **around}


def _scope(
    ctx: CommandContext, pipeline: Sequence[Mapping[str, Any]], collection: Collection | None
) -> Scope:
    """Return the surroundings in which a pipeline is only compiled."""
    metadata = metadata_of_pipeline(pipeline)
    return Scope(
        variables={"NOW": ctx.utc()},
        read=reader(ctx, ctx.db),
        meta={} if metadata is None else metadata.readers(),
        make_id=ctx.object_id,
        scripts=ctx.scripts,
        indexes=indexes_of(collection),
        release=ctx.node.profile.max_wire_version,
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
            "indexFilterSet": False,
            "maxIndexedOrSolutionsReached": False,
            "maxIndexedAndSolutionsReached": False,
            "maxScansToExplodeReached": False,
            "winningPlan": {"isCached": False, **winning},
            "rejectedPlans": [],
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
    return shown
