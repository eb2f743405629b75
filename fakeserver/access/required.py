"""The privileges that each command needs: the rules, and at the end their table.

Every command has its rule here, also one that anybody may run: a command without a rule is refused to all but
the server's own user.

Nobody gives what it could not give where it belongs: roles and privileges are granted and revoked by leave of
their own databases, those of the cluster or of many databases by leave of `admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Decimal128

from fakeserver.access.ask import anybody, is_set, on_cluster, on_collection, on_database
from fakeserver.access.privileges import CLUSTER, EVERYWHERE, Resource
from fakeserver.access.roles import Everyone, privileges_of, role_names, roles_asked_for, users_asked_for
from fakeserver.access.session import SessionListing
from fakeserver.errors import CommandError
from fakeserver.idl.fields import check_inner_db, whole
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.access.ask import Ask, Need, Rule
    from fakeserver.idl.command_table import CommandSpec


# Commands that manage users and roles.


_GRANT: Final = "grantRole"
_REVOKE: Final = "revokeRole"
_ADMIN: Final = Resource("admin")


def may_create_user(ask: Ask) -> bool:
    """Permit to make a user of this database, with roles that the client could grant."""
    return ask.may(Resource(ask.db), "createUser") and _may_give(ask) and _may_restrict(ask)


def may_update_user(ask: Ask) -> bool:
    """Permit to change the fields of the command; new roles revoke the old ones, which may be any."""
    if {"pwd", "mechanisms"} & ask.command.keys() and not _may_change(ask, "Password"):
        return False
    if "customData" in ask.command and not _may_change(ask, "CustomData"):
        return False
    # New roles replace the old ones, so they are revoked and granted.
    if "roles" in ask.command and not (ask.may(EVERYWHERE, _REVOKE) and _may_give(ask)):
        return False
    return _may_restrict(ask)


def _may_change(ask: Ask, what: str) -> bool:
    """Return whether a client may change a user's property, or its own where it is that user."""
    own = (ask.db, ask.target) in ask.identity.names and ask.may(Resource(ask.db), f"changeOwn{what}")
    return own or ask.may(Resource(ask.db), f"change{what}")


def _may_restrict(ask: Ask) -> bool:
    return "authenticationRestrictions" not in ask.command or ask.may(
        Resource(ask.db), "setAuthenticationRestriction"
    )


def may_create_role(ask: Ask) -> bool:
    """Permit to define a role of this database that has nothing that the client could not grant."""
    return ask.may(Resource(ask.db), "createRole") and _may_give(ask) and _may_restrict(ask)


def may_update_role(ask: Ask) -> bool:
    """Permit to define a role anew; that takes away from it what may be any role."""
    return ask.may(EVERYWHERE, _REVOKE) and _may_give(ask) and _may_restrict(ask)


def handing(action: str) -> Rule:
    """Return the rule of a command that only grants, or only revokes."""
    return lambda ask: _may_hand(ask, action)


def _may_give(ask: Ask) -> bool:
    return _may_hand(ask, _GRANT)


def _may_hand(ask: Ask, action: str) -> bool:
    """Return whether the roles and the privileges of a command may be granted, or revoked."""
    command = ask.command
    roles = role_names(command.get("roles", ()), ask.db)
    privileges = privileges_of(command.get("privileges", ()))
    # A privilege on many databases, or on the cluster, is granted by leave of `admin`.
    homes = [Resource(role.db) for role in roles]
    homes += [Resource(each.resource.db) if each.resource.db else _ADMIN for each in privileges]
    return all(ask.may(home, action) for home in homes)


def may_see_users(ask: Ask) -> bool:
    """Permit to ask about oneself, and about the users of databases whose users one may view."""
    asked = users_asked_for(ask.target, ask.db)
    if isinstance(asked, Everyone):
        return ask.may(CLUSTER if asked.db is None else Resource(asked.db), "viewUser")
    return all(
        (each.db, each.name) in ask.identity.names or ask.may(Resource(each.db), "viewUser") for each in asked
    )


def may_see_roles(ask: Ask) -> bool:
    """Permit to ask about roles that one has, and about those of databases whose roles one may view."""
    asked = roles_asked_for(ask.target, ask.db)
    if isinstance(asked, Everyone):
        return ask.may(Resource(ask.db), "viewRole")
    mine = {role for user in ask.identity.users(ask.node.users) for role in user.roles}
    return all(each in mine or ask.may(Resource(each.db), "viewRole") for each in asked)


