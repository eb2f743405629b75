"""The commands for indexes: make, drop and list them; search indexes are refused.

Behaviour: createIndexes parses every specification before it makes anything (see the index specifications
module), then refuses what a transaction may not do (263: new indexes only on a collection that it made
itself), then makes the collection if need be. An index that exists with the same key and options is no error;
the same name with another key is 86, the same key and name with other options 85, the same key under another
name 85; since 5.0 a key with another `unique`, `sparse` or `wildcardProjection` is another. Documents that
violate a unique index fail the build with 11000. dropIndexes never drops the index of `_id` (72); `*` leaves
it out. createIndexes and dropIndexes wait until no open transaction uses the collection. Commands of search
indexes answer 31082, as a server does without the search service.

Versions: createIndexes in a transaction and `commitQuorum` since 4.4; `collectionUUID` since 6.0; commands of
search indexes since 6.0. Until 4.4 createIndexes refuses unknown fields with 2, until 8.2 dropIndexes refuses
an index that is not there with 27.

Not modelled: A build takes no time, so `commitQuorum` is checked, shown and not waited for, and
`includeBuildUUIDs` and `includeIndexBuildInfo` have no build to show. If one of several indexes cannot be
built, those before it stay, without an entry in the oplog; a server makes all or none.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.catalog import index_specs
from fakeserver.commands.catalog.collections import EVERYTHING
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.cursors import catalog_batch
from fakeserver.commands.queries.reading import same_key
from fakeserver.commands.queries.source_stages import search_unavailable
from fakeserver.errors import CommandError, WriteError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, whole
from fakeserver.profile import WIRE_50, WIRE_60
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.plans.index_keys import is_id_key
from fakeserver.storage.store import time_series
from fakeserver.storage.store.catalog import not_on_view
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.types import is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.sessions.transactions import Transaction
    from fakeserver.storage.port.engine import Document, IndexSpec
    from fakeserver.storage.store.catalog import Collection


table = CommandTable()

_NO_OPTIONS: Final = frozenset({"v", "name", "background", "partialFilterExpression"})
"""The fields in which an index may differ from another and be the same."""


@table.command(
    "createIndexes",
    kind="write",
    in_transaction=True,
    fields=Fields.of(
        Field("indexes", "array", required=True, of="object"),
        Field("commitQuorum", "any"),
        Field("ignoreUnknownIndexOptions", "bool"),
        Field("collectionUUID", "binData"),
        target="collection",
    ),
    write_concern=True,
)
def create_indexes(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Make indexes, and the collection if it is not there."""
    ns = namespace(ctx, request)
    ctx.check_writes(ns.db)
    if not request["indexes"]:
        raise CommandError(ErrorCode.BAD_VALUE, "Must specify at least one index to create")
    quorum = commit_quorum(ctx.node, request.get("commitQuorum"))
    ignore = request.get("ignoreUnknownIndexOptions", False)
    existing = ctx.catalog.get(ns)
    check_uuid(request, ns, existing)
    wanted = [index_specs.parse(document, existing, lenient=ignore) for document in request["indexes"]]
    # A build needs the collection for itself, which a transaction has only where nobody else sees it yet.
    if ctx.transaction is not None and existing is not None:
        _check_in_transaction(ctx.transaction, existing, wanted, ctx.node.profile.max_wire_version)
    collection, made = ctx.ensure(ns)
    before = len(collection.indexes)
    new = _missing(collection.indexes, wanted, ctx.node.profile.max_wire_version)
    for spec in new:
        index_specs.check_beside(collection, spec)
        _build(ctx, collection, spec)
    if new:
        entries = [dict(spec.document) for spec in new]
        ctx.command_applied(ns.db, {"createIndexes": ns.collection, "indexes": entries}, uuid=collection.uuid)
    # The key that the collection itself is sorted by is listed, and not counted.
    clustered = int("clusteredIndex" in collection.options)
    reply: Reply = {
        "numIndexesBefore": before - clustered,
        "numIndexesAfter": len(collection.indexes) - clustered,
        "createdCollectionAutomatically": made,
    }
    if quorum is not None and new:
        reply["commitQuorum"] = quorum
    if not new:
        reply["note"] = "all indexes already exist"
    return reply


def _missing(there: Mapping[str, IndexSpec], wanted: Sequence[IndexSpec], release: int) -> list[IndexSpec]:
    """Return the indexes that are not there yet. Raises `CommandError` 85 or 86 for conflicting ones."""
    known, new = dict(there), []
    for spec in wanted:
        if not _is_there(known, spec, release):
            known[spec.name] = spec
            new.append(spec)
    return new


def _check_in_transaction(
    transaction: Transaction, collection: Collection, wanted: list[IndexSpec], release: int
) -> None:
    """Refuse new indexes on what the transaction did not make itself. Raises `CommandError` 263."""
    made = transaction.catalog is not None and collection.ns in transaction.catalog.made
    if not made and _missing(collection.indexes, wanted, release):
        raise CommandError(
            ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            f"Cannot create new indexes on existing collection {collection.ns} in a multi-document"
            " transaction.",
        )


