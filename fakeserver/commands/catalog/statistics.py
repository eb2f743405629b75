"""The commands for statistics: the size and use of collections and databases.

Behaviour: Numbers and sizes of documents are true; `scale` divides sizes. collStats of a missing collection
is a row of zeros, of a view an error (166). `validate` refuses options that do not go together (72),
`background` on a standalone (115), a missing collection (26) and a view (166), and finds every collection
sound. `top` lists each collection and view with the commands that named it since the server began, or since
it was dropped, and the time of their handlers, at least a microsecond each.

Versions: The same in every release.

Not modelled: Of the buckets of a time series only their number is counted. The sizes on disk of collections
and indexes are estimates. There are no sections of the storage engine (`wiredTiger`, `indexDetails`), no
files, and on a mongos no rows for each shard. `repair`, `checkBSONConformance` and `fixMultikey` find nothing
to do; there is no free space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands import local_collections
from fakeserver.commands.catalog.collections import described_collections
from fakeserver.commands.context import namespace
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, truth
from fakeserver.storage.store.catalog import BUCKETS, not_on_view
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document, Namespace, Stats

table = CommandTable()

PAGE_BYTES: Final = 4096
_DISK_BYTES: Final = 64 * 1024**3


def storage_bytes(size: int) -> int:
    """Return the disk space that a collection or an index of that size is said to take."""
    return PAGE_BYTES * (5 if size else 1) + (size // PAGE_BYTES) * PAGE_BYTES


def collection_stats(ctx: CommandContext, ns: Namespace, *, scale: float = 1) -> Document:
    """Return the storage statistics of a collection, in units of `scale` bytes."""
    collection, stats = ctx.catalog.get(ns), ctx.catalog.engine.stats(ns)
    unit = int(scale)
    if collection is None:
        empty: Document = {
            "size": 0,
            "count": 0,
            "numOrphanDocs": 0,
            "storageSize": 0,
            "totalSize": 0,
            "nindexes": 0,
        }
        empty |= local_collections.oplog_stats(ctx, ns, unit) or {}
        return {**empty, "totalIndexSize": 0, "indexDetails": {}, "indexSizes": {}, "scaleFactor": unit}
    sizes = {name: storage_bytes(stats.count) // unit for name in collection.indexes}
    storage = storage_bytes(stats.size)
    found: Document = {"size": stats.size // unit}
    if collection.kind == "timeseries":
        found["timeseries"] = _series_stats(ns, stats)
    else:
        found["count"] = stats.count
    found["numOrphanDocs"] = 0
    if stats.count and collection.kind != "timeseries":
        found["avgObjSize"] = stats.size // stats.count
    found |= {"storageSize": storage // unit, "freeStorageSize": 0, "capped": collection.is_capped}
    if collection.is_capped:
        found["max"] = collection.options.get("max", 0)
        found["maxSize"] = int(collection.options["size"]) // unit
    return found | {
        "nindexes": len(sizes),
        "indexDetails": {},
        "indexBuilds": [],
        "totalIndexSize": sum(sizes.values()),
        "totalSize": storage // unit + sum(sizes.values()),
        "indexSizes": sizes,
        "scaleFactor": unit,
    }


_BUCKETS_CLOSED: Final = (
    *("Count", "SchemaChange", "Size", "TimeForward", "TimeBackward", "MemoryThreshold", "CachePressure"),
)


def _series_stats(ns: Namespace, stats: Stats) -> Document:
    """Return what a server tells of the buckets of a time series: they have no size that is scaled."""
    series: Document = {
        "bucketsNs": f"{ns.db}.{BUCKETS}{ns.collection}",
        "bucketCount": stats.buckets,
        "numBucketInserts": stats.buckets,
        "numBucketUpdates": max(stats.count - stats.buckets, 0),
        "numBucketsOpenedDueToMetadata": stats.buckets,
    }
    series |= {f"numBucketsClosedDueTo{reason}": 0 for reason in _BUCKETS_CLOSED}
    series |= {"numCommits": stats.count, "numMeasurementsGroupCommitted": 0, "numWaits": 0}
    series["numMeasurementsCommitted"] = stats.count
    if stats.count:
        series["avgNumMeasurementsPerCommit"] = 1
    counted: Document = {
        name: value if name == "bucketsNs" else Int64(value) for name, value in series.items()
    }
    if stats.buckets:
        counted["avgBucketSize"] = stats.size // stats.buckets
    return counted


@table.command(
    "collStats",
    kind="read",
    aliases=("collstats",),
    fields=Fields.of(Field("scale", "int", minimum=1), Field("waitForLock", "bool"), target="collection"),
)
def coll_stats(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the size of a collection."""
    ns = namespace(ctx, request)
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.is_view:
        raise not_on_view(ns)
    return {"ns": str(ns), **collection_stats(ctx, ns, scale=request.get("scale", 1))}


