"""Documents kept in mongomock's store.

mongomock keeps the documents and evaluates what `expressions.LIBRARY_OPERATORS` and `stages.LIBRARY_STAGES`
name. The rest of the query language it lacks or gets wrong (docs/STORAGE.md), and stands in this package,
one feature a module. Its own clock, dice and ids are never used.

Stored documents are values: a change stores a new document, so that what was read before stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import bson
from mongomock.store import CollectionStore, ServerStore

from fakeserver.errors import WriteError
from fakeserver.storage.collation import fold_of
from fakeserver.storage.engine import Changed, Document, Stats, UpdateResult
from fakeserver.storage.indexes import UniqueIndex, duplicate_key
from fakeserver.storage.matching import compile_filter, equalities, is_operators
from fakeserver.storage.planning import in_bounds, in_natural_order, index_key, ordered
from fakeserver.storage.projecting import compile_projection
from fakeserver.storage.scope import Scope
from fakeserver.storage.sorting import check_sort
from fakeserver.storage.stages import compile_pipeline
from fakeserver.storage.updating import Replacement, Updater, compile_update, seed, with_id
from fakeserver.storage.values import copy_value, identical, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from fakeserver.storage.engine import Accept, Capped, IndexSpec, Namespace, Query, Update

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
_TOO_LARGE_AFTER_UPDATE: Final = 17419


class _Store(CollectionStore):
    """A store without its lock, which one event loop needs not, and which costs more than the dictionary."""

    def __getitem__(self, key: Hashable) -> Any:
        return self._documents[key]

    def __setitem__(self, key: Hashable, document: Document) -> None:
        self._documents[key] = document

    def __delitem__(self, key: Hashable) -> None:
        del self._documents[key]


_NEW_SERVER: Final[Any] = ServerStore
_NEW_STORE: Final[Any] = _Store
"""What we use of mongomock, which has no types."""

_PLAIN_IDS: Final = frozenset({int, str, bson.ObjectId, bson.Int64, float, bson.Decimal128})


@dataclass(slots=True)
class _Collection:
    """What is kept of a collection besides mongomock's store: sizes, record ids, unique keys, bounds."""

    store: Any
    capped: Capped | None = None
    unique_ids: bool = True
    unique: dict[str, UniqueIndex] = field(default_factory=dict)
    sizes: dict[Hashable, int] = field(default_factory=dict)
    records: dict[Hashable, int] = field(default_factory=dict)
    next_record: int = 1
    size: int = 0
    shared: bool = False

    def fork(self) -> _Collection:
        """Return a copy that holds the same documents, which are values."""
        store = _NEW_STORE(self.store.name)
        store._documents = self.store._documents.copy()  # noqa: SLF001 -- it has no other door
        return replace(
            self,
            store=store,
            unique={name: index.fork() for name, index in self.unique.items()},
            sizes=dict(self.sizes),
            records=dict(self.records),
            shared=False,
        )

    def key_of(self, document: Document) -> Hashable:
        """Return the key to keep a new document under."""
        return identity(document["_id"]) if self.unique_ids else ("record", self.next_record)

    def items(self) -> Iterator[tuple[Hashable, Document]]:
        """Iterate over keys and documents in natural order, which `sizes` has in common with the store."""
        return zip(self.sizes, self.store.documents, strict=True)


