"""Everything that this driver raises.

    DriverError
    ├── ConfigurationError            a connection string or an option that cannot be used
    ├── InvalidArgumentError          an argument that no server should see
    ├── ClientClosedError             the client, or the session, was closed
    ├── InvalidReplyError             a reply without what the command should bring, such as a cursor
    ├── ServerSelectionError          no suitable server
    │   └── ServerSelectionTimeoutError   … within serverSelectionTimeoutMS
    ├── OperationTimeoutError         timeoutMS ran out (Client Side Operations Timeout)
    ├── NetworkError                  bytes were lost on the way: the fate of a command is unknown
    │   └── NetworkTimeoutError
    ├── AuthenticationError           we, or the server, could not prove who we are
    ├── PoolError                     raised by a connection pool; no command was sent
    │   ├── PoolClosedError
    │   ├── PoolClearedError
    │   └── WaitQueueTimeoutError
    ├── ServerError                   the server replied, and the reply is an error
    │   ├── WriteError                writeErrors[0] of a single write
    │   └── WriteConcernError         writeConcernError of a command that was applied
    ├── BulkError                     a bulk write that did not run to its end, with its partial result
    │   ├── BulkWriteError            of Collection.bulk_write and insert_many
    │   └── ClientBulkWriteError      of AsyncClient.bulk_write
    └── GridFSError                   of a bucket or one of its streams, found by the driver itself
        ├── GridFSFileNotFoundError   no file has the id, or the name
        ├── RevisionNotFoundError     the name has files, but not so many
        ├── CorruptGridFSFileError    a chunk is missing or has not its size
        └── GridFSStreamClosedError   the stream was closed or aborted, or has failed

Every error carries `labels` (in order of arrival) and the `address` of the server that originated it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mongowire.codes import ErrorCode, Label, code_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bson import ObjectId


class DriverError(Exception):
    """The root.

    `attempted` says whether the caller may infer that a command reached a server, `authenticating` that the
    error came while a new connection was authenticated, to the service `service_id` of a load balancer,
    `timed_out` that timeoutMS ended the operation.
    """

    attempted = False
    authenticating = False
    timed_out = False
    service_id: ObjectId | None = None

    def __init__(self, message: str, *, address: str | None = None, labels: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.address = address
        self.labels = tuple(labels)

    def __str__(self) -> str:
        return self.message

    def has_label(self, label: str) -> bool:
        """Return whether the error carries `label`."""
        return label in self.labels

    def add_label(self, label: str) -> None:
        """Add `label` unless the error carries it already."""
        if label not in self.labels:
            self.labels = (*self.labels, label)


class ConfigurationError(DriverError):
    """A connection string or an option that cannot be used."""


class InvalidArgumentError(DriverError):
    """An argument that no server should see, such as a replacement document with operators."""


class ClientClosedError(DriverError):
    """The client or the session was closed before the operation, or while it ran."""

    @classmethod
    def interrupted(cls, address: str) -> ClientClosedError:
        """Return the error of an operation whose connection was cut off when its client was closed."""
        error = cls(f"Connection to {address} interrupted because the client was closed", address=address)
        error.attempted = True
        return error


class InvalidReplyError(DriverError):
    """The reply lacks what the command should bring."""

    attempted = True


@contextmanager
def reading_handshake(address: str) -> Iterator[None]:
    """Turn what a reply of the wrong shape leads to into an InvalidReplyError.

    Pools and monitors read such replies in tasks of their own, where an exception would be lost.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{address}: a reply of the handshake makes no sense: {error!r}"
        raise InvalidReplyError(message, address=address) from error


class ServerSelectionError(DriverError):
    """No suitable server was found; the message describes the topology."""


class ServerSelectionTimeoutError(ServerSelectionError):
    """No suitable server was found in time."""


class OperationTimeoutError(DriverError):
    """`timeoutMS` ran out, or would have (Client Side Operations Timeout: Errors).

    `cause` is the error that it was noticed by, or the last one before there was no time for another try.
    """

    timed_out = True

    def __init__(
        self,
        message: str,
        *,
        cause: DriverError | None = None,
        address: str | None = None,
        labels: Iterable[str] = (),
    ) -> None:
        super().__init__(message, address=address, labels=labels)
        self.cause = cause
        self.attempted = cause is not None and cause.attempted
        self.__cause__ = cause

    @classmethod
    def of(cls, cause: DriverError) -> OperationTimeoutError:
        """Return the error of an operation that an error ended because of timeoutMS."""
        message = f"the operation's timeoutMS does not suffice: {cause}"
        return cls(message, cause=cause, address=cause.address, labels=cause.labels)


