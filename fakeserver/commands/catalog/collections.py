"""The commands for collections and views: make, rename, drop and list them.

Behaviour: `create` checks the options (72), then what a transaction may not make (263), then the name: a
collection that exists with the same options is no error outside a transaction, any other is refused with 48.
A transaction compares no options, and fails with 48. `drop` answers ok for a collection that is not there,
and has open cursors answer 175 QueryPlanKilled. `renameCollection` refuses names that are incomplete (73) or
equal (20), a source that is missing (26) or a view (166), and a target that exists (48) without `dropTarget`.
drop and renameCollection wait until no open transaction uses the collection. listCollections is sorted by
name; `system.views` ends the list of a database that has views; `authorizedCollections` leaves out what the
client has no privilege on.

Versions: `create` in a transaction since 4.4. Its `timeseries` and `expireAfterSeconds` since 5.0;
`clusteredIndex`, `changeStreamPreAndPostImages` and `encryptedFields` since 6.0. `collectionUUID` of drop and
renameCollection since 6.0. `create` refuses unknown fields with 72 in 4.2.

Not modelled: A drop of a missing collection is ok in every release; servers before 7.0 answer 26. A rename
leaves open cursors alone, and neither checks `collectionUUID` nor compares a `dropTarget` that is a UUID.
`storageEngine`, `indexOptionDefaults` and `encryptedFields` are kept and shown, and have no other effect;
`autoIndexId`, `idIndex`, `temp`, `flags`, `stayTemp` and `includePendingDrops` have none at all.
`system.views` holds no documents; a time series has no collection of buckets.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.privileges import Resource
from fakeserver.commands import local_collections
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.cursors import first_batch
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.port.engine import Namespace, Scope
from fakeserver.storage.stages.pipeline_stages import compile_pipeline
from fakeserver.storage.store import time_series
from fakeserver.storage.store.catalog import matching
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

EVERYTHING: Final = 2**31 - 1
"""The default batch size of the commands that list."""

TIMESERIES: Final = Fields.of(
    Field("timeField", "string", required=True),
    Field("metaField", "string"),
    Field("granularity", "string", choices=("seconds", "minutes", "hours")),
    Field("bucketRoundingSeconds", "int", minimum=1),
    Field("bucketMaxSpanSeconds", "int", minimum=1),
)
IMAGES: Final = Fields.of(Field("enabled", "bool", required=True))
_CLUSTERED: Final = Fields.of(
    Field("key", "object", required=True),
    Field("unique", "bool", required=True),
    Field("v", "int"),
    Field("name", "string"),
)

_OPTIONS: Final = (
    Field("capped", "bool"),
    Field("size", "long", minimum=1),
    Field("max", "long"),
    Field("storageEngine", "object"),
    Field("validator", "object"),
    Field("validationLevel", "string", choices=("off", "strict", "moderate")),
    Field("validationAction", "string", choices=("error", "warn", "errorAndLog")),
    Field("indexOptionDefaults", "object"),
    Field("viewOn", "string"),
    Field("pipeline", "array", of="object"),
    Field("collation", "object"),
    Field("timeseries", "object", of=TIMESERIES),
    Field("clusteredIndex", "object|bool", of=_CLUSTERED),
    Field("expireAfterSeconds", "long"),
    Field("changeStreamPreAndPostImages", "object", of=IMAGES),
    Field("encryptedFields", "object"),
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
    options = {name: request[name] for name in _OPTION_NAMES if name in request}
    if "timeseries" in options:
        time_series.check_options(ns, request)
    _check_options(ctx, options)
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
        if _asked(existing.options) == _asked(options):
            return {}
        kind = "view" if existing.is_view else "namespace"
        shown = show_document(existing.options)
        raise CommandError(
            ErrorCode.NAMESPACE_EXISTS, f"{kind} {ns} already exists, but with different options: {shown}"
        )
    ctx.check_name(ns)
    ctx.collection_created(ctx.catalog.create(ns, options))
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
    for name in ("timeseries", "collation", "clusteredIndex"):
        if isinstance(kept.get(name), dict):
            whole = time_series.completed(kept[name]) if name == "timeseries" else kept[name]
            deciding = (*time_series.FIELDS, "locale", "strength", "key", "unique")
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
    if "pipeline" in options and "viewOn" not in options:
        raise _invalid("'pipeline' requires 'viewOn' to also be specified")
    if "viewOn" in options:
        if options.get("capped") or "validator" in options:
            raise _invalid("Cannot create a view with the options of a collection")
        check_view_pipeline(ctx, options.get("pipeline", []))


def check_view_pipeline(ctx: CommandContext, pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse the pipeline of a view that cannot be compiled. Raises `CommandError`."""
    release = ctx.node.profile.max_wire_version
    variables = {"NOW": None, "CLUSTER_TIME": None}  # whether there is a time shows when the view is read
    compile_pipeline(pipeline, Scope(variables=variables, scripts=ctx.scripts, release=release))


