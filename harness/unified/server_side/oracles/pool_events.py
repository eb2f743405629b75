"""The events of a trace's pools, each with the pool as it was before, and beside them those of servers.

`lives` yields and waits: the reader looks at pool and event, then calls `take`, and only then asks for the
next one. That lets an oracle see the state both before and after an event, and makes it the oracle's duty not
to leave one out. A pool is told apart by its client and its address; one that is created after its
predecessor was closed is another pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles.pool_life import (
    KINDS,
    POOL_CLEARED,
    POOL_CLOSED,
    POOL_CREATED,
    POOL_READY,
    PoolLife,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import Event
    from harness.unified.server_side.oracles.trace import Trace, TracedClient


def final_lives(trace: Trace, client: TracedClient) -> Iterator[tuple[str, PoolLife, float]]:
    """Yield each pool at the end, with the instant of its last event."""
    last: dict[str, tuple[PoolLife, float]] = {}
    for where, life, event in lives(trace, client):
        last[where] = life, event.at
        take(life, event)
    yield from ((where, life, at) for where, (life, at) in last.items())


def lives(trace: Trace, only: TracedClient | None = None) -> Iterator[tuple[str, PoolLife, Event]]:
    """Yield each event of a pool with the pool as it was before: whoever reads it has it take the event."""
    for client in trace.clients if only is None else (only,):
        pools: dict[str, PoolLife] = {}
        for event in client.of_kind(*KINDS):
            address = event.fields["address"]
            life = pools.get(address)
            if life is None or (event.kind == POOL_CREATED and life.state == "closed"):
                # A server that is removed and discovered again has another pool.
                life = pools[address] = PoolLife(
                    max_connecting=client.options.get("maxConnecting", 2),
                    max_pool_size=client.options.get("maxPoolSize", 100),
                    services=trace.topology is Topology.LOAD_BALANCED,
                    exact=trace.timing.round_trip is not None,
                )
            yield f"pool of {address} in {client.name}", life, event


def take(life: PoolLife, event: Event) -> tuple[str, ...]:
    """Have a pool take an event, and return what must not have been told then."""
    of_service = event.kind == POOL_CLEARED and (life.services or event.fields.get("serviceId") is not None)
    return tuple(life.take(event.kind, event.fields.get("connectionId"), at=event.at, of_service=of_service))


DESCRIBED: Final = "serverDescriptionChangedEvent"
TOPOLOGY_CLOSED: Final = "topologyClosedEvent"
UNKNOWN: Final = "Unknown"


def pools_follow_their_servers(trace: Trace) -> Iterator[str]:
    """SDAM: Error Handling, Connection Pool Management; SDAM Logging and Monitoring: Events.

    A server is Unknown before its pool is cleared: who was refused there does not select it again. Its pool
    is ready before it is known: who selects it does not meet a paused pool.
    """
    # On the wall clock a driver may tell of pools and of servers from two threads.
    if trace.topology is Topology.LOAD_BALANCED or trace.timing.round_trip is None:
        return
    for client in trace.clients:
        yield from _out_of_order(client)


def _out_of_order(client: TracedClient) -> Iterator[str]:
    types: dict[str, str] = {}
    open_: set[str] = set()
    for event in client.of_kind(DESCRIBED, TOPOLOGY_CLOSED, *KINDS):
        if event.kind == DESCRIBED:
            described = event.fields["newDescription"]
            types[described.get("address", event.fields.get("address"))] = described["type"]
            continue
        address = event.fields.get("address", "")
        known = types.get(address, UNKNOWN)
        if event.kind == TOPOLOGY_CLOSED and open_:
            yield f"{client.name} told that its topology is closed before the pool of {min(open_)} was"
        elif event.kind == POOL_CREATED:
            open_.add(address)
        elif event.kind == POOL_CLOSED:
            open_.discard(address)
        elif event.kind == POOL_CLEARED and known != UNKNOWN:
            yield f"{client.name} cleared the pool of {address} while it was {known}, and not Unknown"
        elif event.kind == POOL_READY and known != UNKNOWN:
            yield f"{client.name} told that {address} is {known} before its pool was ready"
