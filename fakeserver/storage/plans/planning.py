"""The way in which a query reads a collection: an index with bounds and a direction, or all documents.

A fake server has no need of indexes for speed alone. Plans exist because clients see them: in the order of
results without a sort, in `explain`, in `hint`, `min` and `max`, in `returnKey`, and in the errors about
them. What is decided here is what the engine does, and `explain` shows the same `Plan`.

The model: a filter is flattened to clauses (`bounds.clauses`), each a condition on one path. For each index,
in the order of creation, `_plan` asks:

1. *May it be used?* It holds every document that could match: a sparse index only where a clause excludes
   documents without the field, a partial one only where the clauses imply its filter. Its collation is the
   query's, or no string is compared. A clause is about its first field, or it gives the order asked for.
2. *Which keys?* Each field gets the intersection of the intervals of its clauses. An index with keys of
   arrays uses one clause for its first field and none for the others: `{a: {$gt: 1, $lt: 3}}` matches `[0,
   5]`, whose elements fulfil one condition each, and no key of which lies within both. What the bounds do
   not decide is asked of the key where it can tell (`Residue`), else of the document.
3. *Which direction?* The sort, after the fields that the bounds fix at one point (`_sorted_by`).

An equality on the first field is looked up by value (`pin`) where that suffices, so the ordered entries of an
index are made only for queries that need them.

An `$or` each branch of which has such a plan is read by all of them, one after the other.
A projection of nothing but fields of the index needs no document (`covers`).

The choice between several plans is the caller's (`CollectionState.plan`): the fewest keys, then one that
needs no sort. A real server runs the candidates against each other for a while and caches the winner; that
depends on the data's order and on its history, which a test could not rely on. With the same data this choice
is the same every time, and it is the server's wherever one plan is clearly best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.plans.bounds import (
    Clause,
    Fit,
    clauses,
    conjuncts,
    excludes_missing,
    excludes_null,
    fit,
    implied,
    intervals,
    is_flat,
    is_pin,
    is_relevant,
    ranges,
)
from fakeserver.storage.plans.index_keys import sign_of
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.paths import assign, exactly, prefixes, split
from fakeserver.storage.values.rows import hashed, part_of
from fakeserver.storage.values.types import MISSING, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fakeserver.storage.plans.bounds import Interval
    from fakeserver.storage.plans.indexes import OrderedIndex
    from fakeserver.storage.plans.search_rules import Service
    from fakeserver.storage.port.engine import Document, IndexSpec, Query
    from fakeserver.storage.values.rows import Key

    Bounds = tuple[Sequence[Interval] | None, ...]


_NATURAL: Final = "$natural"
_PATH: Final = "$_path"
"""The field of a wildcard index's keys that names what the next one holds."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to read a collection: all of it in natural order, or by an index.

    `bounds` are those of each field of the index, None for all, and `used` the clauses that they are made of.
    `pin` is the value that its first field must hold, where its holders are looked up; `span` the range of
    keys that `min` and `max` give. `is_sorted` says that documents come in the order that the query asks for.
    `branches` are the plans of an `$or`, which has no index of its own, with the filter of each. `service` is
    what an index does that holds no values in order. `rivals` is the number of plans that were possible.
    """

    index: OrderedIndex | None = None
    bounds: Bounds = ()
    used: tuple[Clause, ...] = ()
    branches: tuple[tuple[Plan, Mapping[str, Any]], ...] = ()
    pin: Any = MISSING
    span: tuple[Key, Key] | None = None
    backwards: bool = False
    is_sorted: bool = False
    service: Service | None = None
    rivals: int = 1

    @property
    def is_scan(self) -> bool:
        """Whether it reads all documents of the collection."""
        return self.index is None and not self.branches

    @property
    def spec(self) -> IndexSpec | None:
        """The index's specification."""
        return None if self.index is None else self.index.spec

    @property
    def is_one_range(self) -> bool:
        """Whether the keys within its bounds follow one another, whatever they are."""
        if self.span is not None:
            return True
        open_from = next((n for n, each in enumerate(self.bounds) if not _is_point(each)), len(self.bounds))
        allowed = self.bounds[open_from] if open_from < len(self.bounds) else None
        return (allowed is None or len(allowed) == 1) and all(
            each is None for each in self.bounds[open_from + 1 :]
        )

    def ranges(self) -> Iterator[tuple[Key, Key]]:
        """Yield the ranges of keys to read, in the index's order: from (included), to (excluded)."""
        if self.span is not None:
            yield self.span
            return
        spec = self.spec
        assert spec is not None
        yield from ranges(self.bounds, [sign_of(direction) or 1 for direction in spec.key.values()])

    def shown_bounds(self) -> dict[str, list[str]]:
        """Return `indexBounds` as `explain` shows them."""
        spec = self.spec
        assert spec is not None
        shown = {}
        for number, (name, kind) in enumerate(spec.key.items()):
            direction = (sign_of(kind) or 1) * (-1 if self.backwards else 1)
            allowed = self.bounds[number] if number < len(self.bounds) else None
            if allowed is None:
                shown[name] = ["[MinKey, MaxKey]" if direction > 0 else "[MaxKey, MinKey]"]
            else:
                shown[name] = [
                    each.printed(direction) for each in (allowed if direction > 0 else allowed[::-1])
                ]
        return shown


