"""The modes of a pool, and what it knows of each of its connections."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson import ObjectId

    from driver.cmap.wait_queue import Waiter


class PoolMode(Enum):
    """CMAP: Connection Pool, `state`."""

    PAUSED = "paused"
    READY = "ready"
    CLOSED = "closed"


class Phase(Enum):
    """CMAP: Connection, `state`. A connection that was closed has none: the pool has forgotten it."""

    PENDING = "pending"
    AVAILABLE = "available"
    IN_USE = "in use"


class ConnectionUse(Enum):
    """What holds a connection: the command under way, or what it is pinned to."""

    OPERATION = "other operations"
    CURSOR = "cursors"
    TRANSACTION = "transactions"


_REPORTED: Final = (ConnectionUse.CURSOR, ConnectionUse.TRANSACTION, ConnectionUse.OPERATION)


def counted(uses: Sequence[ConnectionUse], max_size: int) -> str:
    """Return what connections are used for, in words (CMAP: Connection Pool Errors, of time-outs)."""
    counts = [f"connections in use by {use.value}: {uses.count(use)}" for use in _REPORTED]
    return ", ".join([f"maxPoolSize: {max_size}", *counts])


@dataclass(slots=True)
class PoolMember:
    """What the pool knows of one connection. Instants are in seconds of the client's clock."""

    id: int
    generation: int
    """That of the pool when it was created; behind a load balancer its service's, once that is known."""
    created: float
    phase: Phase = Phase.PENDING
    available_since: float = 0.0
    """When it became available the last time: maxIdleTimeMS counts from here."""
    service_id: ObjectId | None = None
    """The service behind a load balancer, which the handshake's reply names."""
    waiter: Waiter | None = None
    """Whom a pending connection is established for; None for the pool's own account."""
    use: ConnectionUse = ConnectionUse.OPERATION
    """What it is used for while it is in use."""
    interrupted: bool = False
    """Whether a clear has interrupted it while it was in use."""
