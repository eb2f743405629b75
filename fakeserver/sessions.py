"""Logical sessions, and the memory that makes retried writes safe (`Sessions`, `Retryable Writes`).

A deployment has one catalog: the records are replicated, so they outlive a primary.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from bson import Binary
from bson.binary import UUID_SUBTYPE

from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fakeserver.transactions import Transaction

TIMEOUT_MINUTES: Final = 30
MAX_SESSIONS: Final = 1_000_000
_TIMEOUT: Final = TIMEOUT_MINUTES * 60.0
_REAP_INTERVAL: Final = 300.0
NO_USER: Final = hashlib.sha256(b"").digest()
"""The digest that stands for nobody: without access control all sessions are alike in it."""
_UUID_BYTES: Final = 16


def uid_of(user: str, db: str) -> bytes:
    """Return the digest of a user's name, which is part of the ids of its sessions."""
    return hashlib.sha256(f"{user}@{db}".encode()).digest() if user or db else NO_USER


def session_key(uuid: bytes, uid: bytes = NO_USER) -> bytes:
    """Return what a session is known by: its UUID, and whose it is. Two users have no session in common."""
    return uuid if uid == NO_USER else uuid + uid


def lsid_of(key: bytes) -> dict[str, Any]:
    """Return a session's id as a server shows it."""
    return {"id": Binary(key[:_UUID_BYTES], UUID_SUBTYPE), "uid": key[_UUID_BYTES:] or NO_USER}


class Use(StrEnum):
    """What a transaction number stands for; the words are those of the error messages."""

    RETRYABLE_WRITE = "retryable write"
    TRANSACTION = "transaction"


@dataclass(slots=True)
class Session:
    """What is remembered of one `lsid`.

    `id` is its key, `user` who made it, `name@db`, nobody without access control. `txn_number` is the newest
    that began, -1 before the first.
    """

    id: bytes
    last_use: float
    ended: bool = False
    txn_number: int = -1
    use: Use = Use.RETRYABLE_WRITE
    statements: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    transaction: Transaction | None = None
    user: str = ""

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
                self.transaction.table.abort(self.transaction)
            self.txn_number, self.use, self.statements, self.transaction = txn_number, use, {}, None
        elif use is Use.RETRYABLE_WRITE and self.use is Use.TRANSACTION:
            raise CommandError(
                ErrorCode.INCOMPLETE_TRANSACTION_HISTORY,
                "Cannot retry a retryable write that has been converted into a transaction",
            )

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

    def __init__(self, session: Session, hook: Callable[[int], None]) -> None:
        self._statements = session.statements
        self._hook = hook

    def executed(self, statement: int) -> Mapping[str, Any] | None:
        """Return the recorded result of an applied statement, or None."""
        return self._statements.get(statement)

    def record(self, statement: int, result: Mapping[str, Any]) -> None:
        """Remember the result of a statement that was applied."""
        self._statements[statement] = result

    def before_write(self, statement: int) -> None:
        """Run the hook. Raises what it raises."""
        self._hook(statement)


class SessionCatalog:
    """Every session that a deployment knows, `capacity` at most. Instants are seconds of the caller's clock.

    `on_reaped` is called when sessions have been forgotten.
    """

    def __init__(
        self, *, capacity: int = MAX_SESSIONS, on_reaped: Callable[[SessionCatalog], None] | None = None
    ) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._capacity = capacity
        self._on_reaped = on_reaped
        self._reap_at = 0.0

    def use(self, session_id: bytes, now: float) -> Session:
        """Return the session, made if it is new, and note that it was used.

        Raises `CommandError` 261 TooManyLogicalSessions.
        """
        session = self._sessions.get(session_id)
        if session is None:
            session = self._add(session_id, now)
        session.last_use = now
        session.ended = False
        return session

    def end(self, session_ids: Iterable[bytes]) -> None:
        """End sessions; what they wrote stays known until they time out."""
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
        """Return the ids of the sessions that are wanted."""
        return [session.id for session in self._sessions.values() if wanted(session)]

    def __len__(self) -> int:
        """Return how many sessions have not ended."""
        return sum(1 for _ in self.live())

    def __contains__(self, session_id: object) -> bool:
        """Say whether a session is remembered."""
        return session_id in self._sessions

    def _add(self, session_id: bytes, now: float) -> Session:
        self._reap(now)
        if len(self._sessions) >= self._capacity:
            raise CommandError(
                ErrorCode.TOO_MANY_LOGICAL_SESSIONS,
                "Unable to add session into the cache because the number of active sessions is too high",
            )
        session = self._sessions[session_id] = Session(session_id, now)
        return session

    def _reap(self, now: float) -> None:
        if now < self._reap_at:
            return
        self._reap_at = now + _REAP_INTERVAL
        forgotten = [key for key, session in self._sessions.items() if _is_over(session, now)]
        for key in forgotten:
            del self._sessions[key]
        if forgotten and self._on_reaped is not None:
            self._on_reaped(self)


def _is_over(session: Session, now: float) -> bool:
    """Say whether a session timed out, or ended without having written what a retry might ask for."""
    return now - session.last_use > _TIMEOUT or (session.ended and session.txn_number < 0)