# Commands that write documents, and those that make, change and rename collections.


_OUTPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "replace": ("insert", "remove"),
    "merge": ("insert", "update"),
    "reduce": ("insert", "update"),
}
"""The ways of `mapReduce` to write its results."""


_BULK: Final[Mapping[str, tuple[str, ...]]] = {
    "insert": ("insert",),
    "update": ("update",),
    "delete": ("remove",),
}
_NUMBERS: Final = (int, float, Decimal128)


def writing(*actions: str) -> Rule:
    """Return the rule of a command that writes documents of its collection."""
    return lambda ask: ask.may(ask.collection, *with_bypass(ask.command, *actions))


def may_update(ask: Ask) -> bool:
    """Permit updates; those that may insert need that too."""
    upserts = any(is_set(each, "upsert") for each in ask.command["updates"])
    actions = ("update", "insert") if upserts else ("update",)
    return ask.may(ask.collection, *with_bypass(ask.command, *actions))


def may_find_and_modify(ask: Ask) -> bool:
    """Permit to read and to change, as the command does."""
    command = ask.command
    actions = ["find", "remove" if is_set(command, "remove") else "update"]
    if is_set(command, "upsert"):
        actions.append("insert")
    return ask.may(ask.collection, *with_bypass(command, *actions))


def may_map_reduce(ask: Ask) -> bool:
    """Permit to read, and to write to the collection that the results go to."""
    needs: list[Need] = [(ask.collection, ("find",))]
    out = ask.command["out"]
    target = out if isinstance(out, dict) else {"replace": out}
    for way in _OUTPUTS:
        if way in target:
            resource = Resource(str(target.get("db", ask.db)), str(target[way]))
            needs.append((resource, with_bypass(ask.command, *_OUTPUTS[way])))
    return ask.may_all(needs)


def may_bulk_write(ask: Ask) -> bool:
    """Permit each operation on its collection. Raises `CommandError` 2 for one that names none."""
    namespaces = [Namespace.parse(each["ns"]) for each in ask.command["nsInfo"]]
    needed: dict[Need, None] = {}
    for operation in ask.command["ops"]:
        kind = next(iter(operation), "")
        if kind not in _BULK:
            continue  # refused as a whole, before anything is written
        # An index may be any BSON number: it is read as the command does.
        index = whole(operation[kind]) if isinstance(operation[kind], _NUMBERS) else -1
        if not 0 <= index < len(namespaces):
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"BulkWrite ops entry {show_document(operation)} has an invalid nsInfo index.",
            )
        upsert = kind == "update" and is_set(operation, "upsert")
        actions = (*_BULK[kind], "insert") if upsert else _BULK[kind]
        actions = actions if kind == "delete" else with_bypass(ask.command, *actions)
        needed[Resource(*namespaces[index]), actions] = None
    return ask.may_all(iter(needed))


def may_create(ask: Ask) -> bool:
    """Permit to make a collection, also to those who may insert into it; a view needs more."""
    command, made = ask.command, ask.collection
    if is_set(command, "capped") and not ask.may(made, "convertToCapped"):
        return False
    if "viewOn" in command:
        return ask.may(made, "createCollection") and _may_read_through(ask)
    return ask.may(made, "createCollection") or ask.may(made, "insert")


def may_modify(ask: Ask) -> bool:
    """Permit to change a collection; a view needs more. Raises `CommandError` 72 for half of a view."""
    if not ask.may(ask.collection, "collMod"):
        return False
    parts = {"viewOn", "pipeline"} & ask.command.keys()
    if len(parts) == 1:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "Must specify both 'viewOn' and 'pipeline' when modifying a view and auth is enabled",
        )
    return not parts or _may_read_through(ask)


def _may_read_through(ask: Ask) -> bool:
    """Return whether a client may have this view: one that it can read shows nothing that it may not see."""
    if not ask.may(ask.collection, "find"):
        return True
    pipeline: Sequence[Any] = ask.command.get("pipeline", ())
    source = Resource(ask.db, ask.command["viewOn"])
    return ask.may_all(pipeline_needs(ask, source, list(pipeline)))


