"""The metadata of a sharded cluster: shards, databases, sharded collections.

The shards of this cluster share one store (docs/adr/0008), so that the home of a document is an entry in the
collections of `config`, and nothing more. A mongos waits for the primary of the shard that a database is on.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from bson import Binary, Int64, MaxKey, MinKey, ObjectId, Timestamp

from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.store.catalog import BUILT_IN, Collection
from mongowire.ids import ObjectIds, uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.profile import Profile
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.port.oplog import Oplog
    from fakeserver.storage.store.catalog import Catalog
    from mongowire.ports import Clock, Rng

_COLLECTIONS: Final = ("chunks", "collections", "databases", "mongos", "settings", "shards", "version")


class RoutedShard(Protocol):
    """A replica set of the cluster."""

    @property
    def name(self) -> str:
        """The name of the shard, which is that of the set."""

    @property
    def connection_string(self) -> str:
        """The set as `config.shards` has it."""


class ClusterRouter(Protocol):
    """A mongos of the cluster."""

    profile: Profile

    @property
    def address(self) -> str:
        """`host:port`."""


S = TypeVar("S", bound=RoutedShard)
S_co = TypeVar("S_co", bound=RoutedShard, covariant=True)


class RoutedCluster(Protocol[S_co]):
    """The sharded cluster that the metadata are of."""

    catalog: Catalog
    clock: Clock
    oplog: Oplog
    rng: Rng

    @property
    def shards(self) -> Sequence[S_co]:
        """Its shards."""

    @property
    def routers(self) -> Sequence[ClusterRouter]:
        """Its mongos."""


class ClusterMetadata(NamedTuple):
    """The metadata that are kept beside the collections of `config`."""

    balancing: bool
    homes: Mapping[str, Any]
    keys: Mapping[Namespace, tuple[Binary | None, dict[str, Any]]]


class ConfigServer(Generic[S]):
    """The metadata of a sharded cluster. `balancing` says whether the balancer may run."""

    def __init__(self, cluster: RoutedCluster[S]) -> None:
        """Enter what never changes: the cluster's identity, its shards and its mongos."""
        self.balancing = True
        self._cluster = cluster
        self._homes: dict[str, S] = {}
        self._keys: dict[Namespace, tuple[Binary | None, dict[str, Any]]] = {}
        for name in _COLLECTIONS:
            cluster.catalog.create(Namespace("config", name), {})
        self._ids = ObjectIds(cluster.clock, cluster.rng)
        self._insert("version", {"_id": 1, "clusterId": self._object_id()})
        for document in self.shards():
            self._insert("shards", document)
        for router in cluster.routers:
            now = datetime.fromtimestamp(self._cluster.clock.utc(), UTC)
            self._insert(
                "mongos",
                {
                    "_id": router.address,
                    "advisoryHostFQDNs": [],
                    "created": now,
                    "mongoVersion": router.profile.version,
                    "ping": now,
                    "up": Int64(0),
                    "waiting": True,
                },
            )

    def shards(self) -> list[Document]:
        """Return the shards as `config.shards` and `listShards` show them."""
        return [
            {
                "_id": shard.name,
                "host": shard.connection_string,
                "state": 1,
                "topologyTime": Timestamp(1, number + 1),
            }
            for number, shard in enumerate(self._cluster.shards)
        ]

    def state(self) -> ClusterMetadata:
        """Return what is kept beside the collections of `config`, to be restored with them."""
        return ClusterMetadata(self.balancing, dict(self._homes), dict(self._keys))

    def restore(self, metadata: ClusterMetadata) -> None:
        """Take back what `state` returned."""
        self.balancing = metadata.balancing
        self._homes, self._keys = dict(metadata.homes), dict(metadata.keys)

    def home_of(self, db: str) -> S:
        """Return the shard that a database is on: the built-in ones are on the first."""
        self.register_databases()
        return self._homes.get(db, self._cluster.shards[0])

    def register_databases(self) -> None:
        """Bring `config.databases` up to date: each new database goes to the shard that has the fewest."""
        catalog = self._cluster.catalog
        there = [name for name in catalog.databases() if name not in BUILT_IN]
        if there == list(self._homes):
            return
        homes = {name: self._homes.get(name) for name in there}
        for name in there:
            if homes[name] is None:
                taken = [shard for shard in homes.values() if shard is not None]
                shard = homes[name] = min(self._cluster.shards, key=taken.count)
                at = self._cluster.oplog.last.timestamp
                version = {"uuid": uuid(self._cluster.rng), "timestamp": at, "lastMod": 1}
                self._insert("databases", {"_id": name, "primary": shard.name, "version": version})
        for name in [name for name in self._homes if name not in homes]:
            self._delete("databases", {"_id": name})
        self._homes = {name: shard for name, shard in homes.items() if shard is not None}

    def key_of(self, ns: Namespace) -> Mapping[str, Any] | None:
        """Return the shard key of a collection, None where it is not sharded.

        A collection that was dropped is sharded no more, though another may have its name by now.
        """
        if ns not in self._keys:
            return None
        uuid_then, key = self._keys[ns]
        collection = self._cluster.catalog.get(ns)
        if collection is None or collection.uuid != uuid_then:
            self._forget(ns)
            return None
        return key

    def shard_collection(self, collection: Collection, key: dict[str, Any], *, unique: bool) -> None:
        """Enter a collection as sharded by `key`: one chunk, on the shard of its database."""
        cluster, ns = self._cluster, collection.ns
        self._forget(ns)
        self._keys[ns] = (collection.uuid, key)
        now = datetime.fromtimestamp(cluster.clock.utc(), UTC)
        entry = {
            "_id": str(ns),
            "lastmodEpoch": self._object_id(),
            "lastMod": now,
            "timestamp": cluster.oplog.last.timestamp,
            "uuid": collection.uuid,
            "key": key,
            "unique": unique,
            "noBalance": False,
        }
        self._insert("collections", entry)
        chunk = {
            "_id": self._object_id(),
            "uuid": collection.uuid,
            "min": dict.fromkeys(key, MinKey()),
            "max": dict.fromkeys(key, MaxKey()),
            "shard": self.home_of(ns.db).name,
            "lastmod": Timestamp(1, 0),
            "jumbo": False,
            "estimatedDataSizeBytes": Int64(0),
        }
        self._insert("chunks", chunk)

    def _forget(self, ns: Namespace) -> None:
        self._keys.pop(ns, None)
        query = Query({"_id": str(ns)})
        for entry in self._cluster.catalog.engine.find(Namespace("config", "collections"), query):
            self._delete("collections", {"_id": str(ns)})
            self._delete("chunks", {"uuid": entry["uuid"]})

    def _object_id(self) -> ObjectId:
        return self._ids.new()

    def _insert(self, name: str, document: Document) -> None:
        self._cluster.catalog.engine.insert(Namespace("config", name), document)

    def _delete(self, name: str, query: Mapping[str, Any]) -> None:
        self._cluster.catalog.engine.delete(Namespace("config", name), Query(query))
