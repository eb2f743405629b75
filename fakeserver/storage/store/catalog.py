"""The databases, collections, views and indexes of a deployment, with their options.

A deployment has one catalog, as it has one oplog: what the primary does, all members have done.

Three layers in one file. `Collection` is a record: options as `listCollections` shows them, and what follows
from them. `Catalog` maps names to records, and tells the engine of each change that concerns documents:
`create`, `drop`, `rename`, `modify` and the indexes go through it, so that the two agree. `Workspace` is the
fork of a transaction, which notes the collections that it makes. The rest checks names and graphs of views.

A view is a record without documents: `resolve` gives the collection at its end and the pipeline on the way.
Names are claimed, options validated and views checked before the engine hears of a collection, because
nothing here is undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import bson
from bson import Int64

from fakeserver.errors import CommandError, WriteError
from fakeserver.storage.filters.matching import SEARCHES, compile_filter, refuse_operators
from fakeserver.storage.filters.validation import Validator, check_encrypted
from fakeserver.storage.plans.index_keys import is_ascending_id, is_id_key
from fakeserver.storage.port.engine import Capped, Changed, IndexSpec, Namespace, Query
from fakeserver.storage.port.oplog import Written
from fakeserver.storage.store import time_series
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.types import MISSING, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bson import Binary

    from fakeserver.storage.port.engine import Document, StorageEngine

    Graph = Mapping[Namespace, Sequence[Namespace]]


Kind = Literal["collection", "view", "timeseries"]

BUILT_IN: Final = ("admin", "config", "local")
"""The databases that every server has."""

VIEWS: Final = "system.views"
"""The collection in which a database keeps the definitions of its views: the first view makes it."""
_ENCRYPTED: Final = "encryptedFields"
BUCKETS: Final = "system.buckets."
"""What the name of the collection begins with in which a server keeps a time series."""
_PROFILE: Final = "system.profile"
_PROFILE_BYTES: Final = 1024 * 1024

MAX_NAME_BYTES: Final = 255
"""The longest full name of a collection."""
_SYSTEM_NAMES: Final = frozenset(
    {"system.js", "system.views", "system.profile", "system.users", "system.roles"}
)


class IndexFilter(NamedTuple):
    """The indexes, keys or names, that queries of a shape may use, and the shape as it was given."""

    shown: Document
    indexes: Sequence[Any]

    def allows(self, index: IndexSpec) -> bool:
        """Return whether queries of the shape may use an index."""
        return any(
            each == index.name if type(each) is str else list(each.items()) == list(index.key.items())
            for each in self.indexes
        )


@dataclass(slots=True, eq=False)
class Collection:
    """One collection or view: its options as `listCollections` shows them, and its indexes by name."""

    ns: Namespace
    uuid: Binary | None
    kind: Kind
    options: dict[str, Any]
    indexes: dict[str, IndexSpec] = field(default_factory=dict)
    validator: Validator | None = None
    index_filters: dict[Any, IndexFilter] = field(default_factory=dict)
    """The indexes that are left to queries, by their shapes (`planCacheSetFilter`)."""

    @property
    def is_view(self) -> bool:
        """Whether the name stands for a pipeline over another collection."""
        return self.kind == "view"

    @property
    def is_capped(self) -> bool:
        """Whether the oldest documents make room for new ones."""
        return bool(self.options.get("capped"))

    @property
    def keeps_images(self) -> bool:
        """Whether documents are kept as they were before and after each change, for change streams."""
        images = self.options.get("changeStreamPreAndPostImages")
        return bool(images and images.get("enabled"))

    @property
    def expires(self) -> bool:
        """Whether documents expire, by an option or by an index."""
        if "expireAfterSeconds" in self.options:
            return True
        return any("expireAfterSeconds" in index.document for index in self.indexes.values())

    @property
    def collation(self) -> Mapping[str, Any] | None:
        """The collation that operations have unless they give one."""
        return self.options.get("collation")

    @property
    def restricts(self) -> bool:
        """Whether there are documents that it refuses."""
        return self.validator is not None or self.kind == "timeseries" or _ENCRYPTED in self.options

    @property
    def creation(self) -> Written:
        """What the oplog says of its making: a command of the database."""
        index = self.indexes.get("_id_")
        change = Changed(None, {"create": self.ns.collection, **self.options})
        detail = {"nsType": self.kind, "idIndex": dict(index.document) if index is not None else None}
        return Written(Namespace(self.ns.db, "$cmd"), change, self.uuid, detail=detail)

    def validate(
        self,
        document: Document,
        before: Document | None = None,
        *,
        bypassing: bool = False,
        builtins: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Refuse a document, which was `before` if it is updated, that the collection cannot hold.

        Raises `WriteError` 2 for a measurement without its time, and 121 where the validator does not accept
        the document, or a field that clients encrypt is not, unless `bypassing` it. `builtins` tells the
        values of a server's variables.
        """
        if self.kind == "timeseries":
            name = self.options["timeseries"]["timeField"]
            if type_name(document.get(name, MISSING)) != "date":
                raise WriteError(
                    ErrorCode.BAD_VALUE,
                    f"'{name}' must be present and contain a valid BSON UTC datetime value",
                )
        # `bypassDocumentValidation` passes over rules of the user's, and not over the time of a measurement.
        if _ENCRYPTED in self.options and not bypassing:
            check_encrypted(self.options[_ENCRYPTED], document)
        if self.validator is not None and not bypassing:
            # Only a validator that names `$$NOW` or its like has the clock read, at each insert.
            if self.validator.names_builtins:
                self.validator.check(document, before, builtins())
            else:
                self.validator.check(document, before)

    def describe(self) -> Document:
        """Return the collection as `listCollections` shows it."""
        info: Document = {"readOnly": self.is_view}
        if self.uuid is not None and self.kind != "timeseries":
            info["uuid"] = self.uuid
        described: Document = {
            "name": self.ns.collection,
            "type": self.kind,
            "options": dict(self.options),
            "info": info,
        }
        if self.is_view:
            described["options"].setdefault("pipeline", [])
        # A clustered collection is its own index of `_id`.
        if self.kind == "collection" and "_id_" in self.indexes and "clusteredIndex" not in self.options:
            described["idIndex"] = dict(self.indexes["_id_"].document)
        return described


