"""Classes of errors: retryable by which policy, and the labels that a driver adds itself.

Servers from 4.4 on label their errors, as they know best whether a command may be sent again. What is left to
the driver is what a server cannot label: errors of the connection, and the replies of older servers, which
are known by their codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driver.errors import (
    NetworkError,
    PoolClearedError,
    PoolError,
    ServerError,
    ServerSelectionError,
    WriteConcernError,
    WriteError,
)
from driver.sdam.description import ServerType
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from driver.errors import DriverError
    from driver.sdam.description import ServerDescription

LABELLING_WIRE_VERSION = 9
"""Servers from 4.4 on label their errors themselves."""

RETRYABLE_WRITE_CODES = frozenset(
    {
        ErrorCode.INTERRUPTED_AT_SHUTDOWN,
        ErrorCode.INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
        ErrorCode.NOT_WRITABLE_PRIMARY,
        ErrorCode.NOT_PRIMARY_NO_SECONDARY_OK,
        ErrorCode.NOT_PRIMARY_OR_SECONDARY,
        ErrorCode.PRIMARY_STEPPED_DOWN,
        ErrorCode.SHUTDOWN_IN_PROGRESS,
        ErrorCode.HOST_NOT_FOUND,
        ErrorCode.HOST_UNREACHABLE,
        ErrorCode.NETWORK_TIMEOUT,
        ErrorCode.SOCKET_EXCEPTION,
        ErrorCode.EXCEEDED_TIME_LIMIT,
    }
)
"""Retryable Writes: RetryableWriteError Labels: the codes that pre-4.4 servers leave to the driver."""

_ROUTERS = frozenset({ServerType.MONGOS, ServerType.LOAD_BALANCER})
"""What is a mongos for a driver: behind a load balancer there is nothing else."""

RETRYABLE_READ_CODES = RETRYABLE_WRITE_CODES | {ErrorCode.READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET}
"""Retryable Reads: Retryable Error: a member that is behind will have caught up soon."""

STALE_SHARD_VERSION = 63
"""A code that newer servers do not have."""

RESUMABLE_CODES = frozenset(
    {
        ErrorCode.HOST_UNREACHABLE,
        ErrorCode.HOST_NOT_FOUND,
        ErrorCode.NETWORK_TIMEOUT,
        ErrorCode.SHUTDOWN_IN_PROGRESS,
        ErrorCode.PRIMARY_STEPPED_DOWN,
        ErrorCode.EXCEEDED_TIME_LIMIT,
        ErrorCode.SOCKET_EXCEPTION,
        ErrorCode.NOT_WRITABLE_PRIMARY,
        ErrorCode.INTERRUPTED_AT_SHUTDOWN,
        ErrorCode.INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
        ErrorCode.NOT_PRIMARY_NO_SECONDARY_OK,
        ErrorCode.NOT_PRIMARY_OR_SECONDARY,
        STALE_SHARD_VERSION,
        ErrorCode.STALE_EPOCH,
        ErrorCode.STALE_CONFIG,
        ErrorCode.RETRY_CHANGE_STREAM,
        ErrorCode.FAILED_TO_SATISFY_READ_PREFERENCE,
    }
)
"""Change Streams: Resumable Error: the codes of servers before 4.4, which do not label."""


def is_retryable_read(error: DriverError) -> bool:
    """Return whether a read that met this error may be sent again (Retryable Reads: Retryable Error)."""
    if isinstance(error, ServerError):
        return error.code in RETRYABLE_READ_CODES
    return isinstance(error, NetworkError | PoolClearedError)


def is_resumable(error: DriverError, wire_version: int) -> bool:
    """Return whether a change stream goes on after this error of a getMore.

    Change Streams: Resumable Error. `wire_version` is that of the server that held the cursor.
    """
    if not isinstance(error, ServerError):
        return isinstance(error, NetworkError | PoolError | ServerSelectionError)
    # No server labels it, though nothing is easier to mend: the server forgot the cursor, not the changes.
    if error.code == ErrorCode.CURSOR_NOT_FOUND:
        return True
    if wire_version >= LABELLING_WIRE_VERSION:
        return error.has_label(Label.RESUMABLE_CHANGE_STREAM)
    return error.code in RESUMABLE_CODES


def deserves_write_label(error: DriverError, server: ServerDescription) -> bool:
    """Return whether the driver labels this error of a write RetryableWriteError.

    Retryable Writes: RetryableWriteError Labels. The caller has checked that retryWrites is enabled.
    """
    if isinstance(error, NetworkError):
        # While establishing, nothing is known of the server yet; the retry will see what it supports.
        return error.establishing or server.supports_retryable_writes
    if isinstance(error, PoolClearedError):
        return True  # nothing was sent
    if not isinstance(error, ServerError) or server.max_wire_version >= LABELLING_WIRE_VERSION:
        return False
    return server.supports_retryable_writes and _has_retryable_code(error, server)


def _has_retryable_code(error: ServerError, server: ServerDescription) -> bool:
    """Codes in writeErrors never count, that of a writeConcernError from a mongos neither."""
    # A write error is of one document; the command was carried out.
    if isinstance(error, WriteError):
        return False
    # A mongos has retried by itself what its shards refused. What it reports of a write concern is that of a
    # shard, and says nothing of whether the mongos can be asked again.
    if isinstance(error, WriteConcernError) and server.type in _ROUTERS:
        return False
    return error.code in RETRYABLE_WRITE_CODES


def label_write_error(error: DriverError, server: ServerDescription) -> None:
    """Add RetryableWriteError where the driver has to."""
    if deserves_write_label(error, server):
        error.add_label(Label.RETRYABLE_WRITE)