def may_rename(ask: Ask) -> bool:
    """Permit it within a database by one action, else as reading, dropping and inserting.

    Nobody may turn a collection that it cannot read into one that it can.
    """
    source, target = (Resource(*Namespace.parse(name)) for name in (ask.target, ask.command["to"]))
    replaces = bool(ask.command.get("dropTarget"))
    ordinary = not any(each.collection.startswith("system.") for each in (source, target))
    if source.db == target.db and ordinary:
        renames = ask.may(Resource(source.db), "renameCollectionSameDB")
        drops = not replaces or ask.may(target, "dropCollection")
        if renames and drops and (ask.may(source, "find") or not ask.may(target, "find")):
            return True
    made = ("insert", "createIndex", "dropCollection") if replaces else ("insert", "createIndex")
    return ask.may(source, "find", "dropCollection") and ask.may(target, *made)


# Commands that explain, list, watch and kill.


_SETTINGS: Final = Resource("config", "settings")


def explaining(rules: Mapping[str, Rule]) -> Rule:
    """Return the rule of a command that explains others: it needs what to run them would.

    It raises `CommandError` 73 for a command of another database.
    """

    def rule(ask: Ask) -> bool:
        inner = ask.target
        check_inner_db(inner, ask.db)
        spec = ask.node.commands.get(next(iter(inner), ""))
        if spec is None:
            return True  # the answer is that there is no such command
        if spec.fields is not None:
            spec.fields.check_command(inner)
        rule_of_inner = rules.get(spec.name)
        return rule_of_inner is not None and rule_of_inner(ask.of(inner))

    return rule


def may_read(ask: Ask) -> bool:
    """Permit a find; a `term` is for the members of a set among themselves."""
    return _without_term(ask) and ask.may(ask.collection, "find")


def may_get_more(ask: Ask) -> bool:
    """Permit it to all: whose the cursor is, is seen when it is found."""
    return _without_term(ask)


def _without_term(ask: Ask) -> bool:
    return "term" not in ask.command or ask.may(CLUSTER, "internal")


def may_list_collections(ask: Ask) -> bool:
    """Permit the names of what a client may use to all who may do anything in the database."""
    names = is_set(ask.command, "nameOnly") and is_set(ask.command, "authorizedCollections")
    database = Resource(ask.db)
    return (names and ask.privileges.reach(database)) or ask.may(database, "listCollections")


def may_measure(ask: Ask) -> bool:
    """Permit to read the collection, which is named with its database."""
    target = ask.target
    ns = Namespace.parse(target) if type(target) is str else Namespace(ask.db, "")
    return ask.may(Resource(*ns), "find")


def may_validate_metadata(ask: Ask) -> bool:
    """Permit to validate the database that is named, or all."""
    db = ask.command.get("db")
    return ask.may(EVERYWHERE if db is None else Resource(db), "validate")


def may_clone(ask: Ask) -> bool:
    """Permit to read a collection, and to make a capped one of it."""
    target = ask.command.get("toCollection")
    made = Resource(ask.db, target if type(target) is str else "")
    return ask.may(ask.collection, "find") and ask.may(made, "insert", "createIndex", "convertToCapped")


_BY_OPERATION: Final = {"i": "insert", "u": "update", "d": "remove"}


def applying(rules: Mapping[str, Rule]) -> Rule:
    """Return the rule of applyOps: it needs what each entry would need if it were sent."""

    def permits(ask: Ask, entry: Any) -> bool:
        if not isinstance(entry, dict):
            return True  # which is refused when it is read
        op, change, ns = entry.get("op"), entry.get("o"), Namespace.parse(str(entry.get("ns")))
        if op in _BY_OPERATION:
            upsert = ("insert",) if op == "u" and is_set(entry, "b") else ()
            return ask.may(Resource(*ns), _BY_OPERATION[op], *upsert)
        if op == "c" and isinstance(change, dict):
            rule = rules.get(next(iter(change), ""))
            return rule is not None and rule(ask.of(change, ns.db))
        return True

    return lambda ask: ask.may(CLUSTER, "applyOps") and all(permits(ask, each) for each in ask.target)