@table.command(
    "dbStats",
    kind="read",
    aliases=("dbstats",),
    fields=Fields.of(
        Field("dbStats"), Field("dbstats"), Field("scale", "int", minimum=1), Field("freeStorage", "bool")
    ),
)
def db_stats(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the size of a database."""
    scale = request.get("scale", 1)
    listed = ctx.catalog.collections(ctx.db)
    collections = [each for each in listed if not each.is_view]
    stats = [ctx.catalog.engine.stats(each.ns) for each in collections]
    objects, data = sum(each.count for each in stats), sum(each.size for each in stats)
    storage = sum(storage_bytes(each.size) for each in stats)
    indexes = sum(len(each.indexes) for each in collections)
    index_size = indexes * PAGE_BYTES
    free: Document = {}
    if request.get("freeStorage"):
        free = dict.fromkeys(("freeStorageSize", "indexFreeStorageSize", "totalFreeStorageSize"), 0.0)
    return {
        "db": ctx.db,
        "collections": Int64(len(collections)),
        "views": Int64(len(listed) - len(collections)),
        "objects": Int64(objects),
        "avgObjSize": data / objects if objects else 0.0,
        "dataSize": data / scale,
        "storageSize": storage / scale,
        "indexes": Int64(indexes),
        "indexSize": index_size / scale,
        "totalSize": (storage + index_size) / scale,
        **free,
        "scaleFactor": Int64(scale),
        "fsUsedSize": 0.0,
        "fsTotalSize": _DISK_BYTES / scale,
    }


_VALIDATE_OPTIONS: Final = (
    *("full", "background", "repair", "fixMultikey", "checkBSONConformance", "metadata"),
)
_INCOMPATIBLE: Final = (
    *(("background", "full"), ("background", "repair"), ("background", "metadata")),
    *(("metadata", "full"), ("metadata", "repair"), ("metadata", "checkBSONConformance")),
    ("checkBSONConformance", "repair"),
)
"""The pairs of options that validate does not take together."""


@table.command(
    "validate",
    kind="read",
    on_secondaries=True,
    fields=Fields.of(
        *(Field(name) for name in _VALIDATE_OPTIONS),
        strict=False,
        target="collection",
    ),
)
def validate(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return that a collection is sound."""
    ns = namespace(ctx, request)
    asked = {name for name in _VALIDATE_OPTIONS if truth(request.get(name))}
    for one, other in _INCOMPATIBLE:
        if {one, other} <= asked:
            raise CommandError(
                ErrorCode.INVALID_OPTIONS,
                f"Running the validate command with both {{ {one}: true }} and {{ {other}: true }} is not"
                " supported.",
            )
    if "background" in asked and not ctx.node.is_replicated:
        raise CommandError(
            ErrorCode.COMMAND_NOT_SUPPORTED,
            "Running validate on a standalone with { background: true } is not supported",
        )
    collection = ctx.catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"Collection '{ns}' does not exist to validate.")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, "Cannot validate a view")
    count = ctx.catalog.engine.stats(ns).count
    counted = {"nInvalidDocuments": 0, "nNonCompliantDocuments": 0, "nrecords": count}
    mode = "FixErrors" if "repair" in asked else "AdjustMultikey" if "fixMultikey" in asked else "None"
    return {
        "ns": str(ns),
        "uuid": collection.uuid,
        **({} if "metadata" in asked else counted),
        "nIndexes": len(collection.indexes),
        "keysPerIndex": dict.fromkeys(collection.indexes, count),
        "indexDetails": {
            name: {"valid": True, "spec": dict(index.document)} for name, index in collection.indexes.items()
        },
        "repairMode": mode,
        "valid": True,
        "repaired": False,
        "warnings": [],
        "errors": [],
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
    }


@table.command("top", kind="internal", admin_only=True)
def top(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the use of each collection and view: commands that named it, and the time that they took."""
    counters = ctx.node.counters
    usage = {
        f"{db}.{described['name']}": counters.by_collection(db, described["name"])
        for db in ctx.catalog.databases()
        for described in described_collections(ctx, db)
    }
    return {"totals": {"note": "all times in microseconds", **usage}}
