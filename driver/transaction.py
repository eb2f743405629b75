"""Transactions: what a session knows of its transaction, and what that does to commands and errors.

                        start                 first command sent
    NONE, COMMITTED, ──────────> STARTING ──────────────────────────> IN_PROGRESS
    ABORTED                         │                                     │
                                    └──── commit ──> COMMITTED <── commit ┤
                                    └──── abort ───> ABORTED <──── abort ─┘

A client says nothing to the server when a transaction starts: its first command does, by `startTransaction`.
So a transaction that ends in STARTING is not known there, and no command ends it.

COMMITTED and ABORTED last until the session does something else, because commitTransaction may be called
again: its reply may have been lost, and the same number makes sure that it is applied once. Any other
operation makes the session forget the transaction (NONE).

**Pinning.** A mongos keeps in memory which shards take part, so that all commands go to the one that had the
first. It is left after an error that leaves nothing to go back to (TransientTransactionError), and for the
retry of a commit or an abort, which another mongos can carry out from the `recoveryToken`. Behind a load
balancer, where nobody chooses a mongos, it is a connection that is kept. A replica set needs no pinning:
there is one primary, and a new one does not know the transaction.

**Errors.** What a command meets on its way to the server ends the transaction, but not the program's work:
the label TransientTransactionError says that it may begin again from its start. What a commit meets so may
have been applied or not; UnknownTransactionCommitResult says that the commit alone may be sent again.

All of it decides and nothing waits; `ClientSession` runs the commands that end a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from driver.cmap.member import ConnectionUse
from driver.concerns import PRIMARY, ReadConcern, ReadMode, ReadPreference, WriteConcern
from driver.errors import (
    InvalidArgumentError,
    NetworkError,
    PoolClearedError,
    ServerError,
    ServerSelectionError,
    WriteConcernError,
    is_overload,
)
from driver.operations.base import Command, Kind, Operation, first_name
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson import Int64

    from driver.cmap.pool import Lease
    from driver.concerns import Concerns
    from driver.errors import DriverError

MAJORITY_TIMEOUT_MS = 10_000
"""The wtimeout of a commit that is sent again and has none of its own: a majority may never come."""

WITH_TRANSACTION_TIMEOUT = 120.0
"""Seconds after which withTransaction begins nothing anew, unless timeoutMS says otherwise."""

FIRST_BACKOFF = 0.005
MAX_BACKOFF = 0.5
BACKOFF_GROWTH = 1.5
"""Milder than after overload: what is waited for here is the end of another transaction."""

_CERTAIN_WRITE_CONCERN_FAILURES = frozenset(
    {ErrorCode.UNKNOWN_REPL_WRITE_CONCERN, ErrorCode.UNSATISFIABLE_WRITE_CONCERN}
)
"""Write concerns that no repetition will satisfy. The commit is applied, and its outcome known."""


class TransactionState(Enum):
    """Transactions: ClientSession changes; the values are the words of the unified test format."""

    NONE = "none"
    STARTING = "starting"
    IN_PROGRESS = "in_progress"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """Transactions: TransactionOptions. What is None is inherited."""

    read_concern: ReadConcern | None = None
    write_concern: WriteConcern | None = None
    read_preference: ReadPreference | None = None
    max_commit_time_ms: int | None = None

    def or_else(self, defaults: TransactionOptions) -> TransactionOptions:
        """Return these options, completed by `defaults`."""
        time = self.max_commit_time_ms
        return TransactionOptions(
            self.read_concern or defaults.read_concern,
            self.write_concern or defaults.write_concern,
            self.read_preference or defaults.read_preference,
            defaults.max_commit_time_ms if time is None else time,
        )

    @classmethod
    def of(cls, concerns: Concerns) -> TransactionOptions:
        """Return the options that a client's concerns amount to."""
        return cls(concerns.read_concern, concerns.write_concern, concerns.read_preference)


NO_OPTIONS: Final = TransactionOptions()


