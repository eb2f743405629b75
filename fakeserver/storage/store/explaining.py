"""A plan as `explain` is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import MaxKey, MinKey

from fakeserver.storage.plans.bounds import End
from fakeserver.storage.plans.index_keys import sign_of
from fakeserver.storage.plans.planning import covers, residue
from fakeserver.storage.port.engine import Explanation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.storage.plans.bounds import Interval
    from fakeserver.storage.plans.planning import Plan
    from fakeserver.storage.port.engine import Document, Query
    from fakeserver.storage.store.collection_state import CollectionState


def explained(collection: CollectionState, plan: Plan, query: Query) -> Explanation:
    """Return what a plan is, without the figures of a run."""
    left = residue(plan, query.filter)
    if plan.index is None:
        branches = tuple(explained(collection, branch, type(query)(each)) for branch, each in plan.branches)
        return Explanation(
            backwards=plan.backwards,
            is_sorted=plan.is_sorted,
            branches=branches,
            of_document=_without_or(left.of_document) if branches else left.of_document,
        )
    if plan.index.is_ordered:
        collection.prepare(plan.index)  # only then is it known whether it is multikey
    return Explanation(
        index=plan.spec,
        bounds=plan.shown_bounds(),
        ends=_ends(plan) if plan.is_one_range and plan.span is None else None,
        backwards=plan.backwards,
        is_sorted=plan.is_sorted,
        arrays=plan.index.arrays,
        of_key=left.of_key,
        of_document=left.of_document,
        covers=covers(plan, query),
    )


def _without_or(wanted: Document) -> Document:
    """Return what is left of a filter beside the `$or` whose branches have been read."""
    parts = wanted.get("$and", [wanted])
    first = next(each for each in parts if "$or" in each)
    rest = [each for each in parts if each is not first]
    return {"$and": rest} if len(rest) > 1 else next(iter(rest), {})


def _ends(plan: Plan) -> tuple[tuple[Document, bool], tuple[Document, bool]]:
    """Return the first and the last key of a plan's one range, and whether each is included."""
    assert plan.spec is not None
    begin: dict[str, Any] = {}
    end: dict[str, Any] = {}
    included = [True, True]
    for number, (name, kind) in enumerate(plan.spec.key.items()):
        down = ((sign_of(kind) or 1) < 0) != plan.backwards
        allowed = plan.bounds[number] if number < len(plan.bounds) else None
        low, high, low_included, high_included = _edges(allowed)
        begin[name], end[name] = (high, low) if down else (low, high)
        for side, each in enumerate((high_included, low_included) if down else (low_included, high_included)):
            included[side] = included[side] and each
    return (begin, included[0]), (end, included[1])


def _edges(allowed: Sequence[Interval] | None) -> tuple[Any, Any, bool, bool]:
    if not allowed:
        return MinKey(), MaxKey(), True, True
    low, high = (end.value if isinstance(end, End) else end for end in allowed[0].ends)
    return low, high, allowed[0].low_included, allowed[0].high_included
