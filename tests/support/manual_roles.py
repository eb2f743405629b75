"""The built-in roles as the manual tells them, written down apart from the server's own table.

A role is lines of a place and the actions there. Places: `cluster`; `*`, which is every database but `config`
and `local`; `everything`; the name of a database, or of a collection with its database (in any:
`*.system.js`).
`OWN` stands for the database that a role is of.
"""

from __future__ import annotations

from typing import Final

OWN: Final = "OWN"

_READ: Final = (
    "changeStream collStats dbHash dbStats find killCursors listCollections listIndexes listSearchIndexes"
    " planCacheRead"
)
_READ_WRITE: Final = (
    f"{_READ} cleanupStructuredEncryptionData compactStructuredEncryptionData convertToCapped"
    " createCollection createIndex createSearchIndexes dropCollection dropIndex dropSearchIndex insert remove"
    " renameCollectionSameDB update updateSearchIndex"
)
_DB_ADMIN: Final = (
    "bypassDocumentValidation collMod collStats compact convertToCapped createCollection createIndex"
    " createSearchIndexes dbStats dropCollection dropDatabase dropIndex dropSearchIndex enableProfiler"
    " listCollections listIndexes listSearchIndexes planCacheIndexFilter planCacheRead planCacheWrite reIndex"
    " renameCollectionSameDB storageDetails updateSearchIndex validate"
)
_PROFILE: Final = f"{_READ} convertToCapped createCollection dropCollection"
_USER_ADMIN: Final = (
    "changeCustomData changePassword createRole createUser dropRole dropUser grantRole revokeRole"
    " setAuthenticationRestriction viewRole viewUser"
)
_SHARDING: Final = "analyzeShardKey enableSharding moveCollection refineCollectionShardKey reshardCollection"
_MONITORED: Final = "collStats dbStats getDatabaseVersion getShardVersion indexStats"
_RESTORE: Final = (
    "bypassDocumentValidation collMod convertToCapped createCollection createIndex createSearchIndexes"
    " dropCollection insert updateSearchIndex"
)

_read = {OWN: _READ, f"{OWN}.system.js": _READ}
_read_write = {OWN: _READ_WRITE, f"{OWN}.system.js": _READ_WRITE}
_db_admin = {OWN: _DB_ADMIN, f"{OWN}.system.profile": _PROFILE}
_user_admin = {OWN: _USER_ADMIN}

_monitor = {
    "cluster": (
        "connPoolStats getCmdLineOpts getDefaultRWConcern getLog getParameter getShardMap hostInfo inprog"
        " listDatabases listSampledQueries listSessions listShards netstat replSetGetConfig"
        " replSetGetStatus serverStatus shardingState top useUUID"
    ),
    "*": _MONITORED,
    "config": f"{_MONITORED} {_READ}",
    "local": f"{_MONITORED} {_READ}",
    "config.system.js": _READ,
    "local.system.js": _READ,
    "config.system.sessions": _MONITORED,
    "*.system.profile": "find",
    "local.system.replset": "find",
}
_hosts = {
    "cluster": (
        "applicationMessage connPoolSync dropConnections flushRouterConfig fsync invalidateUserCache"
        " killAnyCursor killAnySession killop logRotate resync rotateCertificates setParameter shutdown touch"
        " unlock"
    ),
    "*": "killCursors",
}
_manager = {
    "cluster": (
        "addShard appendOplogNote applicationMessage checkMetadataConsistency cleanupOrphaned"
        " flushRouterConfig getClusterParameter getDefaultRWConcern listSessions listShards querySettings"
        " removeShard replSetConfigure replSetGetConfig replSetGetStatus replSetStateChange resync"
        " setClusterParameter setDefaultRWConcern setFeatureCompatibilityVersion"
    ),
    "*": f"{_SHARDING} clearJumboFlag moveChunk splitChunk splitVector",
    "config": f"{_SHARDING} {_READ} clearJumboFlag insert moveChunk remove splitChunk splitVector update",
    "local": f"{_SHARDING} clearJumboFlag insert moveChunk remove splitChunk splitVector update",
    "config.system.js": _READ,
    "local.system.replset": _READ,
}