def _is_there(indexes: Mapping[str, IndexSpec], spec: IndexSpec, release: int) -> bool:
    """Return whether an index is there already. Raises `CommandError` 85 or 86 for a conflicting one."""
    # The index of _id is always there; tools that copy all indexes ask for it again.
    if is_id_key(spec.key) and any(is_id_key(index.key) for index in indexes.values()):
        return True
    requested = f"Requested index: {show_document(spec.document)}"
    same_name = indexes.get(spec.name)
    own = _signature(spec, release)
    if same_name is not None:
        shown = f"{requested}, existing index: {show_document(same_name.document)}"
        if _signature(same_name, release) != own:
            raise CommandError(
                ErrorCode.INDEX_KEY_SPECS_CONFLICT,
                "An existing index has the same name as the requested index. When index names are "
                "not specified, "
                "they are auto generated and can cause conflicts. Please refer to our "
                f"documentation. {shown}",
            )
        if _options(same_name) != _options(spec):
            raise CommandError(
                ErrorCode.INDEX_OPTIONS_CONFLICT,
                f"An equivalent index already exists with the same name but different options. {shown}",
            )
        return True
    for other in indexes.values():
        if _signature(other, release) == own:
            raise CommandError(
                ErrorCode.INDEX_OPTIONS_CONFLICT, f"Index already exists with a different name: {other.name}"
            )
    return False


def _signature(spec: IndexSpec, release: int) -> tuple[Any, ...]:
    """Return what tells an index from others: those that agree in it differ in options at most."""
    document = spec.document
    common = (list(spec.key.items()), document.get("collation"))
    if release < WIRE_50:
        return (*common, document.get("partialFilterExpression"))
    filtered = document.get("partialFilterExpression")
    return (
        *common,
        None if filtered is None else sorted(_conditions(filtered)),
        (spec.unique, spec.sparse, document.get("wildcardProjection")),
    )


def _conditions(filtered: Mapping[str, Any]) -> Iterator[str]:
    """Return the conditions that a filter joins, each as text: their order is no difference."""
    for name, value in filtered.items():
        if name == "$and":
            for branch in value:
                yield from _conditions(branch)
        else:
            yield show_document({name: value})


def _options(spec: IndexSpec) -> dict[str, Any]:
    kept = {name: value for name, value in spec.document.items() if name not in _NO_OPTIONS}
    return {name: value for name, value in kept.items() if value is not False}


def _build(ctx: CommandContext, collection: Collection, spec: IndexSpec) -> None:
    try:
        ctx.catalog.add_index(collection, spec)
    except WriteError as error:
        # The command fails as a whole: duplicates are the documents' fault, but no statement of a client's.
        uuid = str(collection.uuid.as_uuid()) if collection.uuid is not None else ""
        raise CommandError(
            error.code,
            f"Index build failed: {uuid}: Collection {collection.ns} ( {uuid} ) :: caused by :: "
            f"{error.message}",
            extra=error.extra,
        ) from None


