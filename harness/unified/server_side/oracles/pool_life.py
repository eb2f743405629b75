"""The life of a pool as its events tell it: what may follow what, and its sizes.

A pool is created, then ready and cleared in turns, then closed. A connection is created, ready, checked out
and in any number of times, and closed once. Connection Monitoring and Pooling: Connection, Connection Pool.

A state machine that is fed event by event (`take`) and complains where the grammar is broken; it goes on as
if the event had been right, so that one breach is told once and not again by all that follows. Oracles read
its fields between two events: `asking`, `available`, `is_stale`, `since`. The swarm of the reference driver
uses it, too, and therefore it knows neither traces nor clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

POOL_CREATED: Final = "poolCreatedEvent"
POOL_READY: Final = "poolReadyEvent"
POOL_CLEARED: Final = "poolClearedEvent"
POOL_CLOSED: Final = "poolClosedEvent"
CREATED: Final = "connectionCreatedEvent"
READY: Final = "connectionReadyEvent"
CLOSED: Final = "connectionClosedEvent"
CHECK_OUT_STARTED: Final = "connectionCheckOutStartedEvent"
CHECK_OUT_FAILED: Final = "connectionCheckOutFailedEvent"
CHECKED_OUT: Final = "connectionCheckedOutEvent"
CHECKED_IN: Final = "connectionCheckedInEvent"
KINDS: Final = (
    *(POOL_CREATED, POOL_READY, POOL_CLEARED, POOL_CLOSED, CREATED, READY, CLOSED),
    *(CHECK_OUT_STARTED, CHECK_OUT_FAILED, CHECKED_OUT, CHECKED_IN),
)

NEXT: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    CREATED: (frozenset({"unknown"}), "pending"),
    READY: (frozenset({"pending"}), "available"),
    CHECKED_OUT: (frozenset({"available"}), "in use"),
    CHECKED_IN: (frozenset({"in use"}), "available"),
    CLOSED: (frozenset({"pending", "available"}), "closed"),
}
"""The states in which a connection may be at an event, and the state after it."""

_OF_POOL: Final[Mapping[str, tuple[str, ...]]] = {
    POOL_CREATED: ("unknown",),
    POOL_READY: ("paused",),
    POOL_CLEARED: ("ready",),
    POOL_CLOSED: ("paused", "ready"),
    CHECK_OUT_STARTED: ("paused", "ready", "closed"),
}
"""The states in which a pool may be at an event."""


@dataclass(slots=True)
class PoolLife:
    """A pool as its events have told of it. Behind a load balancer (`services`) a clear pauses nothing.

    Unless `exact`, several threads tell events: a check-out that was under way at a clear or a close may be
    told of after it.
    """

    max_connecting: int = 2
    max_pool_size: int = 100
    services: bool = False
    exact: bool = True
    state: str = "unknown"
    connections: dict[int, str] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    asking: int = 0
    overtaken: int = 0
    """How many check-outs were under way at the last clear or close."""
    lost: set[int] = field(default_factory=set)
    """The connections that were lost under a command, in the present generation."""
    since: dict[int, float] = field(default_factory=dict)
    """When each connection came into its present state."""
    used: set[int] = field(default_factory=set)
    """The connections that were checked out once."""
    cleared: float = -inf
    """When the pool was cleared last."""

    def take(
        self, kind: str, connection: int | None = None, *, at: float = 0.0, of_service: bool = False
    ) -> Iterator[str]:
        """Take an event in, and yield what must not have been told then."""
        if kind in NEXT:
            assert connection is not None
            self.since[connection] = at
            yield from self._of_connection(kind, connection)
            return
        # One service of many: the pool goes on, and which connections are stale nobody can tell from here.
        if kind == POOL_CLEARED and of_service:
            return
        if kind in _OF_POOL:
            yield from self._expect(_name(kind), *_OF_POOL[kind])
        match kind:
            case "poolCreatedEvent":
                self.state = "paused"
            case "poolReadyEvent":
                self.state = "ready"
            case "poolClearedEvent":
                self.state, self.generation, self.cleared = "paused", self.generation + 1, at
                self.overtaken = self.asking
            case "poolClosedEvent":
                self.state, self.overtaken = "closed", self.asking
            case "connectionCheckOutStartedEvent":
                self.asking += 1
            case "connectionCheckOutFailedEvent":
                yield from self._answer(_name(kind))

    def is_stale(self, number: int) -> bool:
        """Return whether a connection is of an older generation than its pool."""
        return self.generations.get(number, self.generation) < self.generation

    def available(self) -> Iterator[int]:
        """Yield the numbers of the connections that may be lent, stale ones left out."""
        return (
            number
            for number, state in self.connections.items()
            if state == "available" and not self.is_stale(number)
        )

    def at_end(self) -> Iterator[str]:
        """Yield what a closed pool has kept; of one that is open still, nothing can be said."""
        if self.state != "closed":
            return
        for number, state in self.connections.items():
            if state != "closed":
                yield f"connection {number} is {state} though the pool was closed"
        if self.asking > 0:
            yield f"{self.asking} check-outs never ended"

    def _expect(self, name: str, *states: str) -> Iterator[str]:
        if self.state not in states:
            yield f"{name} of a pool that is {self.state}"

    def _answer(self, name: str) -> Iterator[str]:
        self.asking -= 1
        if self.asking < 0:
            yield f"{name} without a check-out that had started"

    def _of_connection(self, kind: str, number: int) -> Iterator[str]:
        allowed, following = NEXT[kind]
        state = self.connections.get(number, "unknown")
        if state not in allowed:
            yield f"{_name(kind)} of connection {number}, which is {state}"
        self.connections[number] = following
        if kind in _MORE:
            yield from _MORE[kind](self, number)

    def _created(self, number: int) -> Iterator[str]:
        self.generations[number] = self.generation
        yield from self._expect(f"connectionCreated {number}", "ready")
        states = list(self.connections.values())
        pending, open_ = states.count("pending"), len(states) - states.count("closed")
        if pending > self.max_connecting:
            yield f"{pending} connections are established at once, {self.max_connecting} allowed"
        # 0 stands for no maximum.
        if open_ > self.max_pool_size > 0:
            yield f"{open_} connections, {self.max_pool_size} allowed"

    def _checked_out(self, number: int) -> Iterator[str]:
        self.used.add(number)
        yield from self._answer(f"connectionCheckedOut {number}")
        # Each check-out that was under way at the clear excuses one connection that is told of late.
        if (self.is_stale(number) or self.state != "ready") and self.overtaken and not self.exact:
            self.overtaken -= 1
        elif self.is_stale(number):
            yield f"connection {number} was checked out after the clear that made it stale"
        else:
            yield from self._expect(f"connectionCheckedOut {number}", "ready")

    def _checked_in(self, number: int) -> Iterator[str]:
        if number in self.lost and not self.is_stale(number) and self.state == "ready":
            yield f"connection {number} was lost under a command, and the pool was not cleared"
        self.lost.discard(number)


def _name(kind: str) -> str:
    return kind.removesuffix("Event")


_MORE: Final[Mapping[str, Callable[[PoolLife, int], Iterator[str]]]] = {
    CREATED: PoolLife._created,  # noqa: SLF001 - its own class, above
    CHECKED_OUT: PoolLife._checked_out,  # noqa: SLF001
    CHECKED_IN: PoolLife._checked_in,  # noqa: SLF001
}
"""What else is asked at an event of a connection."""
