"""The oracle of the storage tests: a list of documents per collection, and the simplest code there is.

It knows what `check_storage_engine` states: plain operators on fields that are not nested.
"""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any, ClassVar, Final

import bson

from fakeserver.errors import WriteError
from fakeserver.storage.port.engine import Changed, Explanation, PlanCache, Query, Stats, UpdateResult

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from fakeserver.storage.port.engine import Accept, Capped, Document, IndexSpec, Namespace, Update

_MISSING: Final = object()
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _kind(value: Any) -> str:
    if value is None or value is _MISSING:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _same(left: Any, right: Any) -> bool:
    if _kind(left) != _kind(right):
        return False
    return _kind(left) == "null" or bool(left == right)


def _holds(value: Any, condition: Any) -> bool:
    if not isinstance(condition, dict) or not next(iter(condition), "").startswith("$"):
        return _same(value, condition)
    return all(_test(value, name, argument) for name, argument in condition.items())


def _test(value: Any, name: str, argument: Any) -> bool:
    if name in _COMPARISONS:
        return (
            value is not _MISSING and _kind(value) == _kind(argument) and _COMPARISONS[name](value, argument)
        )
    if name == "$in":
        return any(_same(value, item) for item in argument)
    if name == "$exists":
        return (value is not _MISSING) is bool(argument)
    if name == "$ne":
        return not _same(value, argument)
    if name == "$eq":
        return _same(value, argument)
    raise WriteError(2, f"unknown operator: {name}")


def _matches(document: Document, query: Mapping[str, Any]) -> bool:
    for name, condition in query.items():
        if name == "$or":
            if not any(_matches(document, branch) for branch in condition):
                return False
        elif name == "$and":
            if not all(_matches(document, branch) for branch in condition):
                return False
        elif not _holds(document.get(name, _MISSING), condition):
            return False
    return True


_ORDER: Final = ["null", "number", "str", "bool"]


def _sort_key(document: Document, name: str) -> tuple[int, Any]:
    value = document.get(name)
    return (_ORDER.index(_kind(value)), 0 if value is None else value)


def _sorted(documents: list[Document], query: Query) -> list[Document]:
    order_by = query.sort
    condition = query.filter.get("_id")
    if not order_by and query.hint is None and isinstance(condition, dict):
        order_by = {"_id": 1}
    for name, direction in reversed(list((order_by or {}).items())):
        documents = sorted(documents, key=lambda each: _sort_key(each, name), reverse=direction < 0)
    return documents


def _updated(document: Document, change: Any, *, inserting: bool) -> Document:
    if not next(iter(change), "").startswith("$"):
        kept = {"_id": document["_id"]} if "_id" in document else {}
        return {**kept, **copy.deepcopy(change)}
    steps = [(field, name, value) for name, fields in change.items() for field, value in fields.items()]
    changed = copy.deepcopy(document)
    for field, name, value in sorted(steps, key=lambda step: step[0]):
        if name == "$set" or (name == "$setOnInsert" and inserting):
            changed[field] = copy.deepcopy(value)
        elif name == "$unset":
            changed.pop(field, None)
        elif name == "$inc":
            if _kind(changed.get(field, 0)) != "number":
                raise WriteError(14, "not a number")
            changed[field] = changed.get(field, 0) + value
        elif name == "$push":
            if not isinstance(changed.get(field, []), list):
                raise WriteError(2, "not an array")
            changed[field] = [*changed.get(field, []), value]
    return changed


