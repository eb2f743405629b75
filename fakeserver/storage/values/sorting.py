"""Sorting as a server does: by BSON order, arrays by their least or greatest element.

`sort_documents` is for `sort` and `$sort`, `sort_values` for arrays (`$sortArray`, `$push` with `$sort`),
which enters no arrays. Each document gets the key that an index of the same fields would have it under first,
read in the direction of the sort; so a sort in memory and a scan of an index give the same order.

Keys are made once for each document, in columns, one for each field. A stable sort by the last column, then
by the one before it, and so on, needs no wrapper for descending fields, whose comparison would be Python's;
documents with equal keys stay in the order in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.storage.values.metadata import check_sort_by, meta_of, rank, require
from fakeserver.storage.values.pacing import order_at_leisure, paced, sorted_at_leisure
from fakeserver.storage.values.paths import nested, split, stage_path
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.rows import Descending, ParallelArraysError, part_of, rows
from fakeserver.storage.values.types import MISSING, is_number, is_object, safe_int, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.storage.values.metadata import Readers
    from fakeserver.storage.values.rows import Key
    from fakeserver.storage.values.types import Fold

_BAD_DIRECTION: Final = 15975
_NO_DIRECTION: Final = 15974
_NO_META: Final = 17312
_TOO_MANY: Final = 13103
_MOST_FIELDS: Final = 32
_META: Final = "$meta"
_NATURAL: Final = "$natural"


def check_sort(sort: Mapping[str, Any], *, natural: bool = False) -> list[tuple[str, int]]:
    """Return a sort as fields and directions. Raises `CommandError` for a bad one.

    The order in which documents lie may be asked for where it is `natural`.
    """
    keys: list[tuple[str, int]] = []
    for name, direction in sort.items():
        if isinstance(direction, dict):
            if _META in direction:
                # Not among the keys that are returned: no field of a document is read for it.
                check_sort_by(direction)
                continue
            raise CommandError(
                _NO_META,
                "The only expression supported by $sort right now is {$meta: <metadata type>}, not"
                f" {show_document(direction)}",
            )
        if not is_number(direction):
            shown = show_document({name: direction})[2:-2]
            raise CommandError(_NO_DIRECTION, f"Illegal key in $sort specification: {shown}")
        number = safe_int(direction)
        if number not in (1, -1):
            raise CommandError(
                _BAD_DIRECTION, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
            )
        if not natural or name != _NATURAL:
            stage_path(name)
        keys.append((name, number))
    if len(keys) > _MOST_FIELDS:
        raise CommandError(_TOO_MANY, "too many compound keys")
    return keys


def sort_documents(
    documents: list[dict[str, Any]],
    sort: Mapping[str, Any] | None,
    fold: Fold | None = None,
    meta: Readers | None = None,
) -> list[dict[str, Any]]:
    """Return documents in order. Python's sort is stable, so each key is one pass, the last one first.

    `meta` are the metadata that `{$meta: …}` may name. Raises `CommandError` for a bad sort, and for
    documents that hold parallel arrays at its fields.
    """
    if not sort:
        return documents
    checked = check_sort(sort, natural=True)
    if any(name == _NATURAL for name, _direction in checked):
        return documents if checked[0][1] > 0 else documents[::-1]
    paths = [split(name) for name, _direction in checked]
    signs = [direction for _name, direction in checked]
    # A document sorts by one of the keys that its arrays make: the first in the sort's order.
    keys = [_first(item, paths, signs, fold)[1] for item in paced(documents)] if checked else []
    columns = {
        name: _Column([key[number] for key in paced(keys)], direction < 0)
        for number, (name, direction) in enumerate(checked)
    }
    # `check_sort` left these out; `_in_order` takes all columns in the order in which the sort names them.
    for name, direction in sort.items():
        known = meta_of(direction)
        if known is not None:
            read = require(known, meta)
            columns[name] = _Column([rank(read(document)) for document in paced(documents)])
    return _in_order(documents, [columns[name] for name in sort if name in columns])


class _Column(NamedTuple):
    """The keys of all documents for one field of a sort."""

    keys: list[Any]
    descending: bool = False


def _in_order(items: list[Any], columns: Sequence[_Column]) -> list[Any]:
    # Numbers are sorted, not documents: a key is looked up by the number, and nothing is compared twice.
    indexes = list(range(len(items)))
    for column in reversed(columns):
        indexes = sorted_at_leisure(indexes, column.keys.__getitem__, reverse=column.descending)
    return [items[index] for index in paced(indexes)]


def _first(
    document: Any, paths: Sequence[tuple[str, ...]], signs: Sequence[int], fold: Fold | None
) -> tuple[Sequence[Any], Key]:
    """Return the values that a document sorts by, and the key that they make."""
    try:
        found = [(row, tuple(part_of(value, fold) for value in row)) for row in rows(document, paths)]
    except ParallelArraysError:
        raise CommandError(ErrorCode.BAD_VALUE, "cannot sort with keys that are parallel arrays") from None
    if len(found) == 1:
        return found[0]
    return min(
        found,
        key=lambda each: tuple(
            part if sign > 0 else Descending(part) for part, sign in zip(each[1], signs, strict=True)
        ),
    )


def key_values(document: Any, sort: Mapping[str, Any], fold: Fold | None = None) -> list[Any]:
    """Return the values that a document is sorted by, one for each field: what `$meta: "sortKey"` shows."""
    checked = check_sort(sort, natural=True)
    paths, signs = [split(name) for name, _ in checked], [direction for _, direction in checked]
    values, _key = _first(document, paths, signs, fold)
    return [None if value is MISSING else value for value in values]


class Sorted(dict[str, Any]):
    """A document that carries the key it was sorted by, for `$meta: "sortKey"` in the stages that follow."""

    __slots__ = ("key",)

    def __init__(self, document: Mapping[str, Any], key: list[Any]) -> None:
        super().__init__(document)
        self.key = key


def sort_values(items: list[Any], by: Any, fold: Fold | None = None) -> list[Any]:
    """Return an array's elements in order: by value (1 or -1) or by their fields, arrays as they stand."""
    if is_object(by):
        columns = []
        for name, way in by.items():
            # No array is entered on the way to what an element is sorted by.
            parts = split(name)
            values = [nested(item, parts) for item in paced(items)]
            keys = [order_at_leisure(None if value is MISSING else value, fold) for value in values]
            columns.append(_Column(keys, whole(way) == -1))
        return _in_order(items, columns)
    keys = [order_at_leisure(item, fold) for item in paced(items)]
    indexes = sorted_at_leisure(list(range(len(items))), keys.__getitem__, reverse=whole(by) == -1)
    return [items[index] for index in paced(indexes)]
