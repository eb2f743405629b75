"""The stages of a plan as explain shows them, made from the engine's explanation.

The tree is built from the inside: the stages that read documents, then those that make the command's result
of them, the last outermost. With `counted`, each stage also says what it returned and examined.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Regex

from fakeserver.storage.plans.bounds import Clause, conjuncts
from fakeserver.storage.plans.index_keys import is_ordered
from fakeserver.storage.plans.search_rules import is_served_by
from fakeserver.storage.values.paths import prefixes
from fakeserver.storage.values.printing import regex_options, show_document
from fakeserver.storage.values.types import INT64_MAX, SCALARS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.storage.port.engine import Document, Explanation, Query

_SORT_MEMORY: Final = 104_857_600
_NEAREST: Final = ("GEO_NEAR_2D", "GEO_NEAR_2DSPHERE")
_WRITES: Final = {
    "update": "UPDATE",
    "delete": "DELETE",
    "findAndUpdate": "UPDATE",
    "findAndDelete": "DELETE",
}


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


def parsed(wanted: Mapping[str, Any]) -> Document:
    """Return a filter as `parsedQuery` shows it: each condition by its operator, all in one `$and`."""
    found = [_shown(each) if isinstance(each, Clause) else _of_trees(each) for each in conjuncts(wanted)]
    return {"$and": found} if len(found) > 1 else next(iter(found), {})


def _shown(clause: Clause) -> Document:
    name, value = clause.name, clause.value
    if name == "$regex" and isinstance(value, Regex | re.Pattern):
        options = regex_options(value)
        return {clause.path: {name: value.pattern, **({"$options": options} if options else {})}}
    return {clause.path: {name: value}}


def _of_trees(tree: Mapping[str, Any]) -> Document:
    ((name, branches),) = tree.items()
    if name in {"$or", "$nor"} and isinstance(branches, list):
        return {name: [parsed(each) for each in branches]}
    return dict(tree)


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
        return _count_scan(explanation)
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


def _count_scan(explanation: Explanation) -> Document:
    assert explanation.ends is not None
    (start, start_included), (end, end_included) = explanation.ends
    bounds = {
        "startKey": start,
        "startKeyInclusive": start_included,
        "endKey": end,
        "endKeyInclusive": end_included,
    }
    return {"stage": "COUNT_SCAN", **_index(explanation), "indexBounds": bounds}


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
    shown = {
        "keyPattern": dict(index.key),
        "indexName": index.name,
        "isMultiKey": bool(explanation.arrays),
        "multiKeyPaths": {
            name: [each for each in prefixes(name) if each in explanation.arrays] for name in index.key
        },
        "isUnique": index.unique,
        "isSparse": index.sparse,
        "isPartial": "partialFilterExpression" in index.document,
        "indexVersion": index.document.get("v", 2),
    }
    if not is_ordered(index):
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
