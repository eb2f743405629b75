"""What is kept of a collection besides its documents: sizes, record ids, bounds, keys, and who holds them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fakeserver.storage.indexes import UniqueIndex, ValueIndex
from fakeserver.storage.values import identity

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator

    from fakeserver.storage.engine import Capped, Document, IndexSpec, Namespace


@dataclass(slots=True)
class Kept:
    """One collection: `store` holds the documents by key, in natural order."""

    store: Any
    capped: Capped | None = None
    unique_ids: bool = True
    unique: dict[str, UniqueIndex] = field(default_factory=dict)
    by_value: dict[str, ValueIndex] = field(default_factory=dict)
    sizes: dict[Hashable, int] = field(default_factory=dict)
    records: dict[Hashable, int] = field(default_factory=dict)
    next_record: int = 1
    size: int = 0
    shared: bool = False

    def fork(self) -> Kept:
        """Return a copy that holds the same documents, which are values."""
        store = type(self.store)(self.store.name)
        store._documents = self.store._documents.copy()  # noqa: SLF001 -- it has no other door
        return replace(
            self,
            store=store,
            unique={name: index.fork() for name, index in self.unique.items()},
            by_value={name: index.fork() for name, index in self.by_value.items()},
            sizes=dict(self.sizes),
            records=dict(self.records),
            shared=False,
        )

    def key_of(self, document: Document) -> Hashable:
        """Return the key to keep a new document under."""
        return identity(document["_id"]) if self.unique_ids else ("record", self.next_record)

    def key_held(self, document: Document) -> Hashable:
        """Return the key that a document is kept under."""
        if self.unique_ids:
            return identity(document["_id"])
        return next(key for key, held in self.items() if held is document)

    def items(self) -> Iterator[tuple[Hashable, Document]]:
        """Iterate over keys and documents in natural order, which `sizes` has in common with the store."""
        return zip(self.sizes, self.store.documents, strict=True)

    def items_with(self, pinned: Iterable[tuple[str, Any]]) -> Iterator[tuple[Hashable, Document]]:
        """Iterate over what may hold all of some scalars at their paths, in natural order.

        It is everything where neither `_id` nor an index tells who holds one of them.
        """
        found: Collection[Hashable] | None = None
        for path, value in pinned:
            if path == "_id" and self.unique_ids:
                key = identity(value)
                return iter([(key, self.store[key])] if key in self.sizes else [])
            for index in self.by_value.values():
                if index.path == path:
                    holders = index.holders(value)
                    found = holders if found is None or len(holders) < len(found) else found
        if found is None:
            return self.items()
        return ((key, self.store[key]) for key in sorted(found, key=self.records.__getitem__))

    # Documents come, change and go.

    def add(self, key: Hashable, document: Document, size: int) -> None:
        """Keep a new document."""
        self.store[key] = document
        self.sizes[key] = size
        self.size += size
        self.records[key] = self.next_record
        self.next_record += 1
        self._enter(key, document)

    def replace(self, key: Hashable, before: Document, after: Document, size: int) -> None:
        """Keep another document in the place of one."""
        self._leave(key, before)
        self._enter(key, after)
        self.store[key] = after
        self.size += size - self.sizes[key]
        self.sizes[key] = size

    def discard(self, key: Hashable, document: Document) -> None:
        """Keep a document no longer."""
        del self.store[key]
        self.size -= self.sizes.pop(key)
        del self.records[key]
        self._leave(key, document)

    def _enter(self, key: Hashable, document: Document) -> None:
        for unique in self.unique.values():
            unique.add(key, document)
        for index in self.by_value.values():
            index.add(key, document)

    def _leave(self, key: Hashable, document: Document) -> None:
        for unique in self.unique.values():
            unique.remove(key, document)
        for index in self.by_value.values():
            index.remove(key, document)

    # Indexes.

    def add_index(self, ns: Namespace, spec: IndexSpec, *, tolerant: bool) -> None:
        """Enforce an index and look values up in it. Raises `WriteError` 11000 unless `tolerant`."""
        if spec.unique:
            unique = UniqueIndex(ns, spec)
            for key, document in self.items():
                if not tolerant:
                    unique.check(key, document)
                unique.add(key, document)
            self.unique[spec.name] = unique
        if ValueIndex.serves(spec):
            index = self.by_value[spec.name] = ValueIndex(spec)
            for key, document in self.items():
                index.add(key, document)

    def drop_index(self, name: str) -> None:
        """Forget an index."""
        self.unique.pop(name, None)
        self.by_value.pop(name, None)
