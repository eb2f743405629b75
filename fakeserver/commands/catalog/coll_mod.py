"""The collMod command: changes of a collection's options and of its indexes.

Behaviour: It waits until no open transaction uses the collection, and has it for itself. A missing collection
is refused with 26, another UUID with 361; then an index is changed, then the options, and one entry of the
oplog tells of both, with the options of before. An empty `validator`, images that are not `enabled` and an
`expireAfterSeconds` of `off` remove the option. `unique` needs `prepareUnique` first (72) and fails with 359
if documents share a key, whose `_id`s it returns; `prepareUnique` itself refuses only keys that come later.
The index of `_id` cannot be hidden (2). `viewOn` and `pipeline` are for views alone, and views take nothing
else (72); a view that would read itself is refused with 5, a chain of more than 20 with 165. Documents beyond
`cappedSize` and `cappedMax` go with the next insert.

Versions: `index.hidden` since 4.4; `timeseries` and `expireAfterSeconds` since 5.0; `index.prepareUnique`,
`index.unique`, `cappedSize`, `cappedMax`, `changeStreamPreAndPostImages`, `dryRun` and `collectionUUID` since
6.0. Until 4.4 unknown fields are refused with 72, in the words of that time.

Not modelled: A server checks all of the command first; here an index stays changed when an option is refused.
A `dryRun`, which is for `unique` alone, writes its entry of the oplog all the same. `validationAction`
`errorAndLog` is `error`, and nothing is logged for `warn`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands.catalog.collections import (
    IMAGES,
    MOST_CAPPED,
    MOST_CAPPED_BYTES,
    TIMESERIES,
    check_view_pipeline,
    stages_of,
)
from fakeserver.commands.catalog.index_specs import check_hideable
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.local_collections import OPLOG
from fakeserver.errors import CommandError, WriteError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, whole
from fakeserver.storage.plans.index_keys import is_id_key
from fakeserver.storage.port.engine import Query
from fakeserver.storage.store import time_series
from fakeserver.storage.store.catalog import BUILT_IN
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.types import MISSING, order
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document, IndexSpec
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_SIMPLE: Final = ("validator", "validationLevel", "validationAction", "viewOn", "pipeline")

_MODIFIED: Final = (*_SIMPLE, "timeseries", "index", "changeStreamPreAndPostImages", "expireAfterSeconds",
                    "cappedSize", "cappedMax")  # fmt: skip

_INDEX: Final = Fields.of(
    Field("name", "string"),
    Field("keyPattern", "object"),
    Field("expireAfterSeconds", "number"),
    Field("hidden", "bool"),
    Field("unique", "bool"),
    Field("prepareUnique", "bool"),
)

_TIMESERIES: Final = Fields.of(
    *(each for each in TIMESERIES.by_name.values() if each.name not in ("timeField", "metaField"))
)


@table.command(
    "collMod",
    kind="write",
    fields=Fields.of(
        Field("index", "object", of=_INDEX),
        Field("validator", "object"),
        Field("validationLevel", "string", choices=("off", "strict", "moderate")),
        Field("validationAction", "string", choices=("error", "warn", "errorAndLog")),
        Field("viewOn", "string"),
        Field("pipeline", "array"),
        Field("changeStreamPreAndPostImages", "object", of=IMAGES),
        Field("expireAfterSeconds", "long|string", nullable=False),
        Field("timeseries", "object", of=_TIMESERIES),
        Field("cappedSize", "long", minimum=1, maximum=MOST_CAPPED_BYTES),
        Field("cappedMax", "long", maximum=MOST_CAPPED),
        Field("dryRun", "bool"),
        Field("collectionUUID", "binData"),
        target="collection",
    ),
    write_concern=True,
)
def coll_mod(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Change the options of a collection, a view or an index."""
    ns = namespace(ctx, request)
    collection = ctx.catalog.get(ns)
    if ns == OPLOG and ctx.node.is_replica_set_member and not _CAPPED.isdisjoint(request):
        raise CommandError(ErrorCode.INVALID_OPTIONS, "the oplog is resized by replSetResizeOplog alone")
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, "ns does not exist")
    check_uuid(request, ns, collection)
    _check_kind(ctx, collection, request)
    before: Document = {
        "nsType": collection.kind,
        "stateBeforeChange": {"collectionOptions": dict(collection.options)},
    }
    reply: Reply = {}
    dry = request.get("dryRun", False)
    if dry and not request.get("index", {}).get("unique"):
        raise CommandError(ErrorCode.INVALID_OPTIONS, "dryRun mode is only supported for 'unique'")
    if "index" in request:
        reply = _modify_index(ctx, collection, request["index"], dry=dry)
    changes: dict[str, Any] = {name: request[name] for name in _SIMPLE if name in request}
    if changes.get("validator") == {}:
        changes["validator"] = None
    if "timeseries" in request:
        changes["timeseries"] = _buckets(collection, request["timeseries"])
    if "changeStreamPreAndPostImages" in request:
        images = request["changeStreamPreAndPostImages"]
        changes["changeStreamPreAndPostImages"] = images if images.get("enabled") else None
    if "expireAfterSeconds" in request:
        changes["expireAfterSeconds"] = _expiry(
            collection, request["expireAfterSeconds"], ctx.node.clock.utc()
        )
    for name, option in (("cappedSize", "size"), ("cappedMax", "max")):
        if name in request and collection.is_capped:
            changes[option] = request[name]
    ctx.catalog.modify(collection, changes)
    asked: Document = {name: request[name] for name in _MODIFIED if name in request}
    command: Document = {"collMod": ns.collection, **asked}
    ctx.command_applied(ns.db, command, uuid=collection.uuid, detail=before)
    return reply


