"""The bulkWrite command: writes to many collections at once, whose results a cursor returns.

Behaviour: All of the command is checked before the first write: from 1 to 100,000 operations (16), then each
operation's kind and fields, then each namespace of `nsInfo` (73), then each operation's index into `nsInfo`
(2). Operations then run one after another as statements of insert, update and delete do, and each looks at
the UUID of its collection (361);
an ordered command, or one in a transaction, stops at its first error. Errors of operations leave `ok` at 1
and are counted in `nErrors`; interruptions and state changes end the command. The results are documents of a
cursor over `admin.$cmd.bulkWrite`, with `errorsOnly` those of failed operations alone; one batch holds all
that 16 MB hold unless `cursor.batchSize` is smaller.

Versions: The command exists since 8.0.

Not modelled: A mongos does not divide the operations by shard. `encryptionInformation`,
`isTimeseriesNamespace`, `upsertSupplied` and `sampleId` are accepted and have no effect.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands.context import check_uuid
from fakeserver.commands.cursors import first_batch
from fakeserver.commands.writes import delete, insert, update
from fakeserver.commands.writes.writing import Batch, numbered
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.profile import WIRE_80
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.commands.writes.writing import Write
    from fakeserver.storage.port.engine import Accept, Document

table = CommandTable()

_RESULTS: Final = Namespace("admin", "$cmd.bulkWrite")
_EVERYTHING: Final = 2**31 - 1
_NO_RETRYABLE_MULTI: Final = "Cannot use retryable writes with multi=true"

_NAMESPACE: Final = Fields.of(
    Field("ns", "string", required=True),
    Field("collectionUUID", "binData"),
    Field("encryptionInformation", "object"),
    Field("isTimeseriesNamespace", "bool"),
)
_OPERATIONS: Final = {
    "insert": Fields.of(
        Field("insert", "int", required=True, minimum=0), Field("document", "object", required=True)
    ),
    "update": Fields.of(
        Field("update", "int", required=True, minimum=0),
        Field("filter", "object", required=True),
        Field("updateMods", required=True),
        Field("multi", "strictBool"),
        Field("upsert", "strictBool"),
        Field("upsertSupplied", "bool"),
        Field("arrayFilters", "array", of="object"),
        Field("hint", "hint"),
        Field("constants", "object"),
        Field("collation", "object"),
        Field("sort", "object"),
        Field("sampleId", "binData"),
    ),
    "delete": Fields.of(
        Field("delete", "int", required=True, minimum=0),
        Field("filter", "object", required=True),
        Field("multi", "strictBool"),
        Field("hint", "hint"),
        Field("collation", "object"),
        Field("sampleId", "binData"),
    ),
}


@table.command(
    "bulkWrite",
    kind="write",
    since=WIRE_80,
    in_transaction=True,
    fields=Fields.of(
        Field("bulkWrite"),
        Field("ops", "array", required=True, of="object"),
        Field("nsInfo", "array", required=True, of=_NAMESPACE),
        Field("ordered", "strictBool"),
        Field("errorsOnly", "strictBool"),
        Field("bypassDocumentValidation", "bool"),
        Field("bypassEmptyTsReplacement", "bool"),
        Field("let", "object"),
        Field("cursor", "object", of=Fields.of(Field("batchSize", "long", minimum=0))),
    ),
    admin_only=True,
    sequences=("ops", "nsInfo"),
    write_concern=True,
    retryable_write=True,
)
def bulk_write(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Insert, update and delete documents in many collections."""
    operations: Sequence[dict[str, Any]] = request["ops"]
    batch = Batch.of(ctx, request, len(operations))
    # Everything is checked before the first operation runs: a command that cannot be read writes nothing.
    kinds = [_kind(operation) for _, operation in numbered(operations)]
    infos = request["nsInfo"]
    targets = [_target(info) for info in infos]
    for _, (kind, operation) in numbered(list(zip(kinds, operations, strict=True))):
        if operation[kind] >= len(targets):
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"BulkWrite ops entry {show_document(operation)} has an invalid nsInfo index.",
            )
    counts: Counter[str] = Counter()
    results: list[Document] = []
    let = request.get("let")
    for index, (kind, operation) in numbered(list(zip(kinds, operations, strict=True))):
        target, info = targets[operation[kind]], infos[operation[kind]]
        try:
            check_uuid(info, target, ctx.catalog.get(target))
        except CommandError as error:
            done = batch.run(index, target, _raising(error))
        else:
            done = _RUN[kind](batch, index, target, operation, let)
        results.append(_result(batch, index, kind, done, counts))
        if batch.stopped:
            break
    return _reply(batch, request, results, counts)


