"""The plans that a collection remembers, by the shape of their queries.

A plan is remembered where several were possible: at first inactive, and active from the next query of its
shape that needs no more reads. What changes the indexes, or clears the cache, forgets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.storage.plans.bounds import Clause, conjuncts
from fakeserver.storage.values.limits import weight

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Hashable

    from fakeserver.storage.port.engine import Query

_MOST: Final = 1000
_LARGEST: Final = 1 << 14
"""The bytes from which on a filter is not kept."""


@dataclass(slots=True)
class CachedPlan:
    """A plan: the query that it was made for, the index that won, and how many keys it had to read."""

    query: Query
    index: str
    works: int
    at: dt.datetime | None
    is_active: bool = False


class PlanCache:
    """The plans of one collection, in all of its forks."""

    __slots__ = ("plans",)

    def __init__(self) -> None:
        self.plans: dict[Hashable, CachedPlan] = {}

    def note(self, query: Query, index: str, works: int) -> None:
        """Remember the plan of a query that has run."""
        if weight(query.filter, _LARGEST) > _LARGEST:
            return
        key = _shape(query)
        known = self.plans.get(key)
        if known is not None:
            known.is_active = known.is_active or works <= known.works
            return
        if len(self.plans) == _MOST:
            del self.plans[next(iter(self.plans))]
        self.plans[key] = CachedPlan(query, index, works, query.now)


def _shape(query: Query) -> Hashable:
    """Return what queries of one shape share: paths and operators, sort, fields and collation."""
    parts = [
        (each.path, each.name) if isinstance(each, Clause) else tuple(each)
        for each in conjuncts(query.filter)
    ]
    sort: Any = tuple((name, str(direction)) for name, direction in (query.sort or {}).items())
    return tuple(sorted(map(str, parts))), sort, tuple(query.projection or ()), str(query.collation)
