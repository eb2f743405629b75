"""The values of a document at several paths together: a row for each element of the array on their way.

The keys of indexes and of sorts are made of rows: `{a: [{b: 1, c: 2}, {b: 3, c: 4}]}` has the rows (1, 2) and
(3, 4) at `a.b` and `a.c`, and never (1, 4). All paths walk in step, and one array at a time is entered; two
different arrays would make a key of each pair of their elements, which a server refuses
(`ParallelArraysError`: 171 of an index, 2 of a sort). A row becomes a key by `part_of`, field by field.

An array that ends a path is entered as well, once: its elements are values, and arrays among them stay whole.
An empty one has a row of its own, so that an index knows the document.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson
from bson import DBRef, Int64

from fakeserver.errors import WriteError
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import (
    INT64_MAX,
    INT64_MIN,
    MISSING,
    as_mapping,
    exact,
    is_nan,
    is_number,
    order,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bson import Decimal128

    from fakeserver.storage.values.types import Fold

Key = tuple[Any, ...]

_AMBIGUOUS: Final = 16746
_EMPTY_ARRAY: Final = (1,)
"""The key of an empty array: that of `undefined`, between MinKey and null.

It has no rank of its own in `types.order`, to which an empty array is an array: only keys have it.
"""


class Descending:
    """A part of a key that stands in the opposite order.

    Keys are compared as tuples, part by part, so a descending field is turned here and nowhere else. It
    compares with its like alone: two keys of one index have it at the same places.
    """

    __slots__ = ("part",)

    def __init__(self, part: Key) -> None:
        self.part = part

    def __lt__(self, other: object) -> Any:
        return other.part < self.part if isinstance(other, Descending) else NotImplemented

    def __gt__(self, other: object) -> Any:
        return other.part > self.part if isinstance(other, Descending) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and other.part == self.part

    def __hash__(self) -> int:
        return hash(self.part)

    def __repr__(self) -> str:
        return f"Descending({self.part!r})"


class _Cursor(NamedTuple):
    """The position in the path of one field: `whole` says that arrays are entered no more."""

    value: Any
    parts: tuple[str, ...]
    whole: bool = False


class ParallelArraysError(Exception):
    """Two fields of one key lie in different arrays; `fields` are their numbers, the later one first."""

    def __init__(self, fields: tuple[int, int]) -> None:
        super().__init__(f"fields {fields}")
        self.fields = fields


def rows(document: Any, paths: Sequence[tuple[str, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield what a document holds at some paths together, once for each element of the array on their way.

    What is missing is `MISSING`. Raises `ParallelArraysError` where two paths end in different arrays, and
    `WriteError` 16746 where a number may be a position or a name.
    """
    return _expand([_Cursor(document, parts) for parts in paths])


def _expand(cursors: list[_Cursor]) -> Iterator[tuple[Any, ...]]:
    cursors = [cursor if cursor.whole else _follow(cursor) for cursor in cursors]
    arrays = [n for n, cursor in enumerate(cursors) if isinstance(cursor.value, list) and not cursor.whole]
    if not arrays:
        yield tuple(cursor.value for cursor in cursors)
        return
    array = cursors[arrays[0]].value
    for number in arrays[1:]:
        if cursors[number].value is not array:
            raise ParallelArraysError((number, arrays[0]))
    # The same array object, not an equal one: two paths share it only where they begin alike.
    for element in array or [None]:
        inside = list(cursors)
        for number in arrays:
            inside[number] = _enter(element, cursors[number].parts, empty=not array)
        yield from _expand(inside)


def _enter(element: Any, parts: tuple[str, ...], *, empty: bool) -> _Cursor:
    """Return the cursor at an array's element; an array within an array is not entered by itself."""
    if not parts:
        return _Cursor([] if empty else element, parts, whole=True)
    if empty or not isinstance(element, dict | DBRef):
        return _Cursor(MISSING, (), whole=True)
    return _Cursor(element, parts)


def _follow(cursor: _Cursor) -> _Cursor:
    """Follow a path as far as documents and positions of arrays go."""
    value, parts = cursor.value, cursor.parts
    while parts:
        if isinstance(value, DBRef):
            value = value.as_doc()
        if isinstance(value, dict):
            value = value.get(parts[0], MISSING)
        elif isinstance(value, list) and parts[0].isdigit() and int(parts[0]) < len(value):
            # `a.0` of `{a: [{"0": 1}]}` could mean either. A server refuses to guess; a filter takes both.
            if any(isinstance(element, dict) and parts[0] in element for element in value):
                raise WriteError(
                    _AMBIGUOUS,
                    "Ambiguous field name found in array (do not use numeric field names in embedded elements"
                    f" in an array), field: '{parts[0]}' for array: {parts[0]}",
                )
            value = value[int(parts[0])]
        elif isinstance(value, list):
            return _Cursor(value, parts)
        else:
            return _Cursor(MISSING, (), whole=True)
        parts = parts[1:]
    return _Cursor(value, parts)


def part_of(value: Any, fold: Fold | None) -> Key:
    """Return what a value is in a key: a missing one is null, an empty array stands before null."""
    if value is MISSING:
        return order(None)
    return _EMPTY_ARRAY if value == [] else order(value, fold)


# The hashes of values, which are the keys of a hashed index.
#
# The format is a server's (`BSONElementHasher`, version 0), since `$toHashedIndexKey` and the bounds in
# `explain` show hashes: an MD5 of the seed, of the canonical type, and of the value as BSON without its name
# at the top. Numbers are hashed as longs, so that equal ones of different types lie at the same place.


_CANONICAL: Final = {
    "minKey": -1, "maxKey": 127, "null": 5, "undefined": 0, "missing": 0, "int": 10, "long": 10, "double": 10,
    "decimal": 10, "string": 15, "symbol": 15, "object": 20, "array": 25, "binData": 30, "objectId": 35,
    "bool": 40, "date": 45, "timestamp": 47, "regex": 50, "dbPointer": 55, "javascript": 60,
    "javascriptWithScope": 65,
}  # fmt: skip
_END: Final = struct.pack("<i", 0) + b"\0"
_HEADER: Final = 4 + 1 + 1
"""A document of one field with an empty name: its length, the type, the end of the name; then the value."""


def hashed(value: Any) -> Int64:
    """Return a value's hash. Numbers that are equal have the same one, whatever their types."""
    # MD5 with a seed of zero is what a server's format is, not a choice.
    digest = hashlib.md5(struct.pack("<i", 0) + _bytes_of(value, b""), usedforsecurity=False).digest()
    return Int64(struct.unpack("<q", digest[:8])[0])


def _bytes_of(value: Any, name: bytes) -> bytes:
    kind = type_name(value)
    head = struct.pack("<i", _CANONICAL[kind]) + name
    if is_number(value):
        return head + struct.pack("<q", _truncated(value))
    if kind == "object":
        fields = as_mapping(value).items()
        return head + b"".join(_bytes_of(item, key.encode() + b"\0") for key, item in paced(fields)) + _END
    if kind == "array":
        items = (_bytes_of(item, str(index).encode() + b"\0") for index, item in enumerate(paced(value)))
        return head + b"".join(items) + _END
    if kind in {"missing", "undefined"}:
        return head
    return head + bson.encode({"": value})[_HEADER:-1]


def _truncated(value: float | Decimal128) -> int:
    if is_nan(value):
        return 0
    number = exact(value)
    # Bounded before `int`, which takes no infinity.
    if number >= INT64_MAX:
        return INT64_MAX
    return INT64_MIN if number <= INT64_MIN else int(number)
