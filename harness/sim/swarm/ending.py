"""The facts of an ending: what members hold, the order of all writes, and what should be gone and is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from bson import Timestamp

from fakeserver.network.wire_entries import Received
from fakeserver.storage.engine import Namespace, Query
from harness.sim.swarm.history import Leftover, Logged
from harness.sim.swarm.workload import DATABASE, SHARED
from harness.unified.server_side.seen import connections_of, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from driver import AsyncClient
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.network.wire_entries import Entry
    from fakeserver.storage.catalog import Catalog
    from harness.unified.server_side.seen import SeenRequest

_MARKS: Final = (b"comment", b"commitTransaction", b"abortTransaction")
"""What the commands of the workload have in them; those that end transactions have no comment."""
_BEFORE_ALL: Final = Timestamp(0, 0)


def documents_of(cluster: Cluster) -> Mapping[str, Mapping[str, Any]]:
    """Return the values by key of each member that holds data."""
    by_catalog: dict[int, Mapping[str, Any]] = {}
    found: dict[str, Mapping[str, Any]] = {}
    for node in cluster.servers:
        if not node.is_mongos:
            held = by_catalog.get(id(node.catalog))
            if held is None:
                held = by_catalog[id(node.catalog)] = dict(_documents(node.catalog))
            found[node.name] = held
    return found


def _documents(catalog: Catalog) -> Iterator[tuple[str, Any]]:
    counts: dict[str, int] = {}
    for document in _all(catalog, "document"):
        key = f"document:{document['_id']}"
        counts[key] = counts.get(key, 0) + 1
    yield from counts.items()
    for name in SHARED:
        for document in _all(catalog, name):
            value = document["value"]
            yield f"{name}:{document['_id']}", tuple(value) if isinstance(value, list) else value


def _all(catalog: Catalog, name: str) -> Sequence[Mapping[str, Any]]:
    ns = Namespace(DATABASE, name)
    return [] if catalog.get(ns) is None else catalog.engine.find(ns, Query({}))


def log_of(cluster: Cluster) -> tuple[Logged, ...]:
    """Return every write of the workload, in the order of the oplog."""
    entries = cluster.oplog.after(_BEFORE_ALL)
    return tuple(
        Logged(after["last"], f"{written.ns.collection}:{after['_id']}")
        for entry in entries
        for written in entry.changes
        if written.ns.db == DATABASE and (after := written.change.after) is not None and "last" in after
    )


def requests_in(entries: Sequence[Entry]) -> tuple[SeenRequest, ...]:
    """Return the requests of the workload that servers received, in their order.

    Others are dropped before they are decoded: most messages are hellos.
    """
    kept = [each for each in entries if not isinstance(each, Received) or _is_of_workload(each)]
    return requests_of(connections_of(kept))


def _is_of_workload(received: Received) -> bool:
    return any(name in received.envelope.payload for name in _MARKS)


def busy(number: int, client: AsyncClient) -> Iterator[Leftover]:
    """Yield what a client still uses when its operations have all ended."""
    for address in client.topology.description.servers:
        server = client.topology.server(address)
        if server is None:
            continue
        state = server.pool.state
        if state.in_use:
            yield Leftover("connection", f"client {number}: {state.in_use} to {address} in use")
        if state.waiting:
            yield Leftover("waiter", f"client {number}: {len(state.waiting)} wait for {address}")


def left_on(cluster: Cluster) -> Iterator[Leftover]:
    """Yield what servers still hold when all clients have gone."""
    for node in cluster.servers:
        for connection in node.connections.values():
            yield Leftover("server connection", f"{node.name}: connection {connection.state.id}")
        admission = node.admission
        for name in ("read", "write"):
            out = admission.execution.holder(name).out
            if out:
                yield Leftover("ticket", f"{node.name}: {out} to {name}")
        if admission.requests.queued:
            yield Leftover("token", f"{node.name}: {admission.requests.queued} wait for one")


def tasks_left() -> Iterator[Leftover]:
    """Yield the tasks besides this one that have not ended, when all clients and servers have."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        yield Leftover("task", task.get_name())