def _buckets(collection: Collection, change: Mapping[str, Any]) -> Document:
    """Return the options of a time series after a change. Raises `CommandError` 72."""
    if collection.kind != "timeseries":
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            f"option only supported on a time-series collection: timeseries: {collection.ns}",
        )
    return time_series.modified(collection.options["timeseries"], change)


def _check_kind(ctx: CommandContext, collection: Collection, request: dict[str, Any]) -> None:
    """Refuse what a view has and a collection has not, and the reverse. Raises `CommandError` 72."""
    for name in _MODIFIED:
        if name not in request:
            continue
        if collection.is_view and name not in _OF_VIEWS:
            raise CommandError(ErrorCode.INVALID_OPTIONS, f"option not supported on a view: {name}")
        if name in _OF_VIEWS and not collection.is_view:
            raise CommandError(ErrorCode.INVALID_OPTIONS, f"'{name}' option only supported on a view")
        # Of a time series they are passed over.
        if name in _CAPPED and not collection.is_capped and collection.kind != "timeseries":
            raise CommandError(ErrorCode.INVALID_OPTIONS, "Collection must be capped.")
        if name == "changeStreamPreAndPostImages" and collection.kind == "timeseries":
            raise CommandError(ErrorCode.INVALID_OPTIONS, f"option not supported on a time-series: {name}")
    for name in ("validator", "validationLevel", "validationAction"):
        if name in request and collection.kind == "timeseries":
            raise CommandError(ErrorCode.INVALID_OPTIONS, f"option not supported on a time-series: {name}")
    ns = collection.ns
    if "validator" in request and (ns.collection.startswith("system.") or ns.db in BUILT_IN):
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, f"Document validation not allowed on system collection {collection.ns}"
        )
    if "viewOn" in request:
        _check_source(collection.ns.db, request["viewOn"])
    if "pipeline" in request:
        request["pipeline"] = stages_of("collMod.pipeline", request["pipeline"])
        check_view_pipeline(ctx, request["pipeline"])


def _check_source(db: str, name: str) -> None:
    """Refuse what no view can stand on. Raises `CommandError` 2 for no name, 73 for a bad one."""
    if not name:
        raise CommandError(ErrorCode.BAD_VALUE, "'viewOn' cannot be empty")
    if name[0] in ".$" or "\0" in name:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{db}.{name}'")


_OF_VIEWS: Final = frozenset({"viewOn", "pipeline"})
_CAPPED: Final = frozenset({"cappedSize", "cappedMax"})


def _expiry(collection: Collection, seconds: Any, now: float) -> Int64 | None:
    """Return after how long documents expire, None for never. Raises `CommandError` 72."""
    if collection.kind != "timeseries" and "clusteredIndex" not in collection.options:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex'"
            " option is specified",
        )
    if seconds == "off":
        return None
    if type(seconds) is str:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "Invalid string value for the 'clusteredIndex::expireAfterSeconds' option. Got:"
            f" '{seconds}'. Accepted value is 'off'",
        )
    number = whole(seconds)
    if not 0 <= number <= now:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, "'expireAfterSeconds' must be between 0 and the seconds since 1970"
        )
    return Int64(number)


def _index_expiry(index: IndexSpec, seconds: Any) -> Int64:
    """Return after how long the documents of an index expire, bounded. Raises `CommandError` 72."""
    number = whole(seconds)
    reason = None if number >= 0 else "TTL index 'expireAfterSeconds' option cannot be less than 0"
    # A rule of the index wins over one of the number: no number would do for this index.
    if is_id_key(index.key):
        reason = "the _id field does not support TTL indexes"
    elif len(index.key) != 1:
        reason = "TTL indexes are single-field indexes, compound indexes do not support TTL"
    if reason is not None:
        raise CommandError(ErrorCode.INVALID_OPTIONS, reason)
    return Int64(min(number, _LONGEST))


_LONGEST: Final = 2**31 - 1
"""The most seconds after which documents of an index may expire."""