_EQUALITIES: Final = frozenset({"$eq", "$in"})
"""Conditions for which an index needs no order that a collation knows: they ask for single keys."""

SCAN: Final = Plan()
"""Every document, in natural order."""


def natural_direction(query: Query) -> int | None:
    """Return 1 or -1 for a query in natural order, by its hint or its sort, None for any other."""
    for each in (query.hint, query.sort):
        if isinstance(each, dict) and _NATURAL in each:
            return whole(each[_NATURAL])
    return None


@dataclass(frozen=True, slots=True)
class _Demands:
    """The demands of a query on an index."""

    query: Query
    conditions: tuple[Clause, ...]
    collation: Mapping[str, Any] | None
    sort: tuple[tuple[str, int], ...]


def _wanted(query: Query) -> _Demands:
    sort = query.sort or {}
    # No index holds what `$meta` names.
    by_index = all(not isinstance(each, dict) for each in sort.values())
    return _Demands(
        query,
        tuple(clauses(query.filter)),
        complete(query.collation),
        tuple(sort.items()) if by_index else (),
    )


def plans(
    query: Query, indexes: Sequence[OrderedIndex], prepare: Callable[[OrderedIndex], object]
) -> list[Plan]:
    """Return the ways to run a query, the order of the indexes kept; none is a scan of the collection.

    `prepare` is called with an index before it is looked at whether its keys are of arrays.
    """
    if not indexes:
        return []
    wanted = _wanted(query)
    found = (_plan(index, wanted, prepare) for index in indexes if not index.is_hidden)
    return [plan for plan in found if plan is not None]


def hinted(query: Query, index: OrderedIndex, prepare: Callable[[OrderedIndex], object]) -> Plan:
    """Return the way to run a query by an index, in its bounds if they help, else by all of its keys."""
    wanted = _wanted(query)
    prepare(index)
    if query.minimum is not None or query.maximum is not None:
        begin, end = next(ranges((), ()))
        return _with_direction(
            index,
            wanted,
            (None,) * len(index.spec.key),
            span=(
                begin if query.minimum is None else _bound(index, query.minimum),
                end if query.maximum is None else _bound(index, query.maximum),
            ),
        )
    return _plan(index, wanted, prepare, forced=True) or Plan(index)


