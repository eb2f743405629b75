"""The explain command, in outline: which plan a server would choose, and how many documents it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.reading import query_of
from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from fakeserver.storage.engine import Namespace
from fakeserver.storage.planning import uses_id_index
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Document, Query

table = CommandTable()

_EXPLAINABLE: Final = frozenset(
    {"find", "count", "distinct", "aggregate", "update", "delete", "findAndModify"}
)
_VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")


@table.command(
    "explain",
    kind="read",
    fields=Fields.of(Field("explain", "object"), Field("verbosity", "string", choices=_VERBOSITIES)),
)
def explain(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return how a command would be run."""
    command = request["explain"]
    name = next(iter(command), "")
    if name not in _EXPLAINABLE:
        raise CommandError(ErrorCode.COMMAND_NOT_FOUND, f"Explain failed due to unknown command: {name}")
    ns = Namespace(ctx.db, str(first_argument(command)))
    verbosity = request.get("verbosity", "allPlansExecution")
    return described(ctx, ns, command, _filter(name, command), verbosity)


def explain_aggregate(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any]) -> Reply:
    """Return how an aggregate with `explain: true` would be run."""
    return described(ctx, ns, request, _filter("aggregate", request), "queryPlanner")


def _filter(name: str, command: Mapping[str, Any]) -> Mapping[str, Any]:
    if name == "aggregate":
        first = command["pipeline"][0] if command.get("pipeline") else {}
        return first.get("$match") or {}
    if name in {"update", "delete"}:
        statement = command[f"{name}s"][0]
        return statement.get("q") or {}
    return command.get("filter") or command.get("query") or {}


def described(
    ctx: CommandContext, ns: Namespace, command: Mapping[str, Any], wanted: Mapping[str, Any], verbosity: str
) -> Reply:
    """Return the outline of an explanation."""
    query = query_of(ctx, command, ctx.catalog.get(ns), filter=wanted, sort=command.get("sort"))
    reply: Reply = {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": str(ns),
            "parsedQuery": dict(wanted),
            "indexFilterSet": False,
            "maxIndexedOrSolutionsReached": False,
            "maxIndexedAndSolutionsReached": False,
            "maxScansToExplodeReached": False,
            "winningPlan": {"isCached": False, **_plan(query)},
            "rejectedPlans": [],
        },
    }
    if verbosity != "queryPlanner":
        found = len(ctx.catalog.engine.find(ns, query))
        examined = found if _plan(query)["stage"] != "COLLSCAN" else ctx.catalog.engine.stats(ns).count
        reply["executionStats"] = {
            "executionSuccess": True,
            "nReturned": found,
            "executionTimeMillis": 0,
            "totalKeysExamined": found if examined == found else 0,
            "totalDocsExamined": examined,
        }
    shown = {name: value for name, value in command.items() if name not in {"lsid", "$clusterTime"}}
    host, _, port = ctx.node.address.rpartition(":")
    return reply | {"command": shown, "serverInfo": {"host": host, "port": int(port)}}


def _plan(query: Query) -> Document:
    plan: Document
    if list(query.filter) == ["_id"] and not isinstance(query.filter["_id"], dict):
        plan = {"stage": "IDHACK"}
    elif uses_id_index(query):
        scan = {"stage": "IXSCAN", "keyPattern": {"_id": 1}, "indexName": "_id_", "direction": "forward"}
        plan = {"stage": "FETCH", "inputStage": scan}
    else:
        plan = {"stage": "COLLSCAN", "filter": dict(query.filter), "direction": "forward"}
    if query.sort:
        plan = {"stage": "SORT", "sortPattern": dict(query.sort), "inputStage": plan}
    return plan
