"""What each command needs, as the manual tells it, written down apart from the server's own rules.

A `Shape` is a form of a command, `DB` in its values standing for the database that it is about, and what it
needs: actions at places (`find@c`: on the collection `c` of that database, `dbStats@.`: on the database
itself, `top@cluster`, `grantRole@admin`, `find@config.settings`, `revokeRole@*`: on all databases). All of
them are needed; `!` stands before what must not be permitted, ` | ` between alternatives, and nothing at all
says that anybody may who is authenticated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bson import Binary, Decimal128, Int64

DB: Final = "DB"
_UUID: Final = Binary(bytes(16), 4)
_CODE: Final = "function () {}"


@dataclass(frozen=True)
class Shape:
    """A form of a command; `on_mongos` is what a mongos needs for it, where that is something else."""

    command: dict[str, Any]
    needs: str = ""
    on_mongos: str | None = None


def _on_cluster(name: str, action: str = "", /, **more: Any) -> tuple[Shape, ...]:
    return (Shape({name: 1, **more}, f"{action or name}@cluster"),)


def _on_collection(name: str, action: str, /, **more: Any) -> tuple[Shape, ...]:
    return (
        Shape({name: "c", **more}, f"{action}@c"),
        Shape({name: "system.js", **more}, f"{action}@system.js"),
    )


def _aggregate(needs: str, *stages: dict[str, Any], on: Any = "c", **more: Any) -> Shape:
    on_mongos = more.pop("on_mongos", None)
    return Shape({"aggregate": on, "pipeline": list(stages), "cursor": {}, **more}, needs, on_mongos)


def _explained(command: dict[str, Any], needs: str) -> Shape:
    return Shape({"explain": command}, needs)


_SUM = {"map": _CODE, "reduce": _CODE}
_PRIVILEGES = [
    {"resource": {"db": DB, "collection": ""}, "actions": ["find"]},
    {"resource": {"db": "other", "collection": "c"}, "actions": ["find"]},
]
_WIDE = (
    {"resource": {"cluster": True}, "actions": ["top"]},
    {"resource": {"anyResource": True}, "actions": ["anyAction"]},
    {"resource": {"db": "", "collection": ""}, "actions": ["find"]},
    {"resource": {"db": "", "collection": "c"}, "actions": ["find"]},
)
_ROOT = [{"role": "root", "db": "admin"}]
_BOTH = ["read", {"role": "read", "db": "other"}]
_UPDATE = {"updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}
_UPSERT = [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}]
_VIEW = {"viewOn": "d", "pipeline": [{"$lookup": {"from": "e", "as": "e", "pipeline": []}}]}
_SEES = "find@d find@e"
_BULK = {"nsInfo": [{"ns": "DB.c"}, {"ns": "other.d"}]}
_INSERT_OP: Final[dict[str, Any]] = {"document": {}}


def _bulk(needs: str, *ops: dict[str, Any], **more: Any) -> Shape:
    return Shape({"bulkWrite": 1, "ops": list(ops), **_BULK, **more}, needs)


def _entry(needs: str, op: str, *, ns: str = "other.c", o: Any = None, **more: Any) -> Shape:
    """Return what it takes to have one entry of an oplog applied."""
    entry = {"op": op, "ns": ns, "o": {"_id": 1} if o is None else o, "o2": {"_id": 1}, **more}
    return Shape({"applyOps": [entry]}, f"applyOps@cluster {needs}")


OPEN: Final = frozenset(
    {
        *("authenticate", "buildInfo", "configureFailPoint", "connectionStatus", "getnonce", "hello"),
        *("isMaster", "isdbgrid", "logout", "ping", "saslContinue", "saslStart", "waitForFailPoint"),
        "whatsmyuri",
    }
)
"""The commands that strangers may run too."""

NEEDED: Final[dict[str, tuple[Shape, ...]]] = {
    "abortTransaction": (Shape({"abortTransaction": 1}),),
    "aggregate": (
        _aggregate("find@c"),
        _aggregate("find@c", {"$match": {}}),
        _aggregate("find@c", {"$match": {}}, explain=True),
        _aggregate("find@c find@d", {"$lookup": {"from": "d", "as": "d", "pipeline": []}}),
        _aggregate("find@c find@other.d", {"$lookup": {"from": {"db": "other", "coll": "d"}, "as": "d"}}),
        _aggregate("find@c find@d", {"$graphLookup": {"from": "d"}}),
        _aggregate("find@c find@d", {"$unionWith": "d"}),
        _aggregate("find@c find@d find@e", {"$unionWith": {"coll": "d", "pipeline": [{"$unionWith": "e"}]}}),
        _aggregate("find@c find@d", {"$facet": {"a": [{"$lookup": {"from": "d", "as": "d"}}]}}),
        _aggregate(
            "find@c find@d find@e",
            {"$lookup": {"from": "d", "as": "d", "pipeline": [{"$facet": {"a": [{"$unionWith": "e"}]}}]}},
        ),
        _aggregate("find@c insert@d remove@d", {"$out": "d"}),
        _aggregate("find@c insert@other.d remove@other.d", {"$out": {"db": "other", "coll": "d"}}),
        _aggregate("find@c insert@d update@d", {"$merge": "d"}),
        _aggregate("find@c insert@d update@d", {"$merge": {"into": {"db": None, "coll": "d"}}}),
        _aggregate(
            "find@c insert@other.d update@other.d", {"$merge": {"into": {"db": "other", "coll": "d"}}}
        ),
        _aggregate("find@c update@d", {"$merge": {"into": "d", "whenNotMatched": "discard"}}),
        _aggregate("find@c insert@d", {"$merge": {"into": "d", "whenMatched": "fail"}}),
        _aggregate(
            "find@c insert@d remove@d bypassDocumentValidation@d",
            {"$out": "d"},
            bypassDocumentValidation=Decimal128("1"),
        ),
        _aggregate("collStats@c", {"$collStats": {"count": {}}}),
        _aggregate("indexStats@c", {"$indexStats": {}}),
        _aggregate("planCacheRead@c", {"$planCacheStats": {}}),
        _aggregate("listSearchIndexes@c", {"$listSearchIndexes": {}}),
        _aggregate("listSampledQueries@cluster", {"$listSampledQueries": {}}, on=1),
        _aggregate(
            "find@c find@d collStats@d", {"$unionWith": {"coll": "d", "pipeline": [{"$collStats": {}}]}}
        ),
        _aggregate("find@c changeStream@c", {"$changeStream": {}}),
        _aggregate("find@. changeStream@.", {"$changeStream": {}}, on=1),
        _aggregate("", {"$documents": []}, on=1),
        _aggregate("find@d", {"$documents": []}, {"$unionWith": "d"}, on=1),
        _aggregate("", {"$currentOp": {}}, on=1, on_mongos="inprog@cluster"),
        _aggregate("", {"$currentOp": {"localOps": True}}, on=1),
        _aggregate("inprog@cluster", {"$currentOp": {"allUsers": True, "localOps": True}}, on=1),
        _aggregate("", {"$listLocalSessions": {}}, on=1),
        _aggregate("", {"$listLocalSessions": {"users": [{"user": "x", "db": "db"}]}}, on=1),
        _aggregate("listSessions@cluster", {"$listLocalSessions": {"allUsers": True}}, on=1),
        _aggregate("", {"$listSessions": {}}, on="system.sessions"),
        _aggregate("listSessions@cluster", {"$listSessions": {"allUsers": True}}, on="system.sessions"),
        _aggregate("listSessions@cluster", {"$listSessions": {"users": [{"user": "y", "db": "db"}]}}),
    ),
    "applyOps": (
        Shape({"applyOps": []}, "applyOps@cluster"),
        Shape({"applyOps": [{"op": "n", "ns": "", "o": {}}]}, "applyOps@cluster"),
        _entry("insert@other.c", "i"),
        _entry("update@other.c", "u"),
        _entry("update@other.c insert@other.c", "u", b=True),
        _entry("remove@other.c", "d"),
        _entry("dropCollection@other.c", "c", ns="other.$cmd", o={"drop": "c"}),
    ),
    "authenticate": (Shape({"authenticate": 1}),),
    "balancerStart": (Shape({"balancerStart": 1}, "update@config.settings"),),
    "balancerStatus": (Shape({"balancerStatus": 1}, "find@config.settings"),),
    "balancerStop": (Shape({"balancerStop": 1}, "update@config.settings"),),
    "buildInfo": (Shape({"buildInfo": 1}),),
    "bulkWrite": (
        _bulk("insert@c", {"insert": 0, **_INSERT_OP}),
        _bulk("insert@c", {"insert": 0.0, **_INSERT_OP}),
        _bulk("insert@c", {"insert": Int64(0), **_INSERT_OP}),
        _bulk("insert@c", {"insert": Decimal128("0"), **_INSERT_OP}),
        _bulk("insert@other.d", {"insert": 1, **_INSERT_OP}),
        _bulk("update@c", {"update": 0.0, "filter": {}, "updateMods": {"$set": {"a": 1}}}),
        _bulk(
            "update@c insert@c",
            {"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}, "upsert": True},
        ),
        _bulk("remove@c", {"delete": 0, "filter": {}}),
        _bulk("remove@c insert@other.d", {"delete": 0, "filter": {}}, {"insert": 1.0, **_INSERT_OP}),
        _bulk(
            "insert@c bypassDocumentValidation@c",
            {"insert": 0, **_INSERT_OP},
            bypassDocumentValidation=True,
        ),
    ),
    "checkMetadataConsistency": (
        Shape({"checkMetadataConsistency": 1}, "checkMetadataConsistency@cluster"),
        Shape({"checkMetadataConsistency": "c"}, "checkMetadataConsistency@cluster"),
    ),
    "collMod": (
        *_on_collection("collMod", "collMod"),
        Shape({"collMod": "c", **_VIEW}, f"collMod@c {_SEES} | collMod@c !find@c"),
    ),
    "collStats": _on_collection("collStats", "collStats"),
    "commitTransaction": (Shape({"commitTransaction": 1}),),
    "autoCompact": (Shape({"autoCompact": False}, "compact@cluster"),),
    "cleanupStructuredEncryptionData": _on_collection(
        "cleanupStructuredEncryptionData", "cleanupStructuredEncryptionData", cleanupTokens={}
    ),
    "cloneCollectionAsCapped": (
        Shape(
            {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 4096},
            "find@c insert@d createIndex@d convertToCapped@d",
        ),
    ),
    "compact": _on_collection("compact", "compact"),
    "compactStructuredEncryptionData": _on_collection(
        "compactStructuredEncryptionData", "compactStructuredEncryptionData", compactionTokens={}
    ),
    "configureFailPoint": (Shape({"configureFailPoint": "failCommand", "mode": "off"}),),
    "connPoolStats": _on_cluster("connPoolStats"),
    "connectionStatus": (Shape({"connectionStatus": 1, "showPrivileges": True}),),
    "convertToCapped": _on_collection("convertToCapped", "convertToCapped", size=1000),
    "count": _on_collection("count", "find"),
    "create": (
        Shape({"create": "c"}, "createCollection@c | insert@c"),
        Shape(
            {"create": "c", "capped": 1.0, "size": 1000},
            "convertToCapped@c createCollection@c | convertToCapped@c insert@c",
        ),
        Shape({"create": "c", **_VIEW}, f"createCollection@c {_SEES} | createCollection@c !find@c"),
        Shape({"create": "c", "viewOn": "d"}, "createCollection@c find@d | createCollection@c !find@c"),
        Shape(
            {"create": "c", "viewOn": "system.users"},
            "createCollection@c find@system.users | createCollection@c !find@c",
        ),
    ),
    "createIndexes": _on_collection("createIndexes", "createIndex", indexes=[{"key": {"a": 1}, "name": "a"}]),
    "createRole": (
        Shape({"createRole": "r", "privileges": [], "roles": []}, "createRole@."),
        Shape(
            {"createRole": "r", "privileges": [], "roles": _BOTH}, "createRole@. grantRole@. grantRole@other"
        ),
        Shape({"createRole": "r", "privileges": [], "roles": _ROOT}, "createRole@. grantRole@admin"),
        Shape(
            {"createRole": "r", "privileges": _PRIVILEGES, "roles": []},
            "createRole@. grantRole@. grantRole@other",
        ),
        *(
            Shape({"createRole": "r", "privileges": [wide], "roles": []}, "createRole@. grantRole@admin")
            for wide in _WIDE
        ),
    ),
    "createSearchIndexes": _on_collection("createSearchIndexes", "createSearchIndexes", indexes=[]),
    "createUser": (
        Shape({"createUser": "y", "pwd": "y", "roles": []}, "createUser@."),
        Shape({"createUser": "y", "pwd": "y", "roles": _BOTH}, "createUser@. grantRole@. grantRole@other"),
        Shape({"createUser": "y", "pwd": "y", "roles": _ROOT}, "createUser@. grantRole@admin"),
        Shape(
            {"createUser": "y", "pwd": "y", "roles": [], "authenticationRestrictions": []},
            "createUser@. setAuthenticationRestriction@.",
        ),
    ),
    "currentOp": (
        Shape({"currentOp": 1}, "inprog@cluster"),
        Shape({"currentOp": 1, "$ownOps": True}, "", on_mongos="inprog@cluster"),
        Shape({"currentOp": 1, "$ownOps": Decimal128("0")}, "inprog@cluster"),
    ),
    "dataSize": (Shape({"dataSize": "DB.c"}, "find@c"), Shape({"dataSize": "other.c"}, "find@other.c")),
    "dbHash": (Shape({"dbHash": 1}, "dbHash@."),),
    "dbStats": (Shape({"dbStats": 1}, "dbStats@."),),
    "delete": _on_collection("delete", "remove", deletes=[{"q": {}, "limit": 0}]),
    "distinct": _on_collection("distinct", "find", key="a"),
    "drop": _on_collection("drop", "dropCollection"),
    "dropAllRolesFromDatabase": (Shape({"dropAllRolesFromDatabase": 1}, "dropRole@."),),
    "dropAllUsersFromDatabase": (Shape({"dropAllUsersFromDatabase": 1}, "dropUser@."),),
    "dropDatabase": (Shape({"dropDatabase": 1}, "dropDatabase@."),),
    "dropIndexes": _on_collection("dropIndexes", "dropIndex", index="a"),
    "dropRole": (Shape({"dropRole": "r"}, "dropRole@."),),
    "dropSearchIndex": _on_collection("dropSearchIndex", "dropSearchIndex", name="a"),
    "dropUser": (Shape({"dropUser": "y"}, "dropUser@."),),
    "enableSharding": (Shape({"enableSharding": DB}, "enableSharding@."),),
    "endSessions": (Shape({"endSessions": [{"id": _UUID}]}),),
    "explain": (
        _explained({"find": "c"}, "find@c"),
        _explained({"count": "c"}, "find@c"),
        _explained({"distinct": "c", "key": "a"}, "find@c"),
        _explained({"aggregate": "c", "pipeline": [{"$unionWith": "d"}], "cursor": {}}, "find@c find@d"),
        _explained({"update": "c", **_UPDATE}, "update@c"),
        _explained({"update": "c", "updates": _UPSERT}, "update@c insert@c"),
        _explained({"delete": "c", "deletes": [{"q": {}, "limit": 1}]}, "remove@c"),
        _explained({"findAndModify": "c", "remove": 1.0}, "find@c remove@c"),
        _explained({"findandmodify": "c", "update": {"$set": {"a": 1}}}, "find@c update@c"),
        _explained({"mapreduce": "c", **_SUM, "out": "d"}, "find@c insert@d remove@d"),
        _explained({"insert": "c", "documents": [{}]}, "insert@c"),
        _explained({"explain": {"find": "c"}}, "find@c"),
        _explained({"dropDatabase": 1}, "dropDatabase@."),
        _explained({"shutdown": 1}, "shutdown@cluster"),
    ),
    "find": (
        *_on_collection("find", "find"),
        Shape({"find": "system.users"}, "find@system.users"),
        Shape({"find": "c", "term": Int64(1)}, "find@c internal@cluster"),
    ),
    "findAndModify": (
        Shape({"findAndModify": "c", "update": {"$set": {"a": 1}}}, "find@c update@c"),
        Shape({"findAndModify": "c", "update": {}, "upsert": Int64(1)}, "find@c update@c insert@c"),
        Shape({"findAndModify": "c", "remove": Decimal128("1")}, "find@c remove@c"),
        Shape(
            {"findAndModify": "c", "update": {}, "bypassDocumentValidation": True},
            "find@c update@c bypassDocumentValidation@c",
        ),
    ),
    "flushRouterConfig": _on_cluster("flushRouterConfig"),
    "dropConnections": _on_cluster("dropConnections", hostAndPort=[]),
    "filemd5": (Shape({"filemd5": 1}, "find@."),),
    "fsync": _on_cluster("fsync"),
    "getClusterParameter": (Shape({"getClusterParameter": "*"}, "getClusterParameter@cluster"),),
    "lockInfo": _on_cluster("lockInfo", "serverStatus"),
    "setQuerySettings": (
        Shape(
            {"setQuerySettings": {"find": "c", "filter": {}, "$db": "db"}, "settings": {"reject": True}},
            "querySettings@cluster",
        ),
    ),
    "setUserWriteBlockMode": _on_cluster("setUserWriteBlockMode", **{"global": False}),
    "rotateCertificates": _on_cluster("rotateCertificates"),
    "setIndexCommitQuorum": _on_collection(
        "setIndexCommitQuorum", "createIndex", indexNames=["a"], commitQuorum=1
    ),
    "removeQuerySettings": _on_cluster("removeQuerySettings", "querySettings"),
    "setClusterParameter": (
        Shape(
            {"setClusterParameter": {"changeStreams": {"expireAfterSeconds": 60}}},
            "setClusterParameter@cluster",
        ),
    ),
    "validateDBMetadata": (
        Shape({"validateDBMetadata": 1, "apiParameters": {"version": "1"}}, "validate@*"),
        Shape({"validateDBMetadata": 1, "apiParameters": {"version": "1"}, "db": "other"}, "validate@other"),
    ),
    "fsyncUnlock": _on_cluster("fsyncUnlock", "unlock"),
    "getCmdLineOpts": _on_cluster("getCmdLineOpts"),
    "getDefaultRWConcern": _on_cluster("getDefaultRWConcern"),
    "getLog": (Shape({"getLog": "global"}, "getLog@cluster"),),
    "getMore": (
        Shape({"getMore": Int64(1), "collection": "c"}),
        Shape({"getMore": Int64(1), "collection": "c", "term": Int64(1)}, "internal@cluster"),
    ),
    "getParameter": _on_cluster("getParameter", logLevel=1),
    "getShardMap": _on_cluster("getShardMap"),
    "getnonce": (Shape({"getnonce": 1}),),
    "grantPrivilegesToRole": (
        Shape({"grantPrivilegesToRole": "r", "privileges": _PRIVILEGES}, "grantRole@. grantRole@other"),
        *(Shape({"grantPrivilegesToRole": "r", "privileges": [wide]}, "grantRole@admin") for wide in _WIDE),
    ),
    "grantRolesToRole": (
        Shape({"grantRolesToRole": "r", "roles": _BOTH}, "grantRole@. grantRole@other"),
        Shape({"grantRolesToRole": "r", "roles": _ROOT}, "grantRole@admin"),
    ),
    "grantRolesToUser": (
        Shape({"grantRolesToUser": "x", "roles": _BOTH}, "grantRole@. grantRole@other"),
        Shape({"grantRolesToUser": "x", "roles": _ROOT}, "grantRole@admin"),
    ),
    "hello": (Shape({"hello": 1}),),
    "hostInfo": _on_cluster("hostInfo"),
    "insert": (
        *_on_collection("insert", "insert", documents=[{}]),
        Shape(
            {"insert": "c", "documents": [{}], "bypassDocumentValidation": 1.0},
            "insert@c bypassDocumentValidation@c",
        ),
        Shape({"insert": "c", "documents": [{}], "bypassDocumentValidation": Decimal128("0")}, "insert@c"),
        Shape({"insert": "system.users", "documents": [{}]}, "insert@system.users"),
        Shape({"insert": "system.views", "documents": [{}]}, "insert@system.views"),
    ),
    "invalidateUserCache": _on_cluster("invalidateUserCache"),
    "isMaster": (Shape({"isMaster": 1}),),
    "isdbgrid": (Shape({"isdbgrid": 1}),),
    "killAllSessions": (
        Shape({"killAllSessions": []}, "killAnySession@cluster"),
        Shape({"killAllSessions": [{"user": "x", "db": "db"}]}, "killAnySession@cluster"),
    ),
    "killAllSessionsByPattern": (
        Shape({"killAllSessionsByPattern": []}, "killAnySession@cluster"),
        Shape({"killAllSessionsByPattern": [{"uid": Binary(bytes(32))}]}, "killAnySession@cluster"),
    ),
    "killCursors": (Shape({"killCursors": "c", "cursors": [Int64(1)]}),),
    "killOp": (
        Shape({"killOp": 1, "op": 1000}, "killop@cluster"),
        Shape({"killOp": 1, "op": "shard:1000"}, "killop@cluster"),
    ),
    "killSessions": (Shape({"killSessions": [{"id": _UUID}]}), Shape({"killSessions": []})),
    "listCollections": (
        Shape({"listCollections": 1}, "listCollections@."),
        Shape({"listCollections": 1, "nameOnly": True}, "listCollections@."),
        Shape({"listCollections": 1, "authorizedCollections": True}, "listCollections@."),
        Shape({"listCollections": 1, "nameOnly": True, "authorizedCollections": False}, "listCollections@."),
    ),
    "listCommands": (Shape({"listCommands": 1}),),
    "listDatabases": (Shape({"listDatabases": 1}),),
    "listIndexes": _on_collection("listIndexes", "listIndexes"),
    "listSearchIndexes": _on_collection("listSearchIndexes", "listSearchIndexes"),
    "listShards": _on_cluster("listShards"),
    "logRotate": _on_cluster("logRotate"),
    "logout": (Shape({"logout": 1}),),
    "mapReduce": (
        Shape({"mapReduce": "c", **_SUM, "out": {"inline": 1}}, "find@c"),
        Shape({"mapReduce": "c", **_SUM, "out": "d"}, "find@c insert@d remove@d"),
        Shape({"mapReduce": "c", **_SUM, "out": {"replace": "d"}}, "find@c insert@d remove@d"),
        Shape({"mapReduce": "c", **_SUM, "out": {"merge": "d"}}, "find@c insert@d update@d"),
        Shape(
            {"mapReduce": "c", **_SUM, "out": {"reduce": "d", "db": "other"}},
            "find@c insert@other.d update@other.d",
        ),
    ),
    "ping": (Shape({"ping": 1}),),
    "planCacheClear": _on_collection("planCacheClear", "planCacheWrite"),
    **{
        name: _on_collection(name, "planCacheIndexFilter", **more)
        for name, more in (
            ("planCacheSetFilter", {"query": {"a": 1}, "indexes": ["a_1"]}),
            ("planCacheListFilters", {}),
            ("planCacheClearFilters", {}),
        )
    },
    "profile": (
        Shape({"profile": -1}, "find@system.profile | enableProfiler@."),
        Shape({"profile": -1, "slowms": 5}, "enableProfiler@."),
        Shape({"profile": 0}, "enableProfiler@."),
    ),
    "reIndex": _on_collection("reIndex", "reIndex"),
    "refreshLogicalSessionCacheNow": (Shape({"refreshLogicalSessionCacheNow": 1}),),
    "refreshSessions": (Shape({"refreshSessions": [{"id": _UUID}]}),),
    "renameCollection": (
        Shape(
            {"renameCollection": "DB.c", "to": "DB.d"},
            "renameCollectionSameDB@. | find@c dropCollection@c insert@d createIndex@d",
        ),
        Shape(
            {"renameCollection": "DB.c", "to": "DB.d", "dropTarget": True},
            "renameCollectionSameDB@. dropCollection@d"
            " | find@c dropCollection@c insert@d createIndex@d dropCollection@d",
        ),
        Shape(
            {"renameCollection": "DB.c", "to": "third.c"},
            "find@c dropCollection@c insert@third.c createIndex@third.c",
        ),
        Shape(
            {"renameCollection": "DB.c", "to": "DB.system.users"},
            "find@c dropCollection@c insert@system.users createIndex@system.users",
        ),
    ),
    "replSetFreeze": _on_cluster("replSetFreeze", "replSetStateChange"),
    "replSetGetConfig": _on_cluster("replSetGetConfig"),
    "replSetGetRBID": _on_cluster("replSetGetRBID", "internal"),
    "replSetGetStatus": _on_cluster("replSetGetStatus"),
    "replSetMaintenance": _on_cluster("replSetMaintenance", "replSetStateChange"),
    "replSetReconfig": (Shape({"replSetReconfig": {}}, "replSetConfigure@cluster"),),
    "replSetStepDown": _on_cluster("replSetStepDown", "replSetStateChange"),
    "replSetStepUp": _on_cluster("replSetStepUp", "replSetStateChange"),
    "revokePrivilegesFromRole": (
        Shape({"revokePrivilegesFromRole": "r", "privileges": _PRIVILEGES}, "revokeRole@. revokeRole@other"),
        *(
            Shape({"revokePrivilegesFromRole": "r", "privileges": [wide]}, "revokeRole@admin")
            for wide in _WIDE
        ),
    ),
    "revokeRolesFromRole": (
        Shape({"revokeRolesFromRole": "r", "roles": _BOTH}, "revokeRole@. revokeRole@other"),
        Shape({"revokeRolesFromRole": "r", "roles": _ROOT}, "revokeRole@admin"),
    ),
    "revokeRolesFromUser": (
        Shape({"revokeRolesFromUser": "x", "roles": _BOTH}, "revokeRole@. revokeRole@other"),
        Shape({"revokeRolesFromUser": "x", "roles": _ROOT}, "revokeRole@admin"),
    ),
    "rolesInfo": (
        Shape({"rolesInfo": 1}, "viewRole@."),
        Shape({"rolesInfo": "r"}, "viewRole@."),
        Shape({"rolesInfo": ["r", {"role": "r", "db": "other"}]}, "viewRole@. viewRole@other"),
    ),
    "saslContinue": (Shape({"saslContinue": 1, "conversationId": 1, "payload": b""}),),
    "saslStart": (Shape({"saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": b""}),),
    "serverStatus": _on_cluster("serverStatus"),
    "setDefaultRWConcern": _on_cluster("setDefaultRWConcern", defaultWriteConcern={"w": 1}),
    "setFeatureCompatibilityVersion": (
        Shape({"setFeatureCompatibilityVersion": "8.0"}, "setFeatureCompatibilityVersion@cluster"),
    ),
    "setParameter": _on_cluster("setParameter", logLevel=0),
    "shardCollection": (Shape({"shardCollection": "DB.c", "key": {"_id": 1}}, "enableSharding@c"),),
    "pushbackd": (Shape({"pushbackd": "state"}, "shutdown@cluster createUser@admin"),),
    "shutdown": _on_cluster("shutdown"),
    "getLastError": (Shape({"getLastError": 1}),),
    "startSession": (Shape({"startSession": 1}),),
    "testDeprecation": (Shape({"testDeprecation": 1}),),
    "testDeprecationInVersion2": (Shape({"testDeprecationInVersion2": 1}),),
    "testVersion2": (Shape({"testVersion2": 1}),),
    "top": _on_cluster("top"),
    "update": (
        *_on_collection("update", "update", **_UPDATE),
        Shape({"update": "c", "updates": _UPSERT}, "update@c insert@c"),
        Shape(
            {"update": "c", **_UPDATE, "bypassDocumentValidation": True},
            "update@c bypassDocumentValidation@c",
        ),
    ),
    "updateRole": (
        Shape({"updateRole": "r", "roles": []}, "revokeRole@*"),
        Shape({"updateRole": "r", "roles": _ROOT}, "revokeRole@* grantRole@admin"),
        Shape({"updateRole": "r", "roles": _BOTH}, "revokeRole@* grantRole@. grantRole@other"),
        Shape({"updateRole": "r", "privileges": _PRIVILEGES}, "revokeRole@* grantRole@. grantRole@other"),
        *(Shape({"updateRole": "r", "privileges": [wide]}, "revokeRole@* grantRole@admin") for wide in _WIDE),
    ),
    "updateSearchIndex": _on_collection("updateSearchIndex", "updateSearchIndex", name="a", definition={}),
    "updateUser": (
        Shape({"updateUser": "y", "pwd": "y"}, "changePassword@."),
        Shape({"updateUser": "y", "mechanisms": ["SCRAM-SHA-1"]}, "changePassword@."),
        Shape({"updateUser": "y", "customData": {}}, "changeCustomData@."),
        Shape({"updateUser": "y", "authenticationRestrictions": []}, "setAuthenticationRestriction@."),
        Shape({"updateUser": "y", "roles": []}, "revokeRole@*"),
        Shape({"updateUser": "y", "roles": _ROOT}, "revokeRole@* grantRole@admin"),
        Shape({"updateUser": "y", "roles": _BOTH}, "revokeRole@* grantRole@. grantRole@other"),
    ),
    "usersInfo": (
        Shape({"usersInfo": 1}, "viewUser@."),
        Shape({"usersInfo": "y"}, "viewUser@."),
        Shape({"usersInfo": {"user": "y", "db": "other"}}, "viewUser@other"),
        Shape({"usersInfo": ["y", {"user": "x", "db": "db"}]}, "viewUser@."),
        Shape({"usersInfo": {"forAllDBs": True}}, "viewUser@cluster"),
    ),
    "validate": _on_collection("validate", "validate"),
    "waitForFailPoint": (Shape({"waitForFailPoint": "failCommand", "timesEntered": 1}),),
    "whatsmyuri": (Shape({"whatsmyuri": 1}),),
}


def about(value: Any, db: str) -> Any:
    """Return a command with the database that it is about in its place."""
    if isinstance(value, str):
        return value.replace(DB, db)
    if isinstance(value, dict):
        return {name: about(each, db) for name, each in value.items()}
    return [about(each, db) for each in value] if isinstance(value, list) else value
