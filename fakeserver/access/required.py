"""Which privileges each command needs, as data.

A command that is not listed needs those of its kind: `read` to find, `write` to insert, update and remove in
its collection, `admin` and `internal` the cluster's `internal` action, which only root has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fakeserver.access.roles import CLUSTER, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fakeserver.commands.table import CommandSpec

Need: TypeAlias = "tuple[Resource, str]"


class _On(NamedTuple):
    """Actions that a command needs on its `scope`: `collection`, `db`, `cluster`."""

    scope: str
    actions: tuple[str, ...]


_FREE: Final = frozenset(
    {
        *("abortTransaction", "commitTransaction", "coordinateCommitTransaction", "endSessions"),
        *("refreshSessions", "startSession", "getMore", "killCursors", "getLastError", "listCommands"),
        *("configureFailPoint", "waitForFailPoint", "isdbgrid", "features", "testVersion2"),
        *("testDeprecation", "testDeprecationInVersion2", "listDatabases", "killSessions"),
        "getnonce",
    }
)
"""They need no privilege of their own: what they do is checked elsewhere, or concerns the client's own."""

_NEEDS: Final[Mapping[str, _On]] = {
    **dict.fromkeys(("find", "count", "distinct"), _On("collection", ("find",))),
    "insert": _On("collection", ("insert",)),
    "update": _On("collection", ("update",)),
    "delete": _On("collection", ("remove",)),
    "create": _On("collection", ("createCollection",)),
    "drop": _On("collection", ("dropCollection",)),
    "collMod": _On("collection", ("collMod",)),
    "createIndexes": _On("collection", ("createIndex",)),
    "dropIndexes": _On("collection", ("dropIndex",)),
    "listIndexes": _On("collection", ("listIndexes",)),
    "collStats": _On("collection", ("collStats",)),
    "validate": _On("collection", ("validate",)),
    "compact": _On("collection", ("compact",)),
    "planCacheClear": _On("collection", ("planCacheWrite",)),
    "dataSize": _On("db", ("find",)),
    "createSearchIndexes": _On("collection", ("createSearchIndexes",)),
    "updateSearchIndex": _On("collection", ("updateSearchIndex",)),
    "dropSearchIndex": _On("collection", ("dropSearchIndex",)),
    "dropDatabase": _On("db", ("dropDatabase",)),
    "dbStats": _On("db", ("dbStats",)),
    "profile": _On("db", ("enableProfiler",)),
    "dbHash": _On("db", ("dbHash",)),
    "convertToCapped": _On("collection", ("convertToCapped",)),
    "reIndex": _On("collection", ("reIndex",)),
    "createUser": _On("db", ("createUser", "grantRole")),
    "dropUser": _On("db", ("dropUser",)),
    "dropAllUsersFromDatabase": _On("db", ("dropUser",)),
    "grantRolesToUser": _On("db", ("grantRole",)),
    "revokeRolesFromUser": _On("db", ("revokeRole",)),
    "createRole": _On("db", ("createRole", "grantRole")),
    "updateRole": _On("db", ("grantRole", "revokeRole")),
    "grantPrivilegesToRole": _On("db", ("grantRole",)),
    "revokePrivilegesFromRole": _On("db", ("revokeRole",)),
    "grantRolesToRole": _On("db", ("grantRole",)),
    "revokeRolesFromRole": _On("db", ("revokeRole",)),
    "dropRole": _On("db", ("dropRole",)),
    "dropAllRolesFromDatabase": _On("db", ("dropRole",)),
    "usersInfo": _On("db", ("viewUser",)),
    "rolesInfo": _On("db", ("viewRole",)),
    **{
        name: _On("cluster", (action,))
        for name, action in (
            ("serverStatus", "serverStatus"),
            ("getCmdLineOpts", "getCmdLineOpts"),
            ("getParameter", "getParameter"),
            ("setParameter", "setParameter"),
            ("getLog", "getLog"),
            ("hostInfo", "hostInfo"),
            ("killAllSessions", "killAnySession"),
            ("killAllSessionsByPattern", "killAnySession"),
            ("replSetGetStatus", "replSetGetStatus"),
            ("replSetGetConfig", "replSetGetConfig"),
            ("replSetFreeze", "replSetStateChange"),
            ("replSetStepDown", "replSetStateChange"),
            ("replSetMaintenance", "replSetStateChange"),
            ("replSetStepUp", "replSetStateChange"),
            ("replSetReconfig", "replSetConfigure"),
            ("currentOp", "inprog"),
            ("killOp", "killop"),
            ("top", "top"),
            ("fsync", "fsync"),
            ("fsyncUnlock", "unlock"),
            ("connPoolStats", "connPoolStats"),
            ("getDefaultRWConcern", "getDefaultRWConcern"),
            ("setDefaultRWConcern", "setDefaultRWConcern"),
            ("setFeatureCompatibilityVersion", "setFeatureCompatibilityVersion"),
            ("logRotate", "logRotate"),
            ("shutdown", "shutdown"),
            ("listShards", "listShards"),
            ("flushRouterConfig", "flushRouterConfig"),
            ("invalidateUserCache", "invalidateUserCache"),
        )
    },
}