def _plan(
    index: OrderedIndex,
    wanted: _Demands,
    prepare: Callable[[OrderedIndex], object],
    *,
    forced: bool = False,
) -> Plan | None:
    if not index.is_ordered:
        return None
    # Under another collation the keys of strings are in another order; those of other types are not.
    # `strings`: whether ranges of strings may be read; equalities may where only the order is not known.
    same = wanted.collation == index.collation
    strings = same and index.maker.in_order
    on_first = [each for each in wanted.conditions if each.path == index.first]
    relevant = [
        each
        for each in on_first
        if is_relevant(each, index.maker.fold, strings=strings or (same and each.name in _EQUALITIES))
    ]
    may_sort = bool(wanted.sort) and strings
    if not forced and not ((relevant or may_sort) and holds_all(index.spec, wanted.conditions)):
        return None
    # A pin is looked up by value, without the index being put in order. Equal values are told by bytes there,
    # so not under a collation; and an order of other fields takes entries.
    pin = next((each for each in on_first if is_pin(each)), None) if wanted.collation is None else None
    compound = len(index.spec.key) > 1
    if pin is None or not strings or (wanted.sort and not compound):
        pin = None
        prepare(index)
    # Known only after `prepare`: which paths lead through arrays.
    conditions = [
        each for each in wanted.conditions if not (excludes_null(each) and index.meets_array(each.path))
    ]
    if len(conditions) < len(wanted.conditions) and not forced:
        relevant = [each for each in relevant if each in conditions]
        if not ((relevant or may_sort) and holds_all(index.spec, conditions)):
            return None
    bounds, used = _bounds(index, conditions, strings=strings, same=same)
    plan = replace(_with_direction(index, wanted, bounds), used=used)
    if pin is not None:
        return replace(plan, pin=pin.value)
    # An index that neither narrows nor orders reads as much as a scan, and each document apart.
    return plan if forced or relevant or plan.is_sorted else None


def holds_all(spec: IndexSpec, conditions: Sequence[Clause]) -> bool:
    """Return whether an index, also a sparse or partial one, holds every match of the conditions."""
    # One field that must be there is enough: a sparse index leaves out what has none of its fields.
    if spec.sparse and not any(each.path in spec.key and excludes_missing(each) for each in conditions):
        return False
    partial = spec.document.get("partialFilterExpression")
    if partial is None:
        return True
    if not is_flat(partial):
        # A filter with `$or` or its like is not taken apart here: the index is then used by a hint alone.
        return False
    return all(implied(each, conditions) for each in clauses(partial))


def _bounds(
    index: OrderedIndex, conditions: Sequence[Clause], *, strings: bool, same: bool
) -> tuple[Bounds, tuple[Clause, ...]]:
    """Return the bounds of each field, and the conditions that they are made of.

    For keys of arrays they are those of one condition on the first field alone: another element may fulfil
    the next one.
    """
    fold = index.maker.fold
    found: list[Sequence[Interval] | None] = []
    used: list[Clause] = []
    for path in index.spec.key:
        mine = (
            (each, intervals(each, fold, strings=strings or (same and each.name in _EQUALITIES)))
            for each in conditions
            if each.path == path
        )
        useful = [(each, bounds) for each, bounds in mine if bounds is not None]
        if index.multikey:
            # The narrowest kind first: a point also leaves the order of the next field usable.
            by_point = sorted(useful, key=lambda each: not all(one.is_point for one in each[1]))
            useful = [] if found else by_point[:1]
        found.append(_meet([bounds for _each, bounds in useful]) if useful else None)
        used += [each for each, _bounds in useful]
    return tuple(found), tuple(used)


def _meet(bounds: Sequence[Sequence[Interval]]) -> list[Interval]:
    met = list(bounds[0])
    for others in bounds[1:]:
        both = (left.meets(right) for left in met for right in others)
        met = [each for each in both if each is not None]
    return sorted(met, key=lambda each: each.low)


def _with_direction(
    index: OrderedIndex, wanted: _Demands, bounds: Bounds, span: tuple[Key, Key] | None = None
) -> Plan:
    """Return a plan that reads in the direction that the query's sort asks for, if the index gives it."""
    direction = _sorted_by(index, wanted, bounds)
    return Plan(index, bounds, span=span, backwards=direction == -1, is_sorted=direction is not None)


