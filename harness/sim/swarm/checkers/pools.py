"""Pools keep to the grammar of their events, and to their sizes (Connection Monitoring and Pooling)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver import events
from driver.errors import NetworkError
from harness.sim.swarm.checkers.checker import Violation, checker
from harness.unified.server_side.oracles.pool_life import PoolLife

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.swarm.history import RunHistory


@checker("pools", "Pools keep to the grammar of their events and to their sizes.")
def pools(history: RunHistory) -> Iterator[Violation]:
    """Yield each event that its pool must not have told then, and what a closed pool has kept.

    Behind a load balancer a clear concerns one service and pauses nothing, so staleness is not judged there.
    """
    clients = {client.number: client for client in history.clients}
    lives: dict[tuple[int, str], PoolLife] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, events.CommandFailedEvent):
            _command_failed(event, lives.get((heard.client, event.connection_id)))
        if not isinstance(event, events.PoolEvent) or heard.client not in clients:
            continue
        key, client = (heard.client, event.address), clients[heard.client]
        if key not in lives or (event.kind == events.PoolCreatedEvent.kind and lives[key].state == "closed"):
            # A server that is removed and discovered again has another pool.
            yield from _at_end(*key, lives.get(key))
            lives[key] = PoolLife(max_connecting=client.max_connecting, max_pool_size=client.max_pool_size)
        where = f"pool of {event.address} in client {heard.client}"
        yield from (Violation(f"{where}: {why} at {heard.at:g} s") for why in _take(lives[key], event))
    for key, pool in lives.items():
        yield from _at_end(*key, pool)


def _take(pool: PoolLife, event: events.PoolEvent) -> Iterator[str]:
    number = event.connection_id if isinstance(event, events.ConnectionEvent) else None
    of_service = isinstance(event, events.PoolClearedEvent) and event.service_id is not None
    yield from pool.take(event.kind, number, of_service=of_service)


def _command_failed(event: events.CommandFailedEvent, pool: PoolLife | None) -> None:
    """Note a connection that was lost: whoever was connected to that server is, too (SDAM: Error handling).

    A timeout says less. Nobody monitors what is behind a load balancer, so it is for its service alone.
    """
    failure = event.failure
    if pool is None or event.service_id is not None or type(failure) is not NetworkError:
        return
    if not failure.timed_out and str(failure) != _CANCELLED:
        pool.lost.add(event.driver_connection_id)


_CANCELLED: Final = "cancelled"
"""What the failure of a command says whose task was cancelled."""


def _at_end(client: int, address: str, pool: PoolLife | None) -> Iterator[Violation]:
    """Yield what a closed pool has kept."""
    where = f"pool of {address} in client {client}"
    yield from (Violation(f"{where}: {why}") for why in (pool.at_end() if pool is not None else ()))
