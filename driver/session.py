"""Sessions: server sessions in a pool, client sessions over them, and the times that they gossip.

A **server session** is an id, which the server remembers for logicalSessionTimeoutMinutes after its last use,
and a counter of transaction numbers. Both belong together: the server knows a write that is sent again by the
two, and takes no number that is not above all it has seen with the id. So the counter stays with the id when
the pool lends it to the next client session.

A **client session** is what an application holds, or what one operation has without asking (an implicit one).
It takes a server session when it first sends something, and not while it waits for a connection: of a
thousand operations that wait for ten connections, ten need one. When it ends, the server session goes back,
to the end from which the next one is taken: the others rest, and may expire. One that expires within a minute
is neither lent nor taken back, as it might be gone when the command arrives; nor is one that is dirty, in
which a command may still run after its connection was lost.

**Times** travel with replies and commands. `$clusterTime` is how far the deployment has come, and goes to
whatever server is asked next; the newer one of session and client counts. `operationTime` is the time of what
this session has done, and with causal consistency its reads ask to see at least that.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, Self, TypeVar

from bson import Int64, Timestamp

from driver.errors import ClientClosedError, DriverError, InvalidArgumentError, OperationTimeoutError
from driver.operations.options import timeout_of
from driver.transaction import (
    WITH_TRANSACTION_TIMEOUT,
    Transaction,
    TransactionOptions,
    backoff_before,
    is_max_time_expired,
    label_commit,
)
from mongowire.codes import Label
from mongowire.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from bson import Binary

    from driver.concerns import Concerns, ReadConcern, ReadPreference, WriteConcern
    from driver.editions import Edition
    from driver.operations.base import Operation
    from driver.options import ClientOptions
    from driver.policy.deadline import Deadline, Timeout
    from mongowire.ports import Clock, Rng


T = TypeVar("T")

EXPIRY_MARGIN = 60.0
"""Seconds before its expiry at which a server session is no longer reused: a command takes time to arrive."""


@dataclass(slots=True)
class ServerSession:
    """Sessions: Server Session. The transaction number stays with it from one client session to the next."""

    id: Binary
    last_use: float
    """The instant of its last command, or of its making, on the client's clock."""
    transaction_number: int = 0
    """The number that was drawn last; the first one is 1."""
    dirty: bool = False
    """Whether a network error left in doubt whether a command still runs in it."""

    @property
    def lsid(self) -> dict[str, Binary]:
        """The document that commands carry."""
        return {"id": self.id}

    def next_transaction_number(self) -> Int64:
        """Return a txnNumber larger than any before (Retryable Writes: Generating Transaction IDs)."""
        self.transaction_number += 1
        return Int64(self.transaction_number)

    def expires_soon(self, now: float, timeout_minutes: float | None) -> bool:
        """Return whether less than a minute is left; without a timeout it never expires."""
        if timeout_minutes is None:  # not known, or behind a load balancer, where it never is
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
        # From the end, where the one used last is; what has rested for longer stays, and may expire.
        while self._sessions:
            session = self._sessions.pop()
            if not session.expires_soon(now, timeout_minutes):
                return session
        return ServerSession(uuid(self._rng), now)

    def release(self, session: ServerSession, timeout_minutes: float | None) -> None:
        """Take a session back unless it is dirty or expires soon; drop the oldest ones that do."""
        now = self._clock.now()
        # The front holds those that have rested for the longest: behind one that is fresh, all are.
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


DEFAULT_OPTIONS: Final = SessionOptions()


class SessionClient(Protocol):
    """What a session uses of the client that started it."""

    clock: Clock
    edition: Edition
    options: ClientOptions
    sessions: ServerSessionPool
    transaction_rng: Rng

    @property
    def concerns(self) -> Concerns:
        """What the transactions of the session inherit."""

    @property
    def session_timeout_minutes(self) -> int | None:
        """How long the deployment keeps sessions."""

    def transaction_span(self) -> Any:
        """Return the span of a transaction that begins, or None without tracing."""

    async def run(
        self, operation: Operation, session: ClientSession | None = None, *, deadline: Deadline | None = None
    ) -> object:
        """Run an operation in a session, within a deadline. Raises DriverError."""


