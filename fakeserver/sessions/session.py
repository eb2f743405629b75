"""Logical sessions, and the records that make retried writes safe (`Sessions`, `Retryable Writes`).

A session is known by its `lsid`: a UUID that the client chose, and the digest of its user's name. The server
adds the digest itself: two users with the same UUID have two sessions, and nobody can name another's without
a privilege for it (`request.session_ids`). Without access control there is one digest for all, and it is left
out of the key.

Per session the newest transaction number is kept, what it stands for (`Use`), and either the transaction or
the results of the statements that were applied. One number is enough, because a client may not start a new
one before it is done with the last:

    a lower number     225 TransactionTooOld: the records of that number are gone
    the same number    a retryable write: statements with a record are not run again, their results are
                       returned. A transaction: it goes on. A retryable write under a transaction's number:
                       217, for the records would have to be invented
    a higher number    the records are dropped, an open transaction is aborted

A record is made with the write of its statement, not when its command ends: a command that fails at its third
statement has two that must not be applied again, and so has one that fails at its reply.

A real server writes the records to `config.transactions` and the oplog, so that they outlive a primary. Here
all members of a deployment share one catalog of sessions (docs/adr/0008), which has the same effect. Where an
election goes back to an earlier operation, the records go back with it (`SessionCatalog.until`).

A session is forgotten after 30 minutes without use. `endSessions` forgets at once only those that have no
number: a retry may still arrive after the client has ended its session. Sessions are reaped when a new one is
made, at most every five minutes, as a server's reaper runs; no timer is needed for what nobody can observe.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from bson import Binary
from bson.binary import UUID_SUBTYPE

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fakeserver.sessions.transactions import Transaction
    from fakeserver.storage.port.oplog import Oplog, OpTime

TIMEOUT_MINUTES: Final = 30
"""`localLogicalSessionTimeoutMinutes`, which hello announces as `logicalSessionTimeoutMinutes`."""
MAX_SESSIONS: Final = 1_000_000
"""`maxSessions`: the bound that keeps a client that leaks sessions from taking all memory."""
_TIMEOUT: Final = TIMEOUT_MINUTES * 60.0
_REAP_INTERVAL: Final = 300.0
"""`logicalSessionRefreshMillis`, in seconds."""
NO_USER: Final = hashlib.sha256(b"").digest()
"""The digest of the empty name: that of every session without access control."""
_UUID_BYTES: Final = 16


def uid_of(user: str, db: str) -> bytes:
    """Return the digest of a user's name, which is part of the ids of its sessions."""
    return hashlib.sha256(f"{user}@{db}".encode()).digest() if user or db else NO_USER


def session_key(uuid: bytes, uid: bytes = NO_USER) -> bytes:
    """Return the key of a session: its UUID and its user's digest. Two users have no session in common."""
    return uuid if uid == NO_USER else uuid + uid


def lsid_of(key: bytes) -> dict[str, Any]:
    """Return a session's id as a server shows it."""
    return {"id": Binary(key[:_UUID_BYTES], UUID_SUBTYPE), "uid": key[_UUID_BYTES:] or NO_USER}


def parse_session_id(lsid: Any, path: str) -> bytes:
    """Return the UUID of an `lsid`. Raises `CommandError` 14, 40414 or 207."""
    if not isinstance(lsid, dict):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{path}' is the wrong type '{type_name(lsid)}', expected type 'object'",
        )
    uuid = lsid.get("id")
    if uuid is None:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE, f"BSON field '{path}.id' is missing but a required field"
        )
    if not isinstance(uuid, bytes):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{path}.id' is the wrong type '{type_name(uuid)}', expected type 'binData'",
        )
    if not isinstance(uuid, Binary) or uuid.subtype != UUID_SUBTYPE or len(uuid) != _UUID_BYTES:
        raise CommandError(
            ErrorCode.INVALID_UUID, "uuid must be a 16-byte binary field with UUID (4) subtype"
        )
    return bytes(uuid)


class Use(StrEnum):
    """The meaning of a transaction number; the words are those of the error messages."""

    RETRYABLE_WRITE = "retryable write"
    TRANSACTION = "transaction"


