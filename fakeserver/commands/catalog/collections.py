"""The commands for collections and views: make, rename, drop and list them.

Behaviour: `create` checks the options (72), then what a transaction may not make (263), then the name: a
collection that exists with the same options is no error outside a transaction, any other is refused with 48.
A transaction compares no options, and fails with 48. `drop` answers ok for a collection that is not there,
and has open cursors answer 175 QueryPlanKilled, as has a renaming. `renameCollection` refuses names that are
incomplete (73) or equal, too long or of the system (20), a source that is missing (26) or a view (166), a
UUID that is not the collection's (361), and a target that exists (48) without `dropTarget`, or is no
collection. drop and renameCollection wait until no open transaction uses the collection. listCollections is
sorted by name; `system.views` ends the list of a database that has views; `authorizedCollections` leaves out
what the client has no privilege on.

Versions: `create` in a transaction since 4.4. Its `timeseries` and `expireAfterSeconds` since 5.0;
`clusteredIndex`, `changeStreamPreAndPostImages` and `encryptedFields` since 6.0. `collectionUUID` of drop and
renameCollection since 6.0. `create` refuses unknown fields with 72 in 4.2.

Not modelled: A drop of a missing collection is ok in every release; servers before 7.0 answer 26.
`storageEngine`, `indexOptionDefaults`, `idIndex` and `encryptedFields` are checked, kept and shown, and have
no other effect; `autoIndexId`, `temp`, `flags`, `stayTemp` and `includePendingDrops` have none at all.
What is written to `system.views` defines no view. `system.buckets.<name>` is listed, and its indexes are
those of the time series; there is nothing in it to read or to write.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bson.binary import UUID_SUBTYPE

from fakeserver.access.privileges import Resource
from fakeserver.commands import local_collections
from fakeserver.commands.catalog import encrypted_fields
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.cursors import catalog_batch
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument, truth, type_name, whole
from fakeserver.profile import WIRE_70
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.plans.index_keys import is_ascending_id
from fakeserver.storage.port.engine import IndexSpec, Namespace, Scope
from fakeserver.storage.stages.pipeline_stages import compile_pipeline
from fakeserver.storage.store import time_series
from fakeserver.storage.store.catalog import BUCKETS, MAX_NAME_BYTES, VIEWS, matching
from fakeserver.storage.values.collation import DECLARED, complete
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.types import exact, is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

EVERYTHING: Final = 2**31 - 1
"""The default batch size of the commands that list."""

MOST_CAPPED_BYTES: Final = 2**50
"""The most bytes that a capped collection may have."""

MOST_CAPPED: Final = 2**31 - 1
"""The most documents that a capped collection may have."""

_LONGEST_BUCKET: Final = 31_536_000
"""The most seconds of which one bucket may hold the measurements."""

_MOST_STAGES: Final = 1000
_DEEPEST: Final = 20

TIMESERIES: Final = Fields.of(
    Field("timeField", "string", required=True),
    Field("metaField", "string"),
    Field("granularity", "string", choices=("seconds", "minutes", "hours")),
    Field("bucketRoundingSeconds", "int", minimum=1, maximum=_LONGEST_BUCKET),
    Field("bucketMaxSpanSeconds", "int", minimum=1, maximum=_LONGEST_BUCKET),
)
IMAGES: Final = Fields.of(Field("enabled", "strictBool", required=True))
_CLUSTERED: Final = Fields.of(
    Field("key", "object", required=True),
    Field("unique", "bool", required=True),
    Field("v", "int"),
    Field("name", "string"),
)

_OPTIONS: Final = (
    Field("capped", "bool"),
    Field("size", "long", minimum=1, maximum=MOST_CAPPED_BYTES),
    Field("max", "long", maximum=MOST_CAPPED),
    Field("storageEngine", "object"),
    Field("validator", "object"),
    Field("validationLevel", "string", choices=("off", "strict", "moderate")),
    Field("validationAction", "string", choices=("error", "warn", "errorAndLog")),
    Field("indexOptionDefaults", "object"),
    Field("viewOn", "string"),
    Field("pipeline", "array"),
    Field("collation", "object", of=DECLARED),
    Field("timeseries", "object", of=TIMESERIES),
    Field("clusteredIndex", "object|bool", of=_CLUSTERED, nullable=False),
    Field("expireAfterSeconds", "long"),
    Field("changeStreamPreAndPostImages", "object", of=IMAGES),
    Field("encryptedFields", "object", of=encrypted_fields.ENCRYPTED),
)
_OPTION_NAMES: Final = tuple(option.name for option in _OPTIONS)


@table.command(
    "create",
    kind="write",
    in_transaction=True,
    fields=Fields.of(
        *_OPTIONS,
        Field("autoIndexId", "bool"),
        Field("idIndex", "object"),
        Field("temp", "bool"),
        Field("flags", "int"),
        target="collection",
    ),
    write_concern=True,
)
def create(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Make a collection or a view."""
    ns = namespace(ctx, request)
    if "timeseries" in request:
        # Who names the buckets makes the time series that they are of.
        ns = Namespace(ns.db, ns.collection.removeprefix(BUCKETS) or ns.collection)
    if "pipeline" in request:
        request["pipeline"] = stages_of("create.pipeline", request["pipeline"])
    _check_indexes(request)
    if request.get("clusteredIndex") is False:
        del request["clusteredIndex"]
    options = {name: request[name] for name in _OPTION_NAMES if name in request}
    if "timeseries" in options:
        time_series.check_options(ns, request)
    _check_options(ctx, options)
    if options.get("validator") and ns.collection.startswith("system."):
        raise _invalid(f"Document validators are not allowed on system collection {ns}")
    if ctx.in_transaction and ("viewOn" in options or "timeseries" in options):
        kind = "view" if "viewOn" in options else "timeseries collection"
        raise CommandError(
            ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            f"Cannot create a {kind} in a multi-document transaction.",
        )
    existing = ctx.catalog.get(ns)
    if existing is not None:
        if ctx.in_transaction:
            raise _existing_in_transaction(existing)
        # Creating what is there, with equal options, is idempotent, so a client may repeat it after an error.
        # Releases before 7.0 refuse it all the same.
        if ctx.node.profile.max_wire_version < WIRE_70:
            raise CommandError(ErrorCode.NAMESPACE_EXISTS, f"Collection already exists. NS: {ns}")
        if _asked(existing.options) == _asked(options):
            return {}
        kind = "view" if existing.is_view else "namespace"
        shown = show_document(existing.options)
        raise CommandError(
            ErrorCode.NAMESPACE_EXISTS, f"{kind} {ns} already exists, but with different options: {shown}"
        )
    ctx.check_name(ns)
    collection = ctx.catalog.create(ns, options)
    ctx.collection_created(collection)
    spec = collection.options.get("timeseries")
    if spec is not None and "metaField" in spec and ctx.node.profile.max_wire_version >= WIRE_70:
        key = {spec["metaField"]: 1, spec["timeField"]: 1}
        name = "_".join(f"{field}_1" for field in key)
        index = IndexSpec(name, key, False, False, {"v": 2, "key": key, "name": name})  # noqa: FBT003
        ctx.catalog.add_index(collection, index)
    return {}


