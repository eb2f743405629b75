"""The commands for maintenance: what keeps a real server in shape, and costs little or nothing here.

Behaviour: `compact`, `logRotate` and `refreshLogicalSessionCacheNow` check their arguments and do nothing.
`fsync` with `lock` holds writes back until fsyncUnlock was called as often. `setFeatureCompatibilityVersion`
keeps the version of the release, or of the last one of long support, and getParameter shows it. `reIndex`
runs on a standalone only (20 elsewhere). `convertToCapped` makes the collection anew with its newest
documents that fit and without indexes but that of `_id`; `cloneCollectionAsCapped` puts them into another
one. Both take fields that are not theirs, a `size` from 1 byte to 1 PiB (72, 2), and no view (166).
`dataSize` counts the documents between two keys, `min` and `max`, of an index (96 without one).
`setUserWriteBlockMode` has writes of users refused (371) but for those with `bypassWriteBlockingMode`, and
takes back a block for the same reason only (20); a standalone has none (20). `setIndexCommitQuorum` finds no
index that is being built (27). `dbHash` is the MD5 of the documents in the order of `_id`, so two deployments
with the same data have the same hash.

Versions: setUserWriteBlockMode since 6.0, setIndexCommitQuorum since 4.4, rotateCertificates since 5.0.
setFeatureCompatibilityVersion asks for `confirm` since 7.0. `dryRun` and `freeSpaceTargetMB` of compact since
8.0. reIndex is refused on a replica set in every release, as since 5.0.

Not modelled: The features that a change of the compatibility version switches. There is no file to compact,
to flush or to rotate. convertToCapped enters a drop, a create and inserts in the oplog; a server copies into
a temporary collection and renames it. cloneCollectionAsCapped does the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64, MinKey

from fakeserver.commands.catalog.collections import MOST_CAPPED_BYTES
from fakeserver.commands.context import namespace
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument, type_name, whole
from fakeserver.profile import WIRE_44, WIRE_50, WIRE_60, WIRE_70, WIRE_80
from fakeserver.storage.plans.index_keys import is_ordered
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.store.catalog import BUCKETS, MAX_NAME_BYTES, VIEWS, not_on_view
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.stored import Stored
from fakeserver.storage.values.types import MISSING, is_number, order
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_UNCONFIRMED: Final = 7369100
_INVALID_VERSION: Final = 4926900
_NO_WAY: Final = 5147403
_BAD_CHUNK: Final = 10040
_MOST_MB: Final = 2**43 - 1
"""The most mebibytes whose number of bytes is a 64-bit integer."""
_TARGET_MB: Final = 20
"""The free space that `autoCompact` looks for where it is not told how much."""
_CONVERTED_BYTES: Final = 25
"""What the name of the collection that convertToCapped writes aside has more than that of its source."""


@table.command(
    "compact",
    kind="write",
    fields=Fields.of(
        Field("force", "strictBool"),
        Field("dryRun", "strictBool"),
        Field("freeSpaceTargetMB", "long", minimum=1),
        target="collection",
    ),
)
def compact(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Free the disk space that a collection does not need: none."""
    ns = namespace(ctx, command)
    collection = ctx.catalog.get(ns) or ctx.catalog.series_of(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, "collection does not exist")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view")
    return {"estimatedBytesFreed" if command.get("dryRun") else "bytesFreed": 0}


