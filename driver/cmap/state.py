"""The state of a connection pool, as a machine that returns effects and performs nothing.

    PAUSED ──ready──> READY ──clear──> PAUSED          any ──close──> CLOSED

A connection is PENDING while it is being established, AVAILABLE in the pool, IN_USE by an operation; one
that was closed is forgotten. A waiter is in the wait queue until it is bound to a connection: an available
one is granted at once, a pending one when it is established.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from driver import events
from driver.cmap.effects import Close, Establish, Grant, Interrupt, Publish, Refuse
from driver.cmap.generations import Generations
from driver.cmap.lease import Use, counted
from driver.cmap.member import Member, Phase, Waiter
from driver.cmap.options import PoolOptions
from driver.errors import PoolClearedError, PoolClosedError, PoolError, WaitQueueTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson import ObjectId

    from driver.cmap.effects import Effect

POPULATION_PAUSE = 1.0
"""Seconds between a failure to populate the pool and the next attempt."""


class PoolMode(Enum):
    """CMAP: Connection Pool, `state`. Obeys CMAP-37."""

    PAUSED = "paused"
    READY = "ready"
    CLOSED = "closed"


@dataclass(slots=True)
class PoolState:
    """One pool (CMAP-40). Each method takes the instant `now` and returns effects in the order to perform."""

    address: str
    options: PoolOptions = field(default_factory=PoolOptions)
    mode: PoolMode = PoolMode.PAUSED
    generations: Generations = field(default_factory=Generations)
    cause: Exception | None = None
    _members: dict[int, Member] = field(default_factory=dict)
    _available: list[Member] = field(default_factory=list)
    _queue: OrderedDict[int, Waiter] = field(default_factory=OrderedDict)
    _bound: dict[int, Waiter] = field(default_factory=dict)
    _deadlines: list[tuple[float, int]] = field(default_factory=list)
    """When waiters give up, as a heap. Who has left the queue is dropped on coming to the top."""
    _last_id: int = 0
    _populate_after: float = -inf

    # --- what can be seen ---

    def __repr__(self) -> str:
        return (
            f"<PoolState {self.address} {self.mode.value} generation={self.generations.current} "
            f"total={self.total} available={self.available} pending={self.pending} "
            f"waiting={len(self._queue)}>"
        )

    @property
    def total(self) -> int:
        """totalConnectionCount: pending, available and in use."""
        return len(self._members)

    @property
    def available(self) -> int:
        """AvailableConnectionCount. Obeys CMAP-50."""
        return len(self._available)

    @property
    def pending(self) -> int:
        """PendingConnectionCount, which maxConnecting limits."""
        return sum(member.phase is Phase.PENDING for member in self._members.values())

    @property
    def in_use(self) -> int:
        """The number of connections that are checked out."""
        return sum(member.phase is Phase.IN_USE for member in self._members.values())

    @property
    def waiting(self) -> tuple[int, ...]:
        """The wait queue, first to come first."""
        return tuple(self._queue)

    def members(self) -> tuple[Member, ...]:
        """Return every connection that counts, in the order of creation."""
        return tuple(self._members.values())

    def generation_of(self, connection_id: int) -> int:
        """Return the generation of a connection: behind a load balancer that of its service."""
        member = self._members.get(connection_id)
        return self.generations.current if member is None else member.generation

    def note_use(self, connection_id: int, use: Use) -> None:
        """Take note of what a connection that is in use is used for."""
        member = self._members.get(connection_id)
        if member is not None:
            member.use = use

    def uses(self) -> str:
        """Return what connections are used for, as a load balanced pool's time-outs report it."""
        if not self.options.load_balanced:
            return ""
        in_use = [member.use for member in self._members.values() if member.phase is Phase.IN_USE]
        return counted(in_use, self.options.max_size)

    def next_deadline(self, now: float) -> float:
        """Return when `tick` has something to do: `now` if it has already, infinity if never."""
        deadline = self._first_deadline()
        if self._may_populate():
            deadline = min(deadline, max(now, self._populate_after))
        if self.options.max_idle and self._available:
            # The stack grows at its end, so that who was not used for the longest time is at its bottom.
            deadline = min(deadline, self._available[0].available_since + self.options.max_idle)
        return deadline

    # --- life of the pool ---

    def create(self) -> Sequence[Effect]:
        """CMAP: Creating a Connection Pool."""
        return [Publish(events.PoolCreatedEvent(self.address, self.options.non_default()))]

    def ready(self) -> Sequence[Effect]:
        """CMAP: Marking a Connection Pool as Ready (CMAP-45, CMAP-46, CMAP-157, CMAP-158). A tick follows."""
        if self.mode is not PoolMode.PAUSED:
            return []
        self.mode, self.cause, self._populate_after = PoolMode.READY, None, -inf
        return [Publish(events.PoolReadyEvent(self.address))]

    def clear(
        self,
        now: float,
        *,
        cause: Exception | None = None,
        interrupt_in_use: bool = False,
        service_id: ObjectId | None = None,
    ) -> Sequence[Effect]:
        """CMAP: Clearing a Connection Pool. The caller lets a `tick` follow, which closes what is stale.

        `interrupt_in_use` is interruptInUseConnections. Obeys CMAP-77, CMAP-79, CMAP-80, CMAP-81,
        CMAP-83, CMAP-84, CMAP-85, CMAP-157, CMAP-161, CMAP-162.
        """
        if self.mode is PoolMode.CLOSED:
            return []
        if self.options.load_balanced:
            return self._clear_service(service_id)
        self.generations.advance()
        if self.mode is PoolMode.PAUSED:
            return []
        self.mode, self.cause = PoolMode.PAUSED, cause
        effects: list[Effect] = [Publish(events.PoolClearedEvent(self.address, None, interrupt_in_use))]
        if interrupt_in_use:
            effects += self._interrupt(now)
        for waiter in list(self._queue.values()):
            effects += self._refuse(waiter, now, PoolClearedError(self.address, cause), "connectionError")
        return effects

    def close(self, now: float) -> Sequence[Effect]:
        """CMAP: Closing a Connection Pool (CMAP-42). What is in use is closed when it is checked in."""
        if self.mode is PoolMode.CLOSED:
            return []
        self.mode = PoolMode.CLOSED
        effects: list[Effect] = []
        for member in list(self._available):
            effects += self._drop(member, "poolClosed")
        for member in self._pending_members():
            effects += self._drop(member, "poolClosed")
            effects += self._refuse_bound(member, now, PoolClosedError(self.address), "poolClosed")
        for waiter in list(self._queue.values()):
            effects += self._refuse(waiter, now, PoolClosedError(self.address), "poolClosed")
        return [*effects, Publish(events.PoolClosedEvent(self.address))]

    # --- checking out and in ---

    def check_out(
        self, waiter_id: int, now: float, *, deadline: float = inf, connect_by: float | None = None
    ) -> Sequence[Effect]:
        """CMAP: Checking Out a Connection: enter the wait queue. Obeys CMAP-44, CMAP-66."""
        waiter = Waiter(waiter_id, now, deadline, connect_by)
        self._queue[waiter_id] = waiter
        started = Publish(events.ConnectionCheckOutStartedEvent(self.address))
        if self.mode is PoolMode.CLOSED:
            return [started, *self._refuse(waiter, now, PoolClosedError(self.address), "poolClosed")]
        if self.mode is PoolMode.PAUSED:
            cleared = PoolClearedError(self.address, self.cause)
            return [started, *self._refuse(waiter, now, cleared, "connectionError")]
        effects = [started, *self._serve(now)]
        if deadline < inf and waiter_id in self._queue:
            heappush(self._deadlines, (deadline, waiter_id))
        return effects

    def cancel(self, waiter_id: int, now: float) -> Sequence[Effect]:
        """Let a waiter go away. A connection being established for it will be anybody's."""
        waiter = self._queue.get(waiter_id) or self._bound.get(waiter_id)
        if waiter is None:
            return []
        for member in self._pending_members():
            if member.waiter == waiter_id:
                member.waiter = None
        self._leave(waiter)
        return [self._check_out_failed(waiter, now, "connectionError", None)]

    def check_in(
        self, connection_id: int, now: float, *, errored: bool = False, error: Exception | None = None
    ) -> Sequence[Effect]:
        """CMAP: Checking In a Connection (CMAP-63, CMAP-71, CMAP-160). Raises PoolError for one not lent."""
        member = self._members.get(connection_id)
        if member is None or member.phase is not Phase.IN_USE:
            raise PoolError(
                f"Connection {connection_id} was not checked out of this pool", address=self.address
            )
        effects: list[Effect] = [Publish(events.ConnectionCheckedInEvent(self.address, connection_id))]
        reason = self._reason_to_close(member, errored=errored)
        if reason is not None:
            effects += self._drop(member, reason, error)
        else:
            self._make_available(member, now)
        return [*effects, *self._serve(now)]

    # --- establishing ---

    def established(
        self, connection_id: int, now: float, *, service_id: ObjectId | None = None
    ) -> Sequence[Effect]:
        """CMAP: Establishing a Connection, with success (CMAP-56, CMAP-68). A stale one is closed."""
        member = self._members.get(connection_id)
        if member is None:
            return []
        self._join_service(member, service_id)
        if self._is_stale(member):
            return [*self._abandon_stale(member, now), *self._serve(now)]
        effects: list[Effect] = [
            Publish(events.ConnectionReadyEvent(self.address, connection_id, now - member.created))
        ]
        waiter = self._bound.get(member.waiter) if member.waiter is not None else None
        if waiter is None:
            self._make_available(member, now)
        else:
            effects += self._grant(waiter, member, now)
        return [*effects, *self._serve(now)]

    def failed(self, connection_id: int, now: float, error: Exception) -> Sequence[Effect]:
        """CMAP: Establishing a Connection, when it failed: the waiter gets the error itself."""
        member = self._members.get(connection_id)
        if member is None:
            return []
        if member.waiter is None:
            self._populate_after = now + POPULATION_PAUSE
        effects = self._drop(member, "error", error)
        effects += self._refuse_bound(member, now, error, "connectionError")
        return [*effects, *self._serve(now)]

    # --- background ---

    def tick(self, now: float) -> Sequence[Effect]:
        """One run of the Background Thread (CMAP-103, CMAP-104). Waiters time out here (CMAP-29)."""
        effects: list[Effect] = []
        for waiter in [waiter for waiter in self._queue.values() if waiter.deadline <= now]:
            effects += self._refuse(waiter, now, WaitQueueTimeoutError(self.address, self.uses()), "timeout")
        for member in list(self._available):
            reason = self._perished(member, now)
            if reason is not None:
                effects += self._drop(member, reason)
        if self._may_populate() and self._populate_after <= now:
            effects += self._connect(now, None)
        return effects

    def _may_populate(self) -> bool:
        """CMAP: Populating the Pool up to minPoolSize. Obeys CMAP-8, CMAP-41, CMAP-52, CMAP-54, CMAP-55.

        One connection after the other: of maxConnecting the background takes a single one, and the others are
        left to threads, each of which may have what the background has made first.
        """
        lacks = self.mode is PoolMode.READY and self.total < self.options.min_size
        return lacks and self._may_connect() and all(m.waiter is not None for m in self._pending_members())

    def _may_connect(self) -> bool:
        """Return whether maxPoolSize and maxConnecting leave room (CMAP-38, CMAP-39, CMAP-152)."""
        capped = self.options.max_size and self.total >= self.options.max_size
        return not capped and self.pending < self.options.max_connecting

    # --- the wait queue ---

    def _first_deadline(self) -> float:
        """Return when the first waiter gives up, without a look at all the others."""
        while self._deadlines and self._deadlines[0][1] not in self._queue:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else inf

    def _serve(self, now: float) -> list[Effect]:
        """Serve waiters in their order until one has to wait (CMAP-27, CMAP-61, CMAP-62, CMAP-64)."""
        effects: list[Effect] = []
        while self._queue and self.mode is PoolMode.READY:
            waiter = next(iter(self._queue.values()))
            member = self._take_available(now, effects)
            if member is not None:
                effects += self._grant(waiter, member, now)
            elif self._may_connect():
                effects += self._connect(now, waiter)
            else:
                break
        return effects

    def _take_available(self, now: float, effects: list[Effect]) -> Member | None:
        """Return the connection used last, closing perished ones on the way (CMAP-59, CMAP-60, CMAP-155)."""
        while self._available:
            member = self._available[-1]
            reason = self._perished(member, now)
            if reason is None:
                self._available.pop()
                return member
            effects += self._drop(member, reason)
        return None

    def _connect(self, now: float, waiter: Waiter | None) -> list[Effect]:
        """CMAP: Creating a Connection, for a waiter or for the pool. Obeys CMAP-25, CMAP-159."""
        self._last_id += 1
        member = Member(self._last_id, self.generations.current, now)
        self._members[member.id] = member
        if waiter is not None:
            member.waiter = waiter.id
            del self._queue[waiter.id]
            self._bound[waiter.id] = waiter
        connect_by = None if waiter is None else waiter.connect_by
        return [
            Publish(events.ConnectionCreatedEvent(self.address, member.id)),
            Establish(member.id, member.generation, connect_by, populates=waiter is None),
        ]

    def _grant(self, waiter: Waiter, member: Member, now: float) -> list[Effect]:
        """Lend an established connection. Obeys CMAP-70."""
        self._leave(waiter)
        member.phase, member.waiter, member.use = Phase.IN_USE, None, Use.OPERATION
        checked_out = events.ConnectionCheckedOutEvent(self.address, member.id, now - waiter.started)
        return [Publish(checked_out), Grant(waiter.id, member.id)]

    def _refuse(self, waiter: Waiter, now: float, error: Exception, reason: str) -> list[Effect]:
        self._leave(waiter)
        return [self._check_out_failed(waiter, now, reason, error), Refuse(waiter.id, error)]

    def _refuse_bound(self, member: Member, now: float, error: Exception, reason: str) -> list[Effect]:
        waiter = self._bound.get(member.waiter) if member.waiter is not None else None
        return [] if waiter is None else self._refuse(waiter, now, error, reason)

    def _leave(self, waiter: Waiter) -> None:
        self._queue.pop(waiter.id, None)
        self._bound.pop(waiter.id, None)

    def _check_out_failed(self, waiter: Waiter, now: float, reason: str, error: Exception | None) -> Publish:
        return Publish(
            events.ConnectionCheckOutFailedEvent(self.address, reason, now - waiter.started, error)
        )

    # --- connections ---

    def _pending_members(self) -> list[Member]:
        return [member for member in self._members.values() if member.phase is Phase.PENDING]

    def _make_available(self, member: Member, now: float) -> None:
        """CMAP: Marking a Connection as Available. Obeys CMAP-49."""
        member.phase, member.available_since, member.waiter = Phase.AVAILABLE, now, None
        self._available.append(member)

    def _is_stale(self, member: Member) -> bool:
        return member.generation != self.generations.of(member.service_id)

    def _perished(self, member: Member, now: float) -> str | None:
        """CMAP: Perishable (CMAP-152, CMAP-154): why to close it, if so: stale, or maxIdleTimeMS is over."""
        if self._is_stale(member):
            return "stale"
        idle = self.options.max_idle
        # The same sum as in `next_deadline`: a difference may be rounded to just below the limit.
        return "idle" if idle and now >= member.available_since + idle else None

    def _reason_to_close(self, member: Member, *, errored: bool) -> str | None:
        """Return why a connection that comes back must be closed, or None. Obeys CMAP-43, CMAP-76, CMAP-155.

        One that a clear has interrupted is broken because of that: it is stale, as one that the same clear
        met while it was established.
        """
        if self.mode is PoolMode.CLOSED:
            return "poolClosed"
        if errored and not member.interrupted:
            return "error"
        return "stale" if self._is_stale(member) else None

    def _drop(self, member: Member, reason: str, error: Exception | None = None) -> list[Effect]:
        """CMAP: Closing a Connection. Obeys CMAP-47."""
        del self._members[member.id]
        if member.phase is Phase.AVAILABLE:
            self._available.remove(member)
        self.generations.forget(member.service_id)
        closed = events.ConnectionClosedEvent(self.address, member.id, reason, error)
        return [Publish(closed), Close(member.id)]

    def _abandon_stale(self, member: Member, now: float) -> list[Effect]:
        effects = self._drop(member, "stale")
        cleared = PoolClearedError(self.address, self.cause)
        return effects + self._refuse_bound(member, now, cleared, "connectionError")

    def _interrupt(self, now: float) -> list[Effect]:
        """Interrupt what the clear made stale, in use or being established (CMAP-88)."""
        effects: list[Effect] = []
        for member in [member for member in self._members.values() if self._is_stale(member)]:
            if member.phase is Phase.IN_USE:
                member.interrupted = True
                effects.append(Interrupt(member.id))
            elif member.phase is Phase.PENDING:
                effects += self._drop(member, "stale")
                interrupted = PoolClearedError.interrupted(self.address)
                effects += self._refuse_bound(member, now, interrupted, "connectionError")
        return effects

    # --- load balancers ---

    def _join_service(self, member: Member, service_id: ObjectId | None) -> None:
        """CMAP: Load Balancer Mode: after the handshake the generation is the service's."""
        if service_id is not None:
            member.service_id = service_id
            member.generation = self.generations.join(service_id)

    def _clear_service(self, service_id: ObjectId | None) -> list[Effect]:
        """CMAP: Clearing a load balanced pool: no pause, and the wait queue stays (CMAP-92, CMAP-93)."""
        if service_id is None:
            return []
        self.generations.advance(service_id)
        return [Publish(events.PoolClearedEvent(self.address, service_id))]
