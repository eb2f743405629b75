"""Roles: what each of the built-in ones permits, and how roles are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ANY_ACTION: Final = "anyAction"


@dataclass(frozen=True, slots=True)
class Resource:
    """Where actions are permitted: a collection, a database, all of them, or the cluster.

    An empty name is every database, or every collection that is not a system's.
    """

    db: str = ""
    collection: str = ""
    cluster: bool = False
    anything: bool = False

    def covers(self, wanted: Resource) -> bool:
        """Say whether a privilege on this resource is one on `wanted`."""
        if self.anything:
            return True
        if self.cluster or wanted.cluster:
            return self.cluster and wanted.cluster
        if self.db not in {"", wanted.db}:
            return False
        if self.collection:
            return self.collection == wanted.collection
        return not wanted.collection.startswith("system.") or wanted.collection in _ORDINARY_SYSTEM

    def document(self) -> dict[str, Any]:
        """Return it as privileges show it."""
        if self.anything:
            return {"anyResource": True}
        return {"cluster": True} if self.cluster else {"db": self.db, "collection": self.collection}


CLUSTER: Final = Resource(cluster=True)
ANYTHING: Final = Resource(anything=True)
_ORDINARY_SYSTEM: Final = frozenset({"system.js", "system.views", "system.profile"})


@dataclass(frozen=True, slots=True)
class Privilege:
    """Actions on a resource."""

    resource: Resource
    actions: frozenset[str]

    def document(self) -> dict[str, Any]:
        """Return it as `usersInfo` and `rolesInfo` show it."""
        return {"resource": self.resource.document(), "actions": sorted(self.actions)}


@dataclass(frozen=True, slots=True, order=True)
class RoleName:
    """A role of a database."""

    name: str
    db: str

    def document(self) -> dict[str, str]:
        """Return it as users show it."""
        return {"role": self.name, "db": self.db}

    def __str__(self) -> str:
        return f"{self.name}@{self.db}"


_READ: Final = frozenset(
    {
        *("changeStream", "collStats", "dbHash", "dbStats", "find", "killCursors"),
        *("listIndexes", "listCollections", "planCacheRead"),
    }
)
_READ_WRITE: Final = _READ | {
    *("convertToCapped", "createCollection", "dropCollection", "createIndex", "dropIndex"),
    *("insert", "remove", "renameCollectionSameDB", "update", "createSearchIndexes", "dropSearchIndex"),
    *("listSearchIndexes", "updateSearchIndex"),
}
_DB_ADMIN: Final = frozenset(
    {
        *("analyze", "bypassDocumentValidation", "collMod", "collStats", "compact", "convertToCapped"),
        *("createCollection", "createIndex", "dbStats", "dropCollection", "dropDatabase", "dropIndex"),
        *("enableProfiler", "listCollections", "listIndexes", "planCacheIndexFilter", "planCacheRead"),
        *("planCacheWrite", "reIndex", "renameCollectionSameDB", "storageDetails", "validate"),
        *("createSearchIndexes", "dropSearchIndex", "listSearchIndexes", "updateSearchIndex"),
    }
)
_USER_ADMIN: Final = frozenset(
    {
        *("changeCustomData", "changePassword", "createRole", "createUser", "dropRole", "dropUser"),
        *("grantRole", "revokeRole", "setAuthenticationRestriction", "viewRole", "viewUser"),
    }
)
_CLUSTER_MONITOR: Final = frozenset(
    {
        *("checkFreeMonitoringStatus", "connPoolStats", "getCmdLineOpts", "getDefaultRWConcern", "getLog"),
        *("getParameter", "getShardMap", "hostInfo", "inprog", "listDatabases", "listSessions", "listShards"),
        *("netstat", "replSetGetConfig", "replSetGetStatus", "serverStatus", "shardingState", "top"),
        *("useUUID", "useTenant"),
    }
)
_HOST_MANAGER: Final = frozenset(
    {
        *("applicationMessage", "closeAllDatabases", "connPoolSync", "cpuProfiler", "flushRouterConfig"),
        *("fsync", "invalidateUserCache", "killAnyCursor", "killAnySession", "killop", "logRotate"),
        *("resync", "rotateCertificates", "setParameter", "shutdown", "touch", "unlock"),
    }
)
_CLUSTER_MANAGER: Final = frozenset(
    {
        *("addShard", "appendOplogNote", "applicationMessage", "cleanupOrphaned", "flushRouterConfig"),
        *("listSessions", "listShards", "removeShard", "replSetConfigure", "replSetGetConfig"),
        *("replSetGetStatus", "replSetStateChange", "resync", "setClusterParameter", "getClusterParameter"),
        *("setDefaultRWConcern", "setFeatureCompatibilityVersion", "enableSharding", "splitChunk"),
    }
)
_CLUSTER_ADMIN: Final = _CLUSTER_MONITOR | _HOST_MANAGER | _CLUSTER_MANAGER | {"dropDatabase"}


def _on(resource: Resource, actions: Iterable[str]) -> Privilege:
    return Privilege(resource, frozenset(actions))


_PER_DATABASE: Final[Mapping[str, frozenset[str]]] = {
    "read": _READ,
    "readWrite": _READ_WRITE,
    "dbAdmin": _DB_ADMIN,
    "userAdmin": _USER_ADMIN,
    "dbOwner": _READ_WRITE | _DB_ADMIN | _USER_ADMIN,
}
_LIST: Final = _on(CLUSTER, {"listDatabases"})
_EVERYWHERE: Final = Resource()
_ADMIN_ONLY: Final[Mapping[str, tuple[Privilege, ...]]] = {
    "readAnyDatabase": (_on(_EVERYWHERE, _READ), _LIST),
    "readWriteAnyDatabase": (_on(_EVERYWHERE, _READ_WRITE), _LIST),
    "dbAdminAnyDatabase": (_on(_EVERYWHERE, _DB_ADMIN), _LIST),
    "userAdminAnyDatabase": (
        _on(_EVERYWHERE, _USER_ADMIN),
        _on(CLUSTER, {"listDatabases", "authSchemaUpgrade", "invalidateUserCache"}),
        _on(Resource("admin", "system.users"), _READ),
        _on(Resource("admin", "system.roles"), _READ),
    ),
    "clusterMonitor": (
        _on(CLUSTER, _CLUSTER_MONITOR),
        _on(_EVERYWHERE, {"collStats", "dbStats", "getDatabaseVersion", "getShardVersion", "indexStats"}),
        _on(Resource("config"), _READ),
        _on(Resource("local"), _READ),
    ),
    "hostManager": (_on(CLUSTER, _HOST_MANAGER), _on(_EVERYWHERE, {"killCursors"})),
    "clusterManager": (
        _on(CLUSTER, _CLUSTER_MANAGER),
        _on(Resource("config"), _READ_WRITE),
        _on(Resource("local"), _READ_WRITE),
    ),
    "clusterAdmin": (
        _on(CLUSTER, _CLUSTER_ADMIN),
        _on(_EVERYWHERE, {"collStats", "dbStats", "dropDatabase", "indexStats", "killCursors"}),
        _on(Resource("config"), _READ_WRITE),
        _on(Resource("local"), _READ_WRITE),
    ),
    "backup": (
        _on(CLUSTER, {"appendOplogNote", "getParameter", "listDatabases", "serverStatus"}),
        _on(_EVERYWHERE, {"find", "collStats", "listCollections", "listIndexes"}),
        _on(Resource("admin", "system.users"), {"find"}),
        _on(Resource("admin", "system.roles"), {"find"}),
    ),
    "restore": (
        _on(CLUSTER, {"getParameter"}),
        _on(_EVERYWHERE, _READ_WRITE - {"find"} | {"bypassDocumentValidation", "collMod"} | _USER_ADMIN),
        _on(Resource("admin", "system.users"), _READ_WRITE),
        _on(Resource("admin", "system.roles"), _READ_WRITE),
    ),
    "root": (_on(ANYTHING, {ANY_ACTION}),),
    "__system": (_on(ANYTHING, {ANY_ACTION}),),
}


def built_in(role: RoleName) -> tuple[Privilege, ...] | None:
    """Return the privileges of a built-in role, or None for a name that is not one on its database."""
    actions = _PER_DATABASE.get(role.name)
    if actions is not None:
        return (_on(Resource(role.db), actions),)
    return _ADMIN_ONLY.get(role.name) if role.db == "admin" else None


def built_in_roles(db: str) -> list[RoleName]:
    """Return the built-in roles that a database has, by name."""
    names = (*_PER_DATABASE, *(_ADMIN_ONLY if db == "admin" else ()))
    return [RoleName(name, db) for name in sorted(names)]


def permits(privileges: Iterable[Privilege], resource: Resource, action: str) -> bool:
    """Say whether one of the privileges permits an action on a resource."""
    return any(
        (action in each.actions or ANY_ACTION in each.actions) and each.resource.covers(resource)
        for each in privileges
    )


def reaches(privileges: Iterable[Privilege], resource: Resource) -> bool:
    """Say whether any action at all is permitted on a collection, or on anything of a database."""
    return any(_touches(each.resource, resource) for each in privileges if each.actions)


def _touches(granted: Resource, wanted: Resource) -> bool:
    if wanted.collection or granted.anything:
        return granted.covers(wanted)
    return not granted.cluster and granted.db in {"", wanted.db}


def merged(privileges: Iterable[Privilege]) -> Iterator[Privilege]:
    """Iterate over the privileges with one for each resource, in the order of their first appearance."""
    by_resource: dict[Resource, frozenset[str]] = {}
    for each in privileges:
        by_resource[each.resource] = by_resource.get(each.resource, frozenset()) | each.actions
    return (Privilege(resource, actions) for resource, actions in by_resource.items())
