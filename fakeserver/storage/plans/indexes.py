"""Indexes: the unique keys that they enforce (sparse, partial, collated), and lookups by value or order.

An index that a client makes is up to three structures and a check, since each costs something at every write:

* `UniqueIndex`, for unique ones: keys to holders. An insert asks it before the change is accepted.
* `ValueIndex`: the values of the first field to holders. It answers an equality with a scalar, and knows all
  documents, also those that a sparse or partial index leaves out.
* `OrderedIndex`: the sorted keys. Made of all documents when a query first needs their order.
* `check_of`: what text and geographic indexes refuse; they have no keys.

A holder is the key of a document in its collection (`CollectionState.key_of`), never the document, so a
replaced document keeps its holder. A fork copies the structures, and shares the documents.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import WriteError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.plans.index_keys import is_ordered
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.pacing import sorted_at_leisure
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.printing import show, show_document
from fakeserver.storage.values.types import MISSING, SCALARS, identity, is_number
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from fakeserver.storage.plans.index_keys import KeyMaker
    from fakeserver.storage.port.engine import Document, IndexSpec, Namespace
    from fakeserver.storage.values.rows import Key

    Check: TypeAlias = Callable[[Document], object]


Entry: TypeAlias = "tuple[Key, int, Hashable]"
"""A key of an index, and the record number and the key in the store of the document that has it."""

_NO_SCALARS: Final = (dict, list, type(None), type(MISSING))


class UniqueIndex:
    """The keys that documents hold, and who holds them, so that a second holder is refused without a scan.

    A key has several holders only where a `tolerant` build let duplicates in (`IndexBuild`).
    """

    def __init__(self, ns: Namespace, maker: KeyMaker) -> None:
        self.ns = ns
        self._maker = maker
        self._holders: dict[Hashable, list[Hashable]] = {}

    def check(self, holder: Hashable, document: Document) -> None:
        """Refuse a document whose key another holds. Raises `WriteError` 11000."""
        for key, values in self._maker.keys(document).items():
            if any(other != holder for other in self._holders.get(key, ())):
                spec = self._maker.spec
                shown = [None if value is MISSING else value for value in values]
                raise duplicate_key(self.ns, spec.name, spec.key, shown)

    def fork(self) -> UniqueIndex:
        """Return an index that holds the same, and changes alone."""
        fork = copy.copy(self)
        fork.__dict__["_holders"] = {key: list(holders) for key, holders in self._holders.items()}
        return fork

    def keys(self, document: Document) -> list[Hashable]:
        """Return the keys that a document holds."""
        return list(self._maker.keys(document))

    def holder(self, key: Hashable) -> Hashable | None:
        """Return who holds a key, or None."""
        return next(iter(self._holders.get(key, ())), None)

    def add(self, holder: Hashable, document: Document) -> None:
        """Enter the keys of a document."""
        for key in self._maker.keys(document):
            self._holders.setdefault(key, []).append(holder)

    def remove(self, holder: Hashable, document: Document) -> None:
        """Forget the keys of a document."""
        for key in self._maker.keys(document):
            holders = self._holders[key]
            holders.remove(holder)
            if not holders:
                del self._holders[key]


class Usage:
    """How many commands have read an index, in its collection and in all forks of it."""

    __slots__ = ("ops",)

    def __init__(self) -> None:
        self.ops = 0


class OrderedIndex:
    """The keys of an index in order, each with its document's record number and key.

    They are put in order when a query first reads them so, and kept in order from then on: an index that
    only answers equalities costs nothing here.
    """

    def __init__(self, maker: KeyMaker) -> None:
        self.maker = maker
        self.arrays: frozenset[str] = frozenset()
        """The paths at which arrays led to keys; of an index of one field known once keys are in order."""
        self.usage = Usage()
        self.first = next(iter(maker.spec.key))
        self.is_ordered = is_ordered(maker.spec)
        self.is_hidden = bool(maker.spec.document.get("hidden"))
        self.collation = complete(maker.spec.document.get("collation"))
        spec = maker.spec
        all_documents = not spec.sparse and "partialFilterExpression" not in spec.document
        ordered = self.is_ordered and len(spec.key) == 1 and self.collation is None
        self.is_plain = ordered and all_documents and not self.is_hidden
        """Whether it orders all documents by one field."""
        self.follows = self._is_compound = len(maker.spec.key) > 1
        """Whether it has to hear of every change."""
        self._entries: list[Entry] | None = None

    @property
    def spec(self) -> IndexSpec:
        """The index's specification."""
        return self.maker.spec

    @property
    def multikey(self) -> bool:
        """Whether an array has led to a key."""
        return bool(self.arrays)

    def meets_array(self, path: str) -> bool:
        """Return whether an array stood on the way to the keys of a field."""
        return any(path == each or path.startswith(f"{each}.") for each in self.arrays)

    def note(self, document: Document) -> None:
        """Take notice of the arrays on the way to a document's keys."""
        met = self.maker.arrays(document)
        if met and not met <= self.arrays:
            self.arrays |= met

    def fork(self) -> OrderedIndex:
        """Return an index that holds the same, and changes alone."""
        fork = copy.copy(self)
        if self._entries is not None:
            fork.__dict__["_entries"] = list(self._entries)
        return fork

    def add(self, record: int, holder: Hashable, document: Document) -> None:
        """Enter the keys of a document."""
        if self._is_compound:
            self.note(document)
        # By record behind the key: equal keys lie in natural order, as a server's record ids have them.
        if self._entries is not None:
            for entry in self._made(record, holder, document):
                insort(self._entries, entry)

    def remove(self, record: int, holder: Hashable, document: Document) -> None:
        """Forget the keys of a document."""
        if self._entries is not None:
            for entry in self._made(record, holder, document):
                del self._entries[bisect_left(self._entries, entry)]

    def entries(self, everything: Callable[[], Iterable[tuple[int, Hashable, Document]]]) -> list[Entry]:
        """Return all entries in order; `everything` is asked for the documents if they are not yet."""
        if self._entries is None:
            # Only when they are complete: a build that is interrupted leaves nothing behind.
            self._entries = self.made(everything())
            self.follows = True
        return self._entries

    def made(self, documents: Iterable[tuple[int, Hashable, Document]]) -> list[Entry]:
        """Return the entries of some documents, in order, with yield points where they are many."""
        return sorted_at_leisure([entry for each in interruptible(documents) for entry in self._made(*each)])

    def _made(self, record: int, holder: Hashable, document: Document) -> list[Entry]:
        self.note(document)
        return [(key, record, holder) for key in self.maker.keys(document)]