def _existing_in_transaction(existing: Collection) -> CommandError:
    """Return the error for what is there: a transaction compares no options."""
    message = f"Collection {existing.ns} already exists."
    if existing.kind != "collection":
        kind = "view" if existing.is_view else "timeseries collection"
        message = f"A {kind} already exists. NS: {existing.ns}"
    return CommandError(ErrorCode.NAMESPACE_EXISTS, message)


def _asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the form in which two collections are compared: defaults left out."""
    kept = {name: value for name, value in options.items() if value not in (False, None, {})}
    if not kept.get("changeStreamPreAndPostImages", {}).get("enabled"):
        kept.pop("changeStreamPreAndPostImages", None)
    if "collation" in kept:
        kept["collation"] = complete(kept["collation"])
        if kept["collation"] is None:
            del kept["collation"]
    for name in ("timeseries", "clusteredIndex"):
        if isinstance(kept.get(name), dict):
            whole = time_series.completed(kept[name]) if name == "timeseries" else kept[name]
            deciding = (*time_series.FIELDS, "key", "unique")
            kept[name] = {key: whole[key] for key in deciding if key in whole}
    return kept


def _check_options(ctx: CommandContext, options: Mapping[str, Any]) -> None:
    if options.get("capped") and "size" not in options:
        raise _invalid("the 'size' field is required when 'capped' is true")
    if not options.get("capped") and ("size" in options or "max" in options):
        raise _invalid(
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present"
        )
    if "expireAfterSeconds" in options:
        if "timeseries" not in options and not options.get("clusteredIndex"):
            raise _invalid(
                "'expireAfterSeconds' is only supported on time-series collections or when the"
                " 'clusteredIndex' option is specified"
            )
        if options["expireAfterSeconds"] < 0:
            raise _invalid("'expireAfterSeconds' must be non-negative")
        if options["expireAfterSeconds"] > ctx.node.clock.utc():
            raise _invalid("'expireAfterSeconds' must be no more than the seconds since 1970")
    if "pipeline" in options and "viewOn" not in options:
        raise _invalid("'pipeline' requires 'viewOn' to also be specified")
    _check_kinds(options)
    _check_engine("storageEngine", options.get("storageEngine", {}))
    defaults = options.get("indexOptionDefaults", {})
    for name in defaults:
        if name != "storageEngine":
            raise CommandError(
                ErrorCode.IDL_UNKNOWN_FIELD,
                f"BSON field 'create.indexOptionDefaults.{name}' is an unknown field.",
            )
    _check_engine("indexOptionDefaults.storageEngine", defaults.get("storageEngine", {}))
    if "viewOn" in options:
        if not options["viewOn"]:
            raise CommandError(ErrorCode.BAD_VALUE, "'viewOn' cannot be empty")
        check_view_pipeline(ctx, options.get("pipeline", []))


def _check_engine(path: str, spec: Any) -> None:
    """Refuse options of another storage engine, and those that are none. Raises `CommandError` 2, 72 or 9."""
    for name, options in spec.items():
        if not isinstance(options, dict):
            raise CommandError(ErrorCode.BAD_VALUE, f"'{path}.{name}' has to be an embedded document.")
        if name != "wiredTiger":
            raise _invalid(f"{name} is not a registered storage engine for this server")
        for each, value in options.items():
            if each != "configString":
                raise _invalid(f"'{each}' is not a supported option in '{path}.{name}'")
            if type(value) is not str or any(key not in _ENGINE_KEYS for key in _keys_of(value)):
                code = ErrorCode.FAILED_TO_PARSE if "\0" in str(value) else ErrorCode.BAD_VALUE
                raise CommandError(code, f"unknown configuration in '{path}.{name}.{each}'")


def _keys_of(text: str) -> list[str]:
    """Return the names of a configuration such as `block_compressor=zlib,key_format=q`."""
    flat = re.sub(r"\([^()]*\)", "", text)
    return [each.partition("=")[0].strip() for each in flat.split(",") if each.strip()]


_ENGINE_KEYS: Final = frozenset(
    {
        *("access_pattern_hint", "allocation_size", "app_metadata", "block_allocation", "block_compressor"),
        *("cache_resident", "checksum", "collator", "dictionary", "exclusive", "format", "huffman_key"),
        *("huffman_value", "ignore_in_memory_cache_size", "internal_item_max", "internal_key_max"),
        *("internal_key_truncate", "internal_page_max", "key_format", "key_gap", "leaf_item_max"),
        *("leaf_key_max", "leaf_page_max", "leaf_value_max", "log", "memory_page_image_max"),
        *("memory_page_max", "os_cache_dirty_max", "os_cache_max", "prefix_compression"),
        *("prefix_compression_min", "source", "split_deepen_min_child", "split_deepen_per_child"),
        *("split_pct", "type", "value_format"),
    }
)
"""The settings of WiredTiger for one table, which are accepted and have no effect."""


def _check_kinds(options: Mapping[str, Any]) -> None:
    """Refuse options that only collections of another kind have. Raises `CommandError` 2, 72 or others."""
    images = options.get("changeStreamPreAndPostImages")
    if images is not None and ("timeseries" in options or ("viewOn" in options and images["enabled"])):
        raise _invalid("'changeStreamPreAndPostImages' is only supported on collections")
    if "encryptedFields" in options:
        if options.get("capped"):
            raise CommandError(_ENCRYPTED_CAPPED, "Encrypted collections cannot be capped")
        if "viewOn" in options or "timeseries" in options:
            raise CommandError(_ENCRYPTED_VIEW, "Encrypted collections cannot be views or time-series")
        encrypted_fields.check(options["encryptedFields"])


_ENCRYPTED_CAPPED: Final = 6367301
_ENCRYPTED_VIEW: Final = 6346401
_CLUSTERED_NOT_UNIQUE: Final = 5979700
_CLUSTERED_AS_BOOL: Final = 5979703
_CLUSTERED_VERSION: Final = 5979704
_CLUSTERED_VIEW: Final = 6026500
_CLUSTERED_CAPPED: Final = 6049200
_CLUSTERED_MAX: Final = 6049204


def _check_indexes(request: dict[str, Any]) -> None:
    """Refuse what `clusteredIndex` or `idIndex` cannot be, or not together with other options."""
    clustered = request.get("clusteredIndex")
    if clustered is not None:
        if not isinstance(clustered, dict):
            request["clusteredIndex"] = clustered = truth(clustered)
        _check_clustered(clustered, request)
    if "idIndex" in request:
        for name in ("viewOn", "timeseries", "clusteredIndex"):
            if name in request:
                raise _invalid(f"'idIndex' is not allowed with '{name}'")
        _check_id_index(request["idIndex"], request.get("collation"))


def _check_clustered(spec: Any, request: Mapping[str, Any]) -> None:
    if spec is True:
        raise CommandError(
            _CLUSTERED_AS_BOOL, "The 'clusteredIndex: true' format is only for buckets of a time-series"
        )
    if request.get("capped"):
        raise CommandError(_CLUSTERED_CAPPED, "'clusteredIndex' is not supported on capped collections")
    if spec is False:
        return
    if "timeseries" in request:
        raise _invalid("'clusteredIndex' is not allowed with 'timeseries'")
    if "viewOn" in request:
        raise CommandError(_CLUSTERED_VIEW, "'clusteredIndex' is not supported with 'viewOn'")
    if "max" in request:
        raise CommandError(_CLUSTERED_MAX, "'max' is not supported for clustered collections")
    if not spec["unique"]:
        raise CommandError(_CLUSTERED_NOT_UNIQUE, "The clusteredIndex option requires unique: true to be set")
    if spec.get("v", 2) != 2:  # noqa: PLR2004
        raise CommandError(_CLUSTERED_VERSION, "The clusteredIndex option requires v: 2")


_ID_INDEX: Final = ("key", "name", "v", "ns", "collation")


def _check_id_index(spec: Mapping[str, Any], collation: Mapping[str, Any] | None) -> None:
    """Refuse another index than that of `_id`. Raises `CommandError` 197, 9, 14, 2 or 67."""
    for name in spec:
        if name not in _ID_INDEX:
            raise CommandError(
                ErrorCode.INVALID_INDEX_SPECIFICATION_OPTION,
                f"The field '{name}' is not valid for an _id index specification.",
            )
    for name, kind in (("key", "object"), ("name", "string")):
        if name not in spec:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"The '{name}' field is a required property of an index specification",
            )
        if type_name(spec[name]) != kind:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"The field '{name}' must be a {kind}, but got {type_name(spec[name])}",
            )
    if not is_ascending_id(spec["key"]):
        raise CommandError(
            ErrorCode.BAD_VALUE, f"The field 'key' for an _id index must be {{_id: 1}}, but got {spec['key']}"
        )
    if not spec["name"]:
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, "The name of an index cannot be empty")
    version = spec.get("v", 2)
    if not is_number(version):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"The field 'v' must be a number, but got {type_name(version)}"
        )
    if whole(version) != exact(version):
        raise CommandError(
            ErrorCode.BAD_VALUE, f"Index version must be representable as an integer: {version}"
        )
    if whole(version) not in {1, 2}:
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, f"Invalid index specification; v:{version}")
    own = spec.get("collation")
    if own is not None and complete(own) != complete(collation or {"locale": "simple"}):
        raise CommandError(
            ErrorCode.BAD_VALUE, "The _id index must have the same collation as the collection"
        )


def stages_of(path: str, pipeline: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the stages of a view, without the nulls among them. Raises `CommandError` 14."""
    stages = [each for each in pipeline if each is not None]
    for each in stages:
        if not isinstance(each, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, f"BSON field '{path}' holds a '{type_name(each)}', expected 'object'"
            )
    return stages