def _invalid(message: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_OPTIONS, message)


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
    shown = f'UUID("{dropped.uuid.as_uuid()}")' if dropped.uuid is not None else ""
    # A cursor learns of it at its next getMore. Change streams live on: they have an event for it.
    ctx.cursors.invalidate(ns, CommandError(ErrorCode.QUERY_PLAN_KILLED, f"collection dropped. UUID {shown}"))
    reply: Reply = {} if dropped.is_view else {"nIndexesWas": len(dropped.indexes)}
    return {**reply, "ns": str(ns)}


def dropped_collection(ctx: CommandContext, collection: Collection) -> None:
    """Enter the drop of a collection or a view in the oplog."""
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
        Field("dropTarget", "bool|binData"),
        Field("stayTemp", "bool"),
        Field("collectionUUID", "binData"),
    ),
    admin_only=True,
    write_concern=True,
)
def rename_collection(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Give a collection another name."""
    source, target = Namespace.parse(first_argument(request)), Namespace.parse(request["to"])
    for ns in (source, target):
        if not ns.db or not ns.collection:
            raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{ns}'")
    if source == target:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "Can't rename a collection to itself")
    collection = ctx.catalog.get(source)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"Source collection {source} does not exist")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"cannot rename view: {source}")
    replaced = ctx.catalog.get(target)
    if replaced is not None:
        if not request.get("dropTarget"):
            raise CommandError(ErrorCode.NAMESPACE_EXISTS, "target namespace exists")
        # One entry of the oplog tells of both: the drop is part of the rename, and no reader sees a gap.
        ctx.catalog.drop(target)
    ctx.catalog.rename(source, target)
    entry: Document = {"renameCollection": str(source), "to": str(target), "stayTemp": False}
    if replaced is not None:
        entry["dropTarget"] = replaced.uuid
    ctx.command_applied(source.db, entry, uuid=collection.uuid)
    return {}


@table.command(
    "listCollections",
    kind="read",
    fields=Fields.of(
        Field("listCollections", "number"),
        Field("filter", "object"),
        Field("nameOnly", "bool"),
        Field("authorizedCollections", "bool"),
        Field("includePendingDrops", "bool"),
        Field("cursor", "object", of=Fields.of(Field("batchSize", "long", minimum=0))),
    ),
)
def list_collections(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the collections and views of a database."""
    collections = ctx.catalog.collections(ctx.db)
    described = [each.describe() for each in collections]
    if ctx.db == "local":
        described += local_collections.described(ctx)
    # A server keeps the definitions of views in a collection, which it makes with the first view.
    if any(each.is_view for each in collections):
        described.append(
            {"name": "system.views", "type": "collection", "options": {}, "info": {"readOnly": False}}
        )
    if request.get("authorizedCollections") and ctx.privileges is not None:
        seen = ctx.privileges
        described = [each for each in described if seen.reach(Resource(ctx.db, each["name"]))]
    found = matching(described, request.get("filter"))
    if request.get("nameOnly", False):
        found = [{"name": each["name"], "type": each["type"]} for each in found]
    ns = Namespace(ctx.db, "$cmd.listCollections")
    size = (request.get("cursor") or {}).get("batchSize", EVERYTHING)
    return first_batch(ctx, Cursor(ns, deque(map(dict, found)), request, counted=True), size)