class ValueIndex:
    """The holders of each scalar in the first field of an index, so that an equality on it needs no scan.

    It knows all documents, whatever the index leaves out, and no collation.
    """

    def __init__(self, spec: IndexSpec) -> None:
        self.path = next(iter(spec.key))
        self._parts = split(self.path)
        self._holders: dict[Hashable, dict[Hashable, None]] = {}

    @staticmethod
    def serves(spec: IndexSpec) -> bool:
        """Return whether an index has its fields in order, and is no text, geographic or wildcard index."""
        return is_ordered(spec)

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

    def _values(self, document: Document) -> Iterable[Hashable]:
        # The usual field, without an array and at the top, needs no walk along a path.
        if len(self._parts) == 1:
            value = document.get(self.path, MISSING)
            if type(value) in SCALARS:
                return (identity(value),)
        values: list[Any] = []
        # An array is found by each of its elements, as `{a: 1}` matches `{a: [1, 2]}`. Scalars alone are
        # looked up here, so null, a document and an array within an array need no entry.
        for value in read(document, self._parts):
            values.extend(value if isinstance(value, list) and value else [value])
        column = values or [MISSING]
        return {identity(value) for value in column if not isinstance(value, _NO_SCALARS)}


def duplicate_key(ns: Namespace, index: str, pattern: Mapping[str, Any], values: Iterable[Any]) -> WriteError:
    """Return the error for a key that another document holds."""
    held = dict(zip(pattern, values, strict=True))
    return WriteError(
        ErrorCode.DUPLICATE_KEY,
        f"E11000 duplicate key error collection: {ns} index: {index} dup key: {show_document(held)}",
        extra={"keyPattern": dict(pattern), "keyValue": held},
    )


