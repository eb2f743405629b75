"""The commands for maintenance: what keeps a real server in shape, and costs little or nothing here.

Behaviour: `compact`, `planCacheClear`, `logRotate` and `refreshLogicalSessionCacheNow` check their arguments
and do nothing. `fsync` with `lock` holds writes back until fsyncUnlock was called as often.
`setFeatureCompatibilityVersion` accepts the version of the release alone. `reIndex` runs on a standalone only
(20 elsewhere). `convertToCapped` makes the collection anew with its newest documents that fit and without
indexes but that of `_id`. `dbHash` is the MD5 of the documents in the order of `_id`, so two deployments with
the same data have the same hash.

Versions: setFeatureCompatibilityVersion asks for `confirm` since 7.0. `dryRun` and `freeSpaceTargetMB` of
compact since 8.0. reIndex is refused on a replica set in every release, as since 5.0.

Not modelled: A change of the compatibility version, with the features that it would switch. There is no file
to compact, to flush or to rotate. convertToCapped enters a drop, a create and inserts in the oplog; a server
copies into a temporary collection and renames it. dataSize counts the whole collection, whatever
`keyPattern`, `min` and `max` say, and a mongos does not have it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64

from fakeserver.commands.context import namespace
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from fakeserver.profile import WIRE_70
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.values.stored import Stored
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_UNCONFIRMED: Final = 7369100


@table.command(
    "compact",
    kind="write",
    fields=Fields.of(
        Field("force", "bool"),
        Field("dryRun", "bool"),
        Field("freeSpaceTargetMB", "long"),
        target="collection",
    ),
)
def compact(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Free the disk space that a collection does not need: none."""
    ns = namespace(ctx, command)
    collection = ctx.catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, "collection does not exist")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view")
    return {"bytesFreed": Int64(0)}


@table.command(
    "planCacheClear",
    kind="read",
    on_secondaries=True,
    fields=Fields.of(
        Field("query", "object"),
        Field("projection", "object"),
        Field("sort", "object"),
        Field("collation", "object"),
        target="collection",
    ),
)
def plan_cache_clear(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Forget cached plans, of which there are none."""
    return {}


@table.command("dataSize", kind="read", on_secondaries=True, home="mongod")
def data_size(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return how many bytes a collection's documents take."""
    name = first_argument(command)
    ns = Namespace.parse(name) if type(name) is str else Namespace("", "")
    if not ns.db or not ns.collection:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{name}'")
    stats = ctx.catalog.engine.stats(ns)
    return {
        "estimate": bool(command.get("estimate", False)),
        "size": Int64(stats.size),
        "numObjects": Int64(stats.count),
        "millis": 0,
    }


@table.command(
    "setFeatureCompatibilityVersion",
    kind="write",
    admin_only=True,
    write_concern=True,
    fields=Fields.of(
        Field("setFeatureCompatibilityVersion", "string"),
        Field("confirm", "bool"),
        Field("fromConfigServer", "bool"),
        Field("downgradeOnDiskChanges", "bool"),
    ),
)
def set_feature_compatibility_version(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Set the feature compatibility version, which can only be that of the release."""
    profile, wanted = ctx.node.profile, first_argument(command)
    if profile.max_wire_version >= WIRE_70 and not command.get("confirm"):
        raise CommandError(
            _UNCONFIRMED,
            "Once you have changed the FCV, it is recommended to wait before downgrading binaries. Please"
            " re-run this command with 'confirm: true' to acknowledge this and continue with the FCV change.",
        )
    if wanted != profile.feature_compatibility_version:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Invalid feature compatibility version value '{wanted}'; expected"
            f" '{profile.feature_compatibility_version}'. See https://docs.mongodb.com/manual/release-notes/"
            f"{profile.name}-compatibility/#feature-compatibility.",
        )
    return {}


@table.command("logRotate", kind="internal", admin_only=True)
def log_rotate(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Begin a new log file; there is none."""
    return {}


@table.command("refreshLogicalSessionCacheNow", kind="internal", admin_only=True, test_only=True)
def refresh_logical_session_cache_now(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Write the cached sessions to where other members read them; they all know them."""
    return {}


@table.command("reIndex", kind="write", home="mongod", fields=Fields.of(target="collection"))
def re_index(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Rebuild the indexes of a collection, on a standalone; they are never damaged."""
    ns = namespace(ctx, command)
    if ctx.node.is_replicated:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION,
            f"reIndex is only allowed on a standalone mongod instance. Cannot reIndex '{ns}' while"
            " replication is active",
        )
    collection = ctx.catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, "collection does not exist")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, "can't re-index a view")
    if collection.kind == "timeseries":
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED, "can't re-index a time-series collection")
    indexes = [dict(index.document) for index in collection.indexes.values()]
    count = len(indexes)
    return {"nIndexesWas": count, "nIndexes": count, "indexes": indexes}


