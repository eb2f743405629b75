"""The data of a deployment as the control sees them: documents put in and taken away, snapshots.

Every member has these changes at once. What is seeded or dropped is in the oplog, as if a client had done it;
a snapshot that is restored is not: the history ends there, so that change streams and reads of earlier times
fail as on a server whose oplog no longer reaches back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.commands.writes.writing import check_id, check_limits
from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Changed, Namespace
from fakeserver.storage.port.oplog import Written
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.config_server import ClusterMetadata
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store import catalog
    from fakeserver.storage.store.catalog import Collection

_SPARED: Final = ("hello", "isMaster", "pushbackd")


class DataSnapshot(NamedTuple):
    """The data at one instant, and where a sharded cluster has them."""

    contents: catalog.Snapshot
    metadata: ClusterMetadata | None
    collections: int
    documents: int


def take(cluster: Cluster) -> DataSnapshot:
    """Return a snapshot of all data."""
    held = [each.ns for each in cluster.catalog if not each.is_view]
    documents = sum(cluster.catalog.engine.stats(ns).count for ns in held)
    metadata = None if cluster.config is None else cluster.config.state()
    return DataSnapshot(cluster.catalog.snapshot(), metadata, len(held), documents)


def restore(cluster: Cluster, snapshot: DataSnapshot) -> None:
    """Bring a snapshot back; whatever works with the present data is interrupted first."""
    interrupt(cluster)
    for shard in cluster.shards:
        shard.abandon_histories()
    cluster.transactions.abort_all()
    cluster.catalog.restore(snapshot.contents)
    if cluster.config is not None and snapshot.metadata is not None:
        cluster.config.restore(snapshot.metadata)
    cluster.oplog.forget()
    cluster.replication.ring()


def interrupt(cluster: Cluster) -> None:
    """End the requests that wait or give way, but for hellos and verbs: clients keep what they know."""
    error = CommandError(ErrorCode.INTERRUPTED, "operation was interrupted by the control")
    for node in cluster.servers:
        for connection in list(node.connections.values()):
            waiting = connection.waiting
            if waiting is not None and waiting.name not in _SPARED:
                connection.interrupt(waiting, error.copy())


def insert(cluster: Cluster, ns: Namespace, documents: Sequence[Document]) -> int:
    """Insert documents, all or none, and make their collection. Raises `CommandError`."""
    catalog = cluster.catalog
    there = catalog.get(ns)
    # The documents that a capped collection has pushed out, only a snapshot has.
    before = catalog.snapshot() if there is not None and there.is_capped else None
    collection, made = catalog.ensure(ns)
    changes: list[Written] = []
    try:
        _insert(cluster, collection, documents, changes)
    except BaseException:
        if before is not None:
            catalog.restore(before)
        for written in reversed(changes if before is None else ()):
            catalog.engine.put(ns, written.change.undone)
        if made:
            catalog.drop(ns)
        raise
    if made:
        cluster.oplog.append((collection.creation,))
    for written in changes:
        cluster.oplog.append((written,))
    return len(changes)


def _insert(
    cluster: Cluster, collection: Collection, documents: Sequence[Document], changes: list[Written]
) -> None:
    """Insert documents, and enter what has changed in `changes`. Raises `CommandError`."""
    ns, images, transactions = collection.ns, collection.keeps_images, cluster.transactions
    engine, ids = cluster.catalog.engine, cluster.nodes[0].object_ids

    def accept(change: Changed) -> None:
        assert change.after is not None
        collection.validate(change.after)
        if transactions.holders and transactions.holds(ns, change):
            raise CommandError(ErrorCode.WRITE_CONFLICT, f"an open transaction writes to {ns}")
        changes.append(Written(ns, change, collection.uuid, images=images))

    for document in documents:
        check_limits(document)
        complete = document if "_id" in document else {"_id": ids.new(), **document}
        check_id(complete["_id"])
        engine.insert(ns, complete, accept=accept)


def drop(cluster: Cluster, ns: Namespace) -> None:
    """Drop a collection or a view, and have its cursors answer 175 QueryPlanKilled."""
    dropped = cluster.catalog.drop(ns)
    if dropped is None:
        return
    change = Changed(None, {"drop": ns.collection})
    detail: dict[str, Any] = {"nsType": dropped.kind}
    cluster.oplog.append((Written(Namespace(ns.db, "$cmd"), change, dropped.uuid, detail=detail),))
    for node in cluster.servers:
        node.cursors.invalidate(ns, CommandError(ErrorCode.QUERY_PLAN_KILLED, "collection dropped"))


def rename(cluster: Cluster, ns: Namespace, to: Namespace) -> None:
    """Give a collection another name: its change streams end, and its cursors answer 175 QueryPlanKilled.

    Raises `CommandError` where the name is taken, and while an open transaction uses the collection, for
    whose end the command of a client would wait.
    """
    catalog = cluster.catalog
    collection = catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"there is no collection {ns}")
    if catalog.get(to) is not None:
        raise CommandError(ErrorCode.NAMESPACE_EXISTS, f"there is a collection {to} already")
    if cluster.transactions.blocks([str(ns), str(to)]):
        raise CommandError(ErrorCode.WRITE_CONFLICT, f"an open transaction uses {ns}")
    catalog.rename(ns, to)
    entry = {"renameCollection": str(ns), "to": str(to), "stayTemp": False}
    change = Changed(None, entry)
    cluster.oplog.append((Written(Namespace(ns.db, "$cmd"), change, collection.uuid, detail={}),))
    for node in cluster.servers:
        node.cursors.invalidate(ns, CommandError(ErrorCode.QUERY_PLAN_KILLED, "collection renamed"))
