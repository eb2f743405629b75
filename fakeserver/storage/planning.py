"""What a query planner's choice lets a client see: the order of results, index bounds, index keys."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Decimal128, Int64, ObjectId

from fakeserver.storage.match_operators import is_operators
from fakeserver.storage.paths import exactly, split
from fakeserver.storage.sorting import sort_documents
from fakeserver.storage.values import MISSING, order, whole

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from fakeserver.storage.engine import Document, Query
    from fakeserver.storage.values import Fold


SCALARS: Final = frozenset({int, str, bool, float, bytes, dt.datetime, Binary, Decimal128, Int64, ObjectId})
"""The types of values to which nothing is equal but what `identity` tells is."""


def pinned(*filters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the paths at which every document that passes all of the filters holds a given scalar."""
    for each in filters:
        for path, condition in each.items():
            value = condition.get("$eq") if is_operators(condition) else condition
            if type(value) in SCALARS and not path.startswith("$"):
                yield path, value


def natural_direction(hint: Any) -> int | None:
    """Return 1 or -1 for a hint of `$natural`, None for any other."""
    return whole(hint["$natural"]) if isinstance(hint, dict) and "$natural" in hint else None


def uses_id_index(query: Query) -> bool:
    """Return whether the `_id` index answers a query, which makes its results come in the order of `_id`."""
    if query.hint is not None:
        return query.hint in ("_id_", {"_id": 1})
    condition = query.filter.get("_id")
    return isinstance(condition, dict) and is_operators(condition)


def in_bounds(document: Document, query: Query) -> bool:
    """Return whether a document's index key is within the query's `min` and `max` (excluded)."""
    if query.minimum is not None and _compare(document, query.minimum, query.hint) < 0:
        return False
    return query.maximum is None or _compare(document, query.maximum, query.hint) < 0


def _compare(document: Document, bound: Mapping[str, Any], key: Any) -> int:
    for name, limit in bound.items():
        value = exactly(document, split(name))
        mine, theirs = order(None if value is MISSING else value), order(limit)
        if mine != theirs:
            direction = whole(key[name]) if isinstance(key, dict) and name in key else 1
            return (1 if mine > theirs else -1) * (direction or 1)
    return 0


def index_key(document: Document, query: Query) -> Document:
    """Return the fields of a document that the chosen index holds: what `returnKey` shows."""
    found = {name: exactly(document, split(name)) for name in _chosen_index(query) if name != "$natural"}
    return {name: None if value is MISSING else value for name, value in found.items()}


def _chosen_index(query: Query) -> Mapping[str, Any]:
    if isinstance(query.hint, dict):
        return query.hint
    return {"_id": 1} if "_id" in query.filter or next(iter(query.sort or {}), None) == "_id" else {}


def in_natural_order(query: Query) -> bool:
    """Return whether a query wants documents as they stand in the collection, so a scan may stop early."""
    if query.sort or query.minimum is not None or query.maximum is not None:
        return False
    return natural_direction(query.hint) != -1 and not uses_id_index(query)


def ordered(
    pairs: list[tuple[Hashable, Document]], query: Query, fold: Fold | None
) -> list[tuple[Hashable, Document]]:
    """Return keys and documents within a query's bounds, in its order, or in that of the index it uses."""
    order_by = query.sort
    if query.minimum is not None or query.maximum is not None:
        pairs = [pair for pair in pairs if in_bounds(pair[1], query)]
        order_by = order_by or query.hint
    elif not query.sort and uses_id_index(query):
        order_by = {"_id": 1}
    if natural_direction(query.hint) == -1:
        pairs = pairs[::-1]
    if not order_by:
        return pairs
    keys = {id(document): key for key, document in pairs}
    documents = sort_documents([document for _key, document in pairs], order_by, fold)
    return [(keys[id(document)], document) for document in documents]
