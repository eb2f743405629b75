"""Roles that somebody defined: what they are given, what is taken from them, and what they cannot have."""

from __future__ import annotations

from typing import Any

import pytest
from access import ADMIN, log_in_as
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec

SPEC = ClusterSpec.replica_set(1, auth=True, users=(ADMIN, UserSpec("x", "x", db="db", roles=())))
INSERT = {"insert": "c", "documents": [{}], "$db": "db"}


def on(collection: str, *actions: str, db: str = "db") -> dict[str, Any]:
    """Return a privilege."""
    return {"resource": {"db": db, "collection": collection}, "actions": list(actions)}


async def people(deployment: Deployment) -> tuple[Talker, Talker]:
    """Return an administrator, and the user `x` who has the role `r`."""
    admin, user = await deployment.connect(), await deployment.connect()
    await log_in_as(admin, "bob", "pwd123", "admin")
    await admin.ok({"createRole": "r", "privileges": [], "roles": [], "$db": "db"})
    await admin.ok({"grantRolesToUser": "x", "roles": ["r"], "$db": "db"})
    await log_in_as(user, "x", "x", "db")
    return admin, user


async def role(admin: Talker, name: str = "r") -> dict[str, Any]:
    (found,) = (await admin.ok({"rolesInfo": name, "showPrivileges": True, "$db": "db"}))["roles"]
    return dict(found)


def test_privileges_that_are_granted_count_until_they_are_revoked() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, user = await people(deployment)
        await user.fails(dict(INSERT))
        grant = {"grantPrivilegesToRole": "r", "$db": "db"}
        await admin.ok({**grant, "privileges": [on("c", "insert"), on("c", "find")]})
        await user.ok(dict(INSERT))
        assert (await role(admin))["privileges"] == [on("c", "find", "insert")]
        await admin.ok({"revokePrivilegesFromRole": "r", "privileges": [on("c", "insert")], "$db": "db"})
        await user.fails(dict(INSERT))
        await user.ok({"find": "c", "$db": "db"})
        await admin.ok({"revokePrivilegesFromRole": "r", "privileges": [on("c", "find")], "$db": "db"})
        assert (await role(admin))["privileges"] == []

    play(scenario, SPEC)


def test_a_role_inherits_from_the_roles_that_it_is_granted() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, user = await people(deployment)
        await admin.ok({"grantRolesToRole": "r", "roles": ["readWrite"], "$db": "db"})
        await user.ok(dict(INSERT))
        found = await role(admin)
        assert found["roles"] == found["inheritedRoles"] == [{"role": "readWrite", "db": "db"}]
        await admin.ok({"revokeRolesFromRole": "r", "roles": ["readWrite"], "$db": "db"})
        await user.fails(dict(INSERT))

    play(scenario, SPEC)


def test_all_roles_of_a_database_can_be_dropped() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, user = await people(deployment)
        await admin.ok({"grantRolesToRole": "r", "roles": ["readWrite"], "$db": "db"})
        assert (await admin.ok({"dropAllRolesFromDatabase": 1, "$db": "db"}))["n"] == 1
        await user.fails(dict(INSERT))
        assert (await admin.ok({"rolesInfo": 1, "$db": "db"}))["roles"] == []

    play(scenario, SPEC)


def test_the_built_in_roles_are_told_about_when_asked_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, _ = await people(deployment)
        told = {}
        for db in ("db", "admin"):
            reply = await admin.ok({"rolesInfo": 1, "showBuiltinRoles": True, "$db": db})
            told[db] = {each["role"] for each in reply["roles"]}
        assert told["db"] == {"r", "read", "readWrite", "dbAdmin", "dbOwner", "enableSharding", "userAdmin"}
        assert told["admin"] >= {"root", "clusterMonitor", "read"}

    play(scenario, SPEC)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"grantPrivilegesToRole": "r", "privileges": []}, 2, 'a non-empty "privileges" array'),
        ({"grantPrivilegesToRole": "read", "privileges": [on("c", "find")]}, 2, "is a built-in role"),
        ({"grantPrivilegesToRole": "no", "privileges": [on("c", "find")]}, 31, "Role no@db not found"),
        (
            {"grantPrivilegesToRole": "r", "privileges": [on("c", "find", db="other")]},
            49,
            "Roles on the 'db' database cannot be granted privileges that target other databases",
        ),
        (
            {
                "createRole": "s",
                "privileges": [{"resource": {"cluster": True}, "actions": ["top"]}],
                "roles": [],
            },
            49,
            "databases or the cluster",
        ),
        (
            {"grantRolesToRole": "r", "roles": [{"role": "read", "db": "admin"}]},
            49,
            "cannot be granted roles from other databases",
        ),
        ({"grantRolesToRole": "r", "roles": ["r"]}, 49, "Granting r@db to r@db would introduce a cycle"),
        ({"grantRolesToRole": "r", "roles": ["no"]}, 31, "Could not find role: no@db"),
    ],
)
def test_what_a_role_cannot_have_is_refused(command: dict[str, Any], code: int, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, _ = await people(deployment)
        failure = await admin.fails({**command, "$db": "db"})
        assert failure["code"] == code
        assert message in failure["errmsg"]
        assert await role(admin) == {
            "_id": "db.r",
            "role": "r",
            "db": "db",
            "isBuiltin": False,
            "roles": [],
            "inheritedRoles": [],
            "privileges": [],
            "inheritedPrivileges": [],
        }

    play(scenario, SPEC)


@pytest.mark.parametrize(
    ("stages", "needed"),
    [
        ([{"$match": {}}], [on("c", "find")]),
        ([{"$lookup": {"from": "d", "pipeline": [], "as": "d"}}], [on("c", "find"), on("d", "find")]),
        ([{"$unionWith": "d"}], [on("c", "find"), on("d", "find")]),
        ([{"$facet": {"a": [{"$unionWith": {"coll": "d"}}]}}], [on("c", "find"), on("d", "find")]),
        ([{"$collStats": {"count": {}}}], [on("c", "collStats")]),
        ([{"$merge": "d"}], [on("c", "find"), on("d", "insert", "update")]),
    ],
)
def test_a_pipeline_needs_what_each_of_its_collections_does(
    stages: list[dict[str, Any]], needed: list[dict[str, Any]]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, user = await people(deployment)
        await admin.ok({**INSERT})
        aggregate = {"aggregate": "c", "pipeline": stages, "cursor": {}, "$db": "db"}
        for privilege in needed:
            assert (await user.fails(dict(aggregate)))["code"] == 13
            await admin.ok({"grantPrivilegesToRole": "r", "privileges": [privilege], "$db": "db"})
        await user.ok(aggregate)

    play(scenario, SPEC)