class ModelEngine:
    """A storage engine that scans lists."""

    name: ClassVar = "model"

    def __init__(self) -> None:
        self.collections: dict[Namespace, list[Document]] = {}
        self.indexes: dict[Namespace, dict[str, IndexSpec]] = {}
        self.bounds: dict[Namespace, Capped] = {}
        self.sharing: set[Namespace] = set()

    def insert(self, ns: Namespace, document: Document, *, accept: Accept | None = None) -> Document:
        stored = copy.deepcopy(document)
        self._check_unique(ns, stored, None)
        if accept is not None:
            accept(Changed(None, stored))
        held = self.collections.setdefault(ns, [])
        held.append(stored)
        bound = self.bounds.get(ns)
        while bound is not None and (
            self.stats(ns).size > bound.size or (bound.max and len(held) > bound.max)
        ):
            held.pop(0)
        return stored

    def find(self, ns: Namespace, query: Query) -> list[Document]:
        return [copy.deepcopy(document) for document in self._select(ns, query)]

    def update(self, ns: Namespace, update: Update, *, accept: Accept | None = None) -> UpdateResult:
        found = self._select(ns, update.query._replace(limit=0 if update.multi else 1))
        if not found:
            return self._upsert(ns, update, accept) if update.upsert else UpdateResult(0, 0)
        images = []
        for before in found:
            after = _updated(before, update.change, inserting=False)
            if bson.encode(before) == bson.encode(after):
                images.append(Changed(before, before))
                continue
            self._check_unique(ns, after, before)
            if accept is not None:
                accept(Changed(before, after))
            held = self.collections[ns]
            held[next(index for index, each in enumerate(held) if each is before)] = after
            images.append(Changed(before, after))
        changed = sum(image.after is not image.before for image in images)
        return UpdateResult(len(images), changed, images=tuple(images))

    def delete(self, ns: Namespace, query: Query, *, accept: Accept | None = None) -> list[Document]:
        found = self._select(ns, query)
        for document in found:
            if accept is not None:
                accept(Changed(document, None))
        gone = {id(document) for document in found}
        if found:
            self.collections[ns] = [each for each in self.collections[ns] if id(each) not in gone]
        return found

    def aggregate(
        self,
        ns: Namespace,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        options: Query,
        documents: list[Document] | None = None,
    ) -> list[Document]:
        found = self.find(ns, options) if documents is None else documents
        for stage in pipeline:
            ((name, argument),) = stage.items()
            if name == "$match":
                found = [document for document in found if _matches(document, argument)]
            elif name == "$sort":
                found = _sorted(found, options._replace(filter={}, sort=argument))
            elif name == "$limit":
                found = found[:argument]
            elif name == "$count":
                found = [{argument: len(found)}] if found else []
            else:
                raise WriteError(40324, f"Unrecognized pipeline stage name: '{name}'")
        return found

    def equal(self, ns: Namespace, path: str, value: Any) -> list[Document] | None:
        return None

    def explain(self, ns: Namespace, query: Query, *, run: bool) -> Explanation:
        documents = self.find(ns, Query(query.filter)) if run else []
        return Explanation(documents=self.stats(ns).count if run else 0, returned=len(documents))

    def plan_cache(self, _ns: Namespace) -> PlanCache:
        return {}

    def usage(self, ns: Namespace) -> Mapping[str, int]:
        return dict.fromkeys(self.indexes.get(ns, {}), 0)

    def stats(self, ns: Namespace) -> Stats:
        held = self.collections.get(ns, [])
        return Stats(len(held), sum(len(bson.encode(document)) for document in held))

    def drop(self, ns: Namespace) -> bool:
        self.indexes.pop(ns, None)
        self.bounds.pop(ns, None)
        return self.collections.pop(ns, None) is not None

    def create(
        self,
        ns: Namespace,
        *,
        capped: Capped | None = None,
        unique_ids: bool = True,
        clustered: bool = False,
        collation: Mapping[str, Any] | None = None,
        buckets: Any = None,
    ) -> None:
        self.collections.setdefault(ns, [])
        if capped is not None:
            self.bounds[ns] = capped
        if not unique_ids:
            self.sharing.add(ns)

    def bound(self, ns: Namespace, capped: Capped) -> None:
        self.bounds[ns] = capped

    def create_index(self, ns: Namespace, index: IndexSpec, *, tolerant: bool = False) -> None:
        held = self.collections.setdefault(ns, [])
        self.indexes.setdefault(ns, {})[index.name] = index
        if tolerant:
            return
        try:
            for document in held:
                self._check_unique(ns, document, document)
        except WriteError:
            del self.indexes[ns][index.name]
            raise

    def drop_index(self, ns: Namespace, name: str) -> None:
        self.indexes.get(ns, {}).pop(name, None)

    def rename(self, source: Namespace, target: Namespace) -> None:
        self.collections[target] = self.collections.pop(source)
        self.indexes[target] = self.indexes.pop(source, {})

    def fork(self) -> ModelEngine:
        fork = ModelEngine()
        fork.collections = {ns: list(held) for ns, held in self.collections.items()}
        fork.indexes = {ns: dict(indexes) for ns, indexes in self.indexes.items()}
        fork.bounds, fork.sharing = dict(self.bounds), set(self.sharing)
        return fork

    def put(self, ns: Namespace, change: Changed) -> None:
        held = self.collections.setdefault(ns, [])
        if change.before is None:
            held.extend([change.after] if change.after is not None else [])
            return
        place = next(i for i, each in enumerate(held) if _same(each["_id"], change.before["_id"]))
        held[place : place + 1] = [] if change.after is None else [change.after]

    def claims(self, ns: Namespace, document: Document) -> list[Hashable]:
        names: list[tuple[str, ...]] = [("_id",)]
        names += [tuple(index.key) for index in self.indexes.get(ns, {}).values() if index.unique]
        return [tuple((name, _kind(document.get(name)), document.get(name)) for name in key) for key in names]

    def claimant(self, ns: Namespace, claim: Any) -> Document | None:
        wanted = {name: value for name, _kind_of, value in claim}
        return next((each for each in self.collections.get(ns, []) if _matches(each, wanted)), None)

    def _select(self, ns: Namespace, query: Query) -> list[Document]:
        found = [each for each in self.collections.get(ns, []) if _matches(each, query.filter)]
        found = _sorted(found, query)[query.skip :]
        return found[: query.limit] if query.limit else found

    def _upsert(self, ns: Namespace, update: Update, accept: Accept | None) -> UpdateResult:
        operators = str(next(iter(update.change), "")).startswith("$")
        pinned = {
            name: value
            for name, value in update.query.filter.items()
            if not isinstance(value, dict) and (operators or name == "_id")
        }
        document = _updated(pinned, update.change, inserting=True)
        if "_id" not in document:
            assert update.make_id is not None
            document["_id"] = update.make_id()
        document = {"_id": document["_id"], **document}
        stored = self.insert(ns, document, accept=accept)
        return UpdateResult(0, 0, document["_id"], upserted=True, images=(Changed(None, stored),))

    def _check_unique(self, ns: Namespace, document: Document, itself: Document | None) -> None:
        indexes = [] if ns in self.sharing else [("_id_", {"_id": 1}, False)]
        unique = [index for index in self.indexes.get(ns, {}).values() if index.unique]
        indexes.extend((index.name, dict(index.key), index.sparse) for index in unique)
        for name, key, sparse in indexes:
            if sparse and not any(field in document for field in key):
                continue
            for other in self.collections.get(ns, []):
                if sparse and not any(field in other for field in key):
                    continue
                if other is not itself and all(_same(other.get(field), document.get(field)) for field in key):
                    raise WriteError(11000, f"E11000 duplicate key error collection: {ns} index: {name}")