def _together(*roles: dict[str, str]) -> dict[str, str]:
    places = {place for role in roles for place in role}
    return {place: " ".join(role[place] for role in roles if place in role) for place in sorted(places)}


_any_read = {"*": _READ, "*.system.js": _READ, "cluster": "listDatabases"}
_any_read_write = _together(_any_read, {"*": _READ_WRITE, "*.system.js": _READ_WRITE})
_any_db_admin = {"*": _DB_ADMIN, "*.system.profile": _PROFILE, "cluster": "applyOps listDatabases"}
_any_user_admin = {
    "*": _USER_ADMIN,
    "config": _USER_ADMIN,
    "local": _USER_ADMIN,
    "cluster": "authSchemaUpgrade invalidateUserCache listDatabases viewUser",
    "*.system.users": _READ,
    "admin.system.users": f"{_READ} createIndex dropIndex",
    "admin.system.roles": f"{_READ} createIndex dropIndex",
}
_cluster_admin = _together(_monitor, _hosts, _manager, {"*": "dropDatabase"})
_backup = {
    "everything": "collStats listCollections listIndexes listSearchIndexes",
    "*": "find",
    "config": "find",
    "local": "find",
    "*.system.js": "find",
    "*.system.users": "find",
    "*.system.profile": "find",
    "admin.system.roles": "find",
    "config.settings": "find insert update",
    "cluster": "appendOplogNote getParameter listDatabases serverStatus setUserWriteBlockMode useUUID",
}
_restore = {
    "everything": "listCollections",
    "*": f"{_RESTORE} {_USER_ADMIN}",
    "config": _RESTORE,
    "local": _RESTORE,
    "*.system.js": _RESTORE,
    "*.system.users": f"{_RESTORE} find remove update",
    "admin.system.roles": "createIndex",
    "cluster": "applyOps forceUUID getParameter setUserWriteBlockMode useUUID",
}

DATABASE_ROLES: Final[dict[str, dict[str, str]]] = {
    "read": _read,
    "readWrite": _read_write,
    "dbAdmin": _db_admin,
    "userAdmin": _user_admin,
    "dbOwner": _together(_read_write, _db_admin, _user_admin),
    "enableSharding": {"*": _SHARDING},
}
"""The roles that every database has."""

ADMIN_ROLES: Final[dict[str, dict[str, str]]] = {
    "readAnyDatabase": _any_read,
    "readWriteAnyDatabase": _any_read_write,
    "dbAdminAnyDatabase": _any_db_admin,
    "userAdminAnyDatabase": _any_user_admin,
    "clusterMonitor": _monitor,
    "hostManager": _hosts,
    "clusterManager": _manager,
    "clusterAdmin": _cluster_admin,
    "backup": _backup,
    "restore": _restore,
    "directShardOperations": {},
    "root": _together(
        *(_cluster_admin, _any_user_admin, _any_db_admin, _any_read_write, _backup, _restore),
        {"everything": "validate"},
    ),
}
"""The roles that `admin` has beside those. `__system` permits everything and is no role for people."""


def permits(role: str, own: str, place: str, action: str) -> bool:
    """Say whether a role of the database `own` permits an action.

    A place is `cluster`, `*`, a database (`db`) or a collection (`db.c`).
    """
    if role == "__system":
        return True
    lines = DATABASE_ROLES.get(role) or ADMIN_ROLES.get(role, {})
    return any(
        action in actions.split() and _includes(where.replace(OWN, own), place)
        for where, actions in lines.items()
    )


def _includes(where: str, place: str) -> bool:
    if where == "everything":
        return True
    if "cluster" in {where, place}:
        return where == place
    db, _, collection = place.partition(".")
    held_by, _, held = where.partition(".")
    if held:
        return held == collection and held_by in {"*", db}
    if collection.startswith("system."):
        return False
    return db not in {"config", "local"} if held_by == "*" else held_by == db
