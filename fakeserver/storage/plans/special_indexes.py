"""The use of indexes that hold no values in order: hashed, wildcard and geographic ones.

A query that such an index serves is read in natural order, as it has no keys here; `explain` and the use of
indexes show it as a server does. An equality is served by a hashed index, a condition on one path that leaves
out documents without it by a wildcard index, and a search for what lies in a shape by a geographic one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.storage.expressions.type_operators import hashed
from fakeserver.storage.plans.bounds import Clause, clauses, excludes_missing, intervals
from fakeserver.storage.plans.index_keys import holds_path, is_wildcard, sign_of
from fakeserver.storage.plans.planning import Plan, holds_all
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.types import SCALARS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.storage.plans.indexes import OrderedIndex
    from fakeserver.storage.port.engine import Query

_EVERYTHING: Final = ["[MinKey, MaxKey]"]
_BY_PATH: Final = frozenset({"$eq", "$in", "$gt", "$gte", "$lt", "$lte", "$exists"})
_SHAPES: Final = {"2dsphere": frozenset({"$geoWithin", "$geoIntersects"}), "2d": frozenset({"$geoWithin"})}


class Service(NamedTuple):
    """The condition that an index serves, the key and the bounds that are shown, and what is left to ask."""

    clause: Clause
    pattern: Mapping[str, Any]
    bounds: Mapping[str, list[str]]
    is_exact: bool


def special_plan(query: Query, indexes: Sequence[OrderedIndex]) -> Plan | None:
    """Return the way to run a query by the first index that serves it, None where none does."""
    found = [index for index in indexes if not index.is_hidden]
    if not found or not query.filter:
        return None
    conditions = tuple(clauses(query.filter))
    collation = complete(query.collation)
    for index in found:
        if not holds_all(index.spec, conditions):
            continue
        for clause in conditions:
            served = _served(clause, index, strings=collation == index.collation)
            if served is not None:
                return Plan(index, service=served)
    return None


def _served(clause: Clause, index: OrderedIndex, *, strings: bool) -> Service | None:
    key = index.spec.key
    if is_wildcard(key):
        return _by_wildcard(clause, index, strings=strings) if len(key) == 1 else None
    kind = key.get(clause.path)
    bounds = {name: list(_EVERYTHING) for name in key}
    if kind == "hashed" and clause.path == index.first:
        values = clause.value if clause.name == "$in" else [clause.value]
        if clause.name not in {"$eq", "$in"} or not isinstance(values, list):
            return None
        if not all(type(each) in SCALARS and (strings or type(each) is not str) for each in values):
            return None
        hashes = sorted(hashed(each) for each in values)
        return Service(clause, key, {**bounds, clause.path: [f"[{each}, {each}]" for each in hashes]}, False)  # noqa: FBT003
    if clause.name in _SHAPES.get(str(kind), ()) and (kind == "2dsphere" or clause.path == index.first):
        return Service(clause, key, bounds, False)  # noqa: FBT003
    return None


def _by_wildcard(clause: Clause, index: OrderedIndex, *, strings: bool) -> Service | None:
    spec = index.spec
    if clause.name not in _BY_PATH or not excludes_missing(clause):
        return None
    if not holds_path(spec.key, spec.document.get("wildcardProjection"), clause.path):
        return None
    direction = next(iter(spec.key.values()))
    pattern = {"$_path": 1, clause.path: direction}
    if clause.name == "$exists":
        shown = list(_EVERYTHING)
    else:
        found = intervals(clause, index.maker.fold, strings=strings)
        if found is None:
            return None
        sign = sign_of(direction) or 1
        shown = [each.printed(sign) for each in (found if sign > 0 else found[::-1])]
    path = f'["{clause.path}", "{clause.path}"]'
    return Service(clause, pattern, {"$_path": [path], clause.path: shown}, True)  # noqa: FBT003
