"""The table of rules: the privileges that each command needs.

Every command has its rule here, also one that anybody may run: a command without a rule is refused to all but
the server's own user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.access import collections, granting, operating
from fakeserver.access.ask import anybody, on_cluster, on_collection, on_database
from fakeserver.access.pipelines import may_aggregate

if TYPE_CHECKING:
    from fakeserver.access.ask import Ask, Rule
    from fakeserver.idl.command_table import CommandSpec

RULES: Final[dict[str, Rule]] = {
    # Their effect is on the client's own, or is checked where it is found out what they are about.
    **dict.fromkeys(
        (
            *("abortTransaction", "commitTransaction", "endSessions", "refreshSessions", "startSession"),
            *("killCursors", "killSessions", "listCommands", "listDatabases"),
            *("refreshLogicalSessionCacheNow", "testDeprecation", "testDeprecationInVersion2"),
            "testVersion2",
        ),
        anybody,
    ),
    # Documents.
    "find": operating.may_read,
    **dict.fromkeys(("count", "distinct"), on_collection("find")),
    "aggregate": may_aggregate,
    "mapReduce": collections.may_map_reduce,
    "getMore": operating.may_get_more,
    "insert": collections.writing("insert"),
    "update": collections.may_update,
    "delete": on_collection("remove"),
    "findAndModify": collections.may_find_and_modify,
    "bulkWrite": collections.may_bulk_write,
    "dataSize": operating.may_measure,
    # Collections, indexes, databases.
    "create": collections.may_create,
    "collMod": collections.may_modify,
    "renameCollection": collections.may_rename,
    "listCollections": operating.may_list_collections,
    "drop": on_collection("dropCollection"),
    "createIndexes": on_collection("createIndex"),
    "dropIndexes": on_collection("dropIndex"),
    "planCacheClear": on_collection("planCacheWrite"),
    **{
        name: on_collection(name)
        for name in (
            *("collStats", "compact", "convertToCapped", "listIndexes", "reIndex", "validate"),
            *("createSearchIndexes", "dropSearchIndex", "listSearchIndexes", "updateSearchIndex"),
        )
    },
    **{name: on_database(name) for name in ("dbHash", "dbStats", "dropDatabase")},
    "profile": operating.may_profile,
    # Users and roles.
    "createUser": granting.may_create_user,
    "updateUser": granting.may_update_user,
    "createRole": granting.may_create_role,
    "updateRole": granting.may_update_role,
    **dict.fromkeys(("dropUser", "dropAllUsersFromDatabase"), on_database("dropUser")),
    **dict.fromkeys(("dropRole", "dropAllRolesFromDatabase"), on_database("dropRole")),
    **dict.fromkeys(
        ("grantRolesToUser", "grantRolesToRole", "grantPrivilegesToRole"), granting.handing("grantRole")
    ),
    **dict.fromkeys(
        ("revokeRolesFromUser", "revokeRolesFromRole", "revokePrivilegesFromRole"),
        granting.handing("revokeRole"),
    ),
    "usersInfo": granting.may_see_users,
    "rolesInfo": granting.may_see_roles,
    # The server.
    **{
        name: on_cluster(name)
        for name in (
            *("connPoolStats", "flushRouterConfig", "fsync", "getCmdLineOpts", "getDefaultRWConcern"),
            *("getLog", "getParameter", "getShardMap", "hostInfo", "invalidateUserCache", "listShards"),
            *("logRotate", "replSetGetConfig", "replSetGetStatus", "serverStatus"),
            *("setDefaultRWConcern", "setFeatureCompatibilityVersion", "setParameter", "shutdown", "top"),
        )
    },
    "fsyncUnlock": on_cluster("unlock"),
    "replSetGetRBID": on_cluster("internal"),
    "replSetReconfig": on_cluster("replSetConfigure"),
    **dict.fromkeys(
        ("replSetFreeze", "replSetMaintenance", "replSetStepDown", "replSetStepUp"),
        on_cluster("replSetStateChange"),
    ),
    "currentOp": operating.may_see_operations,
    "killOp": operating.may_kill_operation,
    **dict.fromkeys(("killAllSessions", "killAllSessionsByPattern"), on_cluster("killAnySession")),
    "pushbackd": operating.may_control,
    # Sharding.
    **dict.fromkeys(("balancerStart", "balancerStop"), operating.on_settings("update")),
    "balancerStatus": operating.on_settings("find"),
    "enableSharding": operating.may_shard_database,
    "shardCollection": operating.may_shard_collection,
    "checkMetadataConsistency": operating.may_check_metadata,
}

_UNKNOWN: Final = on_cluster("internal")


def permitted(spec: CommandSpec, ask: Ask) -> bool:
    """Return whether a client may run a command.

    Raises `CommandError` for what a server refuses while it checks.
    """
    return RULES.get(spec.name, _UNKNOWN)(ask)


RULES["explain"] = operating.explaining(RULES)