def _sorted_by(index: OrderedIndex, wanted: _Demands, bounds: Bounds) -> int | None:
    """Return in which direction an index gives the order that is asked for, None if in neither."""
    spec = index.spec
    if not wanted.sort or wanted.collation != index.collation or not index.maker.in_order:
        return None
    # A document of several keys comes at the first of them within the bounds, and sorts by the first of all.
    if index.multikey and any(each is not None for each in bounds):
        return None
    if not index.is_ordered:
        return None
    fields = [(name, sign_of(direction)) for name, direction in spec.key.items()]
    fixed = 0
    while fixed < len(fields) and _is_point(bounds[fixed]):
        fixed += 1
    # A field that is fixed at a point may be left out of the sort, or be in it in either direction.
    position, direction = 0, 0
    for name, wish in wanted.sort:
        while position < fixed and fields[position][0] != name:
            position += 1
        if position == len(fields) or fields[position][0] != name:
            return None
        asked = (whole(wish) or 1) * fields[position][1]
        if position >= fixed:
            if direction not in (0, asked):
                return None
            direction = asked
        position += 1
    return direction or 1


def _is_point(bounds: Sequence[Interval] | None) -> bool:
    return bounds is not None and len(bounds) == 1 and bounds[0].is_point


def _bound(index: OrderedIndex, bound: Mapping[str, Any]) -> Key:
    maker = index.maker
    parts = (part_of(value, maker.fold) for value in bound.values())
    return tuple(maker.part(part, number) for number, part in enumerate(parts))


def reading(pipeline: Sequence[Mapping[str, Any]], options: Query) -> Query:
    """Return the query that says what a pipeline reads: its first `$match`, and the `$sort` after that."""
    stages = list(pipeline[:2])
    match = stages.pop(0)["$match"] if stages and "$match" in stages[0] else {}
    sort = stages[0]["$sort"] if stages and "$sort" in stages[0] else None
    if sort is not None and _NATURAL in sort:
        sort = None
    return options._replace(filter=match, sort=sort)


class Residue(NamedTuple):
    """What is left to ask of a filter within a plan's bounds: of a key, and of a document."""

    of_key: Document
    of_document: Document


def residue(plan: Plan, wanted: Mapping[str, Any]) -> Residue:
    """Return what a plan's bounds leave to ask of a filter."""
    index = plan.index
    of_key: list[Document] = []
    of_document: list[Document] = []
    for each in conjuncts(wanted):
        if not isinstance(each, Clause):
            of_document.append(each)
            continue
        left = Fit.DOCUMENT
        if index is not None and plan.span is None and each.path in index.spec.key:
            left = fit(each, multikey=index.multikey)
            # Bounds of another clause on the same field were taken: this one has to be asked.
            if left is Fit.EXACT and each not in plan.used:
                left = Fit.DOCUMENT
            # The keys of a collation are not the strings themselves, which a regular expression needs.
            if left is Fit.KEY and index.collation is not None:
                left = Fit.DOCUMENT
        if left is not Fit.EXACT:
            (of_key if left is Fit.KEY else of_document).append({each.path: {each.name: each.value}})
    return Residue(all_of(of_key), all_of(of_document))


def all_of(conditions: list[Document]) -> Document:
    """Return a filter that asks for all of these."""
    return {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), {})


def may_be_covered(query: Query) -> bool:
    """Return whether a projection may do with the fields of an index."""
    return not (query.projection or {}).get("_id", 1) and bool(query.filter or query.sort or query.hint)


def covers(plan: Plan, query: Query) -> bool:
    """Return whether the keys of a plan hold all that a projection shows, so that no document is read."""
    index, projection = plan.index, query.projection
    if index is None or not projection or index.collation is not None or query.return_key:
        return False
    shown = {name for name, value in projection.items() if name != "_id"}
    kept = projection.get("_id", 1)
    if isinstance(kept, bool | int | float) and kept:
        shown.add("_id")
    if not all(isinstance(value, bool | int | float) for value in projection.values()) or not shown:
        return False
    if not all(projection[name] for name in shown if name in projection) or query.show_record_id:
        return False
    # A sort in memory reads its fields from the keys too; an array in one has several keys, and no value.
    sorts = () if plan.is_sorted else (query.sort or ())
    in_keys = shown.union(sorts) <= index.spec.key.keys() and index.arrays.isdisjoint(
        prefix for name in shown.union(sorts) for prefix in prefixes(name)
    )
    return index.is_ordered and in_keys and not residue(plan, query.filter).of_document