class Kept(NamedTuple):
    """A collection in a snapshot, and what it was then."""

    collection: Collection
    ns: Namespace
    options: Mapping[str, Any]
    indexes: Mapping[str, IndexSpec]
    validator: Validator | None


class Snapshot(NamedTuple):
    """The contents of a catalog at one instant. The engine is never written to."""

    engine: StorageEngine
    kept: tuple[Kept, ...]


class Catalog:
    """The collections of a deployment, over the engine that holds their documents."""

    def __init__(self, engine: StorageEngine, make_uuid: Callable[[], Binary]) -> None:
        self.engine = engine
        self._make_uuid = make_uuid
        self._collections: dict[Namespace, Collection] = {}
        self.expiry_changed: Callable[[], None] = _nothing
        """Called when collections come, go or change whose documents expire."""

    def __iter__(self) -> Iterator[Collection]:
        """Iterate over the collections and views, in the order in which they were made."""
        return iter(self._collections.values())

    def get(self, ns: Namespace) -> Collection | None:
        """Return the collection or view of that name, or None."""
        return self._collections.get(ns)

    def series_of(self, ns: Namespace) -> Collection | None:
        """Return the time series whose buckets a name stands for, or None."""
        if not ns.collection.startswith(BUCKETS):
            return None
        series = self._collections.get(Namespace(ns.db, ns.collection.removeprefix(BUCKETS)))
        return series if series is not None and series.kind == "timeseries" else None

    def ensure(self, ns: Namespace) -> tuple[Collection, bool]:
        """Return a collection, and whether it had to be made. Raises `WriteError` 166 for a view."""
        collection = self._collections.get(ns)
        if collection is None:
            return self.create(ns, {}), True
        if collection.is_view:
            raise not_on_view(ns)
        return collection, False

    def profile_of(self, db: str) -> Namespace:
        """Return the collection to which the profiler of a database writes, and make it if need be."""
        ns = Namespace(db, _PROFILE)
        if ns not in self._collections:
            self.create(ns, {"capped": True, "size": _PROFILE_BYTES})
        return ns

    def create(self, ns: Namespace, options: Mapping[str, Any]) -> Collection:
        """Make a collection or view with the options of the create command. The name must be free.

        Raises `CommandError` for a bad name or option.
        """
        check_name(ns)
        shown = _completed(options)
        self.check_view(ns, shown)
        kind: Kind = "view" if "viewOn" in shown else "timeseries" if "timeseries" in shown else "collection"
        collection = Collection(ns, None if kind == "view" else self._make_uuid(), kind, shown)
        collection.validator = _validator(shown)
        if kind != "view":
            self.engine.create(ns, **storage_of(collection))
        # A time series has no index of `_id`, and the profiler's collection has none either.
        if kind == "collection" and ns.collection != _PROFILE:
            collection.indexes["_id_"] = _id_index(shown)
        self._collections[ns] = collection
        self._define(collection)
        self._expiry_of(collection)
        return collection

    def _define(self, view: Collection) -> None:
        """Keep the definition of a view where a server keeps it."""
        if not view.is_view:
            return
        home = Namespace(view.ns.db, VIEWS)
        # By way of `ensure`, which makes the collection with its first view; a modified view is written anew.
        self.ensure(home)
        names = ("viewOn", "pipeline", "collation")
        document = {"pipeline": []} | {name: view.options[name] for name in names if name in view.options}
        document = {"_id": str(view.ns), **{name: document[name] for name in names if name in document}}
        self.engine.delete(home, Query({"_id": document["_id"]}))
        self.engine.insert(home, document)

    def check_view(self, ns: Namespace, options: Mapping[str, Any]) -> None:
        """Refuse a view that reads itself, a chain that is too long, and another collation than it stands on.

        Raises `CommandError` 5, 165 or 167. What is no view passes.
        """
        if "viewOn" not in options:
            return
        views = {each.ns: each.options for each in self if each.is_view} | {ns: options}
        # A view reads what it stands on, and what its pipeline names.
        read = {
            each: [Namespace(each.db, shown["viewOn"]), *involved(each.db, shown.get("pipeline", []))]
            for each, shown in views.items()
        }
        check_graph(ns, read)
        _check_size(ns, views)
        below = self._collections.get(Namespace(ns.db, options["viewOn"]))
        if below is not None and below.is_view and below.collation != options.get("collation"):
            raise CommandError(
                ErrorCode.OPTION_NOT_SUPPORTED_ON_VIEW,
                f"View {ns} has a collation that does not match the collation of view {below.ns}",
            )

    def _expiry_of(self, collection: Collection | None) -> None:
        if collection is not None and collection.expires:
            self.expiry_changed()

    def fork(self, claim_name: Callable[[Namespace], None] | None = None) -> Workspace:
        """Return a catalog that holds the same, and changes alone; it claims the names that it gives."""
        return Workspace(self.engine.fork(), self._make_uuid, dict(self._collections), claim_name)

    def copy(self) -> Catalog:
        """Return a catalog that holds the same, and changes alone, the options of its collections too.

        A fork shares these with its origin: a transaction asks whether they are still the same. A copy is for
        members that go their own way, such as one that lags.
        """
        copy = Catalog(self.engine.fork(), self._make_uuid)
        copy._collections = {
            ns: replace(each, options=dict(each.options), indexes=dict(each.indexes))
            for ns, each in self._collections.items()
        }
        return copy

    def snapshot(self) -> Snapshot:
        """Return what the catalog holds now. It costs a copy of each collection that is written to later."""
        kept = tuple(
            Kept(each, each.ns, dict(each.options), dict(each.indexes), each.validator) for each in self
        )
        return Snapshot(self.engine.fork(), kept)

    def restore(self, snapshot: Snapshot) -> None:
        """Hold again what a snapshot holds, which can be restored any number of times.

        No command may be in the middle of its work, and no transaction may be open.
        """
        self.engine = snapshot.engine.fork()
        self._collections = {}
        # The records are the same objects as then, with the contents of then: transactions compare them.
        for kept in snapshot.kept:
            collection = kept.collection
            collection.ns, collection.validator = kept.ns, kept.validator
            collection.options, collection.indexes = dict(kept.options), dict(kept.indexes)
            self._collections[kept.ns] = collection
        self.expiry_changed()

    def adopt(self, collection: Collection) -> None:
        """Take over a collection that a fork made, with its indexes and without documents."""
        self.engine.create(collection.ns, **storage_of(collection))
        for index in collection.indexes.values():
            if not is_id_key(index.key):
                self.engine.create_index(collection.ns, index)
        self._collections[collection.ns] = collection
        self._expiry_of(collection)

    def drop(self, ns: Namespace) -> Collection | None:
        """Forget a collection or view and return it, or None where there was none."""
        self.engine.drop(ns)
        collection = self._collections.pop(ns, None)
        if collection is not None and collection.is_view:
            self.engine.delete(Namespace(ns.db, VIEWS), Query({"_id": str(ns)}))
        elif ns.collection == VIEWS:
            # Without their definitions there are no views.
            for view in [each for each in self if each.is_view and each.ns.db == ns.db]:
                del self._collections[view.ns]
        self._expiry_of(collection)
        return collection

    def rename(self, source: Namespace, target: Namespace) -> None:
        """Give a collection another name, which must be free."""
        collection = self._collections.pop(source)
        collection.ns = target
        self._collections[target] = collection
        self.engine.rename(source, target)
        self._expiry_of(collection)

    def modify(self, collection: Collection, changes: Mapping[str, Any]) -> None:
        """Change a collection's options; a value of None takes one away.

        Raises `CommandError` for a view that would read itself.
        """
        if collection.is_view:
            self.check_view(collection.ns, {**collection.options, **changes})
        # Asked before and after: a change that ends expiry has to be told, too.
        expired = collection.expires
        for name, value in changes.items():
            if value is None:
                collection.options.pop(name, None)
            else:
                collection.options[name] = value
        self._define(collection)
        collection.validator = _validator(collection.options)
        bounds = _capped(collection.options)
        if bounds is not None:
            self.engine.bound(collection.ns, bounds)
        if expired or collection.expires:
            self.expiry_changed()

    def add_index(self, collection: Collection, index: IndexSpec, *, tolerant: bool = False) -> None:
        """Enforce an index from now on. Raises `WriteError` 11000 if documents violate it.

        Others have their turns meanwhile: raises `CommandError` 276 if the collection is another one then.
        """
        self.engine.create_index(collection.ns, index, tolerant=tolerant)
        # The build gave way: the name may be free by now, or another collection's.
        if self._collections.get(collection.ns) is not collection:
            self.engine.drop_index(collection.ns, index.name)
            raise CommandError(ErrorCode.INDEX_BUILD_ABORTED, "Index build aborted: collection drop")
        collection.indexes[index.name] = index
        self._expiry_of(collection)

    def drop_index(self, collection: Collection, name: str) -> None:
        """Forget an index."""
        self.engine.drop_index(collection.ns, name)
        expired = collection.expires
        del collection.indexes[name]
        if expired:
            self.expiry_changed()

    def collections(self, db: str) -> list[Collection]:
        """Return the collections and views of a database, in the order of their names."""
        found = [each for each in self._collections.values() if each.ns.db == db]
        return sorted(found, key=lambda each: each.ns.collection)

    def databases(self) -> list[str]:
        """Return the names of the databases that hold something, and of those that every server has."""
        return sorted({ns.db for ns in self._collections} | set(BUILT_IN))

    def resolve(self, ns: Namespace) -> tuple[Namespace, list[Mapping[str, Any]], Collection | None]:
        """Return the collection that a name reads, the pipeline of the views on the way, and its record.

        Raises `CommandError` 165 for views that are nested too deep.
        """
        pipeline: list[Mapping[str, Any]] = []
        collection = self._collections.get(ns)
        for _depth in range(MAX_VIEW_DEPTH):
            if collection is None or not collection.is_view:
                return ns, pipeline, collection
            # The pipeline of what lies deeper runs first.
            pipeline = [*collection.options.get("pipeline", []), *pipeline]
            ns = Namespace(ns.db, collection.options["viewOn"])
            collection = self._collections.get(ns)
        raise CommandError(
            ErrorCode.VIEW_DEPTH_LIMIT_EXCEEDED,
            f"View depth too deep or view cycle detected; maximum depth is {MAX_VIEW_DEPTH}",
        )


