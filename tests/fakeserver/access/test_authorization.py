"""What a client may do: users, roles, and the built-in roles' privileges."""

from __future__ import annotations

from typing import Any

import pytest
from access import ADMIN, log_in_as
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec
from fakeserver.access.privileges import CLUSTER, Privileges, Resource
from fakeserver.access.roles import RoleName, built_in

SPEC = ClusterSpec.replica_set(1, auth=True, users=(ADMIN,))


def spec_with(*roles: Any, db: str = "db") -> ClusterSpec:
    """Return a deployment with a user `x` of these roles."""
    return ClusterSpec.replica_set(1, auth=True, users=(ADMIN, UserSpec("x", "x", db=db, roles=roles)))


async def administrator(deployment: Deployment) -> Talker:
    talker = await deployment.connect()
    await log_in_as(talker, "bob", "pwd123", "admin")
    return talker


SUM = {
    "map": "function inc() { return emit(0, this.x + 1) }",
    "reduce": "function sum(key, values) { return values.reduce((acc, x) => acc + x); }",
}
COMMANDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("find", {"find": "c", "$db": "db"}),
    ("elsewhere", {"find": "c", "$db": "other"}),
    ("insert", {"insert": "c", "documents": [{}], "$db": "db"}),
    ("out", {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}, "$db": "db"}),
    ("mapReduce", {"mapReduce": "c", **SUM, "out": "d", "$db": "db"}),
    ("inline mapReduce", {"mapReduce": "c", **SUM, "out": {"inline": 1}, "$db": "db"}),
    ("findAndModify", {"findAndModify": "c", "query": {}, "update": {"$set": {"a": 1}}, "$db": "db"}),
    ("bulkWrite", {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "db.c"}]}),
    ("explain", {"explain": {"find": "c"}, "$db": "db"}),
    ("createIndexes", {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}], "$db": "db"}),
    ("dropDatabase", {"dropDatabase": 1, "$db": "db"}),
    ("createUser", {"createUser": "y", "pwd": "y", "roles": [], "$db": "db"}),
    ("serverStatus", {"serverStatus": 1}),
    ("setParameter", {"setParameter": 1, "logLevel": 0}),
    ("replSetGetStatus", {"replSetGetStatus": 1}),
)
READS = {"find", "explain", "inline mapReduce"}
WRITES = READS | {"insert", "out", "mapReduce", "findAndModify", "bulkWrite", "createIndexes"}


