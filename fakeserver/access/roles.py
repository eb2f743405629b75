"""Roles: the privileges of each built-in one.

The manual's page on built-in roles, as data. A role that has others has their privileges too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.access.privileges import ANY_ACTION, ANYTHING, CLUSTER, EVERYWHERE, Privilege, Resource
from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
        *("changeStream", "collStats", "dbHash", "dbStats", "find", "killCursors", "listCollections"),
        *("listIndexes", "listSearchIndexes", "planCacheRead"),
    }
)
_READ_WRITE: Final = _READ | {
    *("cleanupStructuredEncryptionData", "compactStructuredEncryptionData", "convertToCapped"),
    *("createCollection", "createIndex", "createSearchIndexes", "dropCollection", "dropIndex"),
    *("dropSearchIndex", "insert", "remove", "renameCollectionSameDB", "update", "updateSearchIndex"),
}
_DB_ADMIN: Final = frozenset(
    {
        *("analyze", "bypassDocumentValidation", "collMod", "collStats", "compact", "configureQueryAnalyzer"),
        *("convertToCapped", "createCollection", "createIndex", "createSearchIndexes", "dbStats"),
        *("dropCollection", "dropDatabase", "dropIndex", "dropSearchIndex", "enableProfiler"),
        *("listCollections", "listIndexes", "listSearchIndexes", "planCacheIndexFilter", "planCacheRead"),
        *("planCacheWrite", "reIndex", "renameCollectionSameDB", "storageDetails", "updateSearchIndex"),
        "validate",
    }
)
_PROFILE: Final = _READ | {"convertToCapped", "createCollection", "dropCollection"}
_USER_ADMIN: Final = frozenset(
    {
        *("changeCustomData", "changePassword", "createRole", "createUser", "dropRole", "dropUser"),
        *("grantRole", "revokeRole", "setAuthenticationRestriction", "viewRole", "viewUser"),
    }
)
_USERS: Final = _READ | {"createIndex", "createSearchIndexes", "dropIndex", "dropSearchIndex"}
_SHARDING: Final = frozenset(
    {
        *("analyzeShardKey", "enableSharding", "moveCollection", "refineCollectionShardKey"),
        "reshardCollection",
    }
)
_MONITORED: Final = frozenset({"collStats", "dbStats", "getDatabaseVersion", "getShardVersion", "indexStats"})
_CLUSTER_MONITOR: Final = frozenset(
    {
        *("allCollectionStats", "connPoolStats", "getCmdLineOpts", "getDefaultRWConcern", "getLog"),
        *("getParameter", "getShardMap", "hostInfo", "inprog", "listDatabases", "listSampledQueries"),
        *("listSessions", "listShards", "netstat", "operationMetrics", "replSetGetConfig"),
        *("replSetGetStatus", "serverStatus", "shardedDataDistribution", "shardingState", "top", "useUUID"),
    }
)
_HOST_MANAGER: Final = frozenset(
    {
        *("applicationMessage", "auditConfigure", "connPoolSync", "dropConnections", "flushRouterConfig"),
        *("fsync", "invalidateUserCache", "killAnyCursor", "killAnySession", "killop", "logRotate"),
        *("oidReset", "oidcListKeys", "oidcRefreshKeys", "replSetResizeOplog", "resync"),
        *("rotateCertificates", "setParameter", "shutdown", "touch", "trafficRecord", "unlock"),
    }
)
_CLUSTER_MANAGER: Final = frozenset(
    {
        *("addShard", "appendOplogNote", "applicationMessage", "checkMetadataConsistency"),
        *("cleanupOrphaned", "flushRouterConfig", "getChangeStreamState", "getClusterParameter"),
        *("getDefaultRWConcern", "listSessions", "listShards", "querySettings", "queryStatsRead"),
        *("queryStatsReadTransformed", "removeShard", "replSetConfigure", "replSetGetConfig"),
        *("replSetGetStatus", "replSetStateChange", "resync", "runTenantMigration"),
        *("setChangeStreamState", "setClusterParameter", "setDefaultRWConcern"),
        *("setFeatureCompatibilityVersion", "transitionFromDedicatedConfigServer"),
        "transitionToDedicatedConfigServer",
    }
)
_MANAGED: Final = _SHARDING | {
    *("clearJumboFlag", "configureQueryAnalyzer", "moveChunk", "splitChunk", "splitVector"),
}
_WRITE: Final = frozenset({"insert", "update", "remove"})
_RESTORE: Final = frozenset(
    {
        *("bypassDocumentValidation", "collMod", "convertToCapped", "createCollection", "createIndex"),
        *("createSearchIndexes", "dropCollection", "insert", "updateSearchIndex"),
    }
)
_REPLICATION: Final = ("system.replset", "replset.election", "replset.minvalid")


def _on(resource: Resource, actions: Iterable[str]) -> Privilege:
    return Privilege(resource, frozenset(actions))


def _on_each(db: str, collections: Iterable[str], actions: Iterable[str]) -> list[Privilege]:
    return [_on(Resource(db, collection), actions) for collection in collections]


def _read(db: str) -> tuple[Privilege, ...]:
    return _on(Resource(db), _READ), _on(Resource(db, "system.js"), _READ)


def _read_write(db: str) -> tuple[Privilege, ...]:
    return _on(Resource(db), _READ_WRITE), _on(Resource(db, "system.js"), _READ_WRITE)


def _db_admin(db: str) -> tuple[Privilege, ...]:
    return _on(Resource(db), _DB_ADMIN), _on(Resource(db, "system.profile"), _PROFILE)


def _user_admin(db: str) -> tuple[Privilege, ...]:
    return (_on(Resource(db), _USER_ADMIN),)


def _of_database(name: str, db: str) -> tuple[Privilege, ...] | None:
    """Return what a role permits that every database has."""
    if name == "dbOwner":
        return (*_read_write(db), *_db_admin(db), *_user_admin(db))
    if name == "enableSharding":
        return (_on(EVERYWHERE, _SHARDING),)
    roles = {"read": _read, "readWrite": _read_write, "dbAdmin": _db_admin, "userAdmin": _user_admin}
    return roles[name](db) if name in roles else None


_PER_DATABASE: Final = ("dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin")

_ANY_READ: Final = (
    _on(EVERYWHERE, _READ),
    _on(CLUSTER, {"listDatabases"}),
    _on(Resource("", "system.js"), _READ),
)
_ANY_READ_WRITE: Final = (
    *_ANY_READ,
    _on(EVERYWHERE, _READ_WRITE),
    _on(Resource("", "system.js"), _READ_WRITE),
)
_ANY_DB_ADMIN: Final = (
    _on(CLUSTER, {"listDatabases", "applyOps"}),
    _on(EVERYWHERE, _DB_ADMIN),
    _on(Resource("", "system.profile"), _PROFILE),
)
_ANY_USER_ADMIN: Final = (
    _on(EVERYWHERE, _USER_ADMIN | {"listCachedAndActiveUsers"}),
    *_user_admin("local"),
    *_user_admin("config"),
    _on(CLUSTER, {"listDatabases", "authSchemaUpgrade", "invalidateUserCache", "viewUser"}),
    *_on_each("admin", ("system.users", "system.roles"), _USERS),
    _on(Resource("", "system.users"), _READ),
    *_on_each("admin", ("system.version", "system.backup_users"), _READ),
)
_MONITOR: Final = (
    *_read("config"),
    *_read("local"),
    _on(CLUSTER, _CLUSTER_MONITOR),
    *(_on(each, _MONITORED) for each in (EVERYWHERE, Resource("config"), Resource("local"))),
    _on(Resource("config", "system.sessions"), _MONITORED),
    *_on_each("local", _REPLICATION, {"find"}),
    _on(Resource("", "system.profile"), {"find"}),
)
_HOSTS: Final = (_on(CLUSTER, _HOST_MANAGER), _on(EVERYWHERE, {"killCursors"}))
_MANAGER: Final = (
    *_read("config"),
    _on(CLUSTER, _CLUSTER_MANAGER),
    _on(EVERYWHERE, _MANAGED),
    *(_on(Resource(db), _MANAGED | _WRITE) for db in ("config", "local")),
    *_on_each("local", ("system.replset", "system.healthlog"), _READ),
    _on(ANYTHING, {"dbCheck"}),
    *_on_each("local", _REPLICATION[1:], _WRITE),
)
_CLUSTER_ADMIN: Final = (
    *_MONITOR,
    *_HOSTS,
    *_MANAGER,
    _on(EVERYWHERE, {"dropDatabase"}),
    _on(ANYTHING, {"importCollection", "exportCollection"}),
)
_BACKUP: Final = (
    _on(ANYTHING, {"collStats", "listCollections", "listIndexes", "listSearchIndexes"}),
    *(_on(each, {"find"}) for each in (EVERYWHERE, Resource("config"), Resource("local"))),
    *_on_each("local", _REPLICATION[1:], {"find"}),
    *_on_each("", ("system.js", "system.users", "system.profile"), {"find"}),
    *_on_each("admin", ("system.backup_users", "system.roles", "system.version"), {"find"}),
    _on(Resource("config", "settings"), {"find", "insert", "update"}),
    _on(
        CLUSTER,
        {
            *("appendOplogNote", "getParameter", "listDatabases", "serverStatus"),
            *("setUserWriteBlockMode", "useUUID"),
        },
    ),
)
_RESTORER: Final = (
    _on(
        CLUSTER,
        {
            *("applyOps", "bypassWriteBlockingMode", "forceUUID", "getParameter", "setUserWriteBlockMode"),
            "useUUID",
        },
    ),
    *(_on(Resource(db), _RESTORE) for db in ("local", "config")),
    *_on_each("local", _REPLICATION, _RESTORE),
    _on(ANYTHING, {"listCollections"}),
    _on(EVERYWHERE, _RESTORE | _USER_ADMIN),
    _on(Resource("", "system.js"), _RESTORE),
    *_on_each("admin", ("tempusers", "temproles"), {"find"}),
    _on(Resource("admin", "system.backup_users"), _RESTORE),
    _on(Resource("admin", "system.version"), _RESTORE | {"find"}),
    _on(Resource("", "system.users"), _RESTORE | {"find", "update", "remove"}),
    _on(Resource("admin", "system.roles"), {"createIndex"}),
)
_DIRECT: Final = (_on(CLUSTER, {"issueDirectShardOperations"}),)
_ROOT: Final = (
    *(*_CLUSTER_ADMIN, *_ANY_USER_ADMIN, *_ANY_DB_ADMIN, *_ANY_READ_WRITE, *_BACKUP, *_RESTORER, *_DIRECT),
    _on(ANYTHING, {"validate"}),
    _on(CLUSTER, {"useTenant"}),
    _on(Resource("config", "system.preimages"), {"find", "remove"}),
)
_ADMIN_ONLY: Final[Mapping[str, tuple[Privilege, ...]]] = {
    "__system": (_on(ANYTHING, {ANY_ACTION}),),
    "backup": _BACKUP,
    "clusterAdmin": _CLUSTER_ADMIN,
    "clusterManager": _MANAGER,
    "clusterMonitor": _MONITOR,
    "dbAdminAnyDatabase": _ANY_DB_ADMIN,
    "directShardOperations": _DIRECT,
    "hostManager": _HOSTS,
    "readAnyDatabase": _ANY_READ,
    "readWriteAnyDatabase": _ANY_READ_WRITE,
    "restore": _RESTORER,
    "root": _ROOT,
    "userAdminAnyDatabase": _ANY_USER_ADMIN,
}


def built_in(role: RoleName) -> tuple[Privilege, ...] | None:
    """Return the privileges of a built-in role, or None for a name that is not one on its database."""
    found = _of_database(role.name, role.db)
    return _ADMIN_ONLY.get(role.name) if found is None and role.db == "admin" else found


def built_in_roles(db: str) -> list[RoleName]:
    """Return the built-in roles that a database has, by name."""
    names = (*_PER_DATABASE, *(_ADMIN_ONLY if db == "admin" else ()))
    return [RoleName(name, db) for name in sorted(names)]


# Users, roles and privileges as commands name them.
#
# Who checks a command and who runs it both read them here: read in two ways, a check can be evaded.


class UserName(NamedTuple):
    """A user of a database."""

    name: str
    db: str


class Everyone(NamedTuple):
    """The users or the roles of a database, of all where it is None."""

    db: str | None


def users_asked_for(target: Any, db: str) -> Everyone | list[UserName]:
    """Return whom a `usersInfo` on `db` is about. Raises `CommandError` 2."""
    if isinstance(target, dict) and target.get("forAllDBs"):
        return Everyone(None)
    if _is_one(target):
        return Everyone(db)
    return [_user_name(each, db) for each in (target if isinstance(target, list) else [target])]


def roles_asked_for(target: Any, db: str) -> Everyone | tuple[RoleName, ...]:
    """Return which roles a `rolesInfo` on `db` is about. Raises `CommandError` 2."""
    if _is_one(target):
        return Everyone(db)
    return role_names(target if isinstance(target, list) else [target], db)


def _is_one(target: Any) -> bool:
    return isinstance(target, int | float) and target == 1


def _user_name(name: Any, db: str) -> UserName:
    if type(name) is str:
        return UserName(name, db)
    if isinstance(name, dict) and type(name.get("user")) is str and type(name.get("db")) is str:
        return UserName(name["user"], name["db"])
    raise CommandError(
        ErrorCode.BAD_VALUE,
        "UserName must be either a string or an object with the fields 'user' and 'db'",
    )


def role_names(roles: Iterable[Any], db: str) -> tuple[RoleName, ...]:
    """Return the roles of a command's array: names of this database, or documents. Raises `CommandError`."""
    return tuple(role_name(each, db) for each in roles)


