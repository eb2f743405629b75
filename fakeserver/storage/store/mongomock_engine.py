"""A storage engine that is mongomock: its collections hold the documents and answer the queries.

What mongomock gets wrong stays so here (`tests/fakeserver/storage/test_beyond_mongomock.py` shows what that
is); what it refuses, or fails at, is error 238 with its own words. Its clock, random numbers and ids
are never reached: what would draw on them is refused before (`_REFUSED`), and every document has an `_id`.

A change is tried in mongomock first, which checks its indexes, and made when `accept` has seen it. Beside
each collection stand `images`: its documents as they were handed out, in natural order. A search is one
step, since mongomock has no yield points; a write of many documents has one before each.

The images are there because the port promises documents that are values: mongomock returns a copy at each
search, while an oplog entry, a cursor and `Changed.before` need the same object. They are also what sizes,
the natural order and claims of transactions are computed from. mongomock and its images must hold the same,
so every change goes through `_Held.make`. A fork copies a whole collection, document by document, at its
first write: this engine is for small data.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import mongomock

from fakeserver.errors import CommandError, WriteError, not_implemented
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import equalities
from fakeserver.storage.plans.index_keys import KeyMaker
from fakeserver.storage.plans.indexes import UniqueIndex, duplicate_key
from fakeserver.storage.port.engine import Changed, Explanation, PlanCache, Query, Stats, UpdateResult
from fakeserver.storage.values.limits import TOO_LARGE_AFTER_UPDATE, TOO_LARGE_TO_UPSERT, check_updated
from fakeserver.storage.values.stored import Stored, stored
from fakeserver.storage.values.types import copy_value, identity
from fakeserver.waiting.interrupts import check_for_interrupt
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Accept, Capped, Document, IndexSpec, Namespace, Update

_REFUSED: Final = frozenset(
    {
        *("$sample", "$rand", "$sampleRate", "$currentDate", "$$NOW", "$createObjectId"),
        *("$lookup", "$graphLookup", "$unionWith", "$out", "$merge", "$where", "$function", "$accumulator"),
    }
)
"""What would use a clock, random numbers or ids of mongomock, other collections, or Python."""


_UPDATED: Final = (TOO_LARGE_AFTER_UPDATE, "Resulting document after update")
_UPSERTED: Final = (TOO_LARGE_TO_UPSERT, "Document to upsert")


def _refuse(value: Any) -> None:
    """Raise `CommandError` 238 for what mongomock is not to be asked, anywhere in a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _REFUSED:
                raise not_implemented(f"{name} with the storage mongomock")
            _refuse(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse(inner)
    elif isinstance(value, str) and value in _REFUSED:
        raise not_implemented(f"{value} with the storage mongomock")


def _check(query: Query) -> None:
    asked = {
        "a collation": query.collation,
        "let": query.let,
        "min": query.minimum,
        "max": query.maximum,
        "returnKey": query.return_key,
        "showRecordId": query.show_record_id,
    }
    for name, value in asked.items():
        if value:
            raise not_implemented(f"{name} with the storage mongomock")
    _refuse(query.filter)
    _refuse(query.projection)


@contextmanager
def _translated() -> Iterator[None]:
    """Have what mongomock raises be an error of a command; what it has no error for is 238."""
    try:
        yield
    # A duplicate key passes: its caller knows the document, which the message of a server names.
    except (CommandError, mongomock.DuplicateKeyError):
        raise
    except mongomock.OperationFailure as error:
        raise WriteError(error.code or ErrorCode.BAD_VALUE, str(error)) from error
    # Whatever else: mongomock fails with a TypeError or a KeyError where it lacks something.
    except Exception as error:
        raise not_implemented(f"what mongomock fails at ({type(error).__name__}: {error})") from error


def _scratch(*documents: Mapping[str, Any]) -> Any:
    """Return a collection of mongomock's own for one computation."""
    collection: Any = mongomock.MongoClient()["scratch"]["scratch"]
    for document in documents:
        collection.insert_one(copy_value(document))
    return collection


@dataclass(slots=True)
class _Held:
    """One collection: mongomock's, its unique indexes, and the documents as they were handed out."""

    documents: Any = field(default_factory=_scratch)
    images: dict[Hashable, Stored] = field(default_factory=dict)
    indexes: dict[str, IndexSpec] = field(default_factory=dict)
    capped: Capped | None = None
    shared: bool = False

    def copy(self) -> _Held:
        documents = _scratch(*self.images.values())
        held = replace(self, documents=documents, images=dict(self.images), indexes={}, shared=False)
        for index in self.indexes.values():
            held.index(index)
        return held

    def index(self, index: IndexSpec) -> None:
        self.documents.create_index(
            list(index.key.items()), name=index.name, unique=True, sparse=index.sparse
        )
        self.indexes[index.name] = index

    def make(self, change: Changed) -> None:
        """Have a change in mongomock, and its document among the images."""
        before, after = change.before, change.after
        if before is None:
            assert after is not None
            self.documents.insert_one(copy_value(after))
        elif after is None:
            self.documents.delete_one({"_id": before["_id"]})
            self.images.pop(identity(before["_id"]), None)
            return
        else:
            self.documents.replace_one({"_id": before["_id"]}, copy_value(after))
        self.images[identity(after["_id"])] = after if type(after) is Stored else stored(after)


class MongomockEngine:
    """A storage engine over collections of mongomock; it keeps the contract as far as mongomock does."""

    name: ClassVar = "mongomock"

    def __init__(self) -> None:
        self._collections: dict[Namespace, _Held] = {}

    def insert(self, ns: Namespace, document: Document, *, accept: Accept | None = None) -> Document:
        """Store a document (with an `_id`) and return it as stored. Raises `WriteError` 11000."""
        held, kept = self._own(ns), stored(copy_value(document))
        self._make(ns, held, Changed(None, kept, size=len(kept.raw)), accept)
        while held.capped is not None and self._is_over(ns, held.capped) and len(held.images) > 1:
            held.make(Changed(next(iter(held.images.values())), None))
        return kept

    def find(self, ns: Namespace, query: Query) -> list[Document]:
        """Return the documents that match, as mongomock finds them."""
        _check(query)
        held = self._collections.get(ns)
        if held is None:
            return []
        with _translated():
            projection = dict(query.projection) if query.projection else None
            found = held.documents.find(dict(query.filter), projection)
            if query.sort:
                found = found.sort(list(query.sort.items()))
            return list(found.skip(query.skip).limit(query.limit))

    def update(self, ns: Namespace, update: Update, *, accept: Accept | None = None) -> UpdateResult:
        """Apply one statement. Raises `WriteError` for a bad change, or a duplicate key."""
        _refuse(update.change)
        if not isinstance(update.change, dict):
            raise not_implemented("an update by a pipeline with the storage mongomock")
        done = update.done if update.done is not None else {}
        found = self._images(ns, update.query._replace(limit=0 if update.multi else 1))
        for before in self._as_they_are(ns, update.query, found):
            key = identity(before["_id"])
            if key not in done:
                after = self._updated(update, before)
                changed = Changed(before, after, not is_operators(update.change), size=len(after.raw))
                change = update.change
                if after.raw == before.raw and (is_operators(change) or "_id" in change):
                    changed = Changed(before, before)
                else:
                    self._make(ns, self._own(ns), changed, accept)
                done[key] = changed
        images = tuple(done.values())
        if not images and update.upsert:
            after = self._updated(update, None)
            changed = Changed(None, after, size=len(after.raw))
            self._make(ns, self._own(ns), changed, accept)
            return UpdateResult(0, 0, after["_id"], upserted=True, images=(changed,))
        return UpdateResult(len(images), sum(each.after is not each.before for each in images), images=images)

    def delete(self, ns: Namespace, query: Query, *, accept: Accept | None = None) -> list[Document]:
        """Delete the documents that match (all of them where the limit is 0) and return them."""
        deleted: list[Document] = []
        for before in self._as_they_are(ns, query, self._images(ns, query)):
            self._make(ns, self._own(ns), Changed(before, None, size=len(before.raw)), accept)
            deleted.append(before)
        return deleted

    def aggregate(
        self,
        ns: Namespace,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        options: Query,
        documents: list[Document] | None = None,
    ) -> list[Document]:
        """Return what mongomock's pipeline makes of the collection, or of `documents`."""
        _check(options)
        _refuse(list(pipeline))
        with _translated():
            if documents is not None:
                # Documents of a view or a source may lack an `_id`, which a collection of mongomock adds.
                wrapped = ({"_id": place, "root": document} for place, document in enumerate(documents))
                unwrap = {"$replaceRoot": {"newRoot": "$root"}}
                return list(_scratch(*wrapped).aggregate([unwrap, *pipeline]))
            held = self._collections.get(ns)
            return list((_scratch() if held is None else held.documents).aggregate(list(pipeline)))

    def equal(self, _ns: Namespace, _path: str, _value: Any) -> list[Document] | None:
        """Return None: no index of mongomock finds a document."""
        return None

    def explain(self, ns: Namespace, query: Query, *, run: bool) -> Explanation:
        """Return a scan, which is how mongomock finds everything."""
        count = len(self._collections[ns].images) if ns in self._collections else 0
        returned = len(self.find(ns, query)) if run else 0
        return Explanation(ns in self._collections, returned=returned, documents=count if run else 0)

    def plan_cache(self, _ns: Namespace) -> PlanCache:
        """Return that no plan is remembered."""
        return {}

    def usage(self, ns: Namespace) -> Mapping[str, int]:
        """Return that no index has been read."""
        held = self._collections.get(ns)
        return {} if held is None else dict.fromkeys(["_id_", *held.indexes], 0)

    def stats(self, ns: Namespace) -> Stats:
        """Return the collection's size; that of a collection which is not there is nothing."""
        held = self._collections.get(ns)
        images = [] if held is None else held.images.values()
        return Stats(len(images), sum(len(each.raw) for each in images))

    def drop(self, ns: Namespace) -> bool:
        """Forget the collection, its documents and its indexes; return whether it was there."""
        return self._collections.pop(ns, None) is not None

    def create(
        self,
        ns: Namespace,
        *,
        capped: Capped | None = None,
        unique_ids: bool = True,
        **_ids: Any,
    ) -> None:
        """Make an empty collection, if it is not there; mongomock knows one kind of ids.

        Raises `CommandError` 238 for a time series.
        """
        if not unique_ids:
            raise not_implemented("a time series with the storage mongomock")
        if ns not in self._collections:
            self._collections[ns] = _Held(capped=capped)

    def bound(self, ns: Namespace, capped: Capped) -> None:
        """Set the bounds of a capped collection; what is beyond them goes with the next insert."""
        self._own(ns).capped = capped

    def create_index(self, ns: Namespace, index: IndexSpec, *, tolerant: bool = False) -> None:
        """Have mongomock enforce a unique index; others would change nothing. Raises `WriteError` 11000."""
        if not index.unique:
            return
        if "partialFilterExpression" in index.document or tolerant:
            raise not_implemented("a unique index of a part with the storage mongomock")
        with _translated():
            try:
                self._own(ns).index(index)
            except mongomock.DuplicateKeyError as error:
                raise WriteError(ErrorCode.DUPLICATE_KEY, str(error)) from error

    def drop_index(self, ns: Namespace, name: str) -> None:
        """Forget an index."""
        held = self._own(ns)
        if held.indexes.pop(name, None) is not None:
            held.documents.drop_index(name)

    def rename(self, source: Namespace, target: Namespace) -> None:
        """Give a collection another name; the target must not be there."""
        self._collections[target] = self._collections.pop(source)

    def fork(self) -> MongomockEngine:
        """Return an engine that holds the same; the first change of either copies its collection."""
        fork = MongomockEngine()
        for held in self._collections.values():
            held.shared = True
        fork._collections = dict(self._collections)
        return fork

    def put(self, ns: Namespace, change: Changed) -> None:
        """Make a change that another engine allowed: `after` takes the place of `before`."""
        with _translated():
            self._own(ns).make(change)

    def claims(self, ns: Namespace, document: Document) -> list[Hashable]:
        """Return the unique keys that a document takes up in the collection, its `_id` among them."""
        held = self._collections.get(ns)
        indexes = [] if held is None else held.indexes.values()
        claims: list[Hashable] = [("_id_", identity(document["_id"]))]
        claims.extend((index.name, key) for index in indexes for key in _keys(ns, index, document))
        return claims

    def claimant(self, ns: Namespace, claim: Hashable) -> Document | None:
        """Return the engine's own document that takes up a unique key, or None."""
        held = self._collections.get(ns)
        if held is None:
            return None
        return next((image for image in held.images.values() if claim in self.claims(ns, image)), None)

    def _own(self, ns: Namespace) -> _Held:
        held = self._collections.get(ns)
        if held is None or held.shared:
            held = self._collections[ns] = _Held() if held is None else held.copy()
        return held

    def _is_over(self, ns: Namespace, capped: Capped) -> bool:
        stats = self.stats(ns)
        return stats.size > capped.size or bool(capped.max and stats.count > capped.max)

    def _images(self, ns: Namespace, query: Query) -> list[Stored]:
        images = self._collections[ns].images if ns in self._collections else {}
        with _translated():
            return [images[identity(each["_id"])] for each in self.find(ns, query._replace(projection=None))]

    def _as_they_are(self, ns: Namespace, query: Query, found: Sequence[Stored]) -> Iterator[Stored]:
        """Yield documents that a write is about, with a yield point before each but the first.

        Others may have written meanwhile: what is gone, or matches no more, is left out.
        """
        for number, seen in enumerate(found):
            if number:
                check_for_interrupt()
            held = self._collections.get(ns)
            image = None if held is None else held.images.get(identity(seen["_id"]))
            if image is not None and image is not seen:
                same = {"$and": [dict(query.filter), {"_id": seen["_id"]}]}
                image = next(iter(self._images(ns, Query(same))), None)
            if image is not None:
                yield image

    def _make(self, ns: Namespace, held: _Held, change: Changed, accept: Accept | None) -> None:
        # A delete cannot fail, so it is accepted at once. Another change is tried, taken back, accepted and
        # made again: `accept` sees the storage without it, and never sees one that an index refuses.
        if change.after is None and accept is not None:
            accept(change)
        with _translated():
            try:
                held.make(change)
            except mongomock.DuplicateKeyError as error:
                assert change.after is not None
                raise self._duplicate(ns, change.after) from error
        if accept is not None and change.after is not None:
            held.make(change.undone)
            accept(change)
            held.make(change)

    def _duplicate(self, ns: Namespace, document: Document) -> WriteError:
        for index in self._collections[ns].indexes.values():
            for key in _keys(ns, index, document):
                holder = self.claimant(ns, (index.name, key))
                if holder is not None and holder["_id"] != document["_id"]:
                    return duplicate_key(
                        ns, index.name, index.key, [document.get(path) for path in index.key]
                    )
        return duplicate_key(ns, "_id_", {"_id": 1}, [document["_id"]])

    def _updated(self, update: Update, before: Stored | None) -> Stored:
        """Return what mongomock makes of a document, or of none for an upsert."""
        change: dict[str, Any] = copy_value(dict(update.change))  # type: ignore[arg-type]
        operators = is_operators(change)
        if before is None and not any(path == "_id" for path, _ in equalities(update.query.filter)):
            target = change.setdefault("$setOnInsert", {}) if operators else change
            if "_id" not in target:
                if update.make_id is None:
                    raise not_implemented("an upsert without an _id with the storage mongomock")
                target["_id"] = update.make_id()
        with _translated():
            scratch = _scratch() if before is None else _scratch(before)
            run: Callable[..., Any] = scratch.update_one if operators else scratch.replace_one
            filters = {"array_filters": list(update.array_filters)} if update.array_filters else {}
            run(dict(update.query.filter), change, upsert=before is None, **filters)
            after = scratch.find_one()
        # `_id` first, as a server stores it; mongomock leaves it where the filter or the change had it.
        made = stored({"_id": after["_id"], **after})
        check_updated(len(made.raw), *(_UPSERTED if before is None else _UPDATED))
        return made


def _keys(ns: Namespace, index: IndexSpec, document: Document) -> list[Hashable]:
    """Return the keys of a document in a unique index: by our own rules, which mongomock does not tell."""
    return UniqueIndex(ns, KeyMaker(index)).keys(document)
