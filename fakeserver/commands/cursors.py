"""Cursors: results handed out in batches, and the commands getMore and killCursors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.access.privileges import CLUSTER, Resource
from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError, expired
from fakeserver.idl import Field, Fields
from fakeserver.interrupts import check_for_interrupt
from fakeserver.pipeline import Park
from fakeserver.sessions import Session
from fakeserver.sizes import Room
from fakeserver.stages.api_version import declared
from fakeserver.storage.engine import Namespace
from fakeserver.storage.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Container, Iterator, Mapping

    from bson import Timestamp

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Document
    from mongowire.ports import Rng

table = CommandTable()

DEFAULT_BATCH: Final = 101
IDLE_TIMEOUT: Final = 600.0
_AWAIT_DATA_WAIT: Final = 1.0
_CLOSED: Final = Int64(0)
"""The id of a cursor that gave all it had."""
_NO_MAX_TIME: Final = {
    False: "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
    True: "maxTimeMS can only be used with getMore for tailable, awaitData cursors",
}
"""Of a mongod, and (True) of a mongos."""
_NO_SESSION_AT_CREATION: Final = 50736
_NO_SESSION_NOW: Final = 50737
_OTHER_SESSION: Final = 50738
_NO_TXN_AT_CREATION: Final = 50739
_NO_TXN_NOW: Final = 50740
_OTHER_TXN: Final = 50741


@dataclass(slots=True, eq=False)
class Cursor:
    """Results that are left to be fetched.

    `small` says that they surely fit into one reply. `counted` says that the last of them is known to be
    the last, as that of a list or of a limit is; of other results the end is noticed when a batch looks for
    one more and there is none, which `ended` remembers. `refill` fetches what has come since: a cursor that
    has one is tailable and never exhausted; `await_data` has getMore wait for it. `death` is the error of a
    cursor that can give no more. `in_use` holds while a getMore works on it. `origin` is the command that
    opened it, `owner` the users who did, `at` the time of its snapshot. `time_left` is what that command
    left of its `maxTimeMS`, in seconds.
    """

    ns: Namespace
    pending: deque[Document]
    origin: Mapping[str, Any]
    session_id: bytes | None = None
    owner: frozenset[tuple[str, str]] = frozenset()
    txn_number: int | None = None
    small: bool = False
    counted: bool = False
    ended: bool = False
    at: Timestamp | None = None
    time_left: float | None = None
    no_timeout: bool = False
    refill: Callable[[], list[Document]] | None = None
    await_data: bool = False
    death: CommandError | None = None
    in_use: bool = False
    id: int = 0
    last_use: float = 0.0

    def take(self, limit: int | None) -> list[Document]:
        """Return the next documents: at most `limit`, and no more bytes than a reply can hold."""
        if self.refill is not None and not self.pending:
            self.pending.extend(self.refill())
        count = len(self.pending) if limit is None else min(limit, len(self.pending))
        batch: list[Document] = []
        room = None if self.small else Room()
        while len(batch) < count and (room is None or room.admits(self.pending[0])):
            check_for_interrupt()
            batch.append(self.pending.popleft())
        if not self.pending and (limit is None or len(batch) < limit):
            self.ended = True
        return batch

    def fields(self) -> Document:
        """Return what a batch tells beside its documents."""
        return {}

    @property
    def is_change_stream(self) -> bool:
        """Whether it tells of changes: it outlives its collection, and its errors are labelled."""
        return False

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left, and nothing will come."""
        return not self.pending and self.refill is None and (self.counted or self.ended)


@dataclass(slots=True)
class CursorStore:
    """The open cursors of one node, by id. Instants are seconds of the caller's clock."""

    rng: Rng
    timeout: float = IDLE_TIMEOUT
    cursors: dict[int, Cursor] = field(default_factory=dict)
    opened: int = 0
    timed_out: int = 0

    def open(self, cursor: Cursor, now: float) -> int:
        """Keep a cursor and return its id, a positive 63-bit number from the node's dice."""
        self.expire(now)
        while cursor.id == 0 or cursor.id in self.cursors:
            cursor.id = int.from_bytes(self.rng.randbytes(8), "big") >> 1
        cursor.last_use = now
        self.opened += 1
        self.cursors[cursor.id] = cursor
        return cursor.id

    def get(self, cursor_id: int, now: float) -> Cursor:
        """Return an open cursor. Raises `CommandError` 43."""
        self.expire(now)
        cursor = self.cursors.get(cursor_id)
        if cursor is None:
            raise CommandError(ErrorCode.CURSOR_NOT_FOUND, f"cursor id {cursor_id} not found")
        cursor.last_use = now
        return cursor

    def kill(self, cursor_id: int) -> bool:
        """Forget a cursor; return whether it was there."""
        return self.cursors.pop(cursor_id, None) is not None

    def kill_session(self, session_id: bytes) -> int:
        """Forget the cursors that a session opened; return how many there were."""
        owned = [cursor.id for cursor in self if cursor.session_id == session_id]
        return sum(self.kill(cursor_id) for cursor_id in owned)

    def clear(self) -> None:
        """Forget all cursors."""
        self.cursors.clear()

    def keep_sessions(self, known: Container[bytes]) -> None:
        """Forget the cursors whose sessions are no longer known."""
        for cursor in self:
            if cursor.session_id is not None and cursor.session_id not in known:
                del self.cursors[cursor.id]

    def expire(self, now: float) -> None:
        """Forget the cursors that nobody used for the idle timeout."""
        for cursor in self:
            if not cursor.no_timeout and cursor.session_id is None and now - cursor.last_use > self.timeout:
                self.timed_out += 1
                del self.cursors[cursor.id]

    def invalidate(self, ns: Namespace, error: CommandError) -> None:
        """Have the cursors over a collection that is gone answer with `error`."""
        for cursor in self:
            if cursor.ns == ns and not cursor.is_change_stream:
                cursor.death = error

    def __iter__(self) -> Iterator[Cursor]:
        """Iterate over the open cursors, the oldest first."""
        return iter(list(self.cursors.values()))