class NetworkError(DriverError):
    """The connection failed. `establishing` tells an error of the handshake from one of a command."""

    attempted = True

    def __init__(
        self,
        message: str,
        *,
        address: str | None = None,
        labels: Iterable[str] = (),
        establishing: bool = False,
    ) -> None:
        super().__init__(message, address=address, labels=labels)
        self.establishing = establishing


class NetworkTimeoutError(NetworkError):
    """`socketTimeoutMS`, `connectTimeoutMS` or `timeoutMS` ran out while a connection was in use."""


class AuthenticationError(DriverError):
    """A proof failed before or after what the server says: a bad password, or a server that lies."""


class PoolError(DriverError):
    """CMAP: Connection Pool Errors. No command was sent."""


class PoolClosedError(PoolError):
    """The pool was closed before a connection could be checked out. Not retryable, as a cleared one's is."""

    def __init__(self, address: str) -> None:
        super().__init__("Attempted to check out a Connection from closed connection pool", address=address)


class PoolClearedError(PoolError):
    """The pool was cleared; retryable, and it marks no server Unknown."""

    def __init__(
        self, address: str, cause: BaseException | None = None, *, message: str | None = None
    ) -> None:
        reason = f"Connection pool for {address} was cleared because another operation failed with: {cause}"
        super().__init__(message or reason, address=address)

    @classmethod
    def interrupted(cls, address: str) -> PoolClearedError:
        """Return the error of an operation whose connection was interrupted by a clear."""
        error = cls(address, message=f"Connection to {address} interrupted due to server monitor timeout")
        error.attempted = True
        return error


class WaitQueueTimeoutError(PoolError):
    """`waitQueueTimeoutMS`, or the selection timeout, ran out in the wait queue."""

    def __init__(self, address: str, uses: str = "") -> None:
        message = "Timed out while checking out a Connection from connection pool"
        super().__init__(f"{message}. {uses}" if uses else message, address=address)


class ServerError(DriverError):
    """The server replied with an error: `code`, `code_name` and the raw `response`."""

    attempted = True

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        name: str | None = None,
        labels: Iterable[str] = (),
        address: str | None = None,
        response: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, address=address, labels=labels)
        self.code = code
        self.code_name = name if name is not None or code is None else code_name(code)
        self.response = response or {}

    @classmethod
    def of_reply(cls, reply: Mapping[str, Any], address: str | None) -> ServerError:
        """Return the error that a reply with `ok: 0` describes."""
        return cls(
            str(reply.get("errmsg", "")),
            code=reply.get("code"),
            name=reply.get("codeName"),
            labels=reply.get("errorLabels", ()),
            address=address,
            response=reply,
        )


class WriteConcernError(ServerError):
    """The write was applied, but not as safely as its write concern asked."""

    @classmethod
    def of_reply(cls, reply: Mapping[str, Any], address: str | None) -> WriteConcernError:
        """Return the error that a reply's `writeConcernError` describes."""
        failure = reply["writeConcernError"]
        return cls(
            str(failure.get("errmsg", "")),
            code=failure.get("code"),
            name=failure.get("codeName"),
            labels=reply.get("errorLabels", ()),
            address=address,
            response=reply,
        )


class WriteError(ServerError):
    """A single write was refused: the first of the reply's `writeErrors`, with its `details`."""

    @classmethod
    def of_reply(cls, reply: Mapping[str, Any], address: str | None) -> WriteError:
        """Return the error that the first entry of `writeErrors` describes."""
        first = reply["writeErrors"][0]
        return cls(
            str(first.get("errmsg", "")),
            code=first.get("code"),
            labels=reply.get("errorLabels", ()),
            address=address,
            response=reply,
        )

    @property
    def details(self) -> Mapping[str, Any]:
        """The server's `errInfo` about the refused write."""
        details: Mapping[str, Any] = self.response["writeErrors"][0].get("errInfo", {})
        return details


