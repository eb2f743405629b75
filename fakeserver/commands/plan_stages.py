"""The stages of a plan as explain shows them, made from the engine's explanation.

The tree is built from the inside: the stages that read documents, then those that make the command's result
of them, the last outermost. With `counted`, each stage also says what it returned and examined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.storage.printing import show_document
from fakeserver.storage.search_rules import is_served_by
from fakeserver.storage.values import INT64_MAX, SCALARS

if TYPE_CHECKING:
    from fakeserver.storage.engine import Document, Explanation, IndexSpec, Query

_SORT_MEMORY: Final = 104_857_600
_NEAREST: Final = ("GEO_NEAR_2D", "GEO_NEAR_2DSPHERE")
_WRITES: Final = {
    "update": "UPDATE",
    "delete": "DELETE",
    "findAndUpdate": "UPDATE",
    "findAndDelete": "DELETE",
}


class ExplainedCommand(NamedTuple):
    """The explained command: its name, its query, and the field of a `distinct`."""

    name: str
    query: Query
    key: str | None = None
    may_be_express: bool = False


def tree(command: ExplainedCommand, explanation: Explanation, *, counted: bool = False) -> Document:
    """Return the stages of a plan, the last one outermost; `counted` with what each came to."""
    plan = _around(command, explanation, _source(command, explanation))
    return _counted(plan, explanation) if counted else plan


def _source(command: ExplainedCommand, explanation: Explanation) -> Document:
    """Return the stages that read documents."""
    query = command.query
    if not explanation.exists:
        return {"stage": "EOF", "type": "nonExistentNamespace"}
    direction = "backward" if explanation.backwards else "forward"
    if explanation.index is None:
        shown = {"filter": dict(query.filter)} if query.filter else {}
        return {"stage": "COLLSCAN", **shown, "direction": direction}
    if (
        command.may_be_express
        and command.name in {"find", "update", "delete"}
        and _is_express(query, explanation.index)
    ):
        pattern = show_document(explanation.index.key)
        return {"stage": "EXPRESS_IXSCAN", "keyPattern": pattern, "indexName": explanation.index.name}
    if _is_id_lookup(query):
        return {"stage": "IDHACK"}
    if is_served_by(query.filter, explanation.index):
        return _search(query, explanation)
    scan = {
        "stage": "IXSCAN",
        **_index(explanation),
        "direction": direction,
        "indexBounds": dict(explanation.bounds),
    }
    left = {name: value for name, value in query.filter.items() if name not in explanation.covered}
    if command.name == "distinct" and command.key in explanation.index.key and not left:
        return {**scan, "stage": "DISTINCT_SCAN"}
    return {"stage": "FETCH", **({"filter": left} if left else {}), "inputStage": scan}


def _search(query: Query, explanation: Explanation) -> Document:
    """Return the stages of a search by text or by distance."""
    index = _index(explanation)
    if "text" in index["keyPattern"].values():
        left = {name: value for name, value in query.filter.items() if name != "$text"}
        scan = {"stage": "IXSCAN", **index, "direction": "forward", "indexBounds": dict(explanation.bounds)}
        fetch = {"stage": "FETCH", **({"filter": left} if left else {}), "inputStage": scan}
        return {"stage": "TEXT_MATCH", "indexName": index["indexName"], "inputStage": fetch}
    kind = "2D" if "2d" in index["keyPattern"].values() else "2DSPHERE"
    return {"stage": f"GEO_NEAR_{kind}", **index}


def _index(explanation: Explanation) -> Document:
    index = explanation.index
    assert index is not None
    return {
        "keyPattern": dict(index.key),
        "indexName": index.name,
        "isMultiKey": explanation.is_multikey,
        "isUnique": index.unique,
        "isSparse": index.sparse,
        "isPartial": "partialFilterExpression" in index.document,
        "indexVersion": index.document.get("v", 2),
    }


def _is_id_lookup(query: Query) -> bool:
    return list(query.filter) == ["_id"] and type(query.filter["_id"]) in SCALARS and query.hint is None


def _is_express(query: Query, index: IndexSpec) -> bool:
    """Return whether one equality finds one document: by a unique index, or because one is enough."""
    if len(query.filter) != 1 or len(index.key) != 1 or query.sort or query.skip or query.hint is not None:
        return False
    if query.return_key or query.show_record_id or query.minimum is not None or query.maximum is not None:
        return False
    ((name, value),) = query.filter.items()
    if name not in index.key or type(value) not in SCALARS or not _is_simple(query.projection):
        return False
    return index.unique or query.limit == 1


def _is_simple(projection: Any) -> bool:
    return all(
        "." not in name and isinstance(value, bool | int | float)
        for name, value in (projection or {}).items()
    )


def _around(command: ExplainedCommand, explanation: Explanation, plan: Document) -> Document:
    """Return the stages that make the command's result of documents."""
    query = command.query
    if plan["stage"] == "EXPRESS_IXSCAN":
        kind = {"update": "EXPRESS_UPDATE", "delete": "EXPRESS_DELETE"}.get(command.name)
        shown = {"projection": dict(query.projection)} if query.projection else {}
        return {**plan, **shown} if kind is None else {**plan, "stage": kind}
    if plan["stage"] == "EOF":
        return plan
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
        plan = {"stage": kind, "transformBy": dict(query.projection), "inputStage": plan}
    if query.return_key:
        plan = {"stage": "RETURN_KEY", "inputStage": plan}
    if command.name in _WRITES:
        return {"stage": _WRITES[command.name], "inputStage": plan}
    if query.limit and not sorts:
        plan = {"stage": "LIMIT", "limitAmount": query.limit, "inputStage": plan}
    return {"stage": "COUNT", "inputStage": plan} if command.name == "count" else plan


def _counted(plan: Document, explanation: Explanation) -> Document:
    """Return stages with how much each returned and examined."""
    stage = plan["stage"]
    shown = {name: value for name, value in plan.items() if name != "inputStage"}
    shown["nReturned"] = explanation.keys if stage == "IXSCAN" else explanation.returned
    if stage in {"IXSCAN", "IDHACK", "DISTINCT_SCAN", "EXPRESS_IXSCAN", *_NEAREST}:
        shown["keysExamined"] = explanation.keys
    if stage in {"COLLSCAN", "FETCH", "IDHACK", "EXPRESS_IXSCAN", *_NEAREST}:
        shown["docsExamined"] = explanation.documents
    if "inputStage" in plan:
        shown["inputStage"] = _counted(plan["inputStage"], explanation)
    return shown
