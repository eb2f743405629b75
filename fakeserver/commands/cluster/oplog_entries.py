"""The applyOps command: entries of an oplog that a client has a server apply, as a restore does.

Behaviour: All entries are checked first: an object (14) with `op`, a text (4, 14, empty 20), and `ns`, a
text that only a no-op may leave empty (20). Then `preCondition` (6711600), `alwaysUpsert` (6711601),
`prepare` (2), `partialTxn` (31056) and `count` (31240) are refused, and a dropDatabase beside other entries
(6275900). They are applied in their order, and what was applied stays. An insert whose `_id` is there
replaces the document; a delete of what is not there is no error, nor is a command whose effect is there
already. An update that finds no document is an error of its entry: the next ones are applied, and the
command fails with 8 and the `results`. Any other error ends it: a collection that is missing (26), an insert
without `_id` (4), an entry without `o` (40414), a UUID of another collection (3318200).

Versions: The same in every release.

Not modelled: `allowAtomic` has no effect, as on servers since 6.1, and `oplogApplicationMode` none. An update
of documents by `$v: 2` is in the oplog as a replacement. Builds of indexes by startIndexBuild and its
followers are refused (115).
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.context import CommandContext
from fakeserver.commands.local_collections import patched
from fakeserver.commands.writes import delete, update
from fakeserver.commands.writes.writing import Batch, numbered
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, type_name
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.values.printing import show_document
from fakeserver.waiting.interrupts import in_one_turn
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Document

table = CommandTable()

_DIFF_VERSION: Final = 2
_ONE_DATABASE: Final = 6275900
_OTHER_COLLECTION: Final = 3318200
_REFUSED: Final = {
    "preCondition": (6711600, "applyOps command no longer supports the 'preCondition' option"),
    "alwaysUpsert": (6711601, "applyOps command no longer supports the 'alwaysUpsert' option"),
    "prepare": (int(ErrorCode.BAD_VALUE), "applyOps command can't have 'prepare' field"),
    "partialTxn": (31056, "applyOps command can't have 'partialTxn' field."),
    "count": (31240, "applyOps command can't have 'count' field."),
}
_DONE_ALREADY: Final[Mapping[str, frozenset[int]]] = {
    "create": frozenset({ErrorCode.NAMESPACE_EXISTS}),
    "createIndexes": frozenset({ErrorCode.INDEX_OPTIONS_CONFLICT, ErrorCode.INDEX_KEY_SPECS_CONFLICT}),
    "collMod": frozenset({ErrorCode.INDEX_NOT_FOUND, ErrorCode.NAMESPACE_NOT_FOUND}),
    "drop": frozenset({ErrorCode.NAMESPACE_NOT_FOUND}),
    "dropDatabase": frozenset({ErrorCode.NAMESPACE_NOT_FOUND}),
    "dropIndexes": frozenset({ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INDEX_NOT_FOUND}),
    "renameCollection": frozenset({ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NAMESPACE_EXISTS}),
}
"""The commands that an oplog has, and the errors that mean that their effect is there."""


@table.command(
    "applyOps",
    kind="write",
    fields=Fields.of(
        Field("applyOps", "array", nullable=False),
        Field("preCondition", "array"),
        *(Field(name, "strictBool") for name in ("alwaysUpsert", "prepare", "partialTxn")),
        Field("count", "long"),
        strict=False,
    ),
    write_concern=True,
    home="mongod",
)
def apply_ops(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Apply entries of an oplog."""
    entries = request["applyOps"]
    _check_all(entries)
    for name, (code, message) in _REFUSED.items():
        if name in request and request[name] is not (False if name == "alwaysUpsert" else None):
            raise CommandError(code, message)
    if len(entries) > 1 and any(_drops_database(entry) for entry in entries):
        raise CommandError(_ONE_DATABASE, "dropDatabase in an applyOps must be the only entry")
    return _applied(Batch(ctx), count(), entries)


def _applied(batch: Batch, numbers: Iterator[int], entries: Sequence[Document]) -> Reply:
    """Apply entries, each under a number of its own, also where one of them holds others."""
    results: list[bool] = []
    for _, entry in numbered(entries):
        if entry["op"] == "n":
            continue
        try:
            results.append(_apply(batch, numbers, entry))
        except CommandError as error:
            done = {"applied": len(results) + 1, "results": [*results, False]}
            raise CommandError(error.code, error.message, extra={**error.extra, **done}) from None
    done = {"applied": len(results), "results": results}
    if not all(results):
        raise CommandError(
            ErrorCode.UNKNOWN_ERROR, "applyOps had one or more errors applying ops", extra=done
        )
    return done


def _check_all(entries: Sequence[Any]) -> None:
    """Refuse what is no entry of an oplog. Raises `CommandError` 14, 4 or 20."""
    for index, entry in numbered(entries):
        if not isinstance(entry, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"BSON field 'applyOps.{index}' is the wrong type '{type_name(entry)}', expected type"
                " 'object'",
            )
        if "op" not in entry:
            raise CommandError(ErrorCode.NO_SUCH_KEY, 'Missing expected field "op"')
        op, ns = entry["op"], entry.get("ns")
        if type(op) is not str:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, f"Wrong type for 'op'. Expected a string, got a {type_name(op)}."
            )
        if not op:
            raise _illegal(f'"op" field value cannot be empty: {index}')
        if "ns" not in entry:
            raise _illegal(f'op does not contain required "ns" field: {index}')
        if type(ns) is not str:
            raise _illegal(f'"ns" field is not a string: {index}')
        if not ns and op != "n":
            raise _illegal(f"\"ns\" field value cannot be empty when op type is not 'n': {index}")