_CLUSTERED_HIDDEN: Final = 6011800
_CHANGES: Final = ("expireAfterSeconds", "hidden", "unique", "prepareUnique")


def _check_changes(wanted: Mapping[str, Any]) -> None:
    """Refuse no change of an index, and those that do not go together. Raises `CommandError` 72 or 2."""
    if not any(name in wanted for name in _CHANGES):
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, "no expireAfterSeconds, hidden, unique, or prepareUnique field"
        )
    if wanted.get("unique") is False:
        raise CommandError(ErrorCode.BAD_VALUE, "collMod does not support converting an index to non-unique")


def _modify_index(
    ctx: CommandContext, collection: Collection, wanted: Mapping[str, Any], *, dry: bool
) -> Reply:
    index = _find(collection, wanted)
    _check_changes(wanted)
    prepares = wanted.get("prepareUnique")
    if prepares is not None and prepares != bool(index.document.get("prepareUnique")):
        others = [name for name in ("expireAfterSeconds", "hidden", "unique") if name in wanted]
        if others:
            raise CommandError(
                ErrorCode.INVALID_OPTIONS, f"cannot change prepareUnique together with {others[0]}"
            )
    document: dict[str, Any] = dict(index.document)
    reply: Reply = {}
    # What is changed comes last.
    if "expireAfterSeconds" in wanted:
        seconds = _index_expiry(index, wanted["expireAfterSeconds"])
        if "expireAfterSeconds" in document:
            reply["expireAfterSeconds_old"] = Int64(whole(document.pop("expireAfterSeconds")))
        document["expireAfterSeconds"], reply["expireAfterSeconds_new"] = int(seconds), seconds
    if "hidden" in wanted:
        check_hideable(collection.ns, index.key, hidden=wanted["hidden"])
    for name in ("hidden", "prepareUnique"):
        # An option that already has the value is not part of the reply.
        if name in wanted and bool(document.get(name, False)) != wanted[name]:
            reply[f"{name}_old"], reply[f"{name}_new"] = bool(document.pop(name, False)), wanted[name]
            if wanted[name]:
                document[name] = True
    if wanted.get("unique"):
        _check_unique(ctx, collection, index)
        if not dry and not index.document.get("unique"):
            reply["unique_new"] = True
        document["unique"] = True
        document.pop("prepareUnique", None)
    if not dry and list(document.items()) != list(index.document.items()):
        _replace(ctx, collection, index, document)
    return reply


def _find(collection: Collection, wanted: Mapping[str, Any]) -> IndexSpec:
    if ("name" in wanted) == ("keyPattern" in wanted):
        raise CommandError(ErrorCode.INVALID_OPTIONS, "must specify either index name or key pattern")
    for index in collection.indexes.values():
        if index.name == wanted.get("name") or dict(index.key) == wanted.get("keyPattern"):
            if "clustered" not in index.document:
                return index
            # The collection itself is sorted by this key: there is no index to change, nor to hide.
            if "hidden" in wanted:
                raise CommandError(_CLUSTERED_HIDDEN, "Cannot hide or unhide the clustered index")
    shown = show_document(wanted["keyPattern"]) if "keyPattern" in wanted else wanted["name"]
    raise CommandError(ErrorCode.INDEX_NOT_FOUND, f"cannot find index {shown} for ns {collection.ns}")


def _check_unique(ctx: CommandContext, collection: Collection, index: IndexSpec) -> None:
    if not index.document.get("prepareUnique") and not index.unique:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.",
        )
    # Old duplicates may be there: prepareUnique has only kept new ones away.
    holders: dict[Any, list[Any]] = {}
    paths = [split(name) for name in index.key]
    for document in ctx.catalog.engine.find(collection.ns, Query()):
        values = (read(document, path) for path in paths)
        # A missing field is null to an index, so two documents without it violate a unique one.
        key = tuple(tuple(order(None if each is MISSING else each) for each in found) for found in values)
        holders.setdefault(key, []).append(document["_id"])
    violations = [{"ids": ids} for ids in holders.values() if len(ids) > 1]
    if violations:
        raise CommandError(
            ErrorCode.CANNOT_CONVERT_INDEX_TO_UNIQUE,
            "Cannot convert the index to unique. Please resolve conflicting documents before "
            "running collMod again.",
            extra={"violations": violations},
        )


def _replace(ctx: CommandContext, collection: Collection, index: IndexSpec, document: dict[str, Any]) -> None:
    unique = bool(document.get("unique") or document.get("prepareUnique"))
    # Tolerant of duplicates: prepareUnique enforces uniqueness for documents that come or change from now on.
    changed = replace(index, unique=unique, document=document)
    ctx.catalog.engine.drop_index(collection.ns, index.name)
    try:
        ctx.catalog.add_index(collection, changed, tolerant=True)
    except WriteError:
        ctx.catalog.add_index(collection, index)
        raise