class BulkError(DriverError):
    """A bulk write that did not run to its end.

    `cause` is the top-level error that ended it, if one did; `partial` what was done until then;
    `write_errors` has an entry for each refused model, under its index in the request.
    """

    attempted = True

    def __init__(
        self,
        message: str,
        *,
        partial: Any,
        write_errors: Mapping[int, Mapping[str, Any]],
        write_concern_errors: Sequence[Mapping[str, Any]] = (),
        cause: DriverError | None = None,
        labels: Iterable[str] = (),
        address: str | None = None,
        timed: bool = False,
    ) -> None:
        super().__init__(message, address=address, labels=labels)
        self.partial = partial
        self.write_errors = write_errors
        self.write_concern_errors = write_concern_errors
        self.cause = cause
        parts = (*write_errors.values(), *write_concern_errors) if timed else ()
        expired = any(part.get("code") == ErrorCode.MAX_TIME_MS_EXPIRED for part in parts)
        self.timed_out = expired or (cause is not None and cause.timed_out)

    @property
    def code(self) -> int | None:
        """The code of the cause, else of the first write error, else of the first write concern error."""
        if isinstance(self.cause, ServerError):
            return self.cause.code
        for error in (*self.write_errors.values(), *self.write_concern_errors):
            return error.get("code")
        return None


class BulkWriteError(BulkError):
    """Raised by `Collection.bulk_write` and `Collection.insert_many` (CRUD: BulkWriteException)."""


class ClientBulkWriteError(BulkError):
    """Raised by `AsyncClient.bulk_write` (Bulk Write: ClientBulkWriteException)."""


class GridFSError(DriverError):
    """GridFS: what a bucket finds to be wrong without a server's error."""


class GridFSFileNotFoundError(GridFSError):
    """No file has the id, or the name."""

    @classmethod
    def of_id(cls, file_id: Any) -> GridFSFileNotFoundError:
        """Return the error for an id."""
        return cls(f"there is no file with the id {file_id!r}")

    @classmethod
    def of_name(cls, filename: str) -> GridFSFileNotFoundError:
        """Return the error for a name."""
        return cls(f"there is no file named {filename!r}")


class RevisionNotFoundError(GridFSError):
    """There are files of this name, but not so many."""


class CorruptGridFSFileError(GridFSError):
    """A chunk is missing, or has not the size that the file's document says."""


class GridFSStreamClosedError(GridFSError):
    """The stream was closed or aborted, or an earlier command of it failed."""


UNSUPPORTED_STORAGE_ENGINE = (
    "This MongoDB deployment does not support retryable writes. "
    "Please add retryWrites=false to your connection string."
)


def actionable(error: DriverError) -> DriverError:
    """Replace the message of code 20 "Transaction numbers …" by one that says what to do.

    Retryable Writes: Supported Server Versions.
    """
    if (
        isinstance(error, ServerError)
        and error.code == ErrorCode.ILLEGAL_OPERATION
        and error.message.startswith("Transaction numbers")
    ):
        error.message = UNSUPPORTED_STORAGE_ENGINE
    return error


def is_timeout(error: DriverError) -> bool:
    """Return whether an error means that time ran out (Error Transformations): here, or on the server."""
    if isinstance(error, ServerError):
        return error.code == ErrorCode.MAX_TIME_MS_EXPIRED
    kinds = NetworkTimeoutError | WaitQueueTimeoutError | ServerSelectionTimeoutError
    return error.timed_out or isinstance(error, kinds)


def under_timeout(error: DriverError, *, timed: bool) -> DriverError:
    """Return what is raised for an error of an operation: with timeoutMS, all time-outs are of one kind."""
    return OperationTimeoutError.of(error) if timed and is_timeout(error) and not error.timed_out else error


def is_overload(error: DriverError) -> bool:
    """Return whether the label SystemOverloadedError says that the server is overloaded."""
    return error.has_label(Label.SYSTEM_OVERLOADED)


def is_retryable_overload(error: DriverError) -> bool:
    """Return whether it is a Retryable Overload Error: any command may be sent again, later."""
    return is_overload(error) and error.has_label(Label.RETRYABLE)
