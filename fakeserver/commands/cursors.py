"""The commands getMore and killCursors: results in batches, which cursors keep.

Behaviour: find's and aggregate's first batch has 101 documents unless `batchSize` says otherwise (0: none,
and an open cursor), getMore's as many as 16 MB hold. The end of results is noticed by looking for one more
document, so results that end exactly with a batch leave the cursor open, unless the plan knows its last
document. getMore checks in this order: an empty collection name (73), no such cursor (43), another namespace
or user (13), rights that the command which opened it needs and that are gone (13), another session (50736 to
50738) or transaction (50739 to 50741), another API version, `maxTimeMS` for a cursor that does not await data
(2). These leave the cursor alone; from then on (in use 143, fail point, time 50, a dropped collection 175) an
error destroys it. The `maxTimeMS` of find and aggregate counts on over all getMores. A cursor without a
session ends after `cursorTimeoutMillis`, ten minutes, without use; one in a session ends with the session.
killCursors needs the privilege `killAnyCursor` for the cursors of other users (13).

Versions: `includeQueryStatsMetrics` since 8.2. Until 4.4 unknown fields of getMore are refused with 9, in the
words of that time.

Not modelled: The results of a cursor are those of the moment when it was opened, but for tailable cursors and
change streams; a server reads on as it goes. `term` spares getMore the ingress ticket and has no other
effect; `lastKnownCommittedOpTime` and `includeQueryStatsMetrics` have none. `cursorsAlive` and
`cursorsUnknown` are always empty, and no reply says `partialResultsReturned`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.access.ask import Ask
from fakeserver.access.privileges import CLUSTER, Resource
from fakeserver.access.required import permitted
from fakeserver.errors import CommandError, expired
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from fakeserver.idl.generic_arguments import declared
from fakeserver.sessions.session import Session
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.printing import show_document
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.sessions.cursors import Cursor
    from fakeserver.storage.port.engine import Document

table = CommandTable()

DEFAULT_BATCH: Final = 101
_AWAIT_DATA_WAIT: Final = 1.0
_CLOSED: Final = Int64(0)
"""The id of a cursor without further results."""
_NO_MAX_TIME: Final = {
    False: "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
    True: "maxTimeMS can only be used with getMore for tailable, awaitData cursors",
}
"""The message of a mongod (False) and of a mongos (True)."""
_NO_SESSION_AT_CREATION: Final = 50736
_NO_SESSION_NOW: Final = 50737
_OTHER_SESSION: Final = 50738
_NO_TXN_AT_CREATION: Final = 50739
_NO_TXN_NOW: Final = 50740
_OTHER_TXN: Final = 50741


def first_batch(ctx: CommandContext, cursor: Cursor, size: int | None, *, single: bool = False) -> Reply:
    """Return the reply that opens a cursor, `size` documents in its first batch (None: the default 101)."""
    cursor.session_id, cursor.owner, cursor.privileges = ctx.session_id, ctx.who, ctx.privileges
    cursor.txn_number = ctx.request.txn_number if ctx.in_transaction else None
    batch = cursor.take(DEFAULT_BATCH if size is None else size)
    keep = not single and not cursor.exhausted
    ctx.node.counters.documents["returned"] += len(batch)
    cursor_id = Int64(ctx.cursors.open(cursor, ctx.now)) if keep else _CLOSED
    return _reply("firstBatch", batch, cursor, cursor_id)


def catalog_batch(ctx: CommandContext, cursor: Cursor, size: int | None) -> Reply:
    """Return the reply that opens a cursor of listCollections or listIndexes, whose batch stands last."""
    opened = first_batch(ctx, cursor, size)
    shown = opened["cursor"]
    return {**opened, "cursor": {"id": shown["id"], "ns": shown["ns"], "firstBatch": shown["firstBatch"]}}


def whole_batch(ctx: CommandContext, ns: Namespace, batch: list[Document]) -> Reply:
    """Return the reply to a command whose results are all in its first batch, so that no cursor is left."""
    ctx.node.counters.documents["returned"] += len(batch)
    return {"cursor": {"firstBatch": batch, "id": _CLOSED, "ns": str(ns)}}


def _reply(name: str, batch: list[Document], cursor: Cursor, cursor_id: Int64) -> Reply:
    fields: Document = {name: batch, **cursor.fields(), "id": cursor_id, "ns": str(cursor.ns)}
    if cursor.at is not None:
        fields["atClusterTime"] = cursor.at
    return {"cursor": fields}


@table.command(
    "getMore",
    kind="read",
    on_secondaries=True,
    in_transaction=True,
    fields=Fields.of(
        Field("getMore", "int64"),
        Field("collection", "string", required=True),
        Field("batchSize", "long", minimum=0),
        Field("term", "int64"),
        Field("lastKnownCommittedOpTime", "object"),
        Field("includeQueryStatsMetrics", "bool"),
    ),
)
def get_more(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the next batch of a cursor."""
    ns = Namespace(ctx.db, request["collection"])
    if not ns.collection:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, "Collection names cannot be empty")
    cursor = _find(ctx, int(first_argument(request)))
    # Known before the checks, because the label of a resumable error depends on it.
    ctx.request.execution.tails_change_stream = cursor.is_change_stream
    _check_access(ctx, cursor, ns, request)
    ctx.request.execution.origin = cursor.origin
    if request.get("maxTimeMS") is not None and not cursor.await_data:
        raise CommandError(ErrorCode.BAD_VALUE, _NO_MAX_TIME[ctx.node.is_mongos])
    # A batchSize of 0 means no limit here, in find an empty first batch.
    batch = _next_batch(ctx, cursor, request.get("batchSize") or None)
    if not batch and cursor.await_data and not cursor.exhausted:
        # Have the command called again when something was written.
        most = request.get("maxTimeMS")
        until = ctx.wait_until(_AWAIT_DATA_WAIT if most is None else most / 1000)
        if ctx.now < until:
            raise Park(ctx.node.oplog.grown, until)
    if cursor.exhausted:
        ctx.cursors.kill(cursor.id)
    ctx.node.counters.documents["returned"] += len(batch)
    # What is left of the time of find or aggregate is all that the getMores together have.
    if ctx.time_left is not None:
        cursor.time_left = ctx.time_left
    return _reply("nextBatch", batch, cursor, _CLOSED if cursor.exhausted else Int64(cursor.id))