class Workspace(Catalog):
    """A fork. `made` are the collections that were made in it."""

    def __init__(
        self,
        engine: StorageEngine,
        make_uuid: Callable[[], Binary],
        collections: dict[Namespace, Collection],
        claim_name: Callable[[Namespace], None] | None,
    ) -> None:
        super().__init__(engine, make_uuid)
        self._collections = collections
        self._claim_name = claim_name
        self.made: dict[Namespace, Collection] = {}

    def create(self, ns: Namespace, options: Mapping[str, Any]) -> Collection:
        """Make a collection, after its name was claimed."""
        if self._claim_name is not None:
            self._claim_name(ns)
        collection = self.made[ns] = super().create(ns, options)
        return collection


def _nothing() -> None:
    """Do nothing."""


def _check_size(ns: Namespace, views: Mapping[Namespace, Mapping[str, Any]]) -> None:
    """Refuse a view whose pipelines, with those below, are too large. Raises `CommandError` 195."""
    size, view = 0, views.get(ns)
    while view is not None:
        size += sum(len(bson.encode(stage)) for stage in view.get("pipeline", ()))
        if size > MAX_VIEW_PIPELINE_BYTES:
            raise CommandError(
                ErrorCode.VIEW_PIPELINE_MAX_SIZE_EXCEEDED,
                f"View pipeline is too large and exceeds the maximum size of {MAX_VIEW_PIPELINE_BYTES} bytes",
            )
        view = views.get(Namespace(ns.db, view["viewOn"]))


