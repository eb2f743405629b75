"""The last document of a query: plans that end with it, and plans that look for one more.

A client sees it where results end exactly with a batch: the cursor is closed at once, or by a getMore that
finds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.values.types import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeserver.storage.port.engine import IndexSpec, Query


def ends_with_last(wanted: Query, indexes: Iterable[IndexSpec], found: int) -> bool:
    """Return whether a plan that found so many documents is through with the last of them.

    An `_id` is looked up once, and a limit ends the plan; but a sort in memory holds the limit itself, and
    a scan looks.
    """
    if found and _is_id_lookup(wanted):
        return True
    return found > 0 and found == wanted.limit and _in_order_of_an_index(wanted.sort, indexes)


def _is_id_lookup(wanted: Query) -> bool:
    if list(wanted.filter) != ["_id"] or wanted.skip or wanted.hint or wanted.return_key:
        return False
    condition = wanted.filter["_id"]
    return not is_operators(condition) or list(condition) == ["$eq"]


def _in_order_of_an_index(sort: Mapping[str, Any] | None, indexes: Iterable[IndexSpec]) -> bool:
    """Return whether no sort is left to do, because there is none or an index has that order."""
    if not sort or "$natural" in sort:
        return True
    return any(_has_order(index.key, sort) for index in indexes)


def _has_order(key: Mapping[str, Any], sort: Mapping[str, Any]) -> bool:
    if list(key)[: len(sort)] != list(sort):
        return False
    same = [_direction(key[name]) == _direction(sort[name]) for name in sort]
    return all(same) or not any(same)


def _direction(value: Any) -> Any:
    """Return whether a number says upwards; what is none, such as `"hashed"`, as it is."""
    number = whole(value)
    return value if number is None else number > 0
