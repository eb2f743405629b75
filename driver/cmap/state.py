"""The state of a connection pool, as a machine that returns effects and performs nothing.

    PAUSED ──ready──> READY ──clear──> PAUSED          any ──close──> CLOSED

**Modes.** A pool begins PAUSED: connections to a server that nobody has reached yet would only wait for
timeouts. A monitor's successful check makes it READY. An error that condemns its connections clears it, which
pauses it until the next successful check. CLOSED is for ever.

**Connections** are PENDING while they are established, then AVAILABLE or IN_USE. All three count toward
maxPoolSize, a pending one because it is about to be one of the others. At most maxConnecting are pending,
because a handshake is what costs a server most; callers beyond that wait, and often get a connection back
sooner than they would have made one.

**Waiters** are served in their order: by the connection used last, else by a new one while both limits allow,
else later. Who waits for a connection that is being established for it has left the queue, and with it
waitQueueTimeoutMS: from there on what limits connecting holds.

**Generations.** A clear closes nothing itself. It counts the generation up, so that every connection made
before is stale, and each is closed where it is met: by a check-out or the background run if available, on its
return if in use, on its completion if pending. So a clear costs the same for ten connections and for ten
thousand. With `interrupt_in_use` it does not wait for those in use: a monitor has met a network timeout, and
an operation on the same network may hang in the system's retransmissions for a quarter of an hour.

**Effects** are performed in the order in which they are returned. An event comes before the deed that it
tells of, so that listeners never hear of a connection's use before its check-out, and a pool's own count
changes before any socket is closed, so that nobody waits for a teardown.

The specification is CMAP, Connection Monitoring and Pooling; the names in docstrings are its sections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from driver import events
from driver.cmap.member import ConnectionUse, Phase, PoolMember, PoolMode, Waiter, WaitQueue, counted
from driver.errors import PoolClearedError, PoolClosedError, PoolError, WaitQueueTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson import ObjectId


# The options of a pool.


POPULATION_PAUSE = 1.0
"""Seconds between a failure to populate the pool and the next attempt."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Connection Pool Options. Times are in seconds; 0 is no limit."""

    max_size: int = 100
    min_size: int = 0
    max_connecting: int = 2
    max_idle: float = 0.0
    wait_queue_timeout: float = 0.0
    load_balanced: bool = False

    def named(self) -> dict[str, int]:
        """Return the options by URI name."""
        return {
            "maxPoolSize": self.max_size,
            "minPoolSize": self.min_size,
            "maxConnecting": self.max_connecting,
            "maxIdleTimeMS": round(self.max_idle * 1000),
            "waitQueueTimeoutMS": round(self.wait_queue_timeout * 1000),
        }

    def non_default(self) -> dict[str, int]:
        """Return what PoolCreatedEvent reports: options that differ from their defaults, by URI name."""
        defaults = PoolOptions().named()
        return {name: value for name, value in self.named().items() if value != defaults[name]}


@dataclass(slots=True)
class Service:
    """The generation of a service and the number of its connections."""

    generation: int = 0
    connections: int = 0


@dataclass(slots=True)
class Generations:
    """CMAP: Load Balancer Mode: from serviceId to generation and connection count, beside the pool's own."""

    current: int = 0
    services: dict[ObjectId, Service] = field(default_factory=dict)

    def of(self, service_id: ObjectId | None) -> int:
        """Return the generation that a connection must have to be fresh: the pool's, or that of a service."""
        if service_id is None:
            return self.current
        # A service without connections is not known, and its next connection begins at 0 again: there is no
        # older one left that could be taken for fresh.
        service = self.services.get(service_id)
        return service.generation if service else 0

    def outdate(self, member: PoolMember) -> bool:
        """Return whether a connection is stale."""
        return member.generation != self.of(member.service_id)

    def advance(self, service_id: ObjectId | None = None) -> None:
        """Make every connection stale, or every connection of one service."""
        if service_id is None:
            self.current += 1
        elif service_id in self.services:
            self.services[service_id].generation += 1

    def join(self, service_id: ObjectId) -> int:
        """Count a connection of a service, and return its generation."""
        service = self.services.setdefault(service_id, Service())
        service.connections += 1
        return service.generation

    def forget(self, service_id: ObjectId | None) -> None:
        """Count a connection no more: a service without connections is removed."""
        if service_id is None or service_id not in self.services:
            return
        service = self.services[service_id]
        service.connections -= 1
        if service.connections == 0:
            del self.services[service_id]