def may_profile(ask: Ask) -> bool:
    """Permit to set what is recorded; the present setting shows itself to those who may read the records."""
    asks = ask.target == -1 and not {"slowms", "sampleRate", "filter"} & ask.command.keys()
    if asks and ask.may(Resource(ask.db, "system.profile"), "find"):
        return True
    return ask.may(Resource(ask.db), "enableProfiler")


def may_see_operations(ask: Ask) -> bool:
    """Permit clients to see their own operations on this very server, others by privilege."""
    own = is_set(ask.command, "$ownOps") and not ask.node.is_mongos
    return own or ask.may(CLUSTER, "inprog")


def may_kill_operation(ask: Ask) -> bool:
    """Permit clients to kill their own operations, others by privilege."""
    if ask.may(CLUSTER, "killop"):
        return True
    number, mine = ask.command["op"], ask.identity.names
    return not isinstance(number, str) and any(
        request.execution.operation_id == whole(number) and mine & request.connection.identity.names
        for _, request in ask.node.waiting()
    )


def on_settings(action: str) -> Rule:
    """Return the rule of a command that reads or writes the settings of a sharded cluster."""
    return lambda ask: ask.may(_SETTINGS, action)


def may_shard_database(ask: Ask) -> bool:
    """Permit to shard the collections of the database that the command names."""
    target = ask.target
    return ask.may(Resource(target if type(target) is str else ""), "enableSharding")


def may_shard_collection(ask: Ask) -> bool:
    """Permit to shard the collection, which is named with its database."""
    target = ask.target
    ns = Namespace.parse(target) if type(target) is str else Namespace("", "")
    return ask.may(Resource(*ns), "enableSharding")


def may_check_metadata(ask: Ask) -> bool:
    """Permit it by the cluster, or by what is checked: the database or the collection."""
    action = "checkMetadataConsistency"
    return ask.may(CLUSTER, action) or ask.may(ask.collection, action)


def may_control(ask: Ask) -> bool:
    """Permit the verbs of the control."""
    return ask.may_control


# Pipelines.


_FIND: Final = ("find",)
_BYPASS: Final = "bypassDocumentValidation"
_STARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "$collStats": ("collStats",),
    "$indexStats": ("indexStats",),
    "$planCacheStats": ("planCacheRead",),
    "$listSearchIndexes": ("listSearchIndexes",),
}
"""The stages that begin a pipeline with what is not documents, and what they need on its collection."""


def may_aggregate(ask: Ask) -> bool:
    """Permit an aggregate to those who may do what each of its stages does."""
    pipeline = ask.command.get("pipeline")
    return ask.may_all(pipeline_needs(ask, ask.collection, pipeline if isinstance(pipeline, list) else []))


def pipeline_needs(ask: Ask, source: Resource, pipeline: Sequence[Any]) -> Iterator[Need]:
    """Iterate over what a pipeline over a collection, or over a database, needs. Raises `CommandError`."""
    first = next(iter(pipeline[0]), "") if pipeline and isinstance(pipeline[0], dict) else ""
    if first not in _STARTS and first not in _OPEN_STARTS:
        yield source, _FIND
    yield from _stages(ask, source, pipeline)


def _stages(ask: Ask, source: Resource, pipeline: Any) -> Iterator[Need]:
    for stage in pipeline if isinstance(pipeline, list) else ():
        for name, argument in stage.items() if isinstance(stage, dict) else ():
            if name in _STARTS:
                yield source, _STARTS[name]
            elif name in _OPEN_STARTS:
                yield from _OPEN_STARTS[name](ask, source, argument)
            elif name in _STAGES:
                yield from _STAGES[name](ask, argument)


# The stages that begin a pipeline.


def _data_distribution(_ask: Ask, _source: Resource, _argument: Any) -> Iterator[Need]:
    yield CLUSTER, ("shardedDataDistribution",)


def _query_stats(_ask: Ask, _source: Resource, argument: Any) -> Iterator[Need]:
    hashed = isinstance(argument, dict) and "transformIdentifiers" in argument
    yield CLUSTER, ("queryStatsReadTransformed" if hashed else "queryStatsRead",)


def _cluster_catalog(_ask: Ask, source: Resource, _argument: Any) -> Iterator[Need]:
    """Ask for all databases where those of the whole cluster are listed, from `admin`."""
    yield EVERYWHERE if source.db == "admin" else source, ("listCollections",)


