"""The events of a trace's pools, each with the life of its pool as it was before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.unified.deployment import Topology
from harness.unified.server_side.oracles.pool_life import KINDS, POOL_CLEARED, POOL_CREATED, PoolLife

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
