"""The keys that a document has in an index.

A key is a tuple with a part for each field of the index, `rows.part_of` of its value, wrapped in `Descending`
where the field descends: so an index is a sorted list, and a compound one needs no comparison of its own. A
document has a key for each row of its values (`values.rows`); an array on the way makes the index multikey.

Which documents an index leaves out is decided here as well: sparse ones (no field of the index is there) and
partial ones (`partialFilterExpression` does not match). Text, geographic, hashed and wildcard indexes get one
and the same key for all documents that they hold, for they are never read in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import WriteError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values.collation import stored_fold_of
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.rows import Descending, ParallelArraysError, part_of, rows
from fakeserver.storage.values.types import MISSING, exact, is_number, order, truthy, whole
from fakeserver.waiting.interrupts import in_one_turn
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.storage.port.engine import Document, IndexSpec
    from fakeserver.storage.values.rows import Key

_HASHED_ARRAY: Final = 16766
_ARRAY_BESIDE_WILDCARD: Final = 7246301
_GEOGRAPHIC: Final = ("2d", "2dsphere")


def is_ordered(spec: IndexSpec) -> bool:
    """Return whether an index holds values in order: no text, geographic, hashed or wildcard index does."""
    return all(sign_of(direction) for direction in spec.key.values()) and not any(
        "$**" in name for name in spec.key
    )


def is_wildcard(key: Mapping[str, Any]) -> bool:
    """Return whether a key is that of a wildcard index, which a text index of all fields is not."""
    return any(name.split(".")[-1] == "$**" for name in key) and "text" not in key.values()


def holds_path(key: Mapping[str, Any], projection: Mapping[str, Any] | None, path: str) -> bool:
    """Return whether a wildcard index has keys of a path: one below its root that its projection takes in.

    Without a projection that says so, `_id` is left out.
    """
    root = next(name for name in key if name.split(".")[-1] == "$**")[: -len("$**")]
    if not f"{path}.".startswith(root):
        return False
    # `_id` does not make a projection an inclusion: `{_id: 1, a: 0}` leaves out `a` and takes in `_id`.
    own = dict(projection or {})
    with_id = truthy(own.pop("_id", False))
    if path == "_id" or path.startswith("_id."):
        return with_id if not root else True
    named = any(f"{path}.".startswith(f"{name}.") for name in own)
    return named if any(truthy(value) for value in own.values()) else not named


def is_id_key(key: Mapping[str, Any]) -> bool:
    """Return whether a key is that of the index of `_id`, in either direction."""
    return list(key) == ["_id"] and key["_id"] in (1, -1)


def is_ascending_id(key: Mapping[str, Any]) -> bool:
    """Return whether a key is that of the index of `_id` which every collection has."""
    return list(key) == ["_id"] and is_number(key["_id"]) and bool(exact(key["_id"]) == 1)


def sign_of(direction: Any) -> int:
    """Return 1 or -1 for the direction of a field in an index, 0 for the name of another kind of index."""
    if type(direction) is str:
        return 0
    # Clients send 1.0 or any other number: its sign counts, also that of a broken one, and 0 is no direction.
    number = whole(direction)
    return (1 if exact(direction) > 0 else -1) if number is None else (number > 0) - (number < 0)


def precedes(first: Mapping[str, Any], second: Mapping[str, Any], pattern: Mapping[str, Any]) -> bool:
    """Return whether one key, a document of the pattern's fields, stands before another in an index."""
    for name, direction in pattern.items():
        left, right = order(first[name]), order(second[name])
        if left != right:
            return (left < right) == (sign_of(direction) >= 0)
    return False


