"""Sessions: server sessions in a pool, client sessions over them, and the cluster time that they gossip."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bson import Int64, Timestamp

from driver.convenience import Convenience
from driver.errors import ClientClosedError, DriverError, InvalidArgumentError
from driver.operations.timeouts import timeout_of
from driver.transaction import Transaction, TransactionOptions, label_commit
from mongowire.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from bson import Binary

    from driver.client import AsyncClient
    from driver.concerns import ReadConcern, ReadPreference, WriteConcern
    from driver.operations.base import Operation
    from driver.policy.deadline import Deadline, Timeout
    from mongowire.ports import Clock, Rng

T = TypeVar("T")

EXPIRY_MARGIN = 60.0
"""Seconds before its expiry at which a server session is no longer reused."""


@dataclass(slots=True)
class ServerSession:
    """Sessions: Server Session. The transaction number stays with it from one client session to the next.

    Obeys RW-31.
    """

    id: Binary
    last_use: float
    transaction_number: int = 0
    dirty: bool = False

    @property
    def lsid(self) -> dict[str, Binary]:
        """The document that commands carry."""
        return {"id": self.id}

    def next_transaction_number(self) -> Int64:
        """Return a txnNumber larger than any before (Retryable Writes: Generating Transaction IDs).

        Obeys RW-32, RW-36.
        """
        self.transaction_number += 1
        return Int64(self.transaction_number)

    def expires_soon(self, now: float, timeout_minutes: float | None) -> bool:
        """Return whether less than a minute is left; without a timeout it never expires."""
        if timeout_minutes is None:
            return False
        return now - self.last_use >= timeout_minutes * 60 - EXPIRY_MARGIN


class ServerSessionPool:
    """Sessions: Server Session Pool: last in, first out, so that the oldest may expire."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._sessions: list[ServerSession] = []

    def acquire(self, timeout_minutes: float | None) -> ServerSession:
        """Return the session used last, or a new one; those that expire soon are dropped on the way."""
        now = self._clock.now()
        while self._sessions:
            session = self._sessions.pop()
            if not session.expires_soon(now, timeout_minutes):
                return session
        return ServerSession(uuid(self._rng), now)

    def release(self, session: ServerSession, timeout_minutes: float | None) -> None:
        """Take a session back unless it is dirty or expires soon; drop the oldest ones that do."""
        now = self._clock.now()
        while self._sessions and self._sessions[0].expires_soon(now, timeout_minutes):
            del self._sessions[0]
        if not session.dirty and not session.expires_soon(now, timeout_minutes):
            self._sessions.append(session)

    def drain(self) -> list[dict[str, Binary]]:
        """Empty the pool, and return what `endSessions` takes."""
        sessions, self._sessions = self._sessions, []
        return [session.lsid for session in reversed(sessions)]


@dataclass(slots=True)
class ClusterClock:
    """The highest `$clusterTime` seen (Sessions: Gossipping the cluster time)."""

    latest: Mapping[str, Any] | None = None

    def advance(self, cluster_time: Mapping[str, Any] | None) -> None:
        """Remember a cluster time if it is newer."""
        self.latest = newer(self.latest, cluster_time)


