"""What indexes enforce: unique keys, sparse and partial ones, with collation; and what they find."""

from __future__ import annotations

import copy
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import WriteError
from fakeserver.storage.collation import fold_of
from fakeserver.storage.matching import compile_filter
from fakeserver.storage.paths import read, split
from fakeserver.storage.printing import show_document
from fakeserver.storage.values import MISSING, identity, is_number, order
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from fakeserver.storage.engine import Document, IndexSpec, Namespace


_NO_SCALARS: Final = (dict, list, type(None), type(MISSING))


class UniqueIndex:
    """The keys that documents hold, and who holds them, so that a second holder is refused without a scan."""

    def __init__(self, ns: Namespace, spec: IndexSpec) -> None:
        self.ns = ns
        self.spec = spec
        self._paths = [split(name) for name in spec.key]
        self._fold = fold_of(spec.document.get("collation"))
        partial = spec.document.get("partialFilterExpression")
        self._covers = compile_filter(partial) if partial is not None else None
        self._holders: dict[Hashable, list[Hashable]] = {}

    def check(self, holder: Hashable, document: Document) -> None:
        """Refuse a document whose key another holds. Raises `WriteError` 11000."""
        for key, values in self._keys(document).items():
            if any(other != holder for other in self._holders.get(key, ())):
                raise duplicate_key(self.ns, self.spec.name, self.spec.key, values)

    def fork(self) -> UniqueIndex:
        """Return an index that holds the same, and changes alone."""
        fork = copy.copy(self)
        fork.__dict__["_holders"] = {key: list(holders) for key, holders in self._holders.items()}
        return fork

    def keys(self, document: Document) -> list[Hashable]:
        """Return the keys that a document holds."""
        return list(self._keys(document))

    def holder(self, key: Hashable) -> Hashable | None:
        """Return who holds a key, or None."""
        return next(iter(self._holders.get(key, ())), None)

    def add(self, holder: Hashable, document: Document) -> None:
        """Enter the keys of a document."""
        for key in self._keys(document):
            self._holders.setdefault(key, []).append(holder)

    def remove(self, holder: Hashable, document: Document) -> None:
        """Forget the keys of a document."""
        for key in self._keys(document):
            holders = self._holders[key]
            holders.remove(holder)
            if not holders:
                del self._holders[key]

    def _keys(self, document: Document) -> dict[Hashable, list[Any]]:
        if self._covers is not None and not self._covers(document):
            return {}
        columns = [_column(document, path) for path in self._paths]
        if self.spec.sparse and all(column == [MISSING] for column in columns):
            return {}
        rows = product(*columns)
        return {
            tuple(order(_null(value), self._fold) for value in row): [_null(value) for value in row]
            for row in rows
        }


class ValueIndex:
    """Who holds which scalar in the first field of an index, so that an equality on it needs no scan.

    It knows all documents, whatever the index leaves out, and no collation.
    """

    def __init__(self, spec: IndexSpec) -> None:
        self.path = next(iter(spec.key))
        self._parts = split(self.path)
        self._holders: dict[Hashable, dict[Hashable, None]] = {}

    @staticmethod
    def serves(spec: IndexSpec) -> bool:
        """Whether an index has its first field in order, and is no text, geographic or wildcard index."""
        path, direction = next(iter(spec.key.items()))
        return path != "_id" and "$" not in path and is_number(direction)

    def holders(self, value: Any) -> Collection[Hashable]:
        """Return who holds a scalar."""
        return self._holders.get(identity(value), {})

    def fork(self) -> ValueIndex:
        """Return an index that holds the same, and changes alone."""
        fork = copy.copy(self)
        fork.__dict__["_holders"] = {value: dict(holders) for value, holders in self._holders.items()}
        return fork

    def add(self, holder: Hashable, document: Document) -> None:
        """Enter what a document holds."""
        for value in self._values(document):
            self._holders.setdefault(value, {})[holder] = None

    def remove(self, holder: Hashable, document: Document) -> None:
        """Forget what a document holds."""
        for value in self._values(document):
            holders = self._holders[value]
            del holders[holder]
            if not holders:
                del self._holders[value]

    def _values(self, document: Document) -> set[Hashable]:
        column = _column(document, self._parts)
        return {identity(value) for value in column if not isinstance(value, _NO_SCALARS)}


def _column(document: Document, path: tuple[str, ...]) -> list[Any]:
    values: list[Any] = []
    for value in read(document, path):
        values.extend(value if isinstance(value, list) and value else [value])
    return values or [MISSING]


def _null(value: Any) -> Any:
    return None if value is MISSING else value


def duplicate_key(ns: Namespace, index: str, pattern: Mapping[str, Any], values: Iterable[Any]) -> WriteError:
    """Return the error for a key that another document holds."""
    held = dict(zip(pattern, values, strict=True))
    return WriteError(
        ErrorCode.DUPLICATE_KEY,
        f"E11000 duplicate key error collection: {ns} index: {index} dup key: {show_document(held)}",
        extra={"keyPattern": dict(pattern), "keyValue": held},
    )