def not_on_view(ns: Namespace) -> WriteError:
    """Return the error for a write to a view, and for a question about what it stores."""
    return WriteError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"Namespace {ns} is a view, not a collection")


def check_name(ns: Namespace) -> None:
    """Refuse a collection name that nothing may be created under. Raises `CommandError` 73."""
    name = ns.collection
    if not name or "$" in name or "\0" in name or name.startswith("."):
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid collection name: {name}")
    if name.startswith(BUCKETS):
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"Cannot create buckets collection {ns}")
    # A server's own databases have collections of any such name (`config.system.sessions`).
    if name.startswith("system.") and name not in _SYSTEM_NAMES and ns.db not in BUILT_IN:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid system namespace: {ns}")
    if len(str(ns).encode()) > MAX_NAME_BYTES:
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            f"Fully qualified namespace is too long. Namespace: {ns} Max: {MAX_NAME_BYTES}",
        )


def _completed(options: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(options)
    if "collation" in shown:
        collation = complete(shown.pop("collation"))
        if collation is not None:
            shown["collation"] = collation
    if "timeseries" in shown:
        shown["timeseries"] = time_series.completed(shown["timeseries"])
    if "clusteredIndex" in shown:
        spec = shown["clusteredIndex"]
        if not isinstance(spec, dict):
            spec = {"key": {"_id": 1}, "unique": True}
        if not is_ascending_id(spec.get("key") or {}) or spec.get("unique") is not True:
            raise CommandError(
                ErrorCode.INVALID_INDEX_SPECIFICATION_OPTION,
                "The clusteredIndex option is only supported for key: {_id: 1} and unique: true",
            )
        shown["clusteredIndex"] = {
            "v": 2,
            "key": {"_id": 1},
            "name": spec.get("name", "_id_"),
            "unique": True,
        }
    if "expireAfterSeconds" in shown:
        shown["expireAfterSeconds"] = Int64(shown["expireAfterSeconds"])
    return shown


def _capped(options: Mapping[str, Any]) -> Capped | None:
    if not options.get("capped"):
        return None
    return Capped(int(options["size"]), int(options.get("max", 0)))


def storage_of(collection: Collection) -> dict[str, Any]:
    """Return what the engine is told of a collection that it makes."""
    return {
        "capped": _capped(collection.options),
        "unique_ids": collection.kind != "timeseries",
        "clustered": "clusteredIndex" in collection.options,
        "collation": collection.collation,
        "buckets": time_series.Buckets.of(spec) if (spec := collection.options.get("timeseries")) else None,
    }


def _validator(options: Mapping[str, Any]) -> Validator | None:
    if not options.get("validator") or options.get("validationLevel") == "off":
        return None
    if options.get("validationAction") == "warn":
        return None
    moderate = options.get("validationLevel") == "moderate"
    return Validator(options["validator"], moderate=moderate, collation=options.get("collation"))


def _id_index(options: Mapping[str, Any]) -> IndexSpec:
    clustered = options.get("clusteredIndex")
    if clustered is not None:
        return IndexSpec(
            clustered["name"], {"_id": 1}, unique=True, document={**clustered, "clustered": True}
        )
    document: dict[str, Any] = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    if "collation" in options:
        document["collation"] = options["collation"]
    return IndexSpec("_id_", {"_id": 1}, unique=True, document=document)


def matching(
    described: Sequence[Mapping[str, Any]], query: Mapping[str, Any] | None
) -> list[Mapping[str, Any]]:
    """Return the descriptions that a filter of `listCollections` or `listDatabases` matches."""
    refuse_operators(query or {}, SEARCHES)
    predicate = compile_filter(query or {})
    return [each for each in described if predicate(each)]


# The namespaces that a view's pipeline names, and the rule that no view reads itself.
#
# A server refuses the definition with which views would make a circle, or a chain that is too long, rather
# than the first read of one.


MAX_VIEW_DEPTH: Final = 20
"""How many views may stand on one another (`ViewGraph::kMaxViewDepth`)."""
MAX_VIEW_PIPELINE_BYTES: Final = 16_000_000
"""The bytes of the pipelines of a view and of all below it (`ViewGraph::kMaxViewPipelineSizeBytes`)."""

_NAMED_BY: Final = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}