@dataclass(slots=True)
class ClientSession:
    """Sessions: ClientSession. An implicit one belongs to a single operation."""

    client: SessionClient
    options: SessionOptions = DEFAULT_OPTIONS
    implicit: bool = False
    cluster_time: Mapping[str, Any] | None = None
    """The newest `$clusterTime` of its replies, or one that its user knows from another session."""
    operation_time: Timestamp | None = None
    """The newest `operationTime` of its replies: what its next read has to see."""
    snapshot_time: Timestamp | None = None
    """The time that all its reads see, once the first of them has fixed it."""
    ended: bool = False
    transaction: Transaction = field(default_factory=Transaction)
    deadline: Deadline | None = None
    """That of the withTransaction under way, which sets it and takes it back."""
    _server_session: ServerSession | None = None
    """Taken when it is first needed, which is after a check-out."""
    _pool: ServerSessionPool | None = None
    """Where the server session came from: after a fork, another one than the client's."""

    @property
    def server_session(self) -> ServerSession:
        """The server session, taken from the pool when first asked for."""
        # Its server session may be another's by now: two who use one number would answer for each other.
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

    def mark_used(self, now: float) -> None:
        """Sessions: Server Session: the server counts its timeout from the last command that it saw."""
        self.server_session.last_use = now

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
        """Take the times out of a reply, also of one that is an error: it may have waited for a write."""
        if "$clusterTime" in reply:
            self.advance_cluster_time(reply["$clusterTime"])
        if "operationTime" in reply:
            self.advance_operation_time(reply["operationTime"])
        # Find and aggregate report the time of their snapshot in the cursor, distinct beside its values.
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
        if self.implicit:  # nobody can start one in it
            return None
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

        What is left out comes from the session's default options, then from the client. Raises
        InvalidArgumentError.
        """
        if self.options.snapshot:
            raise InvalidArgumentError("Transactions are not supported in snapshot sessions")
        own = TransactionOptions(read_concern, write_concern, read_preference, max_commit_time_ms)
        inherited = self.options.default_transaction_options.or_else(
            TransactionOptions.of(self.client.concerns)
        )
        self.transaction.check_start(own.or_else(inherited))
        self.transaction.start(own.or_else(inherited), self.server_session.next_transaction_number())
        self.transaction.span = self.client.transaction_span()

    def timeout(self, timeout_ms: int | None = None) -> Timeout:
        """Return what timeoutMS says to the session's own operations (Client Side Operations Timeout)."""
        default = self.options.default_timeout
        return timeout_of(timeout_ms, self.client.options.timeout if default is None else default)

    async def commit_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Commit (Transactions: commitTransaction); it may be called again when the outcome is unknown.

        Raises DriverError, labelled UnknownTransactionCommitResult where the commit may have been applied.
        """
        deadline = self.timeout(timeout_ms).start(self.client.clock.now(), within=self.deadline)
        sends = self.transaction.prepare_commit()
        try:
            if sends:
                await self.client.run(self.transaction.commit_operation(), self, deadline=deadline)
        except DriverError as error:
            label_commit(error)
            raise
        finally:
            # Also after an error: what follows is another call of commitTransaction, or a new transaction.
            self.transaction.end_span()

    async def abort_transaction(
        self, *, timeout_ms: int | None = None, deadline: Deadline | None = None
    ) -> None:
        """Abort (Transactions: abortTransaction); what the server says to it is ignored."""
        if deadline is None:
            deadline = self.timeout(timeout_ms).start(self.client.clock.now(), within=self.deadline)
        sends = self.transaction.prepare_abort()
        try:
            # A transaction that could not be aborted expires on the server; its program has given it up.
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
        convenience = Convenience(
            session=self,
            begin=partial(self.start_transaction, **options),
            timeout=self.timeout(timeout_ms),
            clock=self.client.clock,
            rng=self.client.transaction_rng,
            edition=self.client.edition,
        )
        return await convenience.run(callback)

    def end(self) -> None:
        """Give the server session back to the pool. Ending twice is allowed; a transaction is left open."""
        if self.ended:
            return
        self.ended = True
        if not self.implicit:
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


# The loop of withTransaction: run the callback, commit, and again (Convenient API for Transactions).


class TransactionalSession(Protocol):
    """What the loop does with its session."""

    deadline: Deadline | None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was started and has not ended."""

    async def commit_transaction(self) -> None:
        """Commit. Raises DriverError."""

    async def abort_transaction(self, *, deadline: Deadline | None = None) -> None:
        """Abort, whatever the server says to it."""