def _find(ctx: CommandContext, cursor_id: int) -> Cursor:
    """Return an open cursor. Raises `CommandError` 43, and 237 if it was killed in the meantime."""
    try:
        return ctx.cursors.get(cursor_id, ctx.now)
    except CommandError:
        # It was there when this getMore began to wait for data: killed, rather than never known.
        if not ctx.cursor_checked_out:
            raise
        message = "operation was interrupted because the cursor was killed"
        raise CommandError(ErrorCode.CURSOR_KILLED, message) from None


def _next_batch(ctx: CommandContext, cursor: Cursor, limit: int | None) -> list[Document]:
    """Return a cursor's next batch; one that fails is destroyed. Raises `CommandError`."""
    if cursor.in_use:
        raise CommandError(ErrorCode.CURSOR_IN_USE, f"cursor id {cursor.id} is already in use")
    cursor.in_use = True
    try:
        ctx.check_out_cursor()
        # With awaitData maxTimeMS is the time to wait, whose end is an empty batch and no error.
        if ctx.time_left == 0 and not cursor.await_data:
            raise expired()
        if cursor.death is not None:
            raise cursor.death
        return cursor.take(limit) if not cursor.is_change_stream else _take_events(cursor, limit)
    except CommandError:
        # A server destroys the cursor: a driver that sees the error has nothing left to kill.
        ctx.cursors.kill(cursor.id)
        raise
    finally:
        cursor.in_use = False


def _take_events(cursor: Cursor, limit: int | None) -> list[Document]:
    try:
        return cursor.take(limit)
    except CommandError as error:
        prefix = "Executor error during getMore :: caused by :: "
        raise CommandError(error.code, prefix + error.message, extra=error.extra) from None