class MongomockEngine:
    """A storage engine over mongomock's store; `dice` are what `$sample` throws."""

    def __init__(self, *, dice: Callable[[], float] | None = None) -> None:
        self._server: Any = _NEW_SERVER()
        self._collections: dict[Namespace, _Collection] = {}
        self._dice = dice

    def insert(self, ns: Namespace, document: Document, *, accept: Accept | None = None) -> Document:
        """Store a document (with an `_id`) and return it as stored. Raises `WriteError` 11000."""
        collection = self._ensure(ns)
        stored: Document = copy_value(document)
        self._add(ns, collection, stored, accept)
        if collection.capped is not None:
            self._make_room(collection, collection.capped)
        return stored

    def find(self, ns: Namespace, query: Query) -> list[Document]:
        """Return copies of the documents that match."""
        collection = self._collections.get(ns)
        scope = self._scope(query)
        project = (
            compile_projection(query.projection, scope, query=query.filter) if query.projection else None
        )
        pairs = self._select(collection, query, scope)
        if query.return_key:
            return [index_key(document, query) for _key, document in pairs]
        if project is not None:
            return [copy_value(project(document)) for _key, document in pairs]
        copies = [copy_value(document) for _key, document in pairs]
        if query.show_record_id and collection is not None:
            for (key, _document), document in zip(pairs, copies, strict=True):
                document["$recordId"] = bson.Int64(collection.records[key])
        return copies

    def update(self, ns: Namespace, update: Update, *, accept: Accept | None = None) -> UpdateResult:
        """Apply one statement to copies, and store those that changed."""
        query = update.query
        scope = self._scope(query)
        updater = compile_update(
            update.change,
            scope,
            query=query.filter,
            array_filters=update.array_filters,
            multi=update.multi,
            now=query.now,
        )
        collection = self._own(ns)
        found = self._select(collection, query, scope, limit=0 if update.multi else 1)
        if collection is None or not found:
            return self._upsert(ns, update, updater, accept) if update.upsert else UpdateResult(0, 0)
        images = [self._change(collection, key, document, updater, accept) for key, document in found]
        modified = sum(image.after is not image.before for image in images)
        return UpdateResult(len(images), modified, images=tuple(images))

    def delete(self, ns: Namespace, query: Query, *, accept: Accept | None = None) -> list[Document]:
        """Delete the documents that match and return them."""
        collection = self._own(ns)
        found = self._select(collection, query, self._scope(query))
        if collection is None:
            return []
        for key, document in found:
            if accept is not None:
                accept(Changed(document, None))
            self._discard(collection, key, document)
        return [document for _key, document in found]

    def aggregate(
        self,
        ns: Namespace,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        options: Query,
        documents: list[Document] | None = None,
    ) -> list[Document]:
        """Return what the pipeline makes of the collection, or of `documents`."""
        scope = self._scope(options)
        run = compile_pipeline(pipeline, scope)
        if documents is None:
            documents = [
                document for _key, document in self._select(self._collections.get(ns), options, scope)
            ]
        return [copy_value(document) for document in run(documents)]

    def stats(self, ns: Namespace) -> Stats:
        """Return the number of documents and their bytes."""
        collection = self._collections.get(ns)
        return Stats() if collection is None else Stats(len(collection.sizes), collection.size)

    def drop(self, ns: Namespace) -> bool:
        """Forget the collection; return whether it was there."""
        collection = self._collections.pop(ns, None)
        if collection is None:
            return False
        if not collection.shared:
            collection.store.drop()
        return True

    def create(self, ns: Namespace, *, capped: Capped | None = None, unique_ids: bool = True) -> None:
        """Make an empty collection, if it is not there."""
        collection = self._ensure(ns)
        collection.capped, collection.unique_ids = capped, unique_ids

    def create_index(self, ns: Namespace, index: IndexSpec, *, tolerant: bool = False) -> None:
        """Enforce an index; one that is not unique enforces nothing."""
        collection = self._ensure(ns)
        if not index.unique:
            return
        unique = UniqueIndex(ns, index)
        for holder, document in collection.items():
            if not tolerant:
                unique.check(holder, document)
            unique.add(holder, document)
        collection.unique[index.name] = unique

    def drop_index(self, ns: Namespace, name: str) -> None:
        """Forget an index."""
        collection = self._own(ns)
        if collection is not None:
            collection.unique.pop(name, None)

    def rename(self, source: Namespace, target: Namespace) -> None:
        """Give a collection another name."""
        collection = self._own(source)
        assert collection is not None
        del self._collections[source]
        self._collections[target] = collection
        for index in collection.unique.values():
            index.ns = target

    # What transactions are made of.

    def fork(self) -> MongomockEngine:
        """Return an engine that shares each collection until one of the two changes it."""
        fork = MongomockEngine(dice=self._dice)
        for collection in self._collections.values():
            collection.shared = True
        fork._collections = dict(self._collections)
        return fork

    def put(self, ns: Namespace, change: Changed) -> None:
        """Make a change that another engine allowed."""
        collection, before, after = self._ensure(ns), change.before, change.after
        if before is None:
            if after is not None:
                self._add(ns, collection, after, None)
            return
        key = self._key_of(collection, before)
        if after is None:
            self._discard(collection, key, before)
        else:
            self._replace(collection, key, before, after, len(bson.encode(after)))

    def claims(self, ns: Namespace, document: Document) -> list[Hashable]:
        """Return pairs of an index's name and a key."""
        collection = self._collections.get(ns)
        claimed: list[Hashable] = [("_id_", identity(document["_id"]))]
        for name, index in {} if collection is None else collection.unique.items():
            claimed += [(name, key) for key in index.keys(document)]
        return claimed

    def claimant(self, ns: Namespace, claim: Any) -> Document | None:
        """Return the document that takes up a unique key."""
        collection = self._collections.get(ns)
        if collection is None:
            return None
        name, key = claim
        if name != "_id_":
            index = collection.unique.get(name)
            key = None if index is None else index.holder(key)
        return collection.store[key] if key in collection.sizes else None

    def _key_of(self, collection: _Collection, document: Document) -> Hashable:
        if collection.unique_ids:
            return identity(document["_id"])
        return next(key for key, held in collection.items() if held is document)

    def _own(self, ns: Namespace) -> _Collection | None:
        """Return a collection that may be changed: its own copy of one that it shares with a fork."""
        collection = self._collections.get(ns)
        if collection is not None and collection.shared:
            collection = self._collections[ns] = collection.fork()
            self._register(ns, collection.store)
        return collection

    def _register(self, ns: Namespace, store: Any) -> None:
        self._server[ns.db]._collections[ns.collection] = store  # noqa: SLF001 -- it has no other door

    def _ensure(self, ns: Namespace) -> _Collection:
        collection = self._own(ns)
        if collection is None:
            store = _NEW_STORE(ns.collection)
            self._register(ns, store)
            collection = self._collections[ns] = _Collection(store)
        return collection

    def _scope(self, query: Query) -> Scope:
        fold = fold_of(query.collation) if query.collation else None
        if query.let is None and query.now is None and fold is None and query.read is None:
            return self._plain_scope()
        variables = dict(query.let or {})
        if query.now is not None:
            variables["NOW"] = query.now
        return Scope(fold, variables, query.read, self._dice)

    def _plain_scope(self) -> Scope:
        return Scope(dice=self._dice)

    def _select(
        self, collection: _Collection | None, query: Query, scope: Scope, *, limit: int | None = None
    ) -> list[tuple[Hashable, Document]]:
        """Return the keys and documents that a query is about, in its order, skipped and limited."""
        limit = query.limit if limit is None else limit
        if _is_id_lookup(query.filter, scope) and (collection is None or collection.unique_ids):
            found = [] if collection is None or query.skip else _by_id(collection, query.filter["_id"])
            return found if query.minimum is None else [pair for pair in found if in_bounds(pair[1], query)]
        predicate = compile_filter(query.filter, scope)
        if query.sort:
            check_sort(query.sort)
        if collection is None:
            return []
        matching = (pair for pair in collection.items() if predicate(pair[1]))
        if in_natural_order(query):
            stop = query.skip + limit if limit else None
            return list(islice(matching, query.skip, stop))
        in_order = ordered(list(matching), query, scope.fold)
        return in_order[query.skip : query.skip + limit if limit else None]

    def _add(
        self, ns: Namespace, collection: _Collection, document: Document, accept: Accept | None
    ) -> Hashable:
        key = collection.key_of(document)
        if key in collection.sizes:
            raise duplicate_key(ns, "_id_", {"_id": 1}, [document["_id"]])
        for index in collection.unique.values():
            index.check(key, document)
        if accept is not None:
            accept(Changed(None, document))
        size = len(bson.encode(document))
        collection.store[key] = document
        collection.sizes[key] = size
        collection.size += size
        collection.records[key] = collection.next_record
        collection.next_record += 1
        for index in collection.unique.values():
            index.add(key, document)
        return key

    def _change(
        self,
        collection: _Collection,
        key: Hashable,
        before: Document,
        updater: Updater,
        accept: Accept | None,
    ) -> Changed:
        after = updater.apply(before)
        if identical(before, after):
            return Changed(before, before)
        for index in collection.unique.values():
            index.check(key, after)
        size = len(bson.encode(after))
        if size > MAX_DOCUMENT_BYTES:
            raise WriteError(
                _TOO_LARGE_AFTER_UPDATE,
                f"Resulting document after update is larger than {MAX_DOCUMENT_BYTES}",
            )
        changed = Changed(before, after, isinstance(updater, Replacement), updater.touched)
        if accept is not None:
            accept(changed)
        self._replace(collection, key, before, after, size)
        return changed

    def _replace(
        self, collection: _Collection, key: Hashable, before: Document, after: Document, size: int
    ) -> None:
        for index in collection.unique.values():
            index.remove(key, before)
            index.add(key, after)
        collection.store[key] = after
        collection.size += size - collection.sizes[key]
        collection.sizes[key] = size

    def _upsert(self, ns: Namespace, update: Update, updater: Updater, accept: Accept | None) -> UpdateResult:
        pinned = list(equalities(update.query.filter))
        replacing = isinstance(update.change, dict) and not is_operators(update.change)
        base = seed([pair for pair in pinned if pair[0] == "_id"] if replacing else pinned)
        document = with_id(updater.apply(base, inserting=True), update.make_id)
        self._add(ns, self._ensure(ns), document, accept)
        return UpdateResult(0, 0, document["_id"], upserted=True, images=(Changed(None, document),))

    def _discard(self, collection: _Collection, key: Hashable, document: Document) -> None:
        del collection.store[key]
        collection.size -= collection.sizes.pop(key)
        del collection.records[key]
        for index in collection.unique.values():
            index.remove(key, document)

    def _make_room(self, collection: _Collection, capped: Capped) -> None:
        while collection.size > capped.size or (capped.max and len(collection.sizes) > capped.max):
            if len(collection.sizes) == 1:
                return
            oldest = next(iter(collection.sizes))
            self._discard(collection, oldest, collection.store[oldest])


def _is_id_lookup(query: Mapping[str, Any], scope: Scope) -> bool:
    """Whether a filter is an equality on `_id` alone, answered from the store without a scan."""
    return len(query) == 1 and "_id" in query and scope.fold is None and type(query["_id"]) in _PLAIN_IDS


def _by_id(collection: _Collection, value: Any) -> list[tuple[Hashable, Document]]:
    key = identity(value)
    return [(key, collection.store[key])] if key in collection.sizes else []
