"""Pools keep to the grammar of their events, and to their sizes (Connection Monitoring and Pooling).

A pool is created, then ready and cleared in turns, then closed. A connection is created, ready, checked out
and in any number of times, and closed once. Behind a load balancer a clear concerns one service and pauses
nothing, so staleness is not judged there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from driver import events
from driver.errors import NetworkError
from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.sim.swarm.history import ClientSetup, Heard, RunHistory

NEXT: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    events.ConnectionCreatedEvent.kind: (frozenset({"unknown"}), "pending"),
    events.ConnectionReadyEvent.kind: (frozenset({"pending"}), "available"),
    events.ConnectionCheckedOutEvent.kind: (frozenset({"available"}), "in use"),
    events.ConnectionCheckedInEvent.kind: (frozenset({"in use"}), "available"),
    events.ConnectionClosedEvent.kind: (frozenset({"pending", "available"}), "closed"),
}
"""The states in which a connection may be at an event, and the state after it."""


@dataclass(slots=True)
class _Pool:
    """What events have told of one pool."""

    client: ClientSetup
    state: str = "unknown"
    connections: dict[int, str] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    asking: int = 0
    lost: set[int] = field(default_factory=set)
    """The connections that were lost under a command, in the present generation."""


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each event that its pool must not have told then, and what a closed pool has kept."""
    clients = {client.number: client for client in history.clients}
    pools: dict[tuple[int, str], _Pool] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, events.CommandFailedEvent):
            _command_failed(event, pools.get((heard.client, event.connection_id)))
        if not isinstance(event, events.PoolEvent) or heard.client not in clients:
            continue
        key = heard.client, event.address
        if key not in pools or (event.kind == events.PoolCreatedEvent.kind and pools[key].state == "closed"):
            # A server that is removed and discovered again has another pool.
            yield from _at_end(*key, pools.get(key))
            pools[key] = _Pool(clients[heard.client])
        where = f"pool of {event.address} in client {heard.client}"
        yield from (Violation(f"{where}: {why} at {heard.at:g} s") for why in _take(pools[key], heard))
    for key, pool in pools.items():
        yield from _at_end(*key, pool)


def _command_failed(event: events.CommandFailedEvent, pool: _Pool | None) -> None:
    """Note a connection that was lost: whoever was connected to that server is, too (SDAM: Error handling).

    A timeout says less. Nobody monitors what is behind a load balancer, so it is for its service alone.
    """
    failure = event.failure
    if pool is None or event.service_id is not None or type(failure) is not NetworkError:
        return
    if not failure.timed_out and str(failure) != _CANCELLED:
        pool.lost.add(event.driver_connection_id)


def _take(pool: _Pool, heard: Heard) -> Iterator[str]:
    event = heard.event
    if isinstance(event, events.ConnectionEvent):
        yield from _of_connection(pool, event)
    else:
        yield from _of_pool(pool, event)


def _of_pool(pool: _Pool, event: events.DriverEvent) -> Iterator[str]:
    name = event.kind.removesuffix("Event")
    match event:
        case events.PoolCreatedEvent():
            yield from _expect(pool, name, "unknown")
            pool.state = "paused"
        case events.PoolReadyEvent():
            yield from _expect(pool, name, "paused")
            pool.state = "ready"
        case events.PoolClearedEvent(service_id=None):
            yield from _expect(pool, name, "ready")
            pool.state, pool.generation = "paused", pool.generation + 1
        case events.PoolClosedEvent():
            yield from _expect(pool, name, "paused", "ready")
            pool.state = "closed"
        case events.ConnectionCheckOutStartedEvent():
            yield from _expect(pool, name, "paused", "ready", "closed")
            pool.asking += 1
        case events.ConnectionCheckOutFailedEvent():
            yield from _answer(pool, name)
        case _:
            pass


def _expect(pool: _Pool, name: str, *states: str) -> Iterator[str]:
    if pool.state not in states:
        yield f"{name} of a pool that is {pool.state}"


def _answer(pool: _Pool, name: str) -> Iterator[str]:
    pool.asking -= 1
    if pool.asking < 0:
        yield f"{name} without a check-out that had started"


def _of_connection(pool: _Pool, event: events.ConnectionEvent) -> Iterator[str]:
    name, number = event.kind.removesuffix("Event"), event.connection_id
    allowed, following = NEXT[event.kind]
    state = pool.connections.get(number, "unknown")
    if state not in allowed:
        yield f"{name} of connection {number}, which is {state}"
    pool.connections[number] = following
    if event.kind in _MORE:
        yield from _MORE[event.kind](pool, number)


def _created(pool: _Pool, number: int) -> Iterator[str]:
    pool.generations[number] = pool.generation
    yield from _expect(pool, f"connectionCreated {number}", "ready")
    states = list(pool.connections.values())
    pending, open_ = states.count("pending"), len(states) - states.count("closed")
    if pending > pool.client.max_connecting:
        yield f"{pending} connections are established at once, {pool.client.max_connecting} allowed"
    if open_ > pool.client.max_pool_size > 0:
        yield f"{open_} connections, {pool.client.max_pool_size} allowed"


def _checked_out(pool: _Pool, number: int) -> Iterator[str]:
    yield from _answer(pool, f"connectionCheckedOut {number}")
    if pool.generations.get(number, pool.generation) < pool.generation:
        yield f"connection {number} was checked out after the clear that made it stale"
    else:
        yield from _expect(pool, f"connectionCheckedOut {number}", "ready")


def _checked_in(pool: _Pool, number: int) -> Iterator[str]:
    stale = pool.generations.get(number, pool.generation) < pool.generation
    if number in pool.lost and not stale and pool.state == "ready":
        yield f"connection {number} was lost under a command, and the pool was not cleared"
    pool.lost.discard(number)


_CANCELLED: Final = "cancelled"
"""What the failure of a command says whose task was cancelled."""

_MORE: Final[Mapping[str, Callable[[_Pool, int], Iterator[str]]]] = {
    events.ConnectionCreatedEvent.kind: _created,
    events.ConnectionCheckedOutEvent.kind: _checked_out,
    events.ConnectionCheckedInEvent.kind: _checked_in,
}
"""What else is asked at an event of a connection."""


def _at_end(client: int, address: str, pool: _Pool | None) -> Iterator[Violation]:
    """Yield what a closed pool has kept; of one that is open still, nothing can be said."""
    if pool is None or pool.state != "closed":
        return
    where = f"pool of {address} in client {client}"
    for number, state in pool.connections.items():
        if state != "closed":
            yield Violation(f"{where}: connection {number} is {state} though the pool was closed")
    if pool.asking > 0:
        yield Violation(f"{where}: {pool.asking} check-outs never ended")
