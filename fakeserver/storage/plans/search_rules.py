"""Rules for text and geographic searches: their positions in a filter, and the indexes that they need.

`$text`, `$near` and `$nearSphere` are searches: they find by an index, give each document a score or a
distance, and a server's planner has no plan for many combinations of them (291 NoQueryExecutionPlans, or 2).
It refuses these before it reads a document, also of an empty collection; `check_searches` does so.

The search itself is done by a filter that looks at every document (`filters.text_search`,
`filters.geo_operators`), so an index has no part in it but to be there. The second half of the file is about
indexes that have no keys here, and about what `explain` and `$indexStats` show of them all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import NEAR, is_operators
from fakeserver.storage.plans.bounds import Clause, clauses, excludes_missing, intervals
from fakeserver.storage.plans.index_keys import holds_path, is_wildcard, sign_of
from fakeserver.storage.plans.planning import Plan, holds_all
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.metadata import DISTANCE, POINT, TEXT_SCORE, QueryMetadata
from fakeserver.storage.values.rows import hashed
from fakeserver.storage.values.types import SCALARS
from fakeserver.waiting.first_use import at_first_use
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.storage.plans.indexes import OrderedIndex
    from fakeserver.storage.port.engine import IndexSpec, Query

_text_search = at_first_use("fakeserver.storage.filters.text_search")

_TREES: Final = ("$and", "$or", "$nor")
_TEXT: Final = "$text"
_FLAT, _SPHERE = "2d", "2dsphere"


class _Search(NamedTuple):
    """A search in a filter: the operator, the field of a geographic one, and the trees around it."""

    operator: str
    path: str
    condition: Any
    trees: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        return self.operator == _TEXT


def _searches(query: Mapping[str, Any], trees: tuple[str, ...] = ()) -> Iterator[_Search]:
    for name, value in query.items():
        if name == _TEXT:
            yield _Search(name, "", value, trees)
        elif name in _TREES and isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    yield from _searches(item, (*trees, name))
        elif type(value) is dict and is_operators(value):
            for operator in NEAR.intersection(value):
                yield _Search(operator, name, value, trees)
            for operator in ("$not", "$elemMatch"):
                inner = value.get(operator)
                if isinstance(inner, dict):
                    nested = {name: inner} if is_operators(inner) else inner
                    yield from _searches(nested, (*trees, operator))


def metadata_of(query: Mapping[str, Any]) -> QueryMetadata | None:
    """Return where the searches in a filter are to note what they find out; None if there are none."""
    known: set[str] = set()
    for search in _searches(query):
        known |= {TEXT_SCORE} if search.is_text else {DISTANCE, POINT}
    return QueryMetadata(frozenset(known)) if known else None


def metadata_of_pipeline(pipeline: Sequence[Mapping[str, Any]]) -> QueryMetadata | None:
    """Return where the first stage is to note what it finds out; None if it searches for nothing."""
    if not pipeline or not isinstance(pipeline[0], dict):
        return None
    if "$geoNear" in pipeline[0]:
        return QueryMetadata(frozenset({DISTANCE, POINT}))
    match = pipeline[0].get("$match")
    return metadata_of(match) if isinstance(match, dict) else None


def check_searches(query: Query, filter_: Mapping[str, Any]) -> None:
    """Refuse searches that a planner has no plan for. Raises `CommandError` 2, 27 or 291."""
    found = list(_searches(filter_))
    texts = [search for search in found if search.is_text]
    nears = [search for search in found if not search.is_text]
    if len(texts) > 1:
        raise _unplanned(ErrorCode.BAD_VALUE, "Too many text expressions")
    if len(nears) > 1:
        raise _unplanned(ErrorCode.BAD_VALUE, "Too many geoNear expressions")
    if texts and nears:
        raise _unplanned(ErrorCode.BAD_VALUE, "text and geoNear not allowed in same query")
    for search in texts:
        _check_text(search, query, filter_)
    for search in nears:
        if set(search.trees) - {"$and"}:
            raise _unplanned(ErrorCode.BAD_VALUE, "geoNear must be top-level expr")
        check_distance_order(query)
        if not any(_serves(index, search) for index in _seen(query) if _is_hinted(index, query.hint)):
            raise _unplanned(ErrorCode.NO_QUERY_EXECUTION_PLANS, "unable to find index for $geoNear query")


def _seen(query: Query) -> tuple[IndexSpec, ...]:
    """Return the indexes that a planner may use."""
    return tuple(index for index in query.indexes if not index.document.get("hidden"))


def _is_hinted(index: IndexSpec, hint: Any) -> bool:
    """Return whether an index may be used with a hint: it is the one, or there is none."""
    return hint in (None, index.name) or (isinstance(hint, dict) and list(hint) == list(index.key))


def check_distance_order(query: Query) -> None:
    """Refuse natural order for a search by distance, which has its own. Raises `CommandError` 2."""
    for what, order in (("hint", query.hint), ("sort order", query.sort)):
        if isinstance(order, dict) and "$natural" in order:
            raise _unplanned(ErrorCode.BAD_VALUE, f"geoNear expression not allowed with $natural {what}")


def _check_text(search: _Search, query: Query, filter_: Mapping[str, Any]) -> None:
    # First of all, whether there is a text index: error 27, also where the hint or the sort is bad.
    index = _text_search.find_index(query.indexes)
    if not any("text" in each.key.values() for each in _seen(query)):
        raise _unplanned(ErrorCode.NO_QUERY_EXECUTION_PLANS, "the text index is hidden")
    if "$nor" in search.trees:
        raise _unplanned(ErrorCode.BAD_VALUE, "text expression not allowed in nor")
    if isinstance(query.hint, dict) and "$natural" in query.hint:
        raise _unplanned(ErrorCode.BAD_VALUE, "text expression not allowed with $natural hint")
    if query.hint is not None:
        raise _unplanned(ErrorCode.BAD_VALUE, "text and hint not allowed in same query")
    if query.sort and "$natural" in query.sort:
        raise _unplanned(ErrorCode.BAD_VALUE, "text expression not allowed with $natural sort order")
    if "$or" in search.trees and not _others_indexed(filter_, query.indexes):
        raise _unplanned(
            ErrorCode.NO_QUERY_EXECUTION_PLANS,
            "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be "
            "indexed as well.",
        )
    # `{author: 1, words: "text"}` has its words by author: without one the index cannot be entered.
    fixed = {clause.path for clause in clauses(filter_) if clause.name == "$eq"}
    if not fixed.issuperset(index.prefix):
        raise _unplanned(
            ErrorCode.NO_QUERY_EXECUTION_PLANS,
            "failed to use text index to satisfy $text query (if text index is compound, are equality "
            "predicates given for all prefix fields?)",
        )


def _others_indexed(query: Mapping[str, Any], indexes: Sequence[IndexSpec]) -> bool:
    """Return whether each branch beside a text search in an `$or` has an index to begin with."""
    heads = (next(iter(index.key.items())) for index in indexes)
    first = {path for path, kind in heads if kind != "text"} | {"_id"}
    for name, value in query.items():
        if name == "$and":
            if not all(_others_indexed(item, indexes) for item in value):
                return False
        elif name == "$or" and any(True for item in value for _search in _searches(item)):
            for item in value:
                if not first.intersection(item) and not any(True for _search in _searches(item)):
                    return False
    return True


def _serves(index: IndexSpec, search: _Search) -> bool:
    """Return whether an index is of the kind that a search needs."""
    if search.is_text:
        return "text" in index.key.values()
    value = search.condition[search.operator]
    geojson = isinstance(value, dict) and ("$geometry" in value or "type" in value)
    kinds = {_SPHERE} if geojson else {_FLAT, _SPHERE} if search.operator == "$nearSphere" else {_FLAT}
    return index.key.get(search.path) in kinds


def is_served_by(query: Mapping[str, Any], index: IndexSpec) -> bool:
    """Return whether a filter searches by text or by distance with an index, outside of `$or`."""
    return any(_serves(index, search) for search in _searches(query) if "$or" not in search.trees)


def _unplanned(code: int, reason: str) -> CommandError:
    return CommandError(code, f"error processing query: planner returned error :: caused by :: {reason}")


# The use of indexes that hold no values in order: hashed, wildcard and geographic ones.
#
# A query that such an index serves is read in natural order, as it has no keys here; `explain` and the use
# of indexes show it as a server does. An equality is served by a hashed index, a condition on one path that
# leaves out documents without it by a wildcard index, and a search for what lies in a shape by a geographic
# one.


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
        # Shown as hashes, which is what the index of a server holds; another value may have the same one.
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