def _check_access(ctx: CommandContext, cursor: Cursor, ns: Namespace, request: Mapping[str, Any]) -> None:
    # The order is a server's: where the cursor is, whose it is, then session, transaction, API version.
    # These refusals leave the cursor open, because it may be somebody else's.
    if cursor.ns != ns:
        raise CommandError(
            ErrorCode.UNAUTHORIZED,
            f"Requested getMore on namespace '{ns}', but cursor belongs to a different namespace {cursor.ns}",
        )
    if not _is_of_the_same_user(ctx, cursor):
        raise CommandError(
            ErrorCode.UNAUTHORIZED, f"cursor id {cursor.id} was not created by the authenticated user"
        )
    _check_privileges(ctx, cursor)
    start = f"Cannot run getMore on cursor {cursor.id}, which was"
    asking, owner = ctx.session_id, cursor.session_id
    if asking is not None and owner is None:
        raise CommandError(
            _NO_SESSION_AT_CREATION, f"{start} not created in a session, in session {_session(asking)}"
        )
    if asking is None and owner is not None:
        raise CommandError(_NO_SESSION_NOW, f"{start} created in session {_session(owner)}, without an lsid")
    if asking is not None and owner is not None and asking != owner:
        raise CommandError(
            _OTHER_SESSION, f"{start} created in session {_session(owner)}, in session {_session(asking)}"
        )
    _check_transaction(start, cursor.txn_number, request.get("txnNumber"))
    opened, sent = declared(cursor.origin), declared(request)
    if opened != sent:
        raise CommandError(
            ErrorCode.API_MISMATCH_ERROR,
            f"API parameter mismatch: getMore used params {show_document(sent)}, the cursor-creating"
            f" command used {show_document(opened)}",
        )


def _is_of_the_same_user(ctx: CommandContext, cursor: Cursor) -> bool:
    """Say whether the client is a user who opened the cursor; without access control everybody is."""
    return not ctx.node.auth or bool(ctx.who & cursor.owner) or ctx.who == cursor.owner


def _check_privileges(ctx: CommandContext, cursor: Cursor) -> None:
    """Ask again whether the client may do what opened the cursor. Raises `CommandError` 13.

    Its rights may have changed since; as long as they have not, they are the same object.
    """
    privileges = ctx.privileges
    if privileges is None or privileges is cursor.privileges:
        return
    spec = ctx.node.commands[next(iter(cursor.origin))]
    ask = Ask(ctx.node, ctx.connection.identity, privileges, ctx.db, dict(cursor.origin))
    if not permitted(spec, ask):
        raise CommandError(ErrorCode.UNAUTHORIZED, f"not authorized for getMore with cursor id {cursor.id}")
    cursor.privileges = privileges


def _check_transaction(start: str, owner: int | None, asking: int | None) -> None:
    if asking == owner:
        return
    if owner is None:
        raise CommandError(
            _NO_TXN_AT_CREATION, f"{start} not created in a transaction, in transaction {asking}"
        )
    if asking is None:
        raise CommandError(_NO_TXN_NOW, f"{start} created in a transaction, without a txnNumber")
    raise CommandError(_OTHER_TXN, f"{start} created in transaction {owner}, in transaction {asking}")


def _session(session_id: bytes) -> str:
    return str(Session(session_id, 0.0))


@table.command(
    "killCursors",
    kind="internal",
    in_transaction=True,
    fields=Fields.of(Field("cursors", "array", required=True, of="long"), target="collection"),
)
def kill_cursors(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Forget cursors."""
    wanted = [Int64(cursor_id) for cursor_id in request["cursors"]]
    _check_killing(ctx, wanted)
    killed: list[Int64] = []
    missing: list[Int64] = []
    for cursor_id in wanted:  # one that is named twice is gone the second time
        (killed if ctx.cursors.kill(cursor_id) else missing).append(cursor_id)
    if killed:
        # A getMore that waits for data on one of them wakes up, and fails with 237.
        ctx.node.oplog.grown.ring()
    return {"cursorsKilled": killed, "cursorsNotFound": missing, "cursorsAlive": [], "cursorsUnknown": []}


def _check_killing(ctx: CommandContext, cursor_ids: list[Int64]) -> None:
    """Refuse to kill the cursors of others without a privilege. Raises `CommandError` 13."""
    privileges = ctx.privileges
    if privileges is None:
        return
    for cursor_id in cursor_ids:
        cursor = ctx.cursors.cursors.get(cursor_id)
        if cursor is None or _is_of_the_same_user(ctx, cursor):
            continue
        resources = (CLUSTER, Resource(cursor.ns.db, cursor.ns.collection))
        if not any(privileges.permit(each, "killAnyCursor") for each in resources):
            raise CommandError(ErrorCode.UNAUTHORIZED, f"not authorized to kill cursor on {cursor.ns}")