# The documents that text and geographic indexes refuse.
#
# A server finds out when it makes the keys of such an index. Here a check says the same, and no keys are
# made.


_geo_shapes = at_first_use("fakeserver.storage.filters.geo_shapes")
_text_search = at_first_use("fakeserver.storage.filters.text_search")

_NO_GEO_KEYS: Final = 16755
_NO_LOCATION: Final = 16804
_EMPTY_LOCATION: Final = 13067
_ONE_NUMBER: Final = 13068
_NO_PAIR: Final = 13026
_OUT_OF_BOUNDS: Final = 13027
_EDGE: Final = 180.0
_PAIR: Final = 2


def check_of(spec: IndexSpec) -> Check | None:
    """Return how an index refuses a document that it cannot hold (`WriteError`); None if it never does."""
    checks: list[Check] = []
    for name, kind in spec.key.items():
        if kind == "2dsphere":
            checks.append(_spherical(split(name)))
        elif kind == "2d":
            checks.append(_flat(split(name), spec.document))
    if "text" in spec.key.values():
        checks.append(_text_search.TextIndex.of(spec).check)
    if not checks:
        return None
    partial = spec.document.get("partialFilterExpression")
    covers = compile_filter(partial) if partial is not None else None

    def check(document: Document) -> None:
        if covers is None or covers(document):
            for each in checks:
                each(document)

    return check


def _spherical(parts: tuple[str, ...]) -> Check:
    def check(document: Document) -> None:
        for value in read(document, parts):
            if value is MISSING or value is None or value == []:
                continue
            try:
                shape = _geo_shapes.parse(value)
                reason = "Edges of the polygon cross" if _geo_shapes.crosses_itself(shape) else None
            except _geo_shapes.BadShapeError as error:
                reason = str(error)
            if reason is not None:
                raise WriteError(_NO_GEO_KEYS, f"Can't extract geo keys: {show(document)}  {reason}")

    return check


def _flat(parts: tuple[str, ...], options: Mapping[str, Any]) -> Check:
    least = _geo_shapes.number(options.get("min", -_EDGE))
    most = _geo_shapes.number(options.get("max", _EDGE))

    def check_pair(value: Any, document: Document) -> None:
        if not isinstance(value, dict | list):
            raise WriteError(_NO_LOCATION, "location object expected, location array not in correct format")
        items = list(value.values()) if isinstance(value, dict) else value
        if not items:
            raise WriteError(_EMPTY_LOCATION, "geo field is empty")
        if len(items) < _PAIR:
            raise WriteError(_ONE_NUMBER, "geo field only has 1 element")
        if not all(is_number(each) for each in items[:_PAIR]):
            raise WriteError(_NO_PAIR, "geo values must be 'legacy coordinate pairs' for 2d indexes")
        if not all(least <= _geo_shapes.number(each) < most for each in items[:_PAIR]):
            raise WriteError(
                _OUT_OF_BOUNDS,
                f"point not in interval of [ {least:g}, {most:g} ] :: caused by :: {show(document)}",
            )

    def check(document: Document) -> None:
        for value in read(document, parts):
            if value is MISSING or value is None or value == []:
                continue
            # `[1, 2]` is a point, and `[[1, 2], [3, 4]]` are two.
            several = isinstance(value, list) and isinstance(value[0], dict | list)
            for each in value if several else [value]:
                check_pair(each, document)

    return check
