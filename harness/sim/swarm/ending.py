"""The facts of an ending: what members hold, the order of all writes, and what should be gone and is not."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Final

from bson import Timestamp

from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from fakeserver.sessions.transactions import State
from fakeserver.storage.port.engine import Namespace, Query
from harness.sim.swarm.history import DELETION, Leftover, Logged, MajorityReached, RolledBack
from harness.sim.swarm.workload import DATABASE, SHARED
from harness.unified.server_side.seen import SeenRequest, document_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from driver import AsyncClient
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.network.wire_entries import Entry
    from fakeserver.storage.port.oplog import OplogEntry, OpTime, Written
    from fakeserver.storage.store.catalog import Catalog

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
    return tuple(_logged(cluster.oplog.after(_BEFORE_ALL)))


def rolled_back_of(cluster: Cluster, log: Sequence[Logged]) -> tuple[RolledBack, ...]:
    """Return what members have rolled back, each with the number of writes in the log that they kept."""
    found: dict[RolledBack, None] = {}
    for node in cluster.servers:
        for each in node.position.rollbacks:
            kept = sum(entry.time <= each.common for entry in log)
            found[RolledBack(kept, tuple(_logged(each.entries)))] = None
    return tuple(found)


def _logged(entries: Iterable[OplogEntry]) -> Iterator[Logged]:
    """Yield the writes of the workload among operations."""
    for entry in entries:
        for written in entry.changes:
            if written.ns.db == DATABASE:
                yield from _write(written, entry.optime)


def _write(written: Written, time: OpTime) -> Iterator[Logged]:
    before, after, collection = written.change.before, written.change.after, written.ns.collection
    if after is not None:
        if "last" in after:
            yield Logged(after["last"], f"{collection}:{after['_id']}", time)
    elif before is not None and collection == "document":
        yield Logged(DELETION, f"{collection}:{before['_id']}", time)


class Majority:
    """Notes how far the majority of a replica set has come, whenever that changes."""

    def __init__(self, cluster: Cluster) -> None:
        self.reached: list[MajorityReached] = []
        self._cluster = cluster
        self._first = cluster.history
        if cluster.replica_set is not None and not cluster.routers:
            self._positions_changed()
            self._oplog_grew()

    @property
    def parted(self) -> bool:
        """Whether another history has begun since."""
        return self._cluster.history is not self._first

    def _positions_changed(self) -> None:
        self._note()
        self._cluster.replication.listen(self._positions_changed)

    def _oplog_grew(self) -> None:
        self._note()
        # Rung as well when another history begins, which has an oplog of its own.
        self._cluster.oplog.grown.listen(self._oplog_grew)

    def _note(self) -> None:
        time = self._cluster.majority()
        if not self.reached or self.reached[-1].time < time:
            self.reached.append(MajorityReached(self._cluster.clock.now(), time))


def requests_in(entries: Sequence[Entry]) -> tuple[SeenRequest, ...]:
    """Return the requests of the workload that servers received, in their order.

    Others are dropped before they are decoded: most messages are hellos.
    """
    accepted: dict[int, Accepted] = {}
    asked: dict[tuple[int, int], Received] = {}
    answered: dict[tuple[int, int], Sent] = {}
    closed: dict[int, Closed] = {}
    for entry in entries:
        if isinstance(entry, Received):
            if _is_of_workload(entry):
                asked[entry.connection, entry.envelope.request_id] = entry
        elif isinstance(entry, Sent):
            key = entry.connection, entry.envelope.response_to
            if key in asked:
                answered.setdefault(key, entry)
        elif isinstance(entry, Accepted):
            accepted[entry.connection] = entry
        else:
            closed.setdefault(entry.connection, entry)
    return tuple(
        _seen(accepted[key[0]], request, answered.get(key), closed.get(key[0]))
        for key, request in asked.items()
    )


def _is_of_workload(received: Received) -> bool:
    return any(name in received.envelope.payload for name in _MARKS)


def _seen(accepted: Accepted, request: Received, reply: Sent | None, closed: Closed | None) -> SeenRequest:
    last = closed if reply is None else reply
    return SeenRequest(
        seq=request.seq,
        at=request.at,
        connection=request.connection,
        server=accepted.server,
        role=request.role,
        request_id=request.envelope.request_id,
        size=request.envelope.wire_size,
        command=document_of(request.envelope),
        reply=None if reply is None else document_of(reply.envelope),
        end="reply" if reply is not None else "open" if closed is None else closed.by,
        ended=inf if last is None else last.at,
        ended_seq=inf if last is None else last.seq,
        accepted=accepted.at,
    )


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
        for limiter in (admission.requests, admission.establishment):
            if limiter.queued:
                yield Leftover("token", f"{node.name}: {limiter.queued} wait for one of {limiter.name}")
    yield from _transactions_of(cluster)


def _transactions_of(cluster: Cluster) -> Iterator[Leftover]:
    """Yield the transactions that are open beyond their lifetime, and the claims of those that have ended."""
    transactions = cluster.transactions
    transactions.expire(cluster.clock.now())
    for transaction in transactions.open.values():
        yield Leftover("transaction", f"number {transaction.number}")
    for (ns, key), holder in transactions.holders.items():
        if holder.state is not State.IN_PROGRESS:
            yield Leftover("claim", f"{ns} {key} of number {holder.number}")


def sessions_of(cluster: Cluster) -> tuple[bytes, ...]:
    """Return the ids of the sessions that no client has ended."""
    return tuple(session.id for session in cluster.sessions.live())


def cursors_of(cluster: Cluster) -> tuple[tuple[str, int], ...]:
    """Return server and id of each open cursor."""
    return tuple((node.name, cursor.id) for node in cluster.servers for cursor in node.cursors)


def tasks_left() -> Iterator[Leftover]:
    """Yield the tasks besides this one that have not ended, when all clients and servers have."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        yield Leftover("task", task.get_name())
