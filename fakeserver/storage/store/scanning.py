"""Selection: the documents of a collection that a query is about, and the way to find them.

Three ways, from the cheapest: everything as it lies (`part_of`), an equality with a scalar that an index
alone answers (`looked_up`), and a plan (`select`). The first two skip the compilation of the filter and the
choice of an index, which would cost more than the search. All give the stored documents, without copies.

`select` keeps an order that decides errors: the filter is compiled, searches are checked, the sort is
checked, constants are checked, and only then is a document read. Errors from there on are of a plan that
runs, which a server says ahead of the message (`CommandError.executing`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import bson

from fakeserver.errors import CommandError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.plans.planning import index_key, reading
from fakeserver.storage.plans.search_rules import check_searches
from fakeserver.storage.values.limits import check_sorted
from fakeserver.storage.values.metadata import DISTANCE
from fakeserver.storage.values.pacing import sorted_at_leisure
from fakeserver.storage.values.sorting import check_sort, key_values, sort_documents
from fakeserver.storage.values.types import INT64_MAX, MISSING, SCALARS, identity
from fakeserver.waiting.interrupts import in_one_turn, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from fakeserver.storage.plans.planning import Plan
    from fakeserver.storage.port.engine import Document, Query, Scope
    from fakeserver.storage.store.collection_state import CollectionState, Examined


def select(
    collection: CollectionState | None,
    query: Query,
    scope: Scope,
    *,
    examined: Examined | None = None,
) -> list[tuple[Hashable, Document]]:
    """Return the keys and documents that a query is about, in its order, skipped and limited.

    Raises `CommandError` for a query that is malformed. What was examined is counted in `examined`.
    """
    if collection is None:
        return _scan(None, query, scope)
    collection.readers += 1
    try:
        return _scan(collection, query, scope, examined)
    finally:
        collection.readers -= 1


def _scan(
    collection: CollectionState | None, query: Query, scope: Scope, examined: Examined | None = None
) -> list[tuple[Hashable, Document]]:
    limit = query.limit
    # The sum of two longs, where `islice` takes one.
    stop = min(query.skip + limit, INT64_MAX) if limit else None
    # What a run comes to is counted along its plan.
    keys = None if collection is None or examined is not None else looked_up(collection, query, scope)
    if collection is not None and keys is not None:
        if scope.failures:  # of a projection
            scope.check_constants()
        return [(key, collection.documents[key]) for key in keys[query.skip : stop]]
    predicate = compile_filter(query.filter, scope)
    searched = scope.metadata is not None and bool(query.filter)
    if searched:
        check_searches(query, query.filter)
    if query.sort:
        check_sort(query.sort, natural=True)
    scope.check_constants()
    if collection is None:
        return []
    plan = collection.plan(query)
    if examined is None and plan.rivals > 1:
        collection.remember(query, plan)
    pairs = interruptible(collection.read(plan, query, examined))
    matching = (pair for pair in pairs if predicate(pair[1]))
    sort = query.sort
    try:
        # `$near` has an order of its own, unless the query asks for another.
        if searched and DISTANCE in scope.meta and not sort:
            distance = scope.meta[DISTANCE]
            found = sorted_at_leisure(list(matching), lambda pair: distance(pair[1]))[query.skip : stop]
        elif plan.is_sorted or not sort:
            found = list(islice(matching, query.skip, stop))
        else:
            found = list(matching)
            if not scope.spills:
                check_sorted(document for _key, document in found)
            # Found again by identity: a sort takes documents, and a write needs their keys.
            key_of = {id(document): key for key, document in found}
            documents = sort_documents([document for _key, document in found], sort, scope.fold, scope.meta)
            found = [(key_of[id(document)], document) for document in documents][query.skip : stop]
        scope.settle()
    except CommandError as error:
        error.executing = True
        raise
    return found


def is_lookup(wanted: Mapping[str, Any]) -> bool:
    """Return whether a filter says no more than that `_id` equals a scalar."""
    return len(wanted) == 1 and type(wanted.get("_id")) in SCALARS


def is_everything(query: Query) -> bool:
    """Return whether a query wants documents as they come: no conditions, no order, nothing but a part."""
    return not (query.filter or query.sort or query.hint or query.return_key or query.show_record_id)


def part_of(collection: CollectionState, query: Query) -> list[Document]:
    """Return the documents of a query for which none has to be looked at.

    A million of them are a few milliseconds' work: no yield points.
    """
    if not query.skip and not query.limit:
        return list(collection.documents.values())
    stop = min(query.skip + query.limit, INT64_MAX) if query.limit else None
    return list(islice(collection.documents.values(), query.skip, stop))


def metadata(
    collection: CollectionState | None, query: Query, scope: Scope
) -> dict[str, Callable[[Document], Any]]:
    """Return what a projection may know of a stored document beside its fields."""

    def record_id(document: Document) -> bson.Int64:
        assert collection is not None
        return bson.Int64(collection.records[collection.key_held(document)])

    # A plan is made when the first document is asked for its key, and then kept: few projections do.
    plans: list[Plan] = []

    def index_key_of(document: Document) -> Any:
        assert collection is not None
        if not plans:
            plans.append(collection.plan(query))
        return index_key(document, plans[0]) if _has_keys(plans[0]) else MISSING

    sort = query.sort
    known: dict[str, Callable[[Document], Any]] = {"recordId": record_id, "indexKey": index_key_of}
    if sort:
        known["sortKey"] = lambda document: key_values(document, sort, scope.fold)
    return known


def index_key_reader(
    collection: CollectionState, pipeline: Sequence[Mapping[str, Any]], options: Query
) -> Callable[[Document], Any]:
    """Return the function that knows the key by which a pipeline has read a document, known by its `_id`."""
    plans: list[Plan] = []

    def index_key_of(document: Document) -> Any:
        if not plans:
            plans.append(collection.plan(reading(pipeline, options)))
        stored = collection.documents.get(identity(document["_id"])) if "_id" in document else None
        return MISSING if stored is None or not _has_keys(plans[0]) else index_key(stored, plans[0])

    return index_key_of


def _has_keys(plan: Plan) -> bool:
    return plan.index is not None and (plan.index.is_ordered or plan.service is not None)


def read_for(
    collection: CollectionState, pipeline: Sequence[Mapping[str, Any]], options: Query, scope: Scope
) -> list[Document]:
    """Return the documents for a pipeline: those which its first stages will drop may be left out."""
    wanted = reading(pipeline, options)
    keys = looked_up(collection, wanted, scope)
    if keys is not None:
        return [collection.documents[key] for key in keys]
    plan = collection.plan(wanted)
    # One step, without a yield point: a list of references.
    if plan.is_scan and not plan.backwards:
        return list(collection.documents.values())
    if plan.rivals > 1:
        collection.remember(wanted, plan)
    collection.readers += 1
    try:
        pairs = collection.read(plan, wanted)
        return [document for _key, document in interruptible(pairs)]
    finally:
        collection.readers -= 1


def matches(document: Document, query: Query, scope: Scope) -> bool:
    """Return whether a document that changed since it was found still is what a write is about."""
    with in_one_turn():
        return compile_filter(query.filter, scope)(document)


def looked_up(collection: CollectionState, query: Query, scope: Scope) -> list[Hashable] | None:
    """Return the keys of what equals a scalar, where that is all that a filter says and needs no plan."""
    wanted = query.filter
    if len(wanted) != 1 or scope.fold is not None or query.hint:
        return None
    ((path, value),) = wanted.items()
    if type(value) not in SCALARS:
        return None
    # At most one document: a sort changes nothing, and an index filter does not apply to it (IDHACK).
    if path == "_id" and collection.unique_ids:
        return [] if collection.by_id(value) is None else [identity(value)]
    return None if query.sort or query.allowed is not None else collection.equals(path, value)
