"""The stages that begin a pipeline with documents which are in no collection.

`$documents`, `$collStats`, `$indexStats`, `$currentOp`, `$listSessions`, `$listLocalSessions`,
`$planCacheStats`, `$listSearchIndexes`, `$shardedDataDistribution`, `$listClusterCatalog`. The tables at the
end say which of them run on a database instead of a collection, which take only the local read concern, and
which are outside API version 1. Not modelled: latencies and cached plans, which are all zero or empty; the
sessions of other servers, because all servers know of all sessions.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.access.session import SessionListing
from fakeserver.commands.administration.operations import current_operations
from fakeserver.commands.catalog.collections import described_collections
from fakeserver.commands.catalog.statistics import collection_stats
from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.sessions.session import NO_USER, lsid_of
from fakeserver.storage.port.engine import Namespace, Scope
from fakeserver.storage.stages.lookup import compile_documents
from fakeserver.storage.store.catalog import not_on_view
from fakeserver.storage.values.types import copy_value, is_object, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document

_NO_ROUTER: Final = 6_789_101
SEARCH_UNAVAILABLE: Final = 31082
_STORAGE_STATS: Final = Fields.of(
    Field("scale", "int", minimum=1),
    *(Field(name, "bool") for name in ("verbose", "waitForLock", "numericOnly")),
)
_COLLECTION_STATS: Final = Fields.of(
    Field("latencyStats", "object", of=Fields.of(Field("histograms", "bool"))),
    Field("storageStats", "object", of=_STORAGE_STATS),
    *(Field(name, "object") for name in ("count", "queryExecStats", "operationStats")),
)


def _documents(ctx: CommandContext, _ns: Namespace, argument: Any) -> list[Document]:
    return compile_documents(argument, Scope(variables=ctx.builtins()))()


def _collection_stats(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    if not is_object(argument):
        raise CommandError(40166, f"$collStats must take a nested object but found: {argument}")
    argument = copy_value(argument)
    _COLLECTION_STATS.check(argument, "$collStats")
    source, _view, collection = ctx.catalog.resolve(ns)
    # A view stores nothing: of its statistics only the latencies are its own.
    if collection is not None and ctx.catalog.get(ns) is not collection and "storageStats" in argument:
        raise not_on_view(ns)
    found: Document = {"ns": str(ns), "host": ctx.node.address, "localTime": ctx.utc()}
    config = ctx.node.cluster.config if ctx.node.is_mongos else None
    if config is not None:
        found["shard"] = config.home_of(ns.db).name
    if "latencyStats" in argument:
        idle = {"latency": Int64(0), "ops": Int64(0), "queryableEncryptionLatencyMicros": Int64(0)}
        names = ("reads", "writes", "commands", "transactions")
        found["latencyStats"] = {name: dict(idle) for name in names}
    if "storageStats" in argument:
        found["storageStats"] = collection_stats(ctx, source, scale=argument["storageStats"].get("scale", 1))
    if "count" in argument:
        if collection is None:
            raise CommandError(
                ErrorCode.NAMESPACE_NOT_FOUND,
                f"Unable to retrieve count in $collStats stage :: caused by :: Collection [{ns}] not found.",
            )
        found["count"] = ctx.catalog.engine.stats(source).count
    return [found]


def _index_stats(ctx: CommandContext, ns: Namespace, argument: Any) -> list[Document]:
    if argument != {}:
        raise CommandError(28803, "The $indexStats stage specification must be an empty object")
    collection = ctx.catalog.get(ns)
    indexes = collection.indexes.values() if collection is not None else ()
    usage = ctx.catalog.engine.usage(ns)
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


def _plan_cache_stats(_ctx: CommandContext, _ns: Namespace, argument: Any) -> list[Document]:
    """Return the cached plans, of which there are none."""
    if not is_object(argument):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$planCacheStats value must be an object. Found: {type_name(argument)}",
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
    "$listSearchIndexes": _search_indexes,
    "$shardedDataDistribution": _data_distribution,
    "$listClusterCatalog": _cluster_catalog,
}
FIRST_ONLY: Final = frozenset(SOURCES) | {"$changeStream", "$geoNear"}
"""The stages that can only be the first; a change stream is a cursor of its own kind."""

LOCAL_ONLY: Final = frozenset(
    {"$currentOp", "$listLocalSessions", "$listSearchIndexes", "$listClusterCatalog", "$planCacheStats"}
)
"""The sources that take no read concern but the local one."""

_UNSTABLE: Final = frozenset(
    {"$indexStats", "$listLocalSessions", "$listSessions", "$currentOp", "$listSearchIndexes", "$fill"}
    | {"$planCacheStats", "$listClusterCatalog", "$search", "$searchMeta", "$vectorSearch"}
)


def is_stable(name: str, argument: Any) -> bool:
    """Return whether API Version 1 has this stage; of `$collStats` it has the count alone."""
    if name == "$collStats":
        return isinstance(argument, dict) and set(argument) <= {"count"}
    return name not in _UNSTABLE


ON_DATABASE: Final = frozenset(
    {"$documents", "$listLocalSessions", "$currentOp", "$changeStream", "$shardedDataDistribution"}
    | {"$listClusterCatalog"}
)
"""The sources that are not of a collection."""
