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
   5]`, whose elements fulfil one condition each, and no key of which lies within both.
3. *Which direction?* The sort, after the fields that the bounds fix at one point (`_sorted_by`).

An equality on the first field is looked up by value (`pin`) where that suffices, so the ordered entries of an
index are made only for queries that need them.

The choice between several plans is the caller's (`CollectionState.plan`): the fewest keys, then one that
needs no sort. A real server runs the candidates against each other for a while and caches the winner; that
depends on the data's order and on its history, which a test could not rely on. With the same data this choice
is the same every time, and it is the server's wherever one plan is clearly best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.storage.bounds import (
    Clause,
    clauses,
    excludes_missing,
    implied,
    intervals,
    is_exact,
    is_flat,
    is_pin,
    is_relevant,
    ranges,
)
from fakeserver.storage.collation import complete
from fakeserver.storage.index_keys import sign_of
from fakeserver.storage.paths import exactly, split
from fakeserver.storage.rows import part_of
from fakeserver.storage.values import MISSING, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.storage.bounds import Interval
    from fakeserver.storage.engine import Document, IndexSpec, Query
    from fakeserver.storage.indexes import OrderedIndex
    from fakeserver.storage.rows import Key

    Bounds = tuple[Sequence[Interval] | None, ...]

_NATURAL: Final = "$natural"


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to read a collection: all of it in natural order, or by an index.

    `bounds` are those of each field of the index, None for all. `pin` is the value that its first field must
    hold, where its holders are looked up; `span` the range of keys that `min` and `max` give. `is_sorted`
    says that documents come in the order that the query asks for.
    """

    index: OrderedIndex | None = None
    bounds: Bounds = ()
    pin: Any = MISSING
    span: tuple[Key, Key] | None = None
    backwards: bool = False
    is_sorted: bool = False

    @property
    def spec(self) -> IndexSpec | None:
        """The index's specification."""
        return None if self.index is None else self.index.spec

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
    strings = wanted.collation == index.collation
    on_first = [each for each in wanted.conditions if each.path == index.first]
    relevant = [each for each in on_first if is_relevant(each, index.maker.fold, strings=strings)]
    may_sort = bool(wanted.sort) and strings
    if not forced and not ((relevant or may_sort) and _holds_all(index.spec, wanted.conditions)):
        return None
    pin = next((each for each in on_first if is_pin(each)), None) if wanted.collation is None else None
    compound = len(index.spec.key) > 1
    if pin is None or not strings or (wanted.sort and not compound):
        pin = None
        prepare(index)
    bounds = _bounds(index, wanted.conditions, strings=strings)
    plan = _with_direction(index, wanted, bounds)
    if pin is not None:
        return replace(plan, pin=pin.value)
    # An index that neither narrows nor orders reads as much as a scan, and each document apart.
    return plan if forced or relevant or plan.is_sorted else None


def _holds_all(spec: IndexSpec, conditions: Sequence[Clause]) -> bool:
    """Return whether an index, also a sparse or partial one, holds every match of the conditions."""
    if spec.sparse and not any(each.path in spec.key and excludes_missing(each) for each in conditions):
        return False
    partial = spec.document.get("partialFilterExpression")
    if partial is None:
        return True
    if not is_flat(partial):
        # A filter with `$or` or its like is not taken apart here: the index is then used by a hint alone.
        return False
    return all(implied(each, conditions) for each in clauses(partial))


def _bounds(index: OrderedIndex, conditions: Sequence[Clause], *, strings: bool) -> Bounds:
    """Return the bounds of each field.

    For keys of arrays they are those of one condition on the first field alone: another element may fulfil
    the next one.
    """
    fold = index.maker.fold
    found: list[Sequence[Interval] | None] = []
    for path in index.spec.key:
        each = [intervals(clause, fold, strings=strings) for clause in conditions if clause.path == path]
        useful = [bounds for bounds in each if bounds is not None]
        if index.multikey:
            useful = (
                [] if found else sorted(useful, key=lambda bounds: not all(i.is_point for i in bounds))[:1]
            )
        found.append(_meet(useful) if useful else None)
    return tuple(found)


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
    if not wanted.sort or wanted.collation != index.collation:
        return None
    if index.multikey and any(each is not None for each in bounds):
        return None
    if not index.is_ordered:
        return None
    fields = [(name, sign_of(direction)) for name, direction in spec.key.items()]
    fixed = 0
    while fixed < len(fields) and _is_point(bounds[fixed]):
        fixed += 1
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


def covered(plan: Plan, query: Query) -> frozenset[str]:
    """Return the fields of a filter that the bounds decide alone, without a look at the documents."""
    index, conditions = plan.index, list(clauses(query.filter))
    if index is None or index.multikey or plan.span is not None:
        return frozenset()
    found = set()
    for path in index.spec.key:
        mine = [each for each in conditions if each.path == path]
        if not mine or not all(is_exact(each) for each in mine):
            break
        found.add(path)
        if not all(is_pin(each) for each in mine):
            break
    return frozenset(found) if plan.bounds and plan.bounds[0] is not None else frozenset()


def index_key(document: Document, plan: Plan) -> Document:
    """Return the fields of a document that a plan's index holds: what `returnKey` shows."""
    names = () if plan.spec is None else tuple(plan.spec.key)
    found = {name: exactly(document, split(name)) for name in names}
    return {name: None if value is MISSING else value for name, value in found.items()}