@dataclass(slots=True)
class PoolState:
    """CMAP: Connection Pool. Each method takes the instant `now` and returns effects in their order."""

    address: str
    options: PoolOptions = field(default_factory=PoolOptions)
    mode: PoolMode = PoolMode.PAUSED
    generations: Generations = field(default_factory=Generations)
    cause: Exception | None = None
    """The error that the pool was cleared for last, which the check-outs that the clear has met report."""
    _members: dict[int, PoolMember] = field(default_factory=dict)
    """Every connection that counts, by number, in the order of creation."""
    _available: list[PoolMember] = field(default_factory=list)
    """A stack: the connection used last is used next, so that those at the bottom may become idle."""
    _queue: WaitQueue = field(default_factory=WaitQueue)
    """Callers that no connection is established for yet."""
    _last_id: int = 0
    """The number of the connection created last; the first one has 1."""
    heard: bool = True
    """Whether anybody hears of check-outs and check-ins: else no events are made of them."""
    _populate_after: float = -inf
    """When the background may connect again: some time after it failed, or at any time."""

    # --- what can be seen ---

    def __repr__(self) -> str:
        return (
            f"<PoolState {self.address} {self.mode.value} generation={self.generations.current} "
            f"total={self.total} available={self.available} pending={self.pending} "
            f"waiting={len(self._queue.waiters)}>"
        )

    @property
    def total(self) -> int:
        """CMAP: Connection Pool, totalConnectionCount: pending, available and in use."""
        return len(self._members)

    @property
    def available(self) -> int:
        """CMAP: Connection Pool, availableConnectionCount."""
        return len(self._available)

    @property
    def pending(self) -> int:
        """CMAP: Connection Pool, pendingConnectionCount, which maxConnecting limits."""
        return len(self._in_phase(Phase.PENDING))

    @property
    def in_use(self) -> int:
        """The number of connections that are checked out."""
        return len(self._in_phase(Phase.IN_USE))

    @property
    def waiting(self) -> tuple[int, ...]:
        """The wait queue, first to come first."""
        return tuple(self._queue.waiters)

    def members(self) -> tuple[PoolMember, ...]:
        """Return every connection that counts, in the order of creation."""
        return tuple(self._members.values())

    def generation_of(self, connection_id: int) -> int:
        """Return the generation of a connection: behind a load balancer that of its service."""
        member = self._members.get(connection_id)
        return self.generations.current if member is None else member.generation

    def note_use(self, connection_id: int, use: ConnectionUse) -> None:
        """Take note of what a connection that is in use is used for."""
        member = self._members.get(connection_id)
        if member is not None:
            member.use = use

    def uses(self) -> str:
        """Return what connections are used for, as a load balanced pool's time-outs report it."""
        if not self.options.load_balanced:
            return ""
        return counted([member.use for member in self._in_phase(Phase.IN_USE)], self.options.max_size)

    def next_deadline(self, now: float) -> float:
        """Return when `tick` has something to do: `now` if it has already, infinity if never."""
        deadline = self._queue.next_deadline()
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
        """CMAP: Marking a Connection Pool as Ready. A `tick` follows, which populates it."""
        if self.mode is not PoolMode.PAUSED:
            return []
        # A server that was just reached is worth an attempt, whatever came of the last one.
        # The cause stays: a handshake that the clear has overtaken may end only now, and its caller is told.
        self.mode, self._populate_after = PoolMode.READY, -inf
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

        `interrupt_in_use` is interruptInUseConnections.
        """
        if self.mode is PoolMode.CLOSED:
            return []
        if self.options.load_balanced:
            # CMAP: Clearing a load balanced pool: one service of many has failed. The pool is not paused and
            # its queue waits on, as the next connection may lead to any service. An error that came before
            # the handshake's reply tells of no service, and so of nothing to clear.
            if service_id is None:
                return []
            self.generations.advance(service_id)
            return [Publish(events.PoolClearedEvent(self.address, service_id))]
        self.generations.advance()
        # The generation counts up in a paused pool too, so that further errors of the same connections are
        # stale and clear no more. But its queue is empty, and listeners have heard of the first clear.
        if self.mode is PoolMode.PAUSED:
            return []
        self.mode, self.cause = PoolMode.PAUSED, cause
        effects: list[Effect] = [Publish(events.PoolClearedEvent(self.address, None, interrupt_in_use))]
        if interrupt_in_use:
            effects += self._interrupt(now)
        # The queue is emptied now rather than by timeouts: its operations can be retried on another server.
        for waiter in list(self._queue.waiters.values()):
            effects += self._refuse(waiter, now, PoolClearedError(self.address, cause))
        return effects

    def _interrupt(self, now: float) -> list[Effect]:
        """Interrupt what the clear made stale, in use or being established."""
        effects: list[Effect] = []
        for member in [member for member in self._members.values() if self.generations.outdate(member)]:
            if member.phase is Phase.IN_USE:
                member.interrupted = True
                effects.append(Interrupt(member.id))
            elif member.phase is Phase.PENDING:
                # Its caller waits on the same silent server as those whose connections are in use.
                effects += self._abandon(member, now, "stale", PoolClearedError.interrupted(self.address))
        return effects

    def close(self, now: float) -> Sequence[Effect]:
        """CMAP: Closing a Connection Pool. What is in use is closed when it is checked in."""
        if self.mode is PoolMode.CLOSED:
            return []
        self.mode = PoolMode.CLOSED
        effects: list[Effect] = []
        for member in list(self._available):
            effects += self._drop(member, "poolClosed")
        for member in self._in_phase(Phase.PENDING):
            effects += self._abandon(member, now, "poolClosed", PoolClosedError(self.address))
        for waiter in list(self._queue.waiters.values()):
            effects += self._refuse(waiter, now, PoolClosedError(self.address))
        return [*effects, Publish(events.PoolClosedEvent(self.address))]

    # --- checking out and in ---

    def check_out(
        self, waiter_id: int, now: float, *, deadline: float = inf, connect_by: float | None = None
    ) -> Sequence[Effect]:
        """CMAP: Checking Out a Connection: enter the wait queue, and be served if that is possible now."""
        waiter = Waiter(waiter_id, now, deadline, connect_by)
        effects = self._published(events.ConnectionCheckOutStartedEvent)
        if self.mode is PoolMode.CLOSED:
            return [*effects, *self._refuse(waiter, now, PoolClosedError(self.address))]
        if self.mode is PoolMode.PAUSED:
            return [*effects, *self._refuse(waiter, now, PoolClearedError(self.address, self.cause))]
        self._queue.enter(waiter)
        effects += self._serve(now)
        return effects

    def take(self, now: float) -> int | None:
        """CMAP: Checking Out a Connection, the commonest case: an available one, at once, unheard.

        Returns its number, or None where `check_out` has more to do than that.
        """
        if self.heard or self._queue.waiters or not self._available or self.mode is not PoolMode.READY:
            return None
        member = self._available[-1]
        if self._perished(member, now) is not None:
            return None
        self._available.pop()
        self._lend(member)
        return member.id

    def _published(self, kind: type[events.PoolEvent], *details: Any) -> list[Effect]:
        """Return the publication of an event, of which no object is made where nobody hears of it."""
        return [Publish(kind(self.address, *details))] if self.heard else []

    def _serve(self, now: float) -> list[Effect]:
        """CMAP: Checking Out a Connection: serve waiters in their order until one has to wait.

        Whatever leaves a connection or room behind ends with this: nobody else wakes the queue.
        """
        effects: list[Effect] = []
        waiters = self._queue.waiters
        while waiters and self.mode is PoolMode.READY:
            waiter = next(iter(waiters.values()))
            if self._available:
                member = self._available[-1]
                reason = self._perished(member, now)
                if reason is None:
                    self._available.pop()
                    effects += self._grant(waiter, member, now)
                else:
                    effects += self._drop(member, reason)  # and look again: the next one may be fresh
            elif self._may_connect():
                effects += self._connect(now, waiter)
            else:
                break
        return effects

    def cancel(self, waiter_id: int, now: float) -> Sequence[Effect]:
        """Let a waiter go away."""
        waiter = self._queue.leave(waiter_id)
        for member in self._in_phase(Phase.PENDING):
            if member.waiter is not None and member.waiter.id == waiter_id:
                # The handshake goes on: whoever waits by then takes the connection, or the pool keeps it.
                waiter, member.waiter = member.waiter, None
        if waiter is None:
            return []
        took = now - waiter.started
        return [Publish(events.ConnectionCheckOutFailedEvent(self.address, "connectionError", took, None))]

    def check_in(
        self, connection_id: int, now: float, *, errored: bool = False, error: Exception | None = None
    ) -> Sequence[Effect]:
        """CMAP: Checking In a Connection. Raises PoolError for one that was not checked out."""
        member = self._members.get(connection_id)
        if member is None or member.phase is not Phase.IN_USE:
            raise PoolError(
                f"Connection {connection_id} was not checked out of this pool", address=self.address
            )
        effects = self._published(events.ConnectionCheckedInEvent, connection_id)
        if self.mode is PoolMode.CLOSED:
            effects += self._drop(member, "poolClosed", error)
        elif errored and not member.interrupted:
            effects += self._drop(member, "error", error)
        elif self.generations.outdate(member):
            # One that a clear has interrupted is broken because of that: it is stale, as is a pending one
            # that the same clear met.
            effects += self._drop(member, "stale", error)
        else:
            self._make_available(member, now)
        if self._queue.waiters:
            effects += self._serve(now)
        return effects

    # --- establishing ---

    def established(
        self, connection_id: int, now: float, *, service_id: ObjectId | None = None
    ) -> Sequence[Effect]:
        """CMAP: Establishing a Connection, with success. A stale one is closed."""
        member = self._members.get(connection_id)
        if member is None:  # closed or interrupted in the meantime
            return []
        if service_id is not None:
            # CMAP: Load Balancer Mode: only now is it known which service's generation counts.
            member.service_id, member.generation = service_id, self.generations.join(service_id)
        if self.generations.outdate(member):
            # The pool was cleared while it was established. Its waiter was not in the queue then, and gets
            # the error that those in the queue got.
            cleared = PoolClearedError(self.address, self.cause)
            return [*self._abandon(member, now, "stale", cleared), *self._serve(now)]
        took = now - member.created
        effects: list[Effect] = [Publish(events.ConnectionReadyEvent(self.address, connection_id, took))]
        if member.waiter is None:
            self._make_available(member, now)
        else:
            effects += self._grant(member.waiter, member, now)
        return [*effects, *self._serve(now)]

    def failed(self, connection_id: int, now: float, error: Exception) -> Sequence[Effect]:
        """CMAP: Establishing a Connection, when it failed: the waiter gets the error itself."""
        member = self._members.get(connection_id)
        if member is None:  # closed or interrupted in the meantime
            return []
        if member.waiter is None:
            # Nobody waits for it, so that nothing but this pause keeps the background from connecting in a
            # loop to a server that refuses.
            self._populate_after = now + POPULATION_PAUSE
        return [*self._abandon(member, now, "error", error), *self._serve(now)]

    # --- background ---

    def tick(self, now: float) -> Sequence[Effect]:
        """CMAP: Background Thread: one run, which does what can be done now. Waiters time out here too."""
        effects: list[Effect] = []
        for waiter in self._queue.expired(now):
            effects += self._refuse(waiter, now, WaitQueueTimeoutError(self.address, self.uses()))
        for member in list(self._available):
            reason = self._perished(member, now)
            if reason is not None:
                effects += self._drop(member, reason)
        if self._may_populate() and self._populate_after <= now:
            effects += self._connect(now, None)
        return effects

    def _may_populate(self) -> bool:
        """CMAP: Populating the Pool with a Connection: up to minPoolSize, in a ready pool only.

        One connection after the other: of maxConnecting the background takes a single one, and the others are
        left to callers, each of which may have what the background has made first.
        """
        lacks = self.mode is PoolMode.READY and self.total < self.options.min_size
        return (
            lacks
            and self._may_connect()
            and all(member.waiter is not None for member in self._in_phase(Phase.PENDING))
        )

    def _may_connect(self) -> bool:
        """CMAP: Connection Pool: whether maxPoolSize (0 is no limit) and maxConnecting leave room."""
        capped = self.options.max_size and self.total >= self.options.max_size
        return not capped and self.pending < self.options.max_connecting

    # --- what becomes of connections and waiters ---

    def _connect(self, now: float, waiter: Waiter | None) -> list[Effect]:
        """CMAP: Creating a Connection, for a waiter, who leaves the queue, or for the pool."""
        self._last_id += 1
        member = PoolMember(self._last_id, self.generations.current, now, waiter=waiter)
        self._members[member.id] = member
        if waiter is not None:
            self._queue.leave(waiter.id)
        connect_by = None if waiter is None else waiter.connect_by
        return [
            Publish(events.ConnectionCreatedEvent(self.address, member.id)),
            Establish(member.id, member.generation, connect_by, populates=waiter is None),
        ]

    def _grant(self, waiter: Waiter, member: PoolMember, now: float) -> list[Effect]:
        """CMAP: Checking Out a Connection: hand over an established connection, which is in use from now."""
        self._queue.leave(waiter.id)
        self._lend(member)
        took = now - waiter.started
        return [
            *self._published(events.ConnectionCheckedOutEvent, member.id, took),
            Grant(waiter.id, member.id),
        ]

    def _lend(self, member: PoolMember) -> None:
        """CMAP: Connection: in use."""
        member.phase, member.waiter, member.use = Phase.IN_USE, None, ConnectionUse.OPERATION

    def _refuse(self, waiter: Waiter, now: float, error: Exception) -> list[Effect]:
        """CMAP: ConnectionCheckOutFailedEvent, and the error for the caller."""
        self._queue.leave(waiter.id)
        match error:
            case WaitQueueTimeoutError():
                reason = "timeout"
            case PoolClosedError():
                reason = "poolClosed"
            case _:  # a cleared pool is a connection error too: the operation may be retried as after one
                reason = "connectionError"
        took = now - waiter.started
        failed = events.ConnectionCheckOutFailedEvent(self.address, reason, took, error)
        return [Publish(failed), Refuse(waiter.id, error)]

    def _make_available(self, member: PoolMember, now: float) -> None:
        """CMAP: Marking a Connection as Available."""
        member.phase, member.available_since, member.waiter = Phase.AVAILABLE, now, None
        self._available.append(member)

    def _drop(self, member: PoolMember, reason: str, error: Exception | None = None) -> list[Effect]:
        """CMAP: Closing a Connection: it counts no longer, and its socket is closed after that."""
        del self._members[member.id]
        if member.phase is Phase.AVAILABLE:
            self._available.remove(member)
        self.generations.forget(member.service_id)
        closed = events.ConnectionClosedEvent(self.address, member.id, reason, error)
        return [Publish(closed), Close(member.id)]

    def _abandon(self, member: PoolMember, now: float, reason: str, error: Exception) -> list[Effect]:
        """Drop a connection that was being established, and refuse the waiter that it was for."""
        effects = self._drop(member, reason, error if reason == "error" else None)
        return effects if member.waiter is None else effects + self._refuse(member.waiter, now, error)

    def _in_phase(self, phase: Phase) -> list[PoolMember]:
        return [member for member in self._members.values() if member.phase is phase]

    def _perished(self, member: PoolMember, now: float) -> str | None:
        """CMAP: Connection: why an available one has perished: it is stale, or maxIdleTimeMS is over."""
        if self.generations.outdate(member):
            return "stale"
        idle = self.options.max_idle
        # The same sum as in `next_deadline`: a difference may be rounded to just below the limit.
        return "idle" if idle and now >= member.available_since + idle else None


# Effects: the requests of a pool's state machine to its shell, in the order of their performance.


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish an event."""

    event: events.PoolEvent


@dataclass(frozen=True, slots=True)
class Establish:
    """Connect and shake hands, until the `deadline` of whom it is for, then report `established` or `failed`.

    Without a deadline the client's own time-outs hold. One that `populates` the pool is for nobody yet.
    """

    connection_id: int
    generation: int
    deadline: float | None = None
    populates: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """Give the connection to the waiter."""

    waiter: int
    connection_id: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Raise the error in the waiter."""

    waiter: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket; a connection that is being established is abandoned."""

    connection_id: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Cancel what the connection is doing for its operation, which fails with a PoolClearedError."""

    connection_id: int


Effect: TypeAlias = Publish | Establish | Grant | Refuse | Close | Interrupt