@table.command(
    "autoCompact",
    kind="admin",
    admin_only=True,
    home="mongod",
    since=WIRE_80,
    fields=Fields.of(
        Field("autoCompact", "strictBool"),
        Field("freeSpaceTargetMB", "long", minimum=1),
        Field("runOnce", "strictBool"),
    ),
)
def auto_compact(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Switch the compaction in the background, which has nothing to do."""
    if not command["autoCompact"]:
        ctx.node.compaction = None
        return {}
    wanted = {"freeSpaceTargetMB": _TARGET_MB, "runOnce": False, **command}
    wanted = {name: wanted[name] for name in ("freeSpaceTargetMB", "runOnce")}
    if wanted["freeSpaceTargetMB"] > _MOST_MB:
        raise CommandError(ErrorCode.BAD_VALUE, f"'freeSpaceTargetMB' must be at most {_MOST_MB}")
    if ctx.node.compaction not in (None, wanted):
        raise CommandError(
            ErrorCode.ALREADY_INITIALIZED,
            "The compaction in the background is on with other settings: disable it to change them",
        )
    # One that runs once is over at once.
    ctx.node.compaction = None if wanted["runOnce"] else wanted
    return {}


@table.command(
    "filemd5",
    kind="read",
    on_secondaries=True,
    fields=Fields.of(Field("filemd5"), Field("root", "string"), strict=False),
)
def file_md5(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the MD5 of a file in GridFS, by its id."""
    ns = Namespace(ctx.db, f"{command.get('root', 'fs')}.chunks")
    wanted = {"files_id": {"$eq": first_argument(command)}}
    digest, number = _md5(), 0
    for number, chunk in enumerate(ctx.catalog.engine.find(ns, Query(wanted, sort={"n": 1})), 1):
        if chunk.get("n") != number - 1 or not isinstance(chunk.get("data"), bytes):
            raise CommandError(_BAD_CHUNK, f"chunks out of order: expected {number - 1}")
        digest.update(chunk["data"])
    return {"numChunks": number, "md5": digest.hexdigest()}


_DATA_SIZE: Final = Fields.of(
    Field("dataSize", "string"),
    *(Field(name, "object") for name in ("keyPattern", "min", "max")),
    Field("estimate", "bool"),
)


@table.command("dataSize", kind="read", on_secondaries=True, fields=_DATA_SIZE)
def data_size(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return how many bytes a collection's documents take, or those between two keys of an index."""
    name = command["dataSize"]
    ns = Namespace.parse(name)
    if not ns.db or not ns.collection:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{name}'")
    lowest, highest = command.get("min"), command.get("max")
    if bool(lowest) != bool(highest):
        raise CommandError(ErrorCode.BAD_VALUE, "only one of min or max specified")
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.kind != "collection":
        raise not_on_view(ns)
    stats = ctx.catalog.engine.stats(ns)
    size, count = stats.size, stats.count
    if lowest and highest and collection is not None:
        found = _between(ctx, collection, command.get("keyPattern") or lowest, lowest, highest)
        size, count = sum(len(bson.encode(each)) for each in found), len(found)
    measured = {"size": Int64(size), "numObjects": Int64(count), "millis": 0}
    # A mongos adds up what the shards measured, and says nothing of how.
    return measured if ctx.node.is_mongos else {"estimate": command.get("estimate", False), **measured}


def _between(
    ctx: CommandContext,
    collection: Collection,
    pattern: Mapping[str, Any],
    lowest: Mapping[str, Any],
    highest: Mapping[str, Any],
) -> list[Document]:
    """Return the documents whose keys are in a range, its end excluded. Raises `CommandError` 96."""
    for index in collection.indexes.values():
        if list(index.key)[: len(pattern)] == list(pattern) and is_ordered(index):
            break
    else:
        raise CommandError(
            ErrorCode.OPERATION_FAILED,
            f"couldn't find valid index containing key pattern {show_document(pattern)}",
        )
    rest = list(index.key)[len(pattern) :]
    # A bound of a compound index has a value for each field: the least one for those that are not named.
    bounds = [{**each, **dict.fromkeys(rest, MinKey())} for each in (lowest, highest)]
    if order(list(bounds[0].values())) >= order(list(bounds[1].values())):
        return []
    query = Query(hint=index.name, minimum=bounds[0], maximum=bounds[1])
    return list(ctx.catalog.engine.find(collection.ns, query))


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
    """Set the feature compatibility version: that of the release, or of the one of long support before it."""
    cluster, profile, wanted = ctx.node.cluster, ctx.node.profile, first_argument(command)
    if profile.max_wire_version >= WIRE_70 and not command.get("confirm"):
        raise CommandError(
            _UNCONFIRMED,
            "Once you have changed the FCV, it is recommended to wait before downgrading binaries. Please"
            " re-run this command with 'confirm: true' to acknowledge this and continue with the FCV change.",
        )
    known = (profile.last_lts, profile.last_continuous, profile.feature_compatibility_version)
    if wanted not in known:
        shown = "' or '".join(dict.fromkeys(known))
        raise CommandError(
            _INVALID_VERSION if profile.max_wire_version >= WIRE_50 else ErrorCode.BAD_VALUE,
            f"Invalid feature compatibility version value '{wanted}'; expected '{shown}'. See"
            f" https://docs.mongodb.com/manual/release-notes/{profile.name}-compatibility/#feature-compatibility.",
        )
    if wanted == profile.last_continuous != profile.last_lts:
        # That way leads up only, for a deployment that comes from that release.
        raise CommandError(
            _NO_WAY,
            f"cannot set featureCompatibilityVersion to '{wanted}' while featureCompatibilityVersion is"
            f" '{cluster.feature_compatibility_version}'",
        )
    cluster.feature_compatibility_version = wanted
    return {}


@table.command(
    "logRotate",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("logRotate", nullable=False)),
)
def log_rotate(_ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Begin a new log file; there is none."""
    which = command["logRotate"]
    if type(which) is str and which != "server":
        raise CommandError(ErrorCode.NO_SUCH_KEY, f"Unknown log type '{which}' for logRotate")
    if type(which) not in {str, bool} and not is_number(which):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field 'logRotate.logRotate' is the wrong type '{type_name(which)}', expected a number,"
            " a bool or a string",
        )
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
    fields=Fields.of(Field("size"), strict=False, target="collection"),
)
def convert_to_capped(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Make a collection capped: its newest documents that fit, without indexes but that of `_id`."""
    ns, size = namespace(ctx, command), _capped_size(command.get("size"))
    if ns.collection == VIEWS:
        raise CommandError(ErrorCode.BAD_VALUE, f"cannot convert {ns} to a capped collection")
    collection = _source(ctx, ns)
    if len(str(ns).encode()) + _CONVERTED_BYTES > MAX_NAME_BYTES:
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            f"The name of {ns} is too long: a temporary collection has a longer one",
        )
    documents = ctx.catalog.engine.find(ns, Query())
    ctx.catalog.drop(ns)
    ctx.command_applied(ns.db, {"drop": ns.collection}, uuid=collection.uuid)
    _fill_capped(ctx, ns, {**collection.options, "size": size}, documents)
    return {}


@table.command(
    "cloneCollectionAsCapped",
    kind="write",
    write_concern=True,
    fields=Fields.of(
        Field("toCollection", nullable=False),
        Field("size"),
        strict=False,
    ),
)
def clone_collection_as_capped(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Copy the newest documents of a collection that fit into a new capped one."""
    for name in ("cloneCollectionAsCapped", "toCollection"):
        if type(command.get(name)) is not str:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"'{name}' must be a string, not {type_name(command.get(name, MISSING))}",
            )
        if not command[name] or "$" in command[name] or "\0" in command[name] or command[name][0] == ".":
            raise CommandError(
                ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{ctx.db}.{command[name]}'"
            )
    source, target = namespace(ctx, command), Namespace(ctx.db, command["toCollection"])
    size = _capped_size(command.get("size"))
    collection = _source(ctx, source)
    taken = ctx.catalog.get(target)
    if taken is not None and taken.is_view:
        raise CommandError(
            ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW,
            f"cloneCollectionAsCapped not supported for views: {target}",
        )
    if taken is not None:
        raise CommandError(
            ErrorCode.NAMESPACE_EXISTS,
            f"cloneCollectionAsCapped failed - destination collection {target} already exists. source"
            f" collection: {source}",
        )
    ctx.check_name(target)
    documents = ctx.catalog.engine.find(source, Query())
    _fill_capped(ctx, target, {**collection.options, "size": size}, documents)
    return {}


def _capped_size(size: Any) -> Int64:
    """Return the size that is asked for. Raises `CommandError` 72, and 2 for one that is too large."""
    number = whole(size) if is_number(size) else 0
    if number <= 0:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "Capped collection size must be greater than zero")
    if number > MOST_CAPPED_BYTES:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"Capped collection size must be at most {MOST_CAPPED_BYTES}, not {number}"
        )
    return Int64(number)


def _source(ctx: CommandContext, ns: Namespace) -> Collection:
    """Return the collection of which a capped one is made. Raises `CommandError` 26 or 166."""
    collection = ctx.catalog.get(ns)
    if ctx.catalog.series_of(ns) is not None:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, f"cannot make a capped collection of the buckets {ns}"
        )
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"source collection {ns} does not exist")
    if collection.kind != "collection":
        raise CommandError(
            ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"cannot make a capped collection of a view: {ns}"
        )
    return collection


def _fill_capped(
    ctx: CommandContext, ns: Namespace, options: Mapping[str, Any], documents: Sequence[Document]
) -> None:
    """Make a capped collection and fill it: it drops the oldest documents by itself when it is full."""
    kept = {name: value for name, value in options.items() if name not in _NEVER_CAPPED}
    made = ctx.catalog.create(ns, {**kept, "capped": True})
    ctx.collection_created(made)
    for document in documents:
        ctx.catalog.engine.insert(ns, document, accept=lambda change: ctx.applied(ns, change))


_NEVER_CAPPED: Final = frozenset({"max", "clusteredIndex", "expireAfterSeconds"})
"""The options of a collection that a capped one made of it does not take over."""


@table.command(
    "dbHash",
    kind="read",
    aliases=("dbhash",),
    on_secondaries=True,
    home="mongod",
    fields=Fields.of(Field("collections"), Field("skipTempCollections", "bool"), strict=False),
)
def db_hash(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the MD5 of each collection's documents in the order of `_id`, and of all of them."""
    asked = command.get("collections")
    wanted = set()
    # What is no array names nothing.
    for each in asked if isinstance(asked, list) else ():
        if type(each) is not str:
            raise CommandError(ErrorCode.BAD_VALUE, "collections entries have to be strings")
        wanted.add(each)
    collections = [
        each
        for each in ctx.catalog.collections(ctx.db)
        if not each.is_view and (not wanted or each.ns.collection in wanted)
    ]
    names = {
        each.ns: (BUCKETS if each.kind == "timeseries" else "") + each.ns.collection for each in collections
    }
    hashes = {names[each.ns]: _hash(ctx, each) for each in collections}
    return {
        "host": ctx.node.address,
        "collections": hashes,
        "capped": [each.ns.collection for each in collections if each.is_capped],
        "uuids": {names[each.ns]: each.uuid for each in collections},
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
    fields=Fields.of(
        Field("fsync"),
        Field("lock", "bool"),
        Field("async", "bool"),
        Field("fsyncLockAcquisitionTimeoutMillis"),
    ),
)
def fsync(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Flush data to disk, of which there is none; with `lock`, hold writes back."""
    timeout = command.get("fsyncLockAcquisitionTimeoutMillis")
    if timeout is not None and type_name(timeout) != "int":
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "BSON field 'fsync.fsyncLockAcquisitionTimeoutMillis' is the wrong type"
            f" '{type_name(timeout)}', expected type 'int'",
        )
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


_REASONS: Final = ("Unspecified", "ClusterToClusterMigrationInProgress", "DiskUseThresholdExceeded")


@table.command(
    "setUserWriteBlockMode",
    kind="admin",
    admin_only=True,
    since=WIRE_60,
    fields=Fields.of(
        Field("setUserWriteBlockMode"),
        Field("global", "strictBool", required=True),
        Field("reason", "string", choices=_REASONS),
    ),
)
def set_user_write_block_mode(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Refuse writes of users, or let them go on."""
    if not ctx.node.is_replicated:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "setUserWriteBlockMode cannot be run on standalones")
    cluster, reason = ctx.node.cluster, command.get("reason", _REASONS[0])
    if cluster.write_block not in {None, reason}:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION,
            f"Cannot change user write block mode for {reason}: writes are blocked for {cluster.write_block}",
        )
    cluster.write_block = reason if command["global"] else None
    return {}


@table.command(
    "setIndexCommitQuorum",
    kind="write",
    since=WIRE_44,
    fields=Fields.of(
        Field("indexNames", "array", required=True, of="string"),
        Field("commitQuorum", "number|string", required=True),
        target="collection",
    ),
)
def set_index_commit_quorum(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change how many members have to be ready for an index that is being built: there is none."""
    raise CommandError(
        ErrorCode.INDEX_NOT_FOUND,
        f"Cannot find an index build on collection '{namespace(ctx, command)}' with the provided index names",
    )


@table.command("rotateCertificates", kind="internal", admin_only=True, since=WIRE_50)
def rotate_certificates(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Read certificates again, which are as they were."""
    return {}
