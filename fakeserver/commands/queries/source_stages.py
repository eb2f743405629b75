"""The stages that begin a pipeline with documents which are in no collection.

`$documents`, `$collStats`, `$indexStats`, `$currentOp`, `$listSessions`, `$listLocalSessions`,
`$planCacheStats`, `$querySettings`, `$queryStats`, `$listSearchIndexes`, `$shardedDataDistribution`,
`$listClusterCatalog`, `$listSampledQueries`. The tables at the end say which of them run on a database
instead of a collection, which take only the local read concern, and which are outside API version 1.
Those of a collection may begin a pipeline within a stage. Not modelled: scans and sampled queries, which are
all zero or empty; the sessions of other servers, because all servers know of all sessions.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.access.session import SessionListing
from fakeserver.commands import local_collections
from fakeserver.commands.administration.operations import current_operations
from fakeserver.commands.catalog.collections import described_collections
from fakeserver.commands.catalog.statistics import collection_stats
from fakeserver.commands.queries.plan_cache import cached_plans, debug_shape, settings_of_shapes
from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.sessions.session import NO_USER, lsid_of
from fakeserver.storage.port.engine import Namespace, Scope
from fakeserver.storage.stages.lookup import compile_documents
from fakeserver.storage.store.catalog import not_on_view
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import INT32_MAX, copy_value, is_object, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document

_NO_ROUTER: Final = 6_789_101
_FIRST: Final = 40602
_NOT_A_BOOL: Final = 13111
_ALL_HOSTS: Final = 4503200
_NO_CACHE: Final = 50933
SEARCH_UNAVAILABLE: Final = 31082
_NO_OBJECT: Final = 5447000
_NOT_EMPTY: Final = 31170
_STORAGE_STATS: Final = Fields.of(
    Field("scale", "int", minimum=1),
    *(Field(name, "bool") for name in ("verbose", "waitForLock", "numericOnly")),
    strict=False,
)
_COLLECTION_STATS: Final = Fields.of(
    Field("latencyStats", "object", of=Fields.of(Field("histograms", "strictBool", nullable=False))),
    Field("storageStats", "object", of=_STORAGE_STATS),
    *(Field(name, "object") for name in ("count", "queryExecStats", "operationStats")),
)
_STORED: Final = ("storageStats", "count", "queryExecStats")
"""Statistics of what is stored: a view has none, and a collection must be there."""


def _documents(ctx: CommandContext, _ns: Namespace, argument: Any) -> list[Document]:
    return compile_documents(argument, Scope(variables=ctx.builtins()))()


def _collection_stats(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    if not is_object(argument):
        shown = show(argument)
        raise CommandError(_NO_OBJECT, f"$collStats must take a nested object but found: $collStats: {shown}")
    argument = _collection_options(argument)
    source, _stages, _collection = ctx.catalog.resolve(ns)
    named = ctx.catalog.get(ns)
    # A view stores nothing: of its statistics only the latencies are its own.
    if named is not None and named.is_view and not argument.keys().isdisjoint(_STORED):
        raise not_on_view(ns)
    wanted = next((name for name in _STORED if name in argument), None)
    if wanted is not None and named is None and local_collections.documents_of(ctx, ns) is None:
        raise CommandError(
            ErrorCode.NAMESPACE_NOT_FOUND,
            f"Unable to retrieve {wanted} in $collStats stage :: caused by :: Collection [{ns}] not found.",
        )
    found: Document = {"ns": str(ns), "host": ctx.node.address, "localTime": ctx.utc()}
    config = ctx.node.cluster.config if ctx.node.is_mongos else None
    if config is not None:
        found["shard"] = config.home_of(ns.db).name
    if "latencyStats" in argument:
        histograms = argument["latencyStats"].get("histograms", False)
        found["latencyStats"] = ctx.node.counters.latencies(ns.db, ns.collection, histograms=histograms)
    if "storageStats" in argument:
        scale = min(argument["storageStats"].get("scale", 1), INT32_MAX)
        found["storageStats"] = collection_stats(ctx, source, scale=scale)
    if "count" in argument:
        stats = ctx.catalog.engine.stats(source)
        is_series = named is not None and named.kind == "timeseries"
        found["count"] = stats.buckets if is_series else stats.count
    if "queryExecStats" in argument:
        found["queryExecStats"] = {"collectionScans": {"total": Int64(0), "nonTailable": Int64(0)}}
    return [found]


def _collection_options(argument: Document) -> Document:
    """Return the options of `$collStats`, checked in their order. Raises `CommandError`."""
    checked: Document = {}
    for name, value in argument.items():
        option = {name: copy_value(value)}
        _COLLECTION_STATS.check(option, "$collStats")
        if name in {"count", "queryExecStats"} and option.get(name):
            raise CommandError(_NOT_EMPTY, f"{name} argument to $collStats must be an empty object")
        checked |= option
    return checked


def _behind(ctx: CommandContext, ns: Namespace, stage: str) -> Namespace:
    """Return the collection that is asked about: behind a view, where no stages of its own come first.

    Raises `CommandError` 40602 where they do.
    """
    source, stages, _collection = ctx.catalog.resolve(ns)
    if stages:
        raise CommandError(_FIRST, f"{stage} is only valid as the first stage in a pipeline")
    return source


def _index_stats(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    if argument != {}:
        raise CommandError(28803, "The $indexStats stage specification must be an empty object")
    source = _behind(ctx, ns, "$indexStats")
    collection = ctx.catalog.get(source)
    indexes = collection.indexes.values() if collection is not None else ()
    usage = ctx.catalog.engine.usage(source)
    started = ctx.utc() - dt.timedelta(seconds=ctx.now - ctx.node.started_at)
    return [
        {
            "name": index.name,
            "key": dict(index.key),
            "host": ctx.node.address,
            "accesses": {"ops": Int64(usage.get(index.name, 0)), "since": started},
            "spec": dict(index.document),
        }
        for index in indexes
    ]


def _local_sessions(ctx: CommandContext, _ns: Namespace, argument: Any) -> list[Document]:
    """Return sessions: everybody's, those of users, or the client's own."""
    uids = SessionListing.parse("$listLocalSessions", argument).uids
    # No users named means the client's own; without access control all sessions belong to nobody.
    if uids is not None and not uids:
        uids = frozenset({ctx.connection.identity.session_uid if ctx.node.auth else NO_USER})
    now = ctx.utc()
    return [
        {
            "_id": lsid_of(session.id),
            "lastUse": now - dt.timedelta(seconds=max(ctx.now - session.last_use, 0.0)),
            **({"user": session.user} if session.user else {}),
        }
        for session in ctx.node.sessions.live()
        if uids is None or session.uid in uids
    ]


def _current_operation(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    if ns.db != "admin":
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        )
    return current_operations(ctx, argument)


def _plan_cache_stats(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    """Return the plans that a collection remembers."""
    if not is_object(argument):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$planCacheStats value must be an object. Found: {type_name(argument)}",
        )
    for name, value in argument.items():
        if name != "allHosts":
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"$planCacheStats parameters object may contain only 'allHosts': {name}",
            )
        if not isinstance(value, bool):
            raise CommandError(_NOT_A_BOOL, f"wrong type for field ({name}) {type_name(value)} != bool")
    if argument.get("allHosts") and not ctx.node.is_mongos:
        raise CommandError(_ALL_HOSTS, "$planCacheStats stage supports allHosts only on a sharded cluster")
    source = _behind(ctx, ns, "$planCacheStats")
    collection = ctx.catalog.get(source)
    if collection is None:
        raise CommandError(_NO_CACHE, f"Failed to find plan cache for {ns}: no such collection")
    if collection.kind == "timeseries":
        raise CommandError(_FIRST, "$planCacheStats is only valid as the first stage in a pipeline")
    return cached_plans(ctx, source)


_QUERY_STATS: Final = Fields.of(
    Field(
        "transformIdentifiers",
        "object",
        of=Fields.of(
            Field("algorithm", "string", required=True, choices=("hmac-sha-256",)),
            Field("hmacKey", "binData"),
        ),
    )
)
_QUERY_SETTINGS: Final = Fields.of(Field("showDebugQueryShape", "strictBool", nullable=False))


def _query_settings(ctx: CommandContext, _ns: Namespace, argument: Any) -> list[Document]:
    """Return the settings of query shapes."""
    if not is_object(argument):
        raise CommandError(
            7746800, f"$querySettings stage expects a document as argument, found: {type_name(argument)}"
        )
    wanted = copy_value(argument)
    _QUERY_SETTINGS.check(wanted, "$querySettings")
    found = [copy_value(entry) for entry in settings_of_shapes(ctx).values()]
    for entry in found if wanted.get("showDebugQueryShape") else ():
        if "representativeQuery" in entry:
            entry["debugQueryShape"] = debug_shape(entry["representativeQuery"])
    return found


def _query_stats(_ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    """Return the statistics of query shapes: none is kept. Raises `CommandError` 73, 9, 14 or 40415."""
    if not is_object(argument):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE, f"$queryStats value must be an object. Found: {type_name(argument)}"
        )
    _QUERY_STATS.check(copy_value(argument), "$queryStats")
    if ns.db != "admin":
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            "$queryStats must be run against the 'admin' database with {aggregate: 1}",
        )
    return []


def _data_distribution(ctx: CommandContext, ns: Namespace, _argument: Any) -> list[Document]:
    """Return where the documents of sharded collections are: all on the shard of their database."""
    config = ctx.node.cluster.config if ctx.node.is_mongos else None
    if config is None:
        raise CommandError(_NO_ROUTER, "The $shardedDataDistribution stage can only be run on router")
    if ns.db != "admin":
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            "$shardedDataDistribution must be run against the 'admin' database with {aggregate: 1}",
        )
    found: list[Document] = []
    for collection in ctx.catalog:
        if config.key_of(collection.ns) is None:
            continue
        stats = ctx.catalog.engine.stats(collection.ns)
        here = {
            "shardName": config.home_of(collection.ns.db).name,
            "numOrphanedDocs": Int64(0),
            "numOwnedDocuments": Int64(stats.count),
            "ownedSizeBytes": Int64(stats.size),
            "orphanedSizeBytes": Int64(0),
        }
        found.append({"ns": str(collection.ns), "shards": [here]})
    return found


_CATALOG: Final = Fields.of(*(Field(name, "strictBool") for name in ("shards", "balancingConfiguration")))


def _cluster_catalog(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    """Return the collections and views of a database, or of all from `admin`, as the cluster knows them."""
    if not is_object(argument):
        message = f"$listClusterCatalog must take a nested object but found: {type_name(argument)}"
        raise CommandError(9621302, message)
    for name in argument:
        if argument[name] is None and name in _CATALOG.by_name:
            message = (
                f"BSON field '$listClusterCatalog.{name}' is the wrong type 'null', expected type 'bool'"
            )
            raise CommandError(ErrorCode.TYPE_MISMATCH, message)
    options = copy_value(argument)
    _CATALOG.check(options, "$listClusterCatalog")
    config = ctx.node.cluster.config if ctx.node.is_mongos else None
    names = sorted({each.ns.db for each in ctx.catalog}) if ns.db == "admin" else [ns.db]
    found: list[Document] = []
    for db in names:
        for described in described_collections(ctx, db):
            name = described.pop("name")
            full = Namespace(db, name)
            sharded = config is not None and config.key_of(full) is not None
            entry = {"ns": str(full), "db": db, **described, "sharded": sharded}
            if options.get("shards"):
                entry["shards"] = [config.home_of(db).name] if config is not None else []
            found.append(entry)
    return found


def _sampled_queries(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    """Return the sampled queries, of which there are none. Raises `CommandError`."""
    if not is_object(argument):
        raise CommandError(
            6876001,
            f"The $listSampledQueries stage specification must be an object, found {type_name(argument)}",
        )
    wanted = copy_value(argument)
    _SAMPLED.check(wanted, "$listSampledQueries")
    if not ctx.node.is_replicated and not ctx.node.is_mongos:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, "$listSampledQueries is not supported on a standalone mongod"
        )
    if ns.db != "admin":
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            "$listSampledQueries must be run against the 'admin' database with {aggregate: 1}",
        )
    return []


_SAMPLED: Final = Fields.of(Field("namespace", "string"))


def _search_indexes(_ctx: CommandContext, _ns: Namespace, _argument: Any) -> list[Document]:
    """Refuse: search indexes need a service beside the server. Raises `CommandError` 31082."""
    raise search_unavailable()


def search_unavailable() -> CommandError:
    """Return the error for search indexes, which need a service that is not part of the server."""
    return CommandError(
        SEARCH_UNAVAILABLE,
        "Using Atlas Search Database Commands and the $listSearchIndexes aggregation stage "
        "requires additional "
        "configuration. Please connect to Atlas or an AtlasCLI local deployment to enable. For "
        "more information on "
        "how to connect, see https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs",
    )


SOURCES: Final[dict[str, Callable[[CommandContext, Namespace, Any], list[Document]]]] = {
    "$documents": _documents,
    "$collStats": _collection_stats,
    "$indexStats": _index_stats,
    "$listLocalSessions": _local_sessions,
    "$listSessions": _local_sessions,
    "$currentOp": _current_operation,
    "$planCacheStats": _plan_cache_stats,
    "$querySettings": _query_settings,
    "$queryStats": _query_stats,
    "$listSearchIndexes": _search_indexes,
    "$shardedDataDistribution": _data_distribution,
    "$listClusterCatalog": _cluster_catalog,
    "$listSampledQueries": _sampled_queries,
}
FIRST_ONLY: Final = frozenset(SOURCES) | {"$changeStream"}
"""The stages that can only be the first; a change stream is a cursor of its own kind."""

LOCAL_ONLY: Final = frozenset(
    {"$currentOp", "$listLocalSessions", "$listSearchIndexes", "$listClusterCatalog", "$planCacheStats"}
)
"""The sources that take no read concern but the local one."""

_UNSTABLE: Final = frozenset({
    "$indexStats", "$listLocalSessions", "$listSessions", "$currentOp", "$listSearchIndexes", "$fill",
    "$planCacheStats", "$listClusterCatalog", "$listSampledQueries", "$querySettings", "$queryStats",
    "$search", "$searchMeta", "$vectorSearch",
})  # fmt: skip


WITHIN_STAGES: Final = frozenset({"$collStats", "$indexStats"})
"""The sources of a collection that may begin the pipeline of a `$lookup` or a `$unionWith` too."""


def with_documents(
    ctx: CommandContext, db: str, pipeline: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Return a pipeline in which sources within stages are replaced by the documents that they yield."""
    return [
        {name: _with_documents(ctx, db, name, argument) for name, argument in stage.items()}
        for stage in pipeline
    ]