def involved(db: str, pipeline: Any) -> Iterator[Namespace]:
    """Iterate over the collections and views that the stages of a pipeline name, nested ones included."""
    for stage in pipeline if isinstance(pipeline, list) else ():
        for name, argument in stage.items() if isinstance(stage, dict) else ():
            if name == "$facet" and isinstance(argument, dict):
                for branch in argument.values():
                    yield from involved(db, branch)
            elif name in _NAMED_BY:
                yield from _named(db, _NAMED_BY[name], argument)


def _named(db: str, field: str, argument: Any) -> Iterator[Namespace]:
    spec = argument if isinstance(argument, dict) else {field: argument}
    target = spec.get(field)
    if isinstance(target, dict):
        db, target = str(target.get("db", db)), target.get("coll")
    if type(target) is str:  # not `Code`, which is one of its classes and which no stage takes
        yield Namespace(db, target)
    yield from involved(db, spec.get("pipeline"))


def check_graph(view: Namespace, graph: Graph) -> None:
    """Refuse a view that would read itself, or be one of too many that stand on one another.

    `graph` has for each view, this one among them, what it reads. Raises `CommandError` 5 or 165.
    """
    path = _way_back(view, graph)
    if path is not None:
        shown = " => ".join(map(str, path))
        raise CommandError(ErrorCode.GRAPH_CONTAINS_CYCLE, f"View cycle detected: {shown}")
    # A view may be put between others: what counts is the longest way down from it, and the longest way up.
    readers: dict[Namespace, list[Namespace]] = {each: [] for each in graph}
    for each, read in graph.items():
        for other in read:
            if other in readers:
                readers[other].append(each)
    if _height(view, graph) + _height(view, readers) - 1 > MAX_VIEW_DEPTH:
        raise CommandError(
            ErrorCode.VIEW_DEPTH_LIMIT_EXCEEDED,
            f"View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}",
        )


def _way_back(view: Namespace, graph: Graph) -> tuple[Namespace, ...] | None:
    """Return a way from a view to itself, None where there is none."""
    seen: set[Namespace] = set()
    waiting: list[tuple[Namespace, ...]] = [(view,)]
    while waiting:
        path = waiting.pop()
        for each in graph.get(path[-1], ()):
            if each == view:
                return (*path, view)
            if each not in seen:
                seen.add(each)
                waiting.append((*path, each))
    return None


def _height(view: Namespace, graph: Graph) -> int:
    """Return how many views the longest way from a view has, itself among them."""
    return 1 + max((_height(each, graph) for each in graph[view] if each in graph), default=0)