def _change_stream(_ask: Ask, source: Resource, _argument: Any) -> Iterator[Need]:
    """Ask for all databases where the whole cluster is watched: from `admin`, without a collection."""
    whole = source.db == "admin" and not source.collection
    yield EVERYWHERE if whole else source, ("find", "changeStream")


def _current_operations(ask: Ask, _source: Resource, argument: Any) -> Iterator[Need]:
    """Ask for nothing where a client wants its own operations; a mongos asks its shards for them."""
    switches = argument if isinstance(argument, dict) else {}
    elsewhere = ask.node.is_mongos and not switches.get("localOps")
    if switches.get("allUsers") or elsewhere:
        yield CLUSTER, ("inprog",)


def _sessions(ask: Ask, _source: Resource, argument: Any) -> Iterator[Need]:
    """Ask for nothing where a client wants its own sessions."""
    if not SessionListing.parse("$listSessions", argument).is_of(ask.identity):
        yield CLUSTER, ("listSessions",)


_OPEN_STARTS: Final[Mapping[str, Callable[[Ask, Resource, Any], Iterator[Need]]]] = {
    "$changeStream": _change_stream,
    "$currentOp": _current_operations,
    "$listSessions": _sessions,
    "$listLocalSessions": _sessions,
    "$documents": lambda _ask, _source, _argument: iter(()),
    "$shardedDataDistribution": _data_distribution,
    "$queryStats": _query_stats,
    "$listClusterCatalog": _cluster_catalog,
    "$listSampledQueries": lambda _ask, _source, _argument: iter([(CLUSTER, ("listSampledQueries",))]),
}
"""The stages that read no documents of the collection, and need what depends on their argument."""


# The stages that read other collections, and those that write.


def _lookup(ask: Ask, argument: Any) -> Iterator[Need]:
    return _joined(ask, argument, "from")


def _joined(ask: Ask, argument: Any, field: str) -> Iterator[Need]:
    spec = argument if isinstance(argument, dict) else {field: argument}
    other = _namespace(ask, spec.get(field))
    if spec.get(field) is not None:
        yield other, _FIND
    yield from _stages(ask, other, spec.get("pipeline"))


def _facet(ask: Ask, argument: Any) -> Iterator[Need]:
    for inner in argument.values() if isinstance(argument, dict) else ():
        yield from _stages(ask, ask.collection, inner)


def _out(ask: Ask, argument: Any) -> Iterator[Need]:
    yield _namespace(ask, argument), _written(ask, "insert", "remove")


def _merge(ask: Ask, argument: Any) -> Iterator[Need]:
    """Ask for updates unless a match is an error, for inserts unless what is new is none or dropped."""
    spec = argument if isinstance(argument, dict) else {"into": argument}
    actions = [] if spec.get("whenMatched") == "fail" else ["update"]
    if spec.get("whenNotMatched") not in ("discard", "fail"):
        actions.append("insert")
    yield _namespace(ask, spec.get("into")), _written(ask, *actions)


def _written(ask: Ask, *actions: str) -> tuple[str, ...]:
    return with_bypass(ask.command, *actions)


def with_bypass(command: Mapping[str, Any], *actions: str) -> tuple[str, ...]:
    """Return what a write needs: one more action where it passes by the collection's validator."""
    return (*actions, _BYPASS) if is_set(command, _BYPASS) else actions


def _namespace(ask: Ask, target: Any) -> Resource:
    """Return the collection that a stage names: by a text in this database, or by `{db, coll}`."""
    if not isinstance(target, dict):
        return Resource(ask.db, target if type(target) is str else "")
    db, collection = target.get("db"), target.get("coll")
    return Resource(ask.db if db is None else str(db), str(collection))


_STAGES: Final[Mapping[str, Callable[[Ask, Any], Iterator[Need]]]] = {
    "$lookup": _lookup,
    "$graphLookup": _lookup,
    "$unionWith": lambda ask, argument: _joined(ask, argument, "coll"),
    "$facet": _facet,
    "$out": _out,
    "$merge": _merge,
}