@pytest.mark.parametrize(
    ("roles", "db", "allowed"),
    [
        ((), "db", set()),
        (("read",), "db", READS),
        (("readWrite",), "db", WRITES),
        (("dbAdmin",), "db", {"createIndexes", "dropDatabase"}),
        (("userAdmin",), "db", {"createUser"}),
        (("dbOwner",), "db", WRITES | {"dropDatabase", "createUser"}),
        (("readAnyDatabase",), "admin", READS | {"elsewhere"}),
        (("readWriteAnyDatabase",), "admin", WRITES | {"elsewhere"}),
        (("userAdminAnyDatabase",), "admin", {"createUser"}),
        (("clusterMonitor",), "admin", {"serverStatus", "replSetGetStatus"}),
        (
            ("clusterAdmin",),
            "admin",
            {"serverStatus", "replSetGetStatus", "setParameter", "dropDatabase"},
        ),
        (("backup",), "admin", READS | {"elsewhere", "serverStatus"}),
        (("root",), "admin", {name for name, _ in COMMANDS}),
        (({"role": "read", "db": "other"},), "db", {"elsewhere"}),
    ],
)
def test_a_built_in_role_permits_what_it_is_for(roles: tuple[Any, ...], db: str, allowed: set[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await log_in_as(talker, "x", "x", db)
        permitted = set()
        for name, command in COMMANDS:
            reply = await talker.command(dict(command))
            assert reply is not None
            if reply["ok"] == 1.0:
                permitted.add(name)
            else:
                assert reply["code"] == 13, reply
                where = command.get("$db", "admin")
                assert reply["errmsg"].startswith(f"not authorized on {where} to execute command {{ ")
        assert permitted == allowed

    play(scenario, spec_with(*roles, db=db))


def test_system_collections_are_not_for_ordinary_roles() -> None:
    everywhere = Privileges(built_in(RoleName("readWriteAnyDatabase", "admin")) or ())
    assert everywhere.permit(Resource("admin", "c"), "find")
    assert everywhere.permit(Resource("db", "system.js"), "find")
    for place in (Resource("admin", "system.users"), Resource("db", "system.views"), CLUSTER):
        assert not everywhere.permit(place, "find")
    assert built_in(RoleName("root", "db")) is None


def test_a_change_of_roles_counts_at_once_and_a_dropped_user_is_out() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, talker = await administrator(deployment), await deployment.connect()
        await log_in_as(talker, "x", "x", "db")
        find = {"find": "c", "$db": "db"}
        await talker.fails(dict(find))
        await admin.ok({"grantRolesToUser": "x", "roles": ["read"], "$db": "db"})
        await talker.ok(dict(find))
        await admin.ok({"revokeRolesFromUser": "x", "roles": ["read"], "$db": "db"})
        await talker.fails(dict(find))
        await admin.ok({"dropUser": "x", "$db": "db"})
        assert (await talker.fails(dict(find)))["errmsg"] == "Command find requires authentication"

    play(scenario, spec_with())


def test_a_connection_tells_its_users_roles_and_privileges() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await log_in_as(talker, "x", "x", "db")
        info = (await talker.ok({"connectionStatus": 1, "showPrivileges": True}))["authInfo"]
        assert info["authenticatedUsers"] == [{"user": "x", "db": "db"}]
        assert info["authenticatedUserRoles"] == [{"role": "read", "db": "db"}]
        privilege, scripts = info["authenticatedUserPrivileges"]
        assert scripts["resource"] == {"db": "db", "collection": "system.js"}
        assert privilege["resource"] == {"db": "db", "collection": ""}
        assert "find" in privilege["actions"]

    play(scenario, spec_with("read"))


def test_users_are_told_about_without_their_keys() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin = await administrator(deployment)
        data = {"createUser": "y", "pwd": "y", "roles": ["read"], "customData": {"a": 1}, "$db": "db"}
        await admin.ok(data)
        for target in ("y", {"user": "y", "db": "db"}, ["y", "nobody"], 1):
            (user,) = (await admin.ok({"usersInfo": target, "$db": "db"}))["users"]
            assert user["_id"] == "db.y"
            assert user["roles"] == [{"role": "read", "db": "db"}]
            assert user["mechanisms"] == ["SCRAM-SHA-1", "SCRAM-SHA-256"]
            assert user["customData"] == {"a": 1}
            assert "credentials" not in user
        assert len((await admin.ok({"usersInfo": {"forAllDBs": True}}))["users"]) == 2
        assert (await admin.ok({"usersInfo": 1, "filter": {"user": "nobody"}}))["users"] == []
        shown = await admin.ok(
            {"usersInfo": "y", "showCredentials": True, "showPrivileges": True, "$db": "db"}
        )
        keys = shown["users"][0]["credentials"]["SCRAM-SHA-256"]
        assert set(keys) == {"iterationCount", "salt", "storedKey", "serverKey"}
        assert shown["users"][0]["inheritedRoles"] == [{"role": "read", "db": "db"}]

    play(scenario, SPEC)


def test_a_password_and_its_mechanisms_can_be_changed() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, talker = await administrator(deployment), await deployment.connect()
        await admin.ok({"updateUser": "x", "pwd": "new", "mechanisms": ["SCRAM-SHA-256"], "$db": "db"})
        await log_in_as(talker, "x", "new", "db")
        (user,) = (await admin.ok({"usersInfo": "x", "$db": "db"}))["users"]
        assert user["mechanisms"] == ["SCRAM-SHA-256"]
        wider = {"updateUser": "x", "mechanisms": ["SCRAM-SHA-1"], "$db": "db"}
        assert "must be a subset" in (await admin.fails(wider))["errmsg"]

    play(scenario, spec_with())


def test_iteration_counts_are_the_servers_parameters() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin = await administrator(deployment)
        await admin.ok({"setParameter": 1, "scramSHA256IterationCount": 6000})
        await admin.ok({"createUser": "y", "pwd": "y", "roles": []})
        (user,) = (await admin.ok({"usersInfo": "y", "showCredentials": True}))["users"]
        counts = {name: keys["iterationCount"] for name, keys in user["credentials"].items()}
        assert counts == {"SCRAM-SHA-1": 5000, "SCRAM-SHA-256": 6000}
        assert (await admin.fails({"setParameter": 1, "scramIterationCount": 10}))["code"] == 2

    play(scenario, SPEC)


def test_a_role_of_ones_own_permits_what_it_says_and_what_it_inherits() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, talker = await administrator(deployment), await deployment.connect()
        insert = {"resource": {"db": "db", "collection": "c"}, "actions": ["insert"]}
        await admin.ok({"createRole": "r", "privileges": [insert], "roles": ["read"], "$db": "db"})
        await admin.ok({"grantRolesToUser": "x", "roles": ["r"], "$db": "db"})
        await log_in_as(talker, "x", "x", "db")
        await talker.ok({"find": "d", "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{}], "$db": "db"})
        await talker.fails({"insert": "d", "documents": [{}], "$db": "db"})
        (role,) = (await admin.ok({"rolesInfo": "r", "showPrivileges": True, "$db": "db"}))["roles"]
        assert role["privileges"] == [insert]
        assert role["inheritedRoles"] == [{"role": "read", "db": "db"}]
        assert role["isBuiltin"] is False
        await admin.ok({"updateRole": "r", "roles": [], "$db": "db"})
        await talker.fails({"find": "d", "$db": "db"})
        await admin.ok({"dropRole": "r", "$db": "db"})
        await talker.fails({"insert": "c", "documents": [{}], "$db": "db"})
        assert (await admin.ok({"rolesInfo": 1, "$db": "db"}))["roles"] == []

    play(scenario, spec_with())


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"createUser": "x", "pwd": "x", "roles": []}, 51003, 'User "x@db" already exists'),
        ({"createUser": "y", "roles": []}, 2, "Must provide a 'pwd' field"),
        ({"createUser": "y", "pwd": "y"}, 40414, "BSON field 'createUser.roles' is missing"),
        ({"createUser": "y", "pwd": "y", "roles": ["no"]}, 31, "Could not find role: no@db"),
        ({"createUser": "y", "pwd": "y", "roles": [1]}, 2, "Role names must be either strings"),
        ({"createUser": "y", "pwd": "", "roles": []}, 2, "must not be empty"),
        ({"createUser": "", "pwd": "y", "roles": []}, 2, "to be non-empty"),
        ({"createUser": "y", "pwd": "y", "roles": [], "mechanisms": ["X"]}, 2, "Unknown auth mechanism 'X'"),
        ({"createUser": "y", "pwd": "y", "roles": [], "mechanisms": []}, 2, "must not be empty"),
        ({"createUser": "y", "pwd": "y", "roles": [], "nope": 1}, 40415, "is an unknown field"),
        ({"createUser": "y", "pwd": "y", "roles": [], "$db": "local"}, 2, "in the local database"),
        ({"createUser": "y", "pwd": "y", "roles": [], "$db": "$external"}, 2, "Cannot set the password"),
        ({"updateUser": "nobody", "roles": []}, 11, "Could not find user nobody@db"),
        ({"updateUser": "x"}, 2, "Must specify at least one field"),
        ({"dropUser": "nobody"}, 11, "User 'nobody@db' not found"),
        ({"dropRole": "read"}, 2, "is a built-in role"),
        ({"dropRole": "no"}, 31, "Role no@db not found"),
        ({"createRole": "read", "privileges": [], "roles": []}, 51002, "already exists"),
        ({"createRole": "r", "privileges": [{}], "roles": []}, 9, "a privilege has a resource"),
        ({"updateRole": "r"}, 2, "Must specify at least one field"),
        ({"usersInfo": {}}, 2, "UserName must be either"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_servers_words(
    command: dict[str, Any], code: int, message: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        admin = await administrator(deployment)
        failure = await admin.fails(command | {"$db": command.get("$db", "db")})
        assert failure["code"] == code
        assert message in failure["errmsg"]

    play(scenario, spec_with())


def test_all_users_of_a_database_can_be_dropped_and_no_others() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin = await administrator(deployment)
        assert (await admin.ok({"dropAllUsersFromDatabase": 1, "$db": "db"}))["n"] == 1
        assert len((await admin.ok({"usersInfo": {"forAllDBs": True}}))["users"]) == 1

    play(scenario, spec_with())