def role_name(role: Any, db: str) -> RoleName:
    """Return one role, a name or a document `{role, db}`. Raises `CommandError` 2."""
    if type(role) is str:
        return RoleName(role, db)
    if isinstance(role, dict) and type(role.get("role")) is str and type(role.get("db")) is str:
        return RoleName(role["role"], role["db"])
    raise CommandError(
        ErrorCode.BAD_VALUE, "Role names must be either strings or objects with the fields 'role' and 'db'"
    )


def privileges_of(documents: Iterable[dict[str, Any]]) -> tuple[Privilege, ...]:
    """Return the privileges of a command's array. Raises `CommandError` 9."""
    privileges = []
    for document in documents:
        resource, actions = document.get("resource"), document.get("actions")
        if not isinstance(resource, dict) or not isinstance(actions, list) or not actions:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE, "a privilege has a resource, and actions that are not empty"
            )
        privileges.append(Privilege(_resource(resource), frozenset(map(str, actions))))
    return tuple(privileges)


def _resource(document: dict[str, Any]) -> Resource:
    if document.get("anyResource"):
        return ANYTHING
    if document.get("cluster"):
        return CLUSTER
    db, collection = document.get("db"), document.get("collection")
    if type(db) is not str or type(collection) is not str:  # JavaScript code is a `str` too
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "a resource is {db, collection}, {cluster: true} or {anyResource: true}",
        )
    return Resource(db, collection)