RULES: Final[dict[str, Rule]] = {
    # Their effect is on the client's own, or is checked where it is found out what they are about.
    **dict.fromkeys(
        (
            *("abortTransaction", "commitTransaction", "endSessions", "refreshSessions", "startSession"),
            *("killCursors", "killSessions", "listCommands", "listDatabases"),
            *("refreshLogicalSessionCacheNow", "testDeprecation", "testDeprecationInVersion2"),
            *("testVersion2", "getLastError"),
        ),
        anybody,
    ),
    # Documents.
    "find": may_read,
    **dict.fromkeys(("count", "distinct"), on_collection("find")),
    "aggregate": may_aggregate,
    "mapReduce": may_map_reduce,
    "getMore": may_get_more,
    "insert": writing("insert"),
    "update": may_update,
    "delete": on_collection("remove"),
    "findAndModify": may_find_and_modify,
    "bulkWrite": may_bulk_write,
    "dataSize": may_measure,
    # Collections, indexes, databases.
    "create": may_create,
    "collMod": may_modify,
    "renameCollection": may_rename,
    "listCollections": may_list_collections,
    "drop": on_collection("dropCollection"),
    "createIndexes": on_collection("createIndex"),
    "dropIndexes": on_collection("dropIndex"),
    "validateDBMetadata": may_validate_metadata,
    "planCacheClear": on_collection("planCacheWrite"),
    **dict.fromkeys(
        ("planCacheSetFilter", "planCacheListFilters", "planCacheClearFilters"),
        on_collection("planCacheIndexFilter"),
    ),
    "setUserWriteBlockMode": on_cluster("setUserWriteBlockMode"),
    "rotateCertificates": on_cluster("rotateCertificates"),
    "setIndexCommitQuorum": on_collection("createIndex"),
    **dict.fromkeys(("setQuerySettings", "removeQuerySettings"), on_cluster("querySettings")),
    "cloneCollectionAsCapped": may_clone,
    "filemd5": on_database("find"),
    "autoCompact": on_cluster("compact"),
    "lockInfo": on_cluster("serverStatus"),
    **{
        name: on_collection(name)
        for name in (
            *("collStats", "compact", "convertToCapped", "listIndexes", "reIndex", "validate"),
            *("cleanupStructuredEncryptionData", "compactStructuredEncryptionData"),
            *("createSearchIndexes", "dropSearchIndex", "listSearchIndexes", "updateSearchIndex"),
        )
    },
    **{name: on_database(name) for name in ("dbHash", "dbStats", "dropDatabase")},
    "profile": may_profile,
    # Users and roles.
    "createUser": may_create_user,
    "updateUser": may_update_user,
    "createRole": may_create_role,
    "updateRole": may_update_role,
    **dict.fromkeys(("dropUser", "dropAllUsersFromDatabase"), on_database("dropUser")),
    **dict.fromkeys(("dropRole", "dropAllRolesFromDatabase"), on_database("dropRole")),
    **dict.fromkeys(("grantRolesToUser", "grantRolesToRole", "grantPrivilegesToRole"), handing("grantRole")),
    **dict.fromkeys(
        ("revokeRolesFromUser", "revokeRolesFromRole", "revokePrivilegesFromRole"),
        handing("revokeRole"),
    ),
    "usersInfo": may_see_users,
    "rolesInfo": may_see_roles,
    # The server.
    **{
        name: on_cluster(name)
        for name in (
            *("connPoolStats", "flushRouterConfig", "fsync", "getCmdLineOpts", "getDefaultRWConcern"),
            *("dropConnections", "getClusterParameter", "setClusterParameter"),
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
    "currentOp": may_see_operations,
    "killOp": may_kill_operation,
    **dict.fromkeys(("killAllSessions", "killAllSessionsByPattern"), on_cluster("killAnySession")),
    "pushbackd": may_control,
    # Sharding.
    **dict.fromkeys(("balancerStart", "balancerStop"), on_settings("update")),
    "balancerStatus": on_settings("find"),
    "enableSharding": may_shard_database,
    "shardCollection": may_shard_collection,
    "checkMetadataConsistency": may_check_metadata,
}

_UNKNOWN: Final = on_cluster("internal")


def permitted(spec: CommandSpec, ask: Ask) -> bool:
    """Return whether a client may run a command.

    Raises `CommandError` for what a server refuses while it checks.
    """
    return RULES.get(spec.name, _UNKNOWN)(ask)


RULES["explain"] = explaining(RULES)
RULES["applyOps"] = applying(RULES)