def any_of(query: Query, best: Callable[[Query], Plan | None]) -> Plan | None:
    """Return the way to run a query by the branches of an `$or`, None where one of them has no index.

    `best` returns the plan of a branch.
    """
    for each in conjuncts(query.filter):
        if isinstance(each, Clause) or "$or" not in each:
            continue
        branches: list[tuple[Plan, Mapping[str, Any]]] = []
        for branch in each["$or"]:
            plan = best(query._replace(filter=branch, sort=None, projection=None))
            # One branch without an index takes a scan, which answers all of them.
            if plan is None:
                break
            branches.append((plan, branch))
        else:
            return Plan(branches=tuple(branches))
    return None


def index_key(document: Document, plan: Plan) -> Document:
    """Return the key of a document that a plan has read, by its paths: what `returnKey` shows."""
    index = plan.index
    if index is None:
        return {}
    key = index.spec.key if plan.service is None else plan.service.pattern
    values: tuple[Any, ...] = tuple(exactly(document, split(name)) for name in key)
    if plan.service is None and (index.multikey or any(isinstance(value, list) for value in values)):
        values = _key_within(document, plan, index)
    found = {name: None if value is MISSING else value for name, value in zip(key, values, strict=True)}
    if plan.service is not None and _PATH in key:
        found[_PATH] = plan.service.clause.path
    hashes = {name: hashed(found[name]) for name, kind in key.items() if kind == "hashed"}
    return {**found, **hashes}


def _key_within(document: Document, plan: Plan, index: OrderedIndex) -> tuple[Any, ...]:
    """Return the values of the first of a document's keys that lies within a plan's bounds."""
    keys = sorted(index.maker.keys(document).items(), key=lambda each: each[0], reverse=plan.backwards)
    for _key, values in keys:
        parts = [part_of(value, index.maker.fold) for value in values]
        if all(
            allowed is None or any(each.holds(part) for each in allowed)
            for part, allowed in zip(parts, plan.bounds, strict=False)
        ):
            return values
    return keys[0][1] if keys else (MISSING,) * len(index.spec.key)


def keyed(document: Document, plan: Plan) -> Document:
    """Return a document with nothing but the fields that a plan's index holds; what is missing is null."""
    found: Document = {}
    for name, value in index_key(document, plan).items():
        assign(found, split(name), value)
    return found


# The last document of a query: plans that end with it, and plans that look for one more.
#
# A client sees it where results end exactly with a batch: the cursor is closed at once, or by a getMore
# that finds nothing.


def ends_with_last(wanted: Query, indexes: Iterable[IndexSpec], found: int) -> bool:
    """Return whether a plan that found so many documents is through with the last of them.

    An `_id` is looked up once, and a limit ends the plan; but a sort in memory holds the limit itself, and
    a scan looks.
    """
    if found and _is_id_lookup(wanted):
        return True
    if not found or found != wanted.limit:
        return False
    # No sort is left to do, because there is none or an index has that order.
    sort = wanted.sort
    return not sort or "$natural" in sort or any(_has_order(index.key, sort) for index in indexes)


def _is_id_lookup(wanted: Query) -> bool:
    if list(wanted.filter) != ["_id"] or wanted.skip or wanted.hint or wanted.return_key:
        return False
    condition = wanted.filter["_id"]
    return not is_operators(condition) or list(condition) == ["$eq"]


def _has_order(key: Mapping[str, Any], sort: Mapping[str, Any]) -> bool:
    if list(key)[: len(sort)] != list(sort):
        return False
    same = [_direction(key[name]) == _direction(sort[name]) for name in sort]
    return all(same) or not any(same)


def _direction(value: Any) -> Any:
    """Return whether a number says upwards; what is none, such as `"hashed"`, as it is."""
    number = whole(value)
    return value if number is None else number > 0