def needs(spec: CommandSpec, db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    """Iterate over the actions that a command needs, each with its resource."""
    special = _SPECIAL.get(spec.name)
    if special is not None:
        yield from special(db, command)
        return
    need = _NEEDS.get(spec.name)
    if need is None:
        need = None if spec.name in _FREE or not spec.requires_auth else _BY_KIND[spec.kind]
    if need is not None:
        resource = _resource(need.scope, db, command)
        yield from ((resource, action) for action in need.actions)


_BY_KIND: Final[Mapping[str, _On]] = {
    "read": _On("collection", ("find",)),
    "write": _On("collection", ("insert", "update", "remove")),
    "admin": _On("cluster", ("internal",)),
    "internal": _On("cluster", ("internal",)),
}


def _resource(scope: str, db: str, command: Mapping[str, Any]) -> Resource:
    if scope == "cluster":
        return CLUSTER
    target = next(iter(command.values()), None)
    return Resource(db, target if scope == "collection" and isinstance(target, str) else "")


def _find_and_modify(db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    resource = _resource("collection", db, command)
    yield resource, "find"
    yield resource, "remove" if command.get("remove") else "update"
    if command.get("upsert"):
        yield resource, "insert"


def _aggregate(db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    """Iterate over what the first stage needs, and what the collections do that a pipeline names."""
    pipeline = command.get("pipeline")
    stages = [each for each in pipeline if isinstance(each, dict)] if isinstance(pipeline, list) else []
    source = next(iter(stages[0]), "") if stages else ""
    if source == "$currentOp":
        spec = stages[0][source]
        if isinstance(spec, dict) and spec.get("allUsers"):
            yield CLUSTER, "inprog"
    elif source == "$listSessions":
        yield CLUSTER, "listSessions"
    elif source not in _OPEN_SOURCES:
        resource = _resource("collection", db, command)
        yield from ((resource, action) for action in _SOURCES.get(source, ("find",)))
    yield from _stages(db, stages)


def _map_reduce(db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    """Iterate over what reading needs, and writing to the collection that the results go to."""
    yield _resource("collection", db, command), "find"
    out = command.get("out")
    for way, target in (out if isinstance(out, dict) else {"replace": out}).items():
        if way in _OUTPUTS:
            place = {"coll": target, "db": out.get("db", db)} if isinstance(out, dict) else target
            yield from ((_namespace(db, place), action) for action in _OUTPUTS[way])


_OUTPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "replace": ("insert", "remove"),
    "merge": ("insert", "update"),
    "reduce": ("insert", "update"),
}
_OPEN_SOURCES: Final = frozenset({"$documents", "$listLocalSessions"})
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "$changeStream": ("find", "changeStream"),
    "$collStats": ("collStats",),
    "$indexStats": ("indexStats",),
    "$planCacheStats": ("planCacheRead",),
    "$listSearchIndexes": ("listSearchIndexes",),
}


def _stages(db: str, stages: Iterable[Any]) -> Iterator[Need]:
    """Iterate over what stages need of other collections; `$out` and `$merge` write to one."""
    for stage in stages:
        for name, argument in stage.items() if isinstance(stage, dict) else ():
            if name == "$out":
                resource = _namespace(db, argument)
                yield from ((resource, action) for action in ("insert", "remove"))
            elif name == "$merge":
                resource = _namespace(db, argument.get("into") if isinstance(argument, dict) else argument)
                yield from ((resource, action) for action in ("insert", "update"))
            elif name == "$facet" and isinstance(argument, dict):
                for inner in argument.values():
                    yield from _stages(db, inner if isinstance(inner, list) else ())
            elif name in _JOINS:
                yield from _joined(db, argument, _JOINS[name])


_JOINS: Final[Mapping[str, str]] = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}


def _joined(db: str, argument: Any, field: str) -> Iterator[Need]:
    spec = argument if isinstance(argument, dict) else {field: argument}
    if field in spec:
        yield _namespace(db, spec[field]), "find"
    inner = spec.get("pipeline")
    yield from _stages(db, inner if isinstance(inner, list) else ())


def _list_collections(db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    """Ask for nothing where only the names are wanted of what a client may use anyhow."""
    if not (command.get("nameOnly") and command.get("authorizedCollections")):
        yield Resource(db), "listCollections"


def _current_op(_db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    """Ask for nothing where a client wants to see its own operations."""
    if not command.get("$ownOps"):
        yield CLUSTER, "inprog"


def _update_user(db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    for name, actions in _USER_CHANGES.items():
        if name in command:
            yield from ((Resource(db), action) for action in actions)


_USER_CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "pwd": ("changePassword",),
    "customData": ("changeCustomData",),
    "roles": ("grantRole", "revokeRole"),
    "authenticationRestrictions": ("setAuthenticationRestriction",),
}


def _namespace(db: str, target: Any) -> Resource:
    if isinstance(target, dict):
        return Resource(str(target.get("db", db)), str(target.get("coll", "")))
    return Resource(db, target if isinstance(target, str) else "")


_BULK_ACTIONS: Final = {"insert": "insert", "update": "update", "delete": "remove"}


def _bulk_write(_db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    namespaces = command.get("nsInfo") or ()
    for each in command.get("ops") or ():
        name = next(iter(each), None)
        action = _BULK_ACTIONS.get(name or "")
        index = each.get(name)
        if action is None or not isinstance(index, int) or not 0 <= index < len(namespaces):
            continue
        ns = namespaces[index].get("ns")
        db, _, collection = str(ns).partition(".")
        yield Resource(db, collection), action


def _rename(_db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    source, target = (str(value).partition(".") for value in (command["renameCollection"], command.get("to")))
    if source[0] == target[0]:
        yield Resource(source[0]), "renameCollectionSameDB"
        return
    yield Resource(source[0], source[2]), "find"
    yield Resource(source[0], source[2]), "dropCollection"
    yield Resource(target[0], target[2]), "insert"
    yield Resource(target[0], target[2]), "createIndex"


def _explain(db: str, command: Mapping[str, Any]) -> Iterator[Need]:
    """To explain a command needs what to run it would."""
    inner = command["explain"]
    name = next(iter(inner), "") if isinstance(inner, dict) else ""
    if name in _SPECIAL and name != "explain":
        yield from _SPECIAL[name](db, inner)
    elif name in _NEEDS:
        resource = _resource(_NEEDS[name].scope, db, inner)
        yield from ((resource, action) for action in _NEEDS[name].actions)


_SPECIAL: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[Need]]]] = {
    "aggregate": _aggregate,
    "mapReduce": _map_reduce,
    "findAndModify": _find_and_modify,
    "listCollections": _list_collections,
    "updateUser": _update_user,
    "bulkWrite": _bulk_write,
    "currentOp": _current_op,
    "explain": _explain,
    "renameCollection": _rename,
}