@dataclass(slots=True)
class Session:
    """The state of one `lsid`."""

    id: bytes
    """The key (`session_key`)."""
    last_use: float
    """The instant of the last command in it."""
    ended: bool = False
    """The client has ended it, and has not used it since."""
    txn_number: int = -1
    """The newest transaction number that began, -1 before the first."""
    use: Use = Use.RETRYABLE_WRITE
    """The meaning of that number."""
    statements: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """The records of that number's applied statements, by statement id."""
    written: dict[int, OpTime] = field(default_factory=dict)
    """The operations that those statements wrote, by statement id."""
    transaction: Transaction | None = None
    """The transaction of that number, also after its end."""
    user: str = ""
    """The user who made it, as `name@db`; empty without access control."""

    @property
    def uid(self) -> bytes:
        """The digest of its user's name."""
        return self.id[_UUID_BYTES:] or NO_USER

    def __str__(self) -> str:
        """Return the session as a server's messages print it."""
        uid = base64.b64encode(self.uid).decode()
        return f"{UUID(bytes=self.id[:_UUID_BYTES])} - {uid} -  - "

    def begin(self, txn_number: int, use: Use) -> None:
        """Begin or continue a retryable write or transaction; a higher number ends what the lower one began.

        Raises `CommandError` 225 TransactionTooOld and 217 IncompleteTransactionHistory.
        """
        if txn_number < self.txn_number:
            raise self._too_old(txn_number, use)
        if txn_number > self.txn_number:
            if self.transaction is not None:
                # The client has given it up without a word; its claims must not block others any longer.
                self.transaction.table.abort(self.transaction)
            self.txn_number, self.use, self.transaction = txn_number, use, None
            self.statements, self.written = {}, {}
        elif use is Use.RETRYABLE_WRITE and self.use is Use.TRANSACTION:
            # The reverse, a transaction under the number of a retryable write, fails in `Transactions`.
            raise CommandError(
                ErrorCode.INCOMPLETE_TRANSACTION_HISTORY,
                "Cannot retry a retryable write that has been converted into a transaction",
            )

    def until(self, optime: OpTime) -> Session:
        """Return the session as a member knows it that has the operations up to `optime`.

        The number whose writes are all later never began there.
        """
        past = replace(self, statements={}, written={}, transaction=None)
        transaction = self.transaction
        if transaction is not None and transaction.committed_at is not None:
            past.transaction = transaction if transaction.committed_at <= optime else None
        past.written = {number: at for number, at in self.written.items() if at <= optime}
        past.statements = {number: self.statements[number] for number in past.written}
        if self.txn_number >= 0 and past.transaction is None and not past.statements:
            past.txn_number, past.use = self.txn_number - 1, Use.RETRYABLE_WRITE
        return past

    def _too_old(self, txn_number: int, use: Use) -> CommandError:
        active = f"because a newer {self.use}"
        if use is Use.RETRYABLE_WRITE:
            message = (
                f"Retryable write with txnNumber {txn_number} is prohibited on session {self} {active} with"
                f" txnNumber {self.txn_number} has already started on this session."
            )
        else:
            message = (
                f"Cannot start transaction with {numbers(txn_number)} on session {self} {active} with"
                f" txnNumberAndRetryCounter {numbers(self.txn_number)} has already started on this session."
            )
        return CommandError(ErrorCode.TRANSACTION_TOO_OLD, message)


def numbers(txn_number: int) -> str:
    """Return a transaction number as a server's messages print it."""
    return f"{{ txnNumber: {txn_number}, txnRetryCounter: 0 }}"


class RetryableWrite:
    """The statements of one transaction number (a `StatementLog`); `hook` runs before each is written."""

    def __init__(self, session: Session, hook: Callable[[int], None], oplog: Oplog) -> None:
        self._statements, self._written = session.statements, session.written
        self._hook = hook
        self._oplog = oplog

    def executed(self, statement: int) -> Mapping[str, Any] | None:
        """Return the record of an applied statement, or None."""
        return self._statements.get(statement)

    def record(self, statement: int, written: Mapping[str, Any]) -> None:
        """Remember what a statement has written, with its operation, which is the last one."""
        self._statements[statement] = written
        self._written[statement] = self._oplog.last

    def before_write(self, statement: int) -> None:
        """Run the hook. Raises what it raises."""
        self._hook(statement)


class SessionCatalog:
    """The sessions of a deployment, `capacity` at most. Instants are seconds of the caller's clock.

    `on_reaped` is called when sessions have been forgotten, so that their cursors can go as well.
    """

    def __init__(
        self, *, capacity: int = MAX_SESSIONS, on_reaped: Callable[[SessionCatalog], None] | None = None
    ) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._capacity = capacity
        self.on_reaped = on_reaped
        self._reap_at = 0.0

    def use(self, session_id: bytes, now: float) -> Session:
        """Return the session, made if it is new, and note that it was used.

        Raises `CommandError` 261 TooManyLogicalSessions.
        """
        session = self._sessions.get(session_id)
        if session is None:
            self._reap(now)
            if len(self._sessions) >= self._capacity:
                raise CommandError(
                    ErrorCode.TOO_MANY_LOGICAL_SESSIONS,
                    "Unable to add session into the cache because the number of active sessions is too high",
                )
            session = self._sessions[session_id] = Session(session_id, now)
        session.last_use = now
        session.ended = False
        return session

    def end(self, session_ids: Iterable[bytes]) -> None:
        """End sessions; the records of their writes are kept until they time out."""
        for session_id in session_ids:
            if session := self._sessions.get(session_id):
                session.ended = True

    def live(self) -> Iterator[Session]:
        """Iterate over the sessions that have not ended, in the order of their first use."""
        return (session for session in self._sessions.values() if not session.ended)

    def ids(self) -> list[bytes]:
        """Return the ids of all sessions that are remembered."""
        return list(self._sessions)

    def ids_of(self, wanted: Callable[[Session], bool]) -> list[bytes]:
        """Return the ids of the sessions for which `wanted` is true."""
        return [session.id for session in self._sessions.values() if wanted(session)]

    def until(self, optime: OpTime) -> SessionCatalog:
        """Return the sessions as a member knows them that has the operations up to `optime`."""
        past = SessionCatalog(capacity=self._capacity, on_reaped=self.on_reaped)
        past._sessions = {key: session.until(optime) for key, session in self._sessions.items()}
        past._reap_at = self._reap_at
        return past

    def clear(self) -> None:
        """Forget all sessions. No transaction may be open."""
        self._sessions.clear()

    def __len__(self) -> int:
        """Return the number of sessions that have not ended."""
        return sum(1 for _ in self.live())

    def __contains__(self, session_id: object) -> bool:
        """Say whether a session is remembered."""
        return session_id in self._sessions

    def _reap(self, now: float) -> None:
        if now < self._reap_at:
            return
        self._reap_at = now + _REAP_INTERVAL
        forgotten = [key for key, session in self._sessions.items() if _is_over(session, now)]
        for key in forgotten:
            del self._sessions[key]
        if forgotten and self.on_reaped is not None:
            self.on_reaped(self)


def _is_over(session: Session, now: float) -> bool:
    """Say whether a session timed out, or ended without having written what a retry might ask for."""
    return now - session.last_use > _TIMEOUT or (session.ended and session.txn_number < 0)