@table.command(
    "dropIndexes",
    kind="write",
    aliases=("deleteIndexes",),
    fields=Fields.of(
        Field("index", "string|object|array", required=True, of="string", nullable=False),
        Field("collectionUUID", "binData"),
        target="collection",
    ),
    write_concern=True,
)
def drop_indexes(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Drop indexes by name or key; `*` is all but that of `_id`."""
    ns = namespace(ctx, request)
    collection = ctx.catalog.get(ns) or ctx.catalog.series_of(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"ns not found {ns}")
    check_uuid(request, ns, collection)
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, f"Cannot drop indexes on view {ns}")
    reply: Reply = {"nIndexesWas": len(collection.indexes) - int("clusteredIndex" in collection.options)}
    wanted = request["index"]
    if wanted in ("*", ["*"]):
        names = [name for name, index in collection.indexes.items() if not is_id_key(index.key)]
        reply["msg"] = "non-_id indexes dropped for collection"
    else:
        lenient = ctx.node.profile.drops_missing_indexes
        names = _found(collection, wanted if isinstance(wanted, list) else [wanted], lenient=lenient)
    for name in names:
        detail = {"indexes": [dict(collection.indexes[name].document)]}
        ctx.catalog.drop_index(collection, name)
        command = {"dropIndexes": collection.ns.collection, "index": name}
        ctx.command_applied(ns.db, command, uuid=collection.uuid, detail=detail)
    return reply


def _found(collection: Collection, wanted: Sequence[Any], *, lenient: bool) -> list[str]:
    """Return the names of indexes, each once. `lenient` passes over those that are not there."""
    names: list[str] = []
    for each in wanted:
        try:
            names.append(_find(collection, each, dropped=names))
        except CommandError as error:
            if not lenient or error.code != ErrorCode.INDEX_NOT_FOUND:
                raise
    return names


_CLUSTERED_DROPPED: Final = 5979800


def _find(collection: Collection, wanted: Any, dropped: Sequence[str]) -> str:
    if isinstance(wanted, dict):
        found = [index for index in collection.indexes.values() if same_key(wanted, index.key)]
        if len(found) > 1:
            raise CommandError(
                ErrorCode.AMBIGUOUS_INDEX_KEY_PATTERN,
                f"{len(found)} indexes found for key: {show_document(wanted)}, identify by name instead."
                f" Conflicting indexes: {', '.join(show_document(index.document) for index in found)}",
            )
    for index in collection.indexes.values():
        # One after the other is dropped, so that the second time there is none of the name.
        if index.name in dropped:
            continue
        if wanted == index.name or (isinstance(wanted, dict) and same_key(wanted, index.key)):
            if "clustered" in index.document:
                raise CommandError(_CLUSTERED_DROPPED, "Cannot drop the clustered index")
            if is_id_key(index.key):
                raise CommandError(ErrorCode.INVALID_OPTIONS, "cannot drop _id index")
            return index.name
    shown = (
        f"can't find index with key: {show_document(wanted)}"
        if isinstance(wanted, dict)
        else f"index not found with name [{wanted}]"
    )
    raise CommandError(ErrorCode.INDEX_NOT_FOUND, shown)


@table.command(
    "listIndexes",
    kind="read",
    fields=Fields.of(
        Field("cursor", "object", of=Fields.of(Field("batchSize", "long", minimum=0))),
        Field("includeBuildUUIDs", "bool"),
        Field("includeIndexBuildInfo", "bool"),
        target="collection",
    ),
)
def list_indexes(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the indexes of a collection."""
    ns = namespace(ctx, request)
    series = ctx.catalog.series_of(ns)
    collection = ctx.catalog.get(ns) or series
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"ns does not exist: {ns}")
    if collection.is_view:
        raise not_on_view(ns)
    if request.get("includeBuildUUIDs") and request.get("includeIndexBuildInfo"):
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "The includeBuildUUIDs flag and includeBuildIndexInfo flag cannot both be set",
        )
    shown: list[Document] = [index_specs.listed(index) for index in collection.indexes.values()]
    if series is not None:
        shown = [
            {**each, "key": time_series.bucket_key(each["key"], series.options["timeseries"])}
            for each in shown
        ]
    if request.get("includeIndexBuildInfo"):
        shown = [{"spec": document} for document in shown]
    size = (request.get("cursor") or {}).get("batchSize", EVERYTHING)
    return catalog_batch(ctx, Cursor(ns, deque(shown), request, counted=True), size)


def _search(_ctx: CommandContext, _request: dict[str, Any]) -> Reply:
    """Refuse: search indexes need a service that is not part of the server."""
    raise search_unavailable()


for _name in ("createSearchIndexes", "updateSearchIndex", "dropSearchIndex", "listSearchIndexes"):
    _fields = Fields.of(strict=False, target="collection")
    _handler = table.command(_name, kind="write", fields=_fields, since=WIRE_60)
    _handler(_search)


# The commit quorum of an index build: how many members must be ready before the index is.

_DEFAULT_QUORUM: Final = "votingMembers"
_QUORUM_MODES: Final = (_DEFAULT_QUORUM, "majority")
_MOST_MEMBERS: Final = 50


def commit_quorum(node: Node, wanted: Any) -> Any:
    """Return the quorum of a build on a server, None where there is none.

    Raises `CommandError`: 9 for no quorum, 2 on a server that is in no replica set, 79 for a mode that the
    set does not have, 278 for more members than it has.
    """
    if wanted is not None:
        _check_quorum(wanted)
    if not node.is_replica_set_member:
        if wanted is not None and not node.is_mongos:
            raise CommandError(ErrorCode.BAD_VALUE, "Standalones can't specify commitQuorum")
        return None
    if wanted is None:
        return _DEFAULT_QUORUM
    if type(wanted) is str:
        if wanted not in _QUORUM_MODES:
            raise CommandError(
                ErrorCode.UNKNOWN_REPL_WRITE_CONCERN,
                f"No write concern mode named '{wanted}' found in replica set configuration",
            )
        return wanted
    assert node.shard is not None
    members = sum(bool(member.member.spec.votes) for member in node.shard.data_bearing)
    if whole(wanted) > members:
        raise CommandError(
            ErrorCode.UNSATISFIABLE_COMMIT_QUORUM,
            f"Not enough data-bearing nodes; {members} can vote, the commit quorum is {whole(wanted)}",
        )
    return whole(wanted)


def _check_quorum(wanted: Any) -> None:
    if type(wanted) is str:
        return
    if not is_number(wanted):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "commitQuorum has to be a number or a string")
    if not 0 <= whole(wanted) <= _MOST_MEMBERS:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"commitQuorum has to be a non-negative number and not greater than {_MOST_MEMBERS}",
        )