_TOO_MANY_STAGES: Final = 7749501
_CHANGE_STREAM: Final = 40573
_OF_NO_COLLECTION: Final = frozenset({"$currentOp", "$listSessions", "$listLocalSessions", "$documents"})
_OF_THE_COLLECTION: Final = frozenset({"$collStats", "$indexStats", "$planCacheStats"})


def _check_stages(pipeline: Sequence[Mapping[str, Any]], *, replicated: bool) -> None:
    """Refuse stages that no view can have, and too many. Raises `CommandError` 167, 73, 40573 or 7749501."""
    if len(pipeline) > _MOST_STAGES:
        raise CommandError(_TOO_MANY_STAGES, f"Pipeline length must be no longer than {_MOST_STAGES} stages")
    for stage in pipeline:
        name = next(iter(stage), "")
        if name in {"$out", "$merge"}:
            raise CommandError(
                ErrorCode.OPTION_NOT_SUPPORTED_ON_VIEW, f"{name} stage is not allowed in a view definition"
            )
        if name in _OF_NO_COLLECTION:
            raise CommandError(
                ErrorCode.INVALID_NAMESPACE, f"{{aggregate: 1}} is required for the stage {name}"
            )
        if name == "$changeStream":
            if replicated:
                code: int = ErrorCode.OPTION_NOT_SUPPORTED_ON_VIEW
                raise CommandError(code, "The $changeStream stage is not allowed in a view definition")
            raise CommandError(_CHANGE_STREAM, "The $changeStream stage is only supported on replica sets")
    if _depth(pipeline) > _DEEPEST:
        raise CommandError(
            ErrorCode.MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
            f"Maximum number of nested sub-pipelines exceeded. Limit is {_DEEPEST}",
        )