def first_batch(ctx: CommandContext, cursor: Cursor, size: int | None, *, single: bool = False) -> Reply:
    """Return the reply that opens a cursor, `size` documents in its first batch (None: the default 101)."""
    cursor.session_id, cursor.owner = ctx.session_id, ctx.who
    cursor.txn_number = ctx.request.txn_number if ctx.in_transaction else None
    batch = cursor.take(DEFAULT_BATCH if size is None else size)
    keep = not single and not cursor.exhausted
    ctx.node.counters.documents["returned"] += len(batch)
    cursor_id = Int64(ctx.cursors.open(cursor, ctx.now)) if keep else _CLOSED
    return _reply("firstBatch", batch, cursor, cursor_id)


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
        Field("getMore", "long"),
        Field("collection", "string", required=True),
        Field("batchSize", "long", minimum=0),
        Field("maxTimeMS", "long", minimum=0),
        Field("term", "long"),
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
    ctx.request.tails_change_stream = cursor.is_change_stream
    _check_access(ctx, cursor, ns, request)
    if "maxTimeMS" in request and not cursor.await_data:
        raise CommandError(ErrorCode.BAD_VALUE, _NO_MAX_TIME[ctx.node.is_mongos])
    batch = _next_batch(ctx, cursor, request.get("batchSize") or None)
    if not batch and cursor.await_data and not cursor.exhausted:
        _wait_for_data(ctx, request)
    if cursor.exhausted:
        ctx.cursors.kill(cursor.id)
    ctx.node.counters.documents["returned"] += len(batch)
    if ctx.time_left is not None:
        cursor.time_left = ctx.time_left
    return _reply("nextBatch", batch, cursor, _CLOSED if cursor.exhausted else Int64(cursor.id))


def _find(ctx: CommandContext, cursor_id: int) -> Cursor:
    """Return an open cursor. Raises `CommandError` 43, and 237 if it was killed in the meantime."""
    try:
        return ctx.cursors.get(cursor_id, ctx.now)
    except CommandError:
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
        if ctx.time_left == 0 and not cursor.await_data:
            raise expired()
        if cursor.death is not None:
            raise cursor.death
        return cursor.take(limit) if not cursor.is_change_stream else _take_events(cursor, limit)
    except CommandError:
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


def _wait_for_data(ctx: CommandContext, request: Mapping[str, Any]) -> None:
    """Have the command called again when something was written. Raises `Park` until the wait is over."""
    until = ctx.wait_until(request["maxTimeMS"] / 1000 if "maxTimeMS" in request else _AWAIT_DATA_WAIT)
    if ctx.now < until:
        raise Park(ctx.node.oplog.grown, until)


def _check_access(ctx: CommandContext, cursor: Cursor, ns: Namespace, request: Mapping[str, Any]) -> None:
    if cursor.ns != ns:
        raise CommandError(
            ErrorCode.UNAUTHORIZED,
            f"Requested getMore on namespace '{ns}', but cursor belongs to a different namespace {cursor.ns}",
        )
    if not _is_of_the_same_user(ctx, cursor):
        raise CommandError(
            ErrorCode.UNAUTHORIZED, f"cursor id {cursor.id} was not created by the authenticated user"
        )
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
    _check_api(cursor.origin, request)


def _is_of_the_same_user(ctx: CommandContext, cursor: Cursor) -> bool:
    """Say whether the client is a user who opened the cursor; without access control everybody is."""
    return not ctx.node.auth or bool(ctx.who & cursor.owner) or ctx.who == cursor.owner


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


def _check_api(origin: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    opened, asking = declared(origin), declared(request)
    if opened != asking:
        raise CommandError(
            ErrorCode.API_MISMATCH_ERROR,
            f"API parameter mismatch: getMore used params {show_document(asking)}, the cursor-creating"
            f" command used {show_document(opened)}",
        )


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
    killed = [cursor_id for cursor_id in wanted if ctx.cursors.kill(cursor_id)]
    missing = [cursor_id for cursor_id in wanted if cursor_id not in killed]
    if killed:
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
        places = (CLUSTER, Resource(cursor.ns.db, cursor.ns.collection))
        if not any(privileges.permit(place, "killAnyCursor") for place in places):
            raise CommandError(ErrorCode.UNAUTHORIZED, f"not authorized to kill cursor on {cursor.ns}")
