"""The stages of a plan as `explain` shows them, from what the engine tells of it."""

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


class Wanted(NamedTuple):
    """What a command asks: its name, its query, and the field of a `distinct`."""

    name: str
    query: Query
    key: str | None = None
    may_be_express: bool = False


def tree(wanted: Wanted, told: Explanation, *, counted: bool = False) -> Document:
    """Return the stages of a plan, the last one outermost; `counted` with what each came to."""
    plan = _around(wanted, told, _source(wanted, told))
    return _counted(plan, told) if counted else plan


def _source(wanted: Wanted, told: Explanation) -> Document:
    """Return the stages that read documents."""
    query = wanted.query
    if not told.exists:
        return {"stage": "EOF", "type": "nonExistentNamespace"}
    direction = "backward" if told.backwards else "forward"
    if told.index is None:
        shown = {"filter": dict(query.filter)} if query.filter else {}
        return {"stage": "COLLSCAN", **shown, "direction": direction}
    if (
        wanted.may_be_express
        and wanted.name in {"find", "update", "delete"}
        and _is_express(query, told.index)
    ):
        pattern = show_document(told.index.key)
        return {"stage": "EXPRESS_IXSCAN", "keyPattern": pattern, "indexName": told.index.name}
    if _is_id_lookup(query):
        return {"stage": "IDHACK"}
    if is_served_by(query.filter, told.index):
        return _search(query, told)
    scan = {"stage": "IXSCAN", **_index(told), "direction": direction, "indexBounds": dict(told.bounds)}
    left = {name: value for name, value in query.filter.items() if name not in told.covered}
    if wanted.name == "distinct" and wanted.key in told.index.key and not left:
        return {**scan, "stage": "DISTINCT_SCAN"}
    return {"stage": "FETCH", **({"filter": left} if left else {}), "inputStage": scan}


def _search(query: Query, told: Explanation) -> Document:
    """Return the stages of a search by text or by distance."""
    index = _index(told)
    if "text" in index["keyPattern"].values():
        left = {name: value for name, value in query.filter.items() if name != "$text"}
        scan = {"stage": "IXSCAN", **index, "direction": "forward", "indexBounds": dict(told.bounds)}
        fetch = {"stage": "FETCH", **({"filter": left} if left else {}), "inputStage": scan}
        return {"stage": "TEXT_MATCH", "indexName": index["indexName"], "inputStage": fetch}
    kind = "2D" if "2d" in index["keyPattern"].values() else "2DSPHERE"
    return {"stage": f"GEO_NEAR_{kind}", **index}


def _index(told: Explanation) -> Document:
    index = told.index
    assert index is not None
    return {
        "keyPattern": dict(index.key),
        "indexName": index.name,
        "isMultiKey": told.is_multikey,
        "isUnique": index.unique,
        "isSparse": index.sparse,
        "isPartial": "partialFilterExpression" in index.document,
        "indexVersion": index.document.get("v", 2),
    }


def _is_id_lookup(query: Query) -> bool:
    return list(query.filter) == ["_id"] and type(query.filter["_id"]) in SCALARS and query.hint is None


def _is_express(query: Query, index: IndexSpec) -> bool:
    """Whether one equality finds one document: by a unique index, or because one is enough."""
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


def _around(wanted: Wanted, told: Explanation, plan: Document) -> Document:
    """Return the stages that make of documents what a command wants."""
    query = wanted.query
    if plan["stage"] == "EXPRESS_IXSCAN":
        kind = {"update": "EXPRESS_UPDATE", "delete": "EXPRESS_DELETE"}.get(wanted.name)
        shown = {"projection": dict(query.projection)} if query.projection else {}
        return {**plan, **shown} if kind is None else {**plan, "stage": kind}
    if plan["stage"] == "EOF":
        return plan
    sorts = bool(query.sort) and not told.is_sorted
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
    if wanted.name in _WRITES:
        return {"stage": _WRITES[wanted.name], "inputStage": plan}
    if query.limit and not sorts:
        plan = {"stage": "LIMIT", "limitAmount": query.limit, "inputStage": plan}
    return {"stage": "COUNT", "inputStage": plan} if wanted.name == "count" else plan


def _counted(plan: Document, told: Explanation) -> Document:
    """Return stages with how much each returned and examined."""
    stage = plan["stage"]
    shown = {name: value for name, value in plan.items() if name != "inputStage"}
    shown["nReturned"] = told.keys if stage == "IXSCAN" else told.returned
    if stage in {"IXSCAN", "IDHACK", "DISTINCT_SCAN", "EXPRESS_IXSCAN", *_NEAREST}:
        shown["keysExamined"] = told.keys
    if stage in {"COLLSCAN", "FETCH", "IDHACK", "EXPRESS_IXSCAN", *_NEAREST}:
        shown["docsExamined"] = told.documents
    if "inputStage" in plan:
        shown["inputStage"] = _counted(plan["inputStage"], told)
    return shown
