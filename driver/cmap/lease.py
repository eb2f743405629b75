"""A connection that is checked out, for as long as somebody needs it (`Load Balancers: Pinning`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from driver.cmap.connection import Connection
    from driver.cmap.pool import Pool


class Use(Enum):
    """What holds a connection: the command under way, or what it is pinned to."""

    OPERATION = "other operations"
    CURSOR = "cursors"
    TRANSACTION = "transactions"


def counted(uses: Sequence[Use], max_size: int) -> str:
    """Return what connections are used for, in words (Connection Monitoring and Pooling: time-outs)."""
    counts = [f"connections in use by {use.value}: {uses.count(use)}" for use in _REPORTED]
    return ", ".join([f"maxPoolSize: {max_size}", *counts])


_REPORTED: Final = (Use.CURSOR, Use.TRANSACTION, Use.OPERATION)


class Lease:
    """A connection and those who hold it; when the last one lets go, it is checked in.

    Behind a load balancer a transaction and its cursors hold the one that their first command was sent on.
    They take turns: like a session, a lease is not for concurrent use. As a context manager it is held by the
    command under way, which lets go of it at the end of the block (`CMAP: withConnection`); unlike with
    `Pool.connection`, another holder may outlive the block.

    Obeys CMAP-105.
    """

    __slots__ = ("_holders", "_pool", "connection", "error")

    def __init__(self, pool: Pool, connection: Connection) -> None:
        """Take over a connection that was checked out, for a command."""
        self.connection = connection
        self.error: Exception | None = None
        """What the command failed with that was last sent on it."""
        self._pool = pool
        self._holders = [Use.OPERATION]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Let the command go, and keep in mind what it failed with."""
        if error is not None:
            self.error = error if isinstance(error, Exception) else None
        self.release(Use.OPERATION)

    def hold(self, use: Use) -> Lease:
        """Hold it for one more, who lets go of it with `release`."""
        self._holders.append(use)
        self._tell()
        return self

    def release(self, use: Use) -> None:
        """Let go of it: check it in, if nobody else holds it."""
        self._holders.remove(use)
        if self._holders:
            self._tell()
        else:
            self._pool.check_in(self.connection, self.error)

    def _tell(self) -> None:
        """Tell the pool what the connection is used for, which errors of its wait queue report."""
        pinned = [use for use in (Use.TRANSACTION, Use.CURSOR) if use in self._holders]
        self._pool.state.note_use(self.connection.id, pinned[0] if pinned else Use.OPERATION)