S = TypeVar("S", bound=TransactionalSession)


class _AgainError(Exception):
    """The whole transaction shall run again, because of its cause."""

    def __init__(self, cause: DriverError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(slots=True, kw_only=True)
class Convenience(Generic[S]):
    """One call of withTransaction. `begin` starts a transaction; `rng` is for the jitter of the backoffs."""

    session: S
    begin: Callable[[], None]
    timeout: Timeout
    clock: Clock
    rng: Rng
    edition: Edition
    deadline: float = 0.0

    async def run(self, callback: Callable[[S], Awaitable[T]]) -> T:
        """Return what the callback returned in the transaction that was committed. Raises what ended it.

        The session carries the deadline to the operations of the callback; what is not set gives them none.
        """
        now = self.clock.now()
        deadline = self.timeout.start(now)
        self.deadline = deadline.at if deadline.is_set else now + WITH_TRANSACTION_TIMEOUT
        outer, self.session.deadline = self.session.deadline, deadline
        attempt = 0
        try:
            while True:
                self.begin()
                attempt += 1
                try:
                    result = await self._call(callback)
                    await self._commit()
                except _AgainError as again:
                    await self._back_off(attempt, again.cause)
                else:
                    return result
        finally:
            self.session.deadline = outer

    async def _call(self, callback: Callable[[S], Awaitable[T]]) -> T:
        try:
            return await callback(self.session)
        except BaseException as error:
            # Whatever ended the callback, its locks on the server go, with all of the timeout for that: there
            # may be nothing left of it.
            if self.session.in_transaction:
                refreshed = self.timeout.start(self.clock.now())
                await self.session.abort_transaction(deadline=refreshed)
            if isinstance(error, DriverError) and error.has_label(Label.TRANSIENT_TRANSACTION):
                self._again(error)
            raise

    async def _commit(self) -> None:
        """Commit, unless the callback has ended the transaction itself."""
        if not self.session.in_transaction:
            return
        while True:
            try:
                await self.session.commit_transaction()
            except DriverError as error:
                # The commit alone again, at once: it may have been applied, so that a new transaction would
                # apply everything twice. Not where maxTimeMS ended it: the next one would take as long.
                unknown = error.has_label(Label.UNKNOWN_TRANSACTION_COMMIT_RESULT)
                if unknown and not is_max_time_expired(error) and not self._out_of_time(error):
                    self._check_time(error)
                    continue
                if error.has_label(Label.TRANSIENT_TRANSACTION):
                    self._again(error)
                raise
            return

    def _out_of_time(self, error: DriverError) -> bool:
        """Return whether the timeoutMS of the whole call ended a command, a little early perhaps."""
        return error.timed_out and self.timeout.seconds is not None

    def _again(self, error: DriverError) -> NoReturn:
        self._check_time(error)
        raise _AgainError(error) from error

    def _check_time(self, error: DriverError, wait: float = 0.0) -> None:
        if self._out_of_time(error) or self.clock.now() + wait >= self.deadline:
            self._give_up(error)

    def _give_up(self, error: DriverError) -> NoReturn:
        """Raise the last error, wrapped in a timeout where timeoutMS or the edition wants it so."""
        # Without timeoutMS the older edition raises the error itself, as programs of its time expect.
        wraps = self.timeout.seconds is not None or self.edition.wraps_transaction_timeout
        if error.timed_out or not wraps:
            raise error
        message = f"withTransaction ran out of time: {error}"
        raise OperationTimeoutError(message, cause=error, address=error.address, labels=error.labels)

    async def _back_off(self, attempt: int, error: DriverError) -> None:
        exponent = self.edition.first_transaction_exponent
        wait = backoff_before(attempt, self.rng.random(), exponent)
        self._check_time(error, wait)  # before the wait: what would end too late is not begun
        await self.clock.sleep_until(self.clock.now() + wait)