def _illegal(message: str) -> CommandError:
    return CommandError(ErrorCode.ILLEGAL_OPERATION, message)


def _drops_database(entry: Document) -> bool:
    change = entry.get("o")
    return entry["op"] == "c" and isinstance(change, dict) and next(iter(change), "") == "dropDatabase"


def _apply(batch: Batch, numbers: Iterator[int], entry: Document) -> bool:
    """Apply an entry; return whether an update found its document. Raises `CommandError` for other errors."""
    ctx, op, ns = batch.ctx, entry["op"], Namespace.parse(entry["ns"])
    if op not in _BY_OPERATION and op != "c":
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Enumeration value '{op}' for field 'OplogEntryBase.op' is not a valid value.",
        )
    change = entry.get("o")
    if not isinstance(change, dict):
        code = ErrorCode.IDL_FAILED_TO_PARSE if change is None else ErrorCode.TYPE_MISMATCH
        raise CommandError(code, "BSON field 'OplogEntryBase.o' is missing but a required field")
    if op == "c":
        inner = change.get("applyOps")
        if isinstance(inner, list):
            _check_all(inner)
            _applied(batch, numbers, inner)
        else:
            _run(ctx, ns.db, change)
        return True
    if not ns.db or not ns.collection:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"invalid ns: {ns}")
    uuid = entry.get("ui")
    collection = ctx.catalog.get(ns)
    if uuid is not None and (collection is None or collection.uuid != uuid):
        raise CommandError(
            _OTHER_COLLECTION, f"Namespace '{ns}' and UUID '{uuid.hex()}' point to different collections"
        )
    if ctx.catalog.get(ns) is None:
        if op == "d":
            return True
        raise CommandError(
            ErrorCode.NAMESPACE_NOT_FOUND,
            f"cannot apply insert or update operation on a non-existent namespace {ns}:"
            f" {show_document(entry)}",
        )
    return _BY_OPERATION[op](batch, next(numbers), ns, entry)


def _insert(batch: Batch, index: int, ns: Namespace, entry: Document) -> bool:
    document = entry["o"]
    wanted = {"_id": _id_of(document)}
    statement = {"q": wanted, "u": document, "upsert": True}
    batch.attempt(index, ns, lambda accept: _summed(batch, ns, statement, accept))
    return True


def _update(batch: Batch, index: int, ns: Namespace, entry: Document) -> bool:
    change, wanted = entry["o"], entry.get("o2")
    if not isinstance(wanted, dict):
        raise CommandError(ErrorCode.NO_SUCH_KEY, 'Missing expected field "o2"')
    wanted = {"_id": _id_of(wanted)}
    if change.get("$v") == _DIFF_VERSION:
        found = batch.ctx.catalog.engine.find(ns, Query(wanted, limit=1))
        if not found:
            return False
        change = patched(found[0], change.get("diff") or {})
    statement = {"q": wanted, "u": change, "upsert": bool(entry.get("b", False))}
    done = batch.attempt(index, ns, lambda accept: _summed(batch, ns, statement, accept))
    return bool(done["n"])


def _summed(batch: Batch, ns: Namespace, statement: Document, accept: Any) -> Document:
    return update.summary(update.apply(batch.ctx, ns, statement, accept, keep_times=True))


def _delete(batch: Batch, index: int, ns: Namespace, entry: Document) -> bool:
    statement = {"q": {"_id": _id_of(entry["o"])}, "limit": 1}
    batch.attempt(index, ns, lambda accept: {"n": len(delete.apply(batch.ctx, ns, statement, accept))})
    return True


_BY_OPERATION: Final = {"i": _insert, "u": _update, "d": _delete}


def _id_of(document: Mapping[str, Any]) -> Any:
    if "_id" not in document:
        raise CommandError(
            ErrorCode.NO_SUCH_KEY, f"Failed to find expected field _id in {show_document(document)}"
        )
    return document["_id"]


def _run(ctx: CommandContext, db: str, command: Document) -> None:
    """Run a command of an oplog; an effect that is there already is no error. Raises `CommandError`."""
    name = next(iter(command), "")
    spec = ctx.node.commands.get(name)
    if spec is None or name not in _DONE_ALREADY:
        code = ErrorCode.COMMAND_NOT_SUPPORTED if name.endswith("IndexBuild") else ErrorCode.BAD_VALUE
        raise CommandError(code, f"Unrecognized oplog command: {name}")
    if name == "create":
        request = {field: value for field, value in command.items() if field != "idIndex"}
    elif name == "createIndexes" and "indexes" not in command:
        index = {field: value for field, value in command.items() if field != name}
        request = {name: command[name], "indexes": [index]}
    elif name == "renameCollection" and command.get("dropTarget"):
        request = {**command, "dropTarget": True}
    else:
        request = dict(command)
    if spec.fields is not None:
        spec.fields.check_command(request)
    inner = CommandContext(
        ctx.node, ctx.connection, db, ctx.now, ctx.catalog, ctx.cursors, ctx.request, ctx.session_id
    )
    try:
        with in_one_turn():
            spec.handler(inner, request)
    except CommandError as error:
        if error.code not in _DONE_ALREADY[name]:
            raise