def _kind(operation: dict[str, Any]) -> str:
    kind = next(iter(operation), "")
    if kind not in _OPERATIONS:
        raise CommandError(
            ErrorCode.IDL_UNKNOWN_FIELD, f"BSON field 'bulkWrite.ops.{kind}' is an unknown field."
        )
    _OPERATIONS[kind].check(operation, "bulkWrite.ops")
    if kind == "update":
        update.check_change(operation["updateMods"])
    return kind


def _raising(error: CommandError) -> Write:
    def write(_accept: Accept) -> Document:
        raise error

    return write


def _target(info: Mapping[str, Any]) -> Namespace:
    ns = Namespace.parse(info["ns"])
    if not ns.db or not ns.collection:
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified for bulkWrite: '{info['ns']}'"
        )
    return ns


def _insert(
    batch: Batch,
    index: int,
    ns: Namespace,
    operation: Mapping[str, Any],
    let: Any,  # noqa: ARG001 -- the signature of its siblings
) -> Document | None:
    return insert.insert_one(batch, index, ns, operation["document"])


def _update(
    batch: Batch, index: int, ns: Namespace, operation: Mapping[str, Any], let: Any
) -> Document | None:
    statement = {**operation, "q": operation["filter"], "u": operation["updateMods"], "let": let}
    statement["c"] = operation.get("constants")
    batch.ctx.renew_cluster_time()  # each operation is an update with a time of its own
    return update.update_one(batch, index, ns, statement, no_multi=_NO_RETRYABLE_MULTI)


def _delete(
    batch: Batch, index: int, ns: Namespace, operation: Mapping[str, Any], let: Any
) -> Document | None:
    limit = 0 if operation.get("multi", False) else 1
    statement = {**operation, "q": operation["filter"], "limit": limit, "let": let}
    return delete.delete_one(batch, index, ns, statement, no_multi=_NO_RETRYABLE_MULTI)


_RUN: Final[dict[str, Callable[[Batch, int, Namespace, Mapping[str, Any], Any], Document | None]]] = {
    "insert": _insert,
    "update": _update,
    "delete": _delete,
}


def _result(batch: Batch, index: int, kind: str, done: Document | None, counts: Counter[str]) -> Document:
    """Return an operation's element of the results, and count what it did."""
    if done is None:
        # The reply counts the operation as failed and stays ok; `idx` stands where a write error has `index`.
        error = {name: value for name, value in batch.errors[-1].items() if name != "index"}
        counts["nErrors"] += 1
        result = {"ok": 0.0, "idx": index, **error, "n": 0}
        return {**result, "nModified": 0} if kind == "update" else result
    if kind == "insert":
        counts["nInserted"] += done["n"]
    elif kind == "delete":
        counts["nDeleted"] += done["n"]
    else:
        # An upsert matched nothing: CRUD's matchedCount leaves it out, unlike the `n` of an update command.
        counts["nUpserted" if "upserted" in done else "nMatched"] += done["n"]
        counts["nModified"] += done["nModified"]
    return {"ok": 1.0, "idx": index, **done}


def _reply(batch: Batch, request: Mapping[str, Any], results: list[Document], counts: Counter[str]) -> Reply:
    if request.get("errorsOnly", False):
        results = [result for result in results if not result["ok"]]
    size = (request.get("cursor") or {}).get("batchSize", _EVERYTHING)
    cursor = Cursor(_RESULTS, deque(results), request, counted=True)
    opened = first_batch(batch.ctx, cursor, size)["cursor"]
    reply: Reply = {
        "cursor": {"id": Int64(opened["id"]), "firstBatch": opened["firstBatch"], "ns": opened["ns"]}
    }
    for name in ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"):
        reply[name] = counts[name]
    if batch.retried:
        reply["retriedStmtIds"] = batch.retried
    return reply