def newer(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the later of two cluster times; absence is earlier than any."""
    if one is None or other is None:
        return other if one is None else one
    return other if other["clusterTime"] > one["clusterTime"] else one


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Sessions: SessionOptions. Causal consistency defaults to true, unless `snapshot` is.

    `default_timeout` is defaultTimeoutMS in seconds; None is the client's timeoutMS.
    """

    causal_consistency: bool | None = None
    snapshot: bool = False
    default_transaction_options: TransactionOptions = field(default_factory=TransactionOptions)
    default_timeout: float | None = None

    @property
    def causally_consistent(self) -> bool:
        """Whether reads follow what the session has done."""
        return not self.snapshot if self.causal_consistency is None else self.causal_consistency


@dataclass(slots=True)
class ClientSession:
    """Sessions: ClientSession. An implicit one belongs to a single operation.

    `deadline` is that of the withTransaction under way, and nobody else's to change.
    Its server session is taken when a connection has been checked out, so that operations that wait for
    connections hold no sessions.
    """

    client: AsyncClient
    options: SessionOptions = field(default_factory=SessionOptions)
    implicit: bool = False
    cluster_time: Mapping[str, Any] | None = None
    operation_time: Timestamp | None = None
    snapshot_time: Timestamp | None = None
    ended: bool = False
    transaction: Transaction = field(default_factory=Transaction)
    deadline: Deadline | None = None
    _server_session: ServerSession | None = None
    _pool: ServerSessionPool | None = None

    @property
    def server_session(self) -> ServerSession:
        """The server session, taken from the pool when first asked for."""
        if self.ended:
            raise ClientClosedError("the session has ended")
        if self._server_session is None:
            self._pool = self.client.sessions
            self._server_session = self._pool.acquire(self.client.session_timeout_minutes)
        return self._server_session

    @property
    def inherited(self) -> bool:
        """Whether its server session is the parent process's, which a child must not use."""
        return self._pool is not None and self._pool is not self.client.sessions

    @property
    def lsid(self) -> dict[str, Binary]:
        """The document that identifies the session on the server."""
        return self.server_session.lsid

    @property
    def dirty(self) -> bool:
        """Whether a network error left the server session in doubt: it will not be pooled again."""
        return self._server_session is not None and self._server_session.dirty

    def mark_dirty(self) -> None:
        """Sessions: Server Session Pool: after a network error the session may still run a command."""
        if self._server_session is not None:
            self._server_session.dirty = True

    def advance_cluster_time(self, cluster_time: Mapping[str, Any] | None) -> None:
        """Take over a cluster time that another session has seen."""
        self.cluster_time = newer(self.cluster_time, cluster_time)

    def advance_operation_time(self, operation_time: Timestamp | None) -> None:
        """Take over an operation time that another session has seen."""
        if operation_time is None:
            return
        if not isinstance(operation_time, Timestamp):
            raise InvalidArgumentError(f"an operation time is a Timestamp, not {operation_time!r}")
        if self.operation_time is None or operation_time > self.operation_time:
            self.operation_time = operation_time

    def observe(self, reply: Mapping[str, Any]) -> None:
        """Take the times out of a reply, also of one that is an error."""
        self.advance_cluster_time(reply.get("$clusterTime"))
        self.advance_operation_time(reply.get("operationTime"))
        if self.options.snapshot and self.snapshot_time is None:
            cursor = reply.get("cursor")
            at = cursor.get("atClusterTime") if isinstance(cursor, dict) else reply.get("atClusterTime")
            self.snapshot_time = at

    # --- transactions ---

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was started and has not ended."""
        return self.transaction.active

    def transaction_of(self, operation: Operation) -> Transaction | None:
        """Return the transaction that an operation belongs to; one that has ended is forgotten."""
        if operation.ends_transaction or self.transaction.active:
            return self.transaction
        self.transaction.reset()
        return None

    def start_transaction(
        self,
        *,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: ReadPreference | None = None,
        max_commit_time_ms: int | None = None,
    ) -> None:
        """Begin a transaction with the session's next command (Transactions: startTransaction).

        What is not given comes from the session's default options, then from the client. Raises
        InvalidArgumentError.
        """
        if self.options.snapshot:
            raise InvalidArgumentError("Transactions are not supported in snapshot sessions")
        given = TransactionOptions(read_concern, write_concern, read_preference, max_commit_time_ms)
        inherited = self.options.default_transaction_options.or_else(
            TransactionOptions.of(self.client.concerns)
        )
        self.transaction.check_start(given.or_else(inherited))
        self.transaction.start(given.or_else(inherited), self.server_session.next_transaction_number())
        self.transaction.span = self.client.transaction_span()

    def timeout(self, timeout_ms: int | None = None) -> Timeout:
        """Return what timeoutMS says to the session's own operations (Client Side Operations Timeout)."""
        default = self.options.default_timeout
        return timeout_of(timeout_ms, self.client.options.timeout if default is None else default)

    async def commit_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Commit (Transactions: commitTransaction); it may be called again when the outcome is unknown.

        Raises DriverError, labelled UnknownTransactionCommitResult where the commit may have been applied.
        """
        deadline = self.client.executor.deadline_of(self.timeout(timeout_ms), self)
        sends = self.transaction.prepare_commit()
        try:
            if sends:
                await self.client.run(self.transaction.commit_operation(), self, deadline=deadline)
        except DriverError as error:
            label_commit(error)
            raise
        finally:
            self.transaction.end_span()

    async def abort_transaction(
        self, *, timeout_ms: int | None = None, deadline: Deadline | None = None
    ) -> None:
        """Abort (Transactions: abortTransaction); what the server says to it is ignored."""
        if deadline is None:
            deadline = self.client.executor.deadline_of(self.timeout(timeout_ms), self)
        sends = self.transaction.prepare_abort()
        try:
            with suppress(DriverError):
                if sends:
                    await self.client.run(self.transaction.abort_operation(), self, deadline=deadline)
        finally:
            self.transaction.end_span()
            self.transaction.unpin()

    async def with_transaction(
        self,
        callback: Callable[[ClientSession], Awaitable[T]],
        *,
        timeout_ms: int | None = None,
        **options: Any,
    ) -> T:
        """Run a callback in a transaction and commit it (Convenient API for Transactions).

        The callback, and the commit, run again after errors that allow it, for 120 seconds or timeoutMS: so
        it must be repeatable, and let the errors of its commands through. `options` are those of
        `start_transaction`. Returns what the callback returned.

        With timeoutMS, all that the callback does with this session must be done by then, and a timeoutMS
        of one of its operations is an error; operations without the session know nothing of it.
        """
        return await Convenience(self, self.client, self.timeout(timeout_ms)).run(callback, options)

    def end(self) -> None:
        """Give the server session back to the pool. Ending twice is allowed; a transaction is left open."""
        if self.ended:
            return
        self.ended = True
        self.transaction.end_span()
        self.transaction.unpin()
        if self._server_session is not None and self._pool is not None:
            self._pool.release(self._server_session, self.client.session_timeout_minutes)

    async def aclose(self, *, timeout_ms: int | None = None) -> None:
        """Abort the transaction that is open, and end the session."""
        if self.transaction.active and not self.ended:
            await self.abort_transaction(timeout_ms=timeout_ms)
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()