@dataclass(slots=True)
class Transaction:
    """The transaction of a session, also after its end until the session does something else."""

    state: TransactionState = TransactionState.NONE
    options: TransactionOptions = NO_OPTIONS
    number: Int64 | None = None
    """Its transaction number, which every command of it carries."""
    known: bool = False
    """Whether a command of it was sent, so that the server may know of it."""
    pinned: str | None = None
    """The address of the mongos that it is bound to; none in a replica set."""
    lease: Lease | None = None
    """The connection that it is bound to behind a load balancer."""
    recovery_token: Mapping[str, Any] | None = None
    """What another mongos needs to finish it: the newest of its replies."""
    commits: int = 0
    """How often commitTransaction was called; from the second time on it asks for a majority."""
    span: Any = None
    """What tracing knows it as."""

    @property
    def active(self) -> bool:
        """Whether operations of the session belong to it."""
        return self.state in {TransactionState.STARTING, TransactionState.IN_PROGRESS}

    def check_start(self, options: TransactionOptions) -> None:
        """Raise InvalidArgumentError if a transaction with these options cannot begin."""
        if self.active:
            raise InvalidArgumentError("Transaction already in progress")
        if options.write_concern is not None and not options.write_concern.acknowledged:
            raise InvalidArgumentError("transactions do not support unacknowledged write concern")

    def start(self, options: TransactionOptions, number: Int64) -> None:
        """Begin under a new number."""
        self.reset()
        self.state, self.options, self.number = TransactionState.STARTING, options, number

    def reset(self) -> None:
        """Forget a transaction that has ended."""
        self.state, self.number, self.commits = TransactionState.NONE, None, 0
        self.known = False
        self.recovery_token = None
        self.unpin()

    def sent(self) -> None:
        """Take note that a command is on its way, the first of which starts it on the server."""
        self.known = True
        if self.state is TransactionState.STARTING:
            self.state = TransactionState.IN_PROGRESS

    def end_span(self) -> None:
        """Let tracing know that it has ended, if it is traced. Ending twice is allowed."""
        span, self.span = self.span, None
        if span is not None:
            span.end()

    # --- pinning ---

    def pin(self, address: str, lease: Lease | None = None) -> None:
        """Bind it to a mongos, and behind a load balancer to a connection (Transactions: Mongos Pinning)."""
        if self.pinned is None:  # by its first command; a later one went where that did
            self.pinned = address
            self.lease = None if lease is None else lease.hold(ConnectionUse.TRANSACTION)

    def unpin(self) -> None:
        """Let its next command go anywhere, and let go of its connection. Unpinning twice is allowed."""
        lease, self.lease, self.pinned = self.lease, None, None
        if lease is not None:
            lease.release(ConnectionUse.TRANSACTION)

    def unpins(self, error: DriverError, *, ends: bool, starts: bool) -> bool:
        """Return whether an error unpins it (Transactions: Unpinning).

        `ends` says that the command was to end it: that is tried again anywhere. `starts` says that it was
        the first: a server that was too busy for it knows of no transaction.
        """
        if error.has_label(Label.TRANSIENT_TRANSACTION):
            return True
        if ends:  # the recovery token lets any mongos carry it out
            return error.has_label(Label.RETRYABLE_WRITE)
        return starts and is_overload(error)

    def adapt(self, operation: Operation) -> Operation:
        """Return an operation as it runs within: acknowledged, and with the transaction's read preference.

        Raises InvalidArgumentError for a read whose preference is not primary.
        """
        if operation.read_preference is None:
            return replace(operation, acknowledged=True)
        # Concerns of collections do not count in a transaction, as it has its own. runCommand inherits none:
        # a preference that it has was passed to this very call, and is refused rather than ignored.
        preference = self.options.read_preference or PRIMARY
        if operation.kind is Kind.GENERIC and operation.read_preference.mode is not ReadMode.PRIMARY:
            preference = operation.read_preference
        # A cursor's next batch is asked for where the cursor is, whatever was preferred then.
        if operation.address is None and preference.mode is not ReadMode.PRIMARY:
            raise InvalidArgumentError(
                f"read preference in a transaction must be primary, not {preference.mode.value}"
            )
        return replace(operation, acknowledged=True, read_preference=PRIMARY)

    # --- its end ---

    def prepare_commit(self) -> bool:
        """Enter COMMITTED, and say whether there is a command to send. Raises InvalidArgumentError."""
        # COMMITTED is allowed: the reply to the first commit may have been lost.
        if self.state is TransactionState.NONE:
            raise InvalidArgumentError("no transaction started")
        if self.state is TransactionState.ABORTED:
            raise InvalidArgumentError("Cannot call commitTransaction after calling abortTransaction")
        self.state = TransactionState.COMMITTED
        return self.known

    def prepare_abort(self) -> bool:
        """Enter ABORTED, and say whether there is a command to send. Raises InvalidArgumentError."""
        if self.state is TransactionState.NONE:
            raise InvalidArgumentError("no transaction started")
        if self.state is TransactionState.COMMITTED:
            raise InvalidArgumentError("Cannot call abortTransaction after calling commitTransaction")
        if self.state is TransactionState.ABORTED:
            raise InvalidArgumentError("Cannot call abortTransaction twice")
        self.state = TransactionState.ABORTED
        return self.known

    def commit_operation(self) -> Operation:
        """Return a commit; from the second on with a majority, as the first may have been lost or not.

        A first commit that was applied and rolled back since, in a failover, must not be confirmed by the
        second: with a majority, only what stays is.
        """
        limit = self.options.max_commit_time_ms
        command = self._ending("commitTransaction", {} if limit is None else {"maxTimeMS": limit})
        first = self.commits == 0
        self.commits += 1
        return _operation(command if first else with_majority(command), on_retry=with_majority)

    def abort_operation(self) -> Operation:
        """Return an abort."""
        return _operation(self._ending("abortTransaction", {}))

    def _ending(self, name: str, more: Mapping[str, Any]) -> Command:
        document: dict[str, Any] = {name: 1}
        if concern := (self.options.write_concern or WriteConcern()).to_document():
            document["writeConcern"] = concern
        if self.recovery_token is not None:
            document["recoveryToken"] = self.recovery_token
        return Command({**document, **more}, retryable=True)


