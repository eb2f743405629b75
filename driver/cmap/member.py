"""The modes of a pool, and what it knows of each of its connections."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson import ObjectId


class Waiter(NamedTuple):
    """A request for a connection: when it came, and when it gives up.

    `connect_by` is when a connection that is made for it must be established, None for the client's options.
    """

    id: int
    started: float
    deadline: float
    connect_by: float | None = None


@dataclass(slots=True)
class WaitQueue:
    """First come, first served: a fair queue, in which everyone may leave from anywhere."""

    waiters: OrderedDict[int, Waiter] = field(default_factory=OrderedDict)
    """By number, first to come first. To be read: `enter` and `leave` change it."""
    _deadlines: list[tuple[float, int]] = field(default_factory=list)
    """A heap of the instants at which waiters give up, and their numbers."""

    def enter(self, waiter: Waiter) -> None:
        """Let a caller wait behind all others."""
        self.waiters[waiter.id] = waiter
        if waiter.deadline < inf:
            heappush(self._deadlines, (waiter.deadline, waiter.id))

    def leave(self, waiter_id: int) -> Waiter | None:
        """Let a caller go, who may have left before; None if it has."""
        return self.waiters.pop(waiter_id, None)

    def next_deadline(self) -> float:
        """Return when the first of them gives up, infinity for nobody."""
        # Who was served or cancelled left its deadline in the heap, from whose middle nothing can be taken:
        # it is dropped when it comes to the top, so that each costs one push and one pop.
        while self._deadlines and self._deadlines[0][1] not in self.waiters:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else inf

    def expired(self, now: float) -> tuple[Waiter, ...]:
        """Return who has waited for as long as it may, in the order of arrival."""
        if self.next_deadline() > now:
            return ()
        return tuple(waiter for waiter in self.waiters.values() if waiter.deadline <= now)


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