class KeyMaker:
    """Makes the keys of one index, and knows which documents the index leaves out."""

    def __init__(self, spec: IndexSpec) -> None:
        """Compile what the specification says. Raises `CommandError` for a bad collation or filter."""
        self.spec = spec
        self._names = tuple(spec.key)
        self._paths = [split(name) for name in self._names]
        self._signs = [sign_of(direction) for direction in spec.key.values()]
        self._hashed = [split(name) for name, kind in spec.key.items() if kind == "hashed"]
        wildcard = any("$**" in name for name in spec.key)
        self._beside = [split(name) for name in spec.key if wildcard and "$**" not in name]
        """The fields of a wildcard index that hold no arrays: those beside its wildcard."""
        self._placed = [split(name) for name, kind in spec.key.items() if kind in _GEOGRAPHIC]
        self.fold, self.in_order = stored_fold_of(spec.document.get("collation"))
        partial: Mapping[str, Any] | None = spec.document.get("partialFilterExpression")
        self._covers = compile_filter(partial, Scope(self.fold)) if partial is not None else None
        self._ordered = ordered = is_ordered(spec)
        # One field alone cannot have parallel arrays, nor without a number in its path be ambiguous: such an
        # index, the most common one, has nothing to check at an insert.
        self.may_refuse = bool(self._hashed or self._beside) or (
            ordered and (len(spec.key) > 1 or any(part.isdigit() for path in self._paths for part in path))
        )
        """Whether there are documents that the index cannot hold."""

    def covers(self, document: Document) -> bool:
        """Return whether the index's filter lets a document in."""
        if self._covers is None:
            return True
        # Asked between the check of a write and its store, where a filter must not give way.
        with in_one_turn():
            return bool(self._covers(document))

    def holds(self, document: Document) -> bool:
        """Return whether the index has a key of a document: it may be sparse or partial."""
        return (self._covers is None and not self.spec.sparse) or bool(self.values(document))

    def arrays(self, document: Document) -> set[str]:
        """Return the paths at which a document's keys go through arrays: one makes the index multikey."""
        found: set[str] = set()
        for path in self._paths:
            if _meets_array(document, path):
                _arrays_on(document, path, 0, found)
        return found

    def values(self, document: Document) -> list[tuple[Any, ...]]:
        """Return the values of each key that a document has.

        Raises `WriteError` 171, 16746, 16766 or 7246301.
        """
        if not self.covers(document):
            return []
        for path in self._hashed:
            _refuse_arrays(document, path)
        for path in self._beside:
            if _meets_array(document, path):
                raise WriteError(
                    _ARRAY_BESIDE_WILDCARD,
                    f"a wildcard index takes no array in its field '{'.'.join(path)}'",
                )
        if not self._ordered and not self.spec.unique:
            # Text and geographic indexes do not order documents here: one key, the same for all.
            needed = self._placed or (self._paths if self.spec.sparse else ())
            held = (value for path in needed for value in read(document, path))
            if needed and all(value is MISSING for value in held):
                return []
            return [(MISSING,) * len(self._paths)]
        try:
            found = list(rows(document, self._paths))
        except ParallelArraysError as error:
            shown = " ".join(f"[{self._names[number].rpartition('.')[2]}]" for number in error.fields)
            raise WriteError(
                ErrorCode.CANNOT_INDEX_PARALLEL_ARRAYS, f"cannot index parallel arrays {shown}"
            ) from None
        if self.spec.sparse:
            found = [row for row in found if any(value is not MISSING for value in row)]
        return found

    def keys(self, document: Document) -> dict[Key, tuple[Any, ...]]:
        """Return the keys of a document, in no order, with the values of each."""
        part, fold = self.part, self.fold
        return {
            tuple(part(part_of(value, fold), number) for number, value in enumerate(row)): row
            for row in self.values(document)
        }

    def part(self, part: Key, number: int) -> Any:
        """Return a part of a key as it stands in the field of this number, which may descend."""
        return Descending(part) if self._signs[number] < 0 else part


def _refuse_arrays(value: Any, path: tuple[str, ...]) -> None:
    for depth in range(len(path) + 1):
        if isinstance(value, list):
            raise WriteError(
                _HASHED_ARRAY,
                "Error: hashed indexes do not currently support array values. Found array at path: "
                + ".".join(path[:depth]),
            )
        if depth < len(path):
            value = value.get(path[depth], MISSING) if isinstance(value, dict) else MISSING


def _meets_array(value: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(value, dict):
            break
        value = value.get(part, MISSING)
    return isinstance(value, list)


def _arrays_on(value: Any, path: tuple[str, ...], depth: int, found: set[str]) -> None:
    """Add the beginnings of a path at which arrays are met, also within elements of arrays."""
    if isinstance(value, list):
        found.add(".".join(path[:depth]))
        for element in value if depth < len(path) else ():
            if isinstance(element, dict):
                _arrays_on(element, path, depth, found)
    elif isinstance(value, dict) and depth < len(path):
        _arrays_on(value.get(path[depth], MISSING), path, depth + 1, found)
