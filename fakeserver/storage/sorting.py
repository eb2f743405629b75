"""Sorting as a server does: by BSON order, arrays by their least or greatest element."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.paths import read, split
from fakeserver.storage.values import MISSING, is_object, order, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.storage.values import Fold

_BAD_DIRECTION: Final = 15975
_META: Final = "$meta"


def check_sort(sort: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return a sort as fields and directions. Raises `CommandError` for a bad one."""
    keys = []
    for name, direction in sort.items():
        if isinstance(direction, dict):
            if _META in direction:
                continue
            raise CommandError(
                ErrorCode.BAD_VALUE, f"Illegal key in $sort specification: {name}: {direction}"
            )
        number = whole(direction)
        if number not in (1, -1):
            raise CommandError(
                _BAD_DIRECTION, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
            )
        if not name:
            raise CommandError(40352, "FieldPath cannot be constructed with empty string")
        keys.append((name, number))
    return keys


def sort_documents(
    documents: list[dict[str, Any]], sort: Mapping[str, Any] | None, fold: Fold | None = None
) -> list[dict[str, Any]]:
    """Return documents in order. Python's sort is stable, so each key is one pass, the last one first."""
    if not sort:
        return documents
    for name, direction in reversed(check_sort(sort)):
        if name == "$natural":
            documents = documents if direction > 0 else documents[::-1]
            continue
        key = functools.partial(sort_key, parts=split(name), direction=direction, fold=fold)
        documents = sorted(documents, key=key, reverse=direction < 0)
    return documents


def sort_key(
    document: Any, *, parts: tuple[str, ...], direction: int, fold: Fold | None = None
) -> tuple[Any, ...]:
    """Return what a document sorts by: the least of an array's elements going up, the greatest going down."""
    keys = []
    for value in read(document, parts):
        if isinstance(value, list):
            keys.extend([order(item, fold) for item in value] or [(1,)])
        else:
            keys.append(order(None if value is MISSING else value, fold))
    if not keys:
        return order(None)
    return min(keys) if direction > 0 else max(keys)


def key_values(document: Any, sort: Mapping[str, Any], fold: Fold | None = None) -> list[Any]:
    """Return the values that a document is sorted by, one for each field: what `$meta: "sortKey"` shows."""
    values = []
    for name, direction in check_sort(sort):
        found: list[Any] = []
        for value in read(document, split(name)):
            found.extend(value or [None] if isinstance(value, list) else [value])
        shown = [None if value is MISSING else value for value in found] or [None]
        choose = min if direction > 0 else max
        values.append(choose(shown, key=lambda value: order(value, fold)))
    return values


class Sorted(dict[str, Any]):
    """A document that carries the key it was sorted by, for `$meta: "sortKey"` in the stages that follow."""

    __slots__ = ("key",)

    def __init__(self, document: Mapping[str, Any], key: list[Any]) -> None:
        super().__init__(document)
        self.key = key


def sort_values(items: list[Any], by: Any) -> list[Any]:
    """Return an array's elements in order: by value (1 or -1) or by their fields."""
    if is_object(by):
        for name, direction in reversed(check_sort(by)):
            key = functools.partial(sort_key, parts=split(name), direction=direction)
            items = sorted(items, key=key, reverse=direction < 0)
        return items
    return sorted(items, key=order, reverse=whole(by) == -1)