def _depth(pipeline: Any) -> int:
    """Return how deep the pipelines of joining stages are nested in one another."""
    inner = [
        spec["pipeline"]
        for stage in pipeline
        if isinstance(stage, dict)
        for name, spec in stage.items()
        if name in {"$lookup", "$unionWith"}
        and isinstance(spec, dict)
        and isinstance(spec.get("pipeline"), list)
    ]
    return 1 + max(map(_depth, inner), default=-1) if inner else 0


def check_view_pipeline(ctx: CommandContext, pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse the pipeline of a view that cannot be compiled. Raises `CommandError`."""
    release = ctx.node.profile.max_wire_version
    _check_stages(pipeline, replicated=ctx.node.is_replicated)
    if pipeline and next(iter(pipeline[0]), "") in _OF_THE_COLLECTION:
        pipeline = pipeline[1:]
    variables = {"NOW": None, "CLUSTER_TIME": None}  # whether there is a time shows when the view is read
    compile_pipeline(pipeline, Scope(variables=variables, scripts=ctx.scripts, release=release))


def _invalid(message: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_OPTIONS, message)


def _shown_uuid(collection: Collection) -> str:
    return f'UUID("{collection.uuid.as_uuid()}")' if collection.uuid is not None else ""


@table.command(
    "drop",
    kind="write",
    fields=Fields.of(Field("collectionUUID", "binData"), target="collection"),
    write_concern=True,
)
def drop(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Drop a collection or a view; one that is not there is no error."""
    ns = namespace(ctx, request)
    check_uuid(request, ns, ctx.catalog.get(ns))
    dropped = ctx.catalog.drop(ns)
    if dropped is None:
        return {}
    dropped_collection(ctx, dropped)
    shown = _shown_uuid(dropped)
    # A cursor learns of it at its next getMore. Change streams live on: they have an event for it.
    ctx.cursors.invalidate(ns, CommandError(ErrorCode.QUERY_PLAN_KILLED, f"collection dropped. UUID {shown}"))
    reply: Reply = {} if dropped.is_view else {"nIndexesWas": len(dropped.indexes)}
    return {**reply, "ns": str(ns)}


def dropped_collection(ctx: CommandContext, collection: Collection) -> None:
    """Enter the drop of a collection or a view in the oplog, and forget its use."""
    for node in ctx.node.cluster.servers:
        node.counters.usage.pop(collection.ns, None)
    detail = {"nsType": collection.kind}
    ctx.command_applied(
        collection.ns.db, {"drop": collection.ns.collection}, uuid=collection.uuid, detail=detail
    )


@table.command(
    "renameCollection",
    kind="write",
    fields=Fields.of(
        Field("renameCollection", "string"),
        Field("to", "string", required=True),
        Field("dropTarget", "strictBool|binData", nullable=False),
        Field("stayTemp", "strictBool"),
        Field("collectionUUID", "binData"),
    ),
    admin_only=True,
    write_concern=True,
)
def rename_collection(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Give a collection another name."""
    source, target = Namespace.parse(first_argument(request)), Namespace.parse(request["to"])
    for ns in (source, target):
        _check_renamed(ns)
    if source == target:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "Can't rename a collection to itself")
    for name in ("collectionUUID", "dropTarget"):
        _check_is_uuid(name, request.get(name))
    ctx.check_writes(source.db)
    collection, replaced = ctx.catalog.get(source), ctx.catalog.get(target)
    dropped = request.get("dropTarget")
    if isinstance(dropped, bytes):
        if source.db != target.db:
            raise _invalid("dropTarget can only be a UUID for a rename within one database")
        check_uuid({"collectionUUID": dropped}, target, replaced)
    check_uuid(request, source, collection)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"Source collection {source} does not exist")
    if collection.kind != "collection":
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"cannot rename view: {source}")
    _check_case(ctx, target.db)
    if replaced is not None:
        if not dropped or replaced.kind != "collection":
            raise CommandError(ErrorCode.NAMESPACE_EXISTS, "target namespace exists")
        # One entry of the oplog tells of both: the drop is part of the rename, and no reader sees a gap.
        ctx.catalog.drop(target)
    ctx.catalog.rename(source, target)
    moved = f"collection renamed from '{source}' to '{target}'. UUID {_shown_uuid(collection)}"
    ctx.cursors.invalidate(source, CommandError(ErrorCode.QUERY_PLAN_KILLED, moved))
    entry: Document = {"renameCollection": str(source), "to": str(target), "stayTemp": False}
    if replaced is not None:
        entry["dropTarget"] = replaced.uuid
    ctx.command_applied(source.db, entry, uuid=collection.uuid)
    return {}


def _check_renamed(ns: Namespace) -> None:
    """Refuse what no collection that is renamed may be called. Raises `CommandError` 73 or 20."""
    bad = not ns.db or not ns.collection or len(ns.db.encode()) > _MAX_DB_NAME_BYTES
    if bad or ns.collection[0] == "." or "\0" in str(ns) or any(each in ns.db for each in ' /\\"'):
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{ns}'")
    is_oplog = ns.db == "local" and ns.collection.startswith("oplog.")
    if "$" in str(ns) or is_oplog or ns.collection.startswith("system."):
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"error with namespace: {ns} cannot be renamed")
    if len(str(ns).encode()) > MAX_NAME_BYTES:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, f"Fully qualified namespace is too long. Namespace: {ns}"
        )


def _check_is_uuid(name: str, value: Any) -> None:
    """Refuse binary data that is no UUID. Raises `CommandError` 207, or 14 for `collectionUUID`."""
    if not isinstance(value, bytes):
        return
    other = getattr(value, "subtype", 0) != UUID_SUBTYPE
    if other and name == "collectionUUID":
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"BSON field 'renameCollection.{name}' is no UUID, but other binary data"
        )
    if other or len(value) != _UUID_BYTES:
        raise CommandError(ErrorCode.INVALID_UUID, f"{name} must be a UUID, which is 16 bytes of subtype 4")


def _check_case(ctx: CommandContext, db: str) -> None:
    """Refuse a database whose name another one has in other letters. Raises `CommandError` 13297."""
    for other in ctx.catalog.databases():
        if other != db and other.lower() == db.lower():
            raise CommandError(
                ErrorCode.DATABASE_DIFFER_CASE,
                f"db already exists with different case already have: [{other}] trying to create [{db}]",
            )


_MAX_DB_NAME_BYTES: Final = 63
_UUID_BYTES: Final = 16


@table.command(
    "listCollections",
    kind="read",
    fields=Fields.of(
        Field("filter", "object"),
        Field("nameOnly", "strictBool"),
        Field("authorizedCollections", "strictBool"),
        Field("includePendingDrops", "bool"),
        Field("cursor", "object", of=Fields.of(Field("batchSize", "long", minimum=0))),
    ),
)
def list_collections(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the collections and views of a database."""
    described = described_collections(ctx, ctx.db)
    described += [
        time_series.described_buckets(each.ns.collection, each.uuid, each.options["timeseries"])
        for each in ctx.catalog.collections(ctx.db)
        if each.kind == "timeseries"
    ]
    if request.get("authorizedCollections") and ctx.privileges is not None:
        seen = ctx.privileges
        described = [each for each in described if seen.reach(Resource(ctx.db, each["name"]))]
    if request.get("nameOnly", False):
        # The filter sees no more than the reply.
        described = [{"name": each["name"], "type": each["type"]} for each in described]
    found = matching(described, request.get("filter"))
    ns = Namespace(ctx.db, "$cmd.listCollections")
    size = (request.get("cursor") or {}).get("batchSize", EVERYTHING)
    return catalog_batch(ctx, Cursor(ns, deque(map(dict, found)), request, counted=True), size)


def described_collections(ctx: CommandContext, db: str) -> list[Document]:
    """Return the collections and views of a database, as `listCollections` shows them."""
    collections = ctx.catalog.collections(db)
    described = [each.describe() for each in collections if each.ns.collection != VIEWS]
    if db == "local":
        described += local_collections.described(ctx)
    return described + [each.describe() for each in collections if each.ns.collection == VIEWS]