@table.command(
    "convertToCapped",
    kind="write",
    write_concern=True,
    fields=Fields.of(Field("size", "long"), Field("temp", "bool"), target="collection"),
)
def convert_to_capped(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Make a collection capped: its newest documents that fit, without indexes but that of `_id`."""
    ns, size = namespace(ctx, command), command.get("size", 0)
    if size <= 0:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "Capped collection size must be greater than zero")
    collection = ctx.catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"source collection {ns} does not exist")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"cannot convert a view to capped: {ns}")
    options = {name: value for name, value in collection.options.items() if name not in {"capped", "max"}}
    # Inserted one by one into the new collection, which drops the oldest ones by itself when it is full.
    documents = ctx.catalog.engine.find(ns, Query())
    ctx.catalog.drop(ns)
    ctx.command_applied(ns.db, {"drop": ns.collection}, uuid=collection.uuid)
    made = ctx.catalog.create(ns, {**options, "capped": True, "size": Int64(size)})
    ctx.collection_created(made)
    for document in documents:
        ctx.catalog.engine.insert(ns, document, accept=lambda change: ctx.applied(ns, change))
    return {}


@table.command(
    "dbHash",
    kind="read",
    aliases=("dbhash",),
    on_secondaries=True,
    home="mongod",
    fields=Fields.of(
        Field("collections", "array", of="string"), Field("skipTempCollections", "bool"), strict=False
    ),
)
def db_hash(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the MD5 of each collection's documents in the order of `_id`, and of all of them."""
    wanted = set(command.get("collections") or ())
    collections = [
        each
        for each in ctx.catalog.collections(ctx.db)
        if not each.is_view and (not wanted or each.ns.collection in wanted)
    ]
    hashes = {each.ns.collection: _hash(ctx, each) for each in collections}
    return {
        "host": ctx.node.address,
        "collections": hashes,
        "capped": [each.ns.collection for each in collections if each.is_capped],
        "uuids": {each.ns.collection: each.uuid for each in collections},
        "md5": _md5("".join(hashes.values()).encode()).hexdigest(),
        "timeMillis": 0,
    }


def _hash(ctx: CommandContext, collection: Collection) -> str:
    # The order of insertion is part of a capped collection, that of others is an accident of the member.
    sort = None if collection.is_capped else {"_id": 1}
    documents = ctx.catalog.engine.find(collection.ns, Query(sort=sort))
    digest = _md5()
    for document in interruptible(documents):
        digest.update(document.raw if type(document) is Stored else bson.encode(document))
    return digest.hexdigest()


def _md5(data: bytes = b"") -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)


@table.command(
    "fsync",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("lock", "bool"), Field("async", "bool"), strict=False),
)
def fsync(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Flush data to disk, of which there is none; with `lock`, hold writes back."""
    if not command.get("lock"):
        return {"numFiles": 1}
    return {
        "info": "now locked against writes, use db.fsyncUnlock() to unlock",
        "lockCount": Int64(ctx.node.write_lock.lock()),
        "seeAlso": "http://dochub.mongodb.org/core/fsynccommand",
    }


@table.command("fsyncUnlock", kind="internal", admin_only=True)
def fsync_unlock(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Let writes go on, once every lock is gone."""
    lock = ctx.node.write_lock
    if not lock.count:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "fsyncUnlock called when not locked")
    return {"info": "fsyncUnlock completed", "lockCount": Int64(lock.unlock())}