def _with_documents(ctx: CommandContext, db: str, name: str, argument: Any) -> Any:
    inner = argument.get("pipeline") if name in {"$lookup", "$unionWith"} and is_object(argument) else None
    if not isinstance(inner, list) or not all(is_object(stage) for stage in inner):
        return argument
    first = next(iter(inner[0]), "") if inner else ""
    of = argument.get("from" if name == "$lookup" else "coll")
    kept = {key: value for key, value in argument.items() if key != "pipeline"}
    if first not in WITHIN_STAGES or type(of) is not str:
        return {**kept, "pipeline": with_documents(ctx, db, inner)}
    found = SOURCES[first](ctx, Namespace(db, of), inner[0][first])
    del kept["from" if name == "$lookup" else "coll"]
    documents = {"$documents": [{"$literal": document} for document in found]}
    return {**kept, "pipeline": [documents, *with_documents(ctx, db, inner[1:])]}


def is_stable(name: str, argument: Any) -> bool:
    """Return whether API Version 1 has this stage; of `$collStats` it has the count alone."""
    if name == "$collStats":
        return isinstance(argument, dict) and set(argument) <= {"count"}
    return name not in _UNSTABLE


UNSTABLE_FIELDS: Final = {"$changeStream": frozenset({"showExpandedEvents"})}
"""Fields that API Version 1 does not have, of stages that it has."""


ON_DATABASE: Final = frozenset(
    {"$documents", "$listLocalSessions", "$currentOp", "$changeStream", "$shardedDataDistribution"}
    | {"$listClusterCatalog", "$listSampledQueries", "$querySettings", "$queryStats"}
)
"""The sources that are not of a collection."""