def _operation(command: Command, on_retry: Callable[[Command], Command] | None = None) -> Operation:
    return Operation(
        "admin",
        Kind.WRITE,
        lambda _server: command,
        name=first_name(command.document),
        ends_transaction=True,
        on_retry=on_retry,
    )


def with_majority(command: Command) -> Command:
    """Return a commit that is sent again (Transactions: Majority write concern when retrying a commit)."""
    # A wtimeout of the user's is kept, a weaker `w` is not.
    concern = {"wtimeout": MAJORITY_TIMEOUT_MS, **command.document.get("writeConcern", {}), "w": "majority"}
    return replace(command, document={**command.document, "writeConcern": concern})


def label_within(error: DriverError) -> None:
    """Add TransientTransactionError to what a command in a transaction met on the way to the server."""
    if isinstance(error, NetworkError | PoolClearedError | ServerSelectionError):
        error.add_label(Label.TRANSIENT_TRANSACTION)


def label_commit(error: DriverError) -> None:
    """Add UnknownTransactionCommitResult where nobody can tell whether the commit was applied."""
    if leaves_commit_unknown(error):
        error.add_label(Label.UNKNOWN_TRANSACTION_COMMIT_RESULT)


def leaves_commit_unknown(error: DriverError) -> bool:
    """Return whether a commit that met this error may have been applied or not."""
    if error.timed_out or isinstance(error, NetworkError | PoolClearedError | ServerSelectionError):
        return True
    if isinstance(error, WriteConcernError):
        # Applied, but perhaps not for good: a wait for members that timed out may succeed the next time.
        return error.code not in _CERTAIN_WRITE_CONCERN_FAILURES
    return is_max_time_expired(error) or error.has_label(Label.RETRYABLE_WRITE)


def is_max_time_expired(error: DriverError) -> bool:
    """Return whether maxTimeMS ended a command, or its wait for the write concern."""
    return isinstance(error, ServerError) and error.code == ErrorCode.MAX_TIME_MS_EXPIRED


def backoff_before(attempt: int, jitter: float, first_exponent: int) -> float:
    """Return the seconds to wait before transaction `attempt`, the first retry being 1.

    Convenient API for Transactions: Sequence of Actions, step 2.
    """
    exponent = min(attempt - 1 + first_exponent, 64)  # a float holds it, and the maximum is long reached
    return jitter * min(FIRST_BACKOFF * BACKOFF_GROWTH**exponent, MAX_BACKOFF)
