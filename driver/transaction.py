"""Transactions: what a session knows of its transaction, and what that does to commands and errors.

All of it decides and nothing waits; `ClientSession` runs the commands that end a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from driver.cmap.lease import Use
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
from driver.operations.base import Command, Kind, Operation, first_name, fixed
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import Int64

    from driver.cmap.lease import Lease
    from driver.concerns import Concerns
    from driver.errors import DriverError

MAJORITY_TIMEOUT_MS = 10_000
"""The wtimeout of a commit that is sent again and has none of its own."""

WITH_TRANSACTION_TIMEOUT = 120.0
FIRST_BACKOFF = 0.005
MAX_BACKOFF = 0.5
BACKOFF_GROWTH = 1.5

_CERTAIN_WRITE_CONCERN_FAILURES = frozenset(
    {ErrorCode.UNKNOWN_REPL_WRITE_CONCERN, ErrorCode.UNSATISFIABLE_WRITE_CONCERN}
)


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


@dataclass(slots=True)
class Transaction:
    """The transaction of a session, also after its end until the session does something else.

    `number` is its transaction number, `known` whether a command of it was sent. `pinned` is the address of
    the mongos that it is bound to, `lease` the connection, behind a load balancer; a replica set binds it to
    neither. `recovery_token` is what another mongos needs to finish it.
    """

    state: TransactionState = TransactionState.NONE
    options: TransactionOptions = field(default_factory=TransactionOptions)
    number: Int64 | None = None
    known: bool = False
    pinned: str | None = None
    lease: Lease | None = None
    recovery_token: Mapping[str, Any] | None = None
    commits: int = 0
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
        if self.pinned is None:
            self.pinned = address
            self.lease = None if lease is None else lease.hold(Use.TRANSACTION)

    def unpin(self) -> None:
        """Let its next command go anywhere, and let go of its connection. Unpinning twice is allowed."""
        lease, self.lease, self.pinned = self.lease, None, None
        if lease is not None:
            lease.release(Use.TRANSACTION)

    def unpins(self, error: DriverError, *, ends: bool, starts: bool) -> bool:
        """Return whether an error unpins it (Transactions: Unpinning).

        `ends` says that the command was to end it: that is tried again anywhere. `starts` says that it was
        the first: a server that was too busy for it knows of no transaction.
        """
        if error.has_label(Label.TRANSIENT_TRANSACTION):
            return True
        if ends:
            return error.has_label(Label.RETRYABLE_WRITE)
        return starts and is_overload(error)

    def adapt(self, operation: Operation) -> Operation:
        """Return an operation as it runs within: acknowledged, and with the transaction's read preference.

        Raises InvalidArgumentError for a read whose preference is not primary.
        """
        if operation.read_preference is None:
            return replace(operation, acknowledged=True)
        preference = self.options.read_preference or PRIMARY
        if operation.kind is Kind.GENERIC and operation.read_preference.mode is not ReadMode.PRIMARY:
            preference = operation.read_preference
        if operation.address is None and preference.mode is not ReadMode.PRIMARY:
            raise InvalidArgumentError(
                f"read preference in a transaction must be primary, not {preference.mode.value}"
            )
        return replace(operation, acknowledged=True, read_preference=PRIMARY)

    # --- its end ---

    def prepare_commit(self) -> bool:
        """Enter COMMITTED, and say whether there is a command to send. Raises InvalidArgumentError."""
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
        """Return a commit; from the second on with a majority, as the first may have been lost or not."""
        concern = self.options.write_concern or WriteConcern()
        document = {"commitTransaction": 1, **self._common(concern)}
        if self.options.max_commit_time_ms is not None:
            document["maxTimeMS"] = self.options.max_commit_time_ms
        first = self.commits == 0
        self.commits += 1
        command = Command(document, retryable=True)
        return _ending(command if first else with_majority(command), with_majority)

    def abort_operation(self) -> Operation:
        """Return an abort."""
        document = {"abortTransaction": 1, **self._common(self.options.write_concern or WriteConcern())}
        return _ending(Command(document, retryable=True), _as_it_is)

    def _common(self, concern: WriteConcern) -> dict[str, Any]:
        given = concern.to_document()
        fields: dict[str, Any] = {"writeConcern": given} if given else {}
        if self.recovery_token is not None:
            fields["recoveryToken"] = self.recovery_token
        return fields


def _ending(command: Command, on_retry: Any) -> Operation:
    return replace(
        Operation("admin", Kind.WRITE, fixed({}), name=first_name(command.document)),
        prepare=lambda _server: command,
        ends_transaction=True,
        on_retry=on_retry,
    )


def _as_it_is(command: Command) -> Command:
    return command


def with_majority(command: Command) -> Command:
    """Return a commit that is sent again (Transactions: Majority write concern when retrying a commit)."""
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
    if isinstance(error, NetworkError | PoolClearedError | ServerSelectionError):
        return True
    if isinstance(error, WriteConcernError):
        return error.code not in _CERTAIN_WRITE_CONCERN_FAILURES
    timed_out = isinstance(error, ServerError) and error.code == ErrorCode.MAX_TIME_MS_EXPIRED
    return timed_out or error.has_label(Label.RETRYABLE_WRITE)


def is_max_time_expired(error: DriverError) -> bool:
    """Return whether maxTimeMS ended a command, or its wait for the write concern."""
    return isinstance(error, ServerError) and error.code == ErrorCode.MAX_TIME_MS_EXPIRED


def backoff_before(attempt: int, jitter: float, first_exponent: int) -> float:
    """Return the seconds to wait before transaction `attempt`, the first retry being 1.

    Convenient API for Transactions: Sequence of Actions, step 2.
    """
    exponent = min(attempt - 1 + first_exponent, 64)
    return jitter * min(FIRST_BACKOFF * BACKOFF_GROWTH**exponent, MAX_BACKOFF)
