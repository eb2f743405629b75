"""Nobody gives what is not its own to give: roles, privileges, and what views show."""

from __future__ import annotations

from typing import Any

import pytest
from access import ADMIN, log_in_as
from bson import Decimal128, Int64
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec

USERS = (
    ADMIN,
    UserSpec("keeper", "keeper", db="db", roles=("userAdmin",)),
    UserSpec("x", "x", db="db", roles=("readWrite", "dbAdmin")),
    UserSpec("y", "y", db="other", roles=()),
)
SPECS = {
    "mongod": ClusterSpec.replica_set(1, auth=True, users=USERS),
    "mongos": ClusterSpec.sharded(mongos=1, auth=True, users=USERS),
}
SPEC = SPECS["mongod"]
ROOT = [{"role": "root", "db": "admin"}]
OF_OTHER = [{"role": "read", "db": "other"}]
ANYTHING = [{"resource": {"anyResource": True}, "actions": ["anyAction"]}]
HERE = [{"resource": {"db": "db", "collection": ""}, "actions": ["find"]}]
THERE = [{"resource": {"db": "other", "collection": "c"}, "actions": ["find"]}]


async def logged_in(deployment: Deployment, name: str, db: str = "db") -> Talker:
    talker = await deployment.connect()
    await log_in_as(talker, name, "pwd123" if name == "bob" else name, "admin" if name == "bob" else db)
    return talker


async def stage(deployment: Deployment, user: str) -> tuple[Talker, Talker]:
    """Return the administrator and a user, with the role `r` and something to read."""
    bob = await logged_in(deployment, "bob")
    await bob.ok({"createRole": "r", "privileges": [], "roles": [], "$db": "db"})
    for db in ("db", "other"):
        await bob.ok({"insert": "c", "documents": [{"_id": db}], "$db": db})
    return bob, await logged_in(deployment, user)


async def refused(talker: Talker, command: dict[str, Any]) -> None:
    failure = await talker.fails(command)
    assert failure["code"] == 13
    assert failure["errmsg"].startswith(f"not authorized on {command['$db']} to execute command {{ ")


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("roles", [ROOT, OF_OTHER, ["read", *OF_OTHER]])
@pytest.mark.parametrize(
    "command",
    [
        {"createUser": "z", "pwd": "z"},
        {"updateUser": "keeper"},
        {"grantRolesToUser": "keeper"},
        {"revokeRolesFromUser": "x"},
        {"createRole": "z", "privileges": []},
        {"updateRole": "r"},
        {"grantRolesToRole": "r"},
        {"revokeRolesFromRole": "r"},
    ],
    ids=lambda command: next(iter(command)),
)
def test_roles_of_other_databases_are_theirs_to_give(
    command: dict[str, Any], roles: list[Any], kind: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, keeper = await stage(deployment, "keeper")
        await refused(keeper, {**command, "roles": roles, "$db": "db"})
        told = (await bob.ok({"usersInfo": "keeper", "$db": "db"}))["users"]
        assert told[0]["roles"] == [{"role": "userAdmin", "db": "db"}]

    play(scenario, SPECS[kind])


@pytest.mark.parametrize("privileges", [ANYTHING, THERE, HERE + THERE])
@pytest.mark.parametrize(
    "command",
    [
        {"createRole": "z", "roles": []},
        {"updateRole": "r"},
        {"grantPrivilegesToRole": "r"},
        {"revokePrivilegesFromRole": "r"},
    ],
    ids=lambda command: next(iter(command)),
)
def test_privileges_on_other_databases_are_theirs_to_give(
    command: dict[str, Any], privileges: list[Any]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        _, keeper = await stage(deployment, "keeper")
        await refused(keeper, {**command, "privileges": privileges, "$db": "db"})

    play(scenario, SPEC)


def test_a_userAdmin_gives_what_its_database_has() -> None:  # noqa: N802 - the role's name
    async def scenario(deployment: Deployment) -> None:
        _, keeper = await stage(deployment, "keeper")
        await keeper.ok({"createUser": "z", "pwd": "z", "roles": ["readWrite"], "$db": "db"})
        await keeper.ok({"grantRolesToUser": "z", "roles": ["dbAdmin"], "$db": "db"})
        await keeper.ok({"revokeRolesFromUser": "z", "roles": ["dbAdmin"], "$db": "db"})
        await keeper.ok({"grantPrivilegesToRole": "r", "privileges": HERE, "$db": "db"})
        await keeper.ok({"revokePrivilegesFromRole": "r", "privileges": HERE, "$db": "db"})
        await keeper.ok({"updateUser": "z", "pwd": "new", "$db": "db"})
        await refused(keeper, {"updateUser": "z", "roles": [], "$db": "db"})

    play(scenario, SPEC)


@pytest.mark.parametrize(
    "command",
    [
        {"usersInfo": {"user": "y", "db": "other"}},
        {"usersInfo": ["x", {"user": "y", "db": "other"}]},
        {"usersInfo": {"forAllDBs": True}},
        {"rolesInfo": {"role": "read", "db": "other"}},
    ],
)
def test_users_and_roles_of_other_databases_are_not_shown(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, keeper = await stage(deployment, "keeper")
        await refused(keeper, {**command, "$db": "db"})
        await bob.ok({**command, "$db": "db"})

    play(scenario, SPEC)


def test_a_user_sees_the_roles_that_it_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, x = await stage(deployment, "x")
        await x.ok({"rolesInfo": ["readWrite", "dbAdmin"], "$db": "db"})
        await refused(x, {"rolesInfo": ["readWrite", "read"], "$db": "db"})

    play(scenario, SPEC)


def test_a_user_changes_its_own_password_if_it_may() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x = await stage(deployment, "x")
        change = {"updateUser": "x", "pwd": "new", "$db": "db"}
        await refused(x, dict(change))
        own = [{"resource": {"db": "db", "collection": ""}, "actions": ["changeOwnPassword"]}]
        await bob.ok({"grantPrivilegesToRole": "r", "privileges": own, "$db": "db"})
        await bob.ok({"grantRolesToUser": "x", "roles": ["r"], "$db": "db"})
        await x.ok(dict(change))
        await refused(x, {**change, "updateUser": "keeper"})
        await refused(x, {**change, "customData": {}})

    play(scenario, SPEC)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("index", [1, 1.0, 1.5, Int64(1), Decimal128("1")], ids=repr)
def test_an_index_of_a_bulk_write_is_checked_whatever_number_it_is(index: Any, kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x = await stage(deployment, "x")
        spaces = [{"ns": "db.c"}, {"ns": "other.c"}]
        for operation in (
            {"insert": index, "document": {"_id": 1}},
            {"update": index, "filter": {}, "updateMods": {"$set": {"a": 1}}},
            {"delete": index, "filter": {}},
        ):
            bulk = {"bulkWrite": 1, "ops": [operation], "nsInfo": spaces}
            await refused(x, {**bulk, "$db": "admin"})
            await x.ok({**bulk, "nsInfo": spaces[::-1]})
        found = (await bob.ok({"find": "c", "$db": "other"}))["cursor"]["firstBatch"]
        assert found == [{"_id": "other"}]

    play(scenario, SPECS[kind])


@pytest.mark.parametrize("index", [2, -1, 2.0, Decimal128("7")], ids=repr)
def test_an_index_that_names_nothing_is_refused_as_ever(index: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        _, x = await stage(deployment, "x")
        bulk = {"bulkWrite": 1, "ops": [{"insert": index, "document": {}}], "nsInfo": [{"ns": "db.c"}]}
        failure = await x.fails(bulk)
        assert failure["code"] == 2
        assert failure["errmsg"].endswith("has an invalid nsInfo index.")

    play(scenario, SPEC)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(
    "view",
    [
        {"viewOn": "system.users", "pipeline": []},
        {"viewOn": "c", "pipeline": [{"$lookup": {"from": {"db": "other", "coll": "c"}, "as": "o"}}]},
        {"viewOn": "c", "pipeline": [{"$unionWith": "system.users"}]},
        {"viewOn": "c", "pipeline": [{"$facet": {"a": [{"$unionWith": {"coll": "system.users"}}]}}]},
    ],
)
def test_a_view_shows_its_maker_nothing_that_it_may_not_see(view: dict[str, Any], kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x = await stage(deployment, "x")
        await refused(x, {"create": "v", **view, "$db": "db"})
        await x.ok({"create": "v", "viewOn": "c", "pipeline": [], "$db": "db"})
        await refused(x, {"collMod": "v", **view, "$db": "db"})
        assert (await bob.ok({"find": "v", "$db": "db"}))["cursor"]["firstBatch"] == [{"_id": "db"}]

    play(scenario, SPECS[kind])


@pytest.mark.parametrize("half", [{"viewOn": "d"}, {"pipeline": []}])
def test_a_view_is_changed_as_a_whole(half: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        _, x = await stage(deployment, "x")
        await x.ok({"create": "v", "viewOn": "c", "pipeline": [], "$db": "db"})
        failure = await x.fails({"collMod": "v", **half, "$db": "db"})
        assert failure["code"] == 72
        assert failure["errmsg"] == (
            "Must specify both 'viewOn' and 'pipeline' when modifying a view and auth is enabled"
        )

    play(scenario, SPEC)


def test_nothing_is_joined_with_another_database() -> None:
    """A user may read it, and a join with it is refused all the same."""

    async def scenario(deployment: Deployment) -> None:
        bob, _ = await stage(deployment, "x")
        joins = [{"$lookup": {"from": {"db": "other", "coll": "c"}, "as": "seen", "pipeline": []}}]
        failure = await bob.fails({"aggregate": "c", "pipeline": joins, "cursor": {}, "$db": "db"})
        assert failure["code"] == 9

    play(scenario, SPEC)


def test_a_collection_of_another_database_is_measured_by_its_readers() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, x = await stage(deployment, "x")
        await x.ok({"dataSize": "db.c", "$db": "db"})
        await refused(x, {"dataSize": "other.c", "$db": "db"})

    play(scenario, SPEC)


def test_an_explanation_needs_what_the_command_does_under_any_of_its_names() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, x = await stage(deployment, "x")
        for name in ("findAndModify", "findandmodify"):
            inner = {name: "system.users", "remove": True}
            await refused(x, {"explain": inner, "$db": "db"})
        assert (await x.fails({"explain": {"nope": 1}, "$db": "db"}))["code"] == 59

    play(scenario, SPEC)


def test_an_own_operation_is_killed_and_no_other() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x = await stage(deployment, "x")
        await deployment.fail_command({"times": 1}, "find", blockConnection=True, blockTimeMS=60_000)
        waiting = await logged_in(deployment, "x")
        await waiting.send({"find": "c", "$db": "db"})
        await deployment.sleep(1.0)
        pipeline = [{"$currentOp": {}}, {"$match": {"command.find": "c"}}]
        (told,) = (await x.ok({"aggregate": 1, "pipeline": pipeline, "cursor": {}}))["cursor"]["firstBatch"]
        kill = {"killOp": 1, "op": told["opid"], "$db": "admin"}
        await refused(await logged_in(deployment, "keeper"), dict(kill))
        await x.ok(kill)
        reply = await waiting.reply()
        assert reply is not None
        assert reply["code"] == 11601
        await refused(x, {"killOp": 1, "op": 12345, "$db": "admin"})
        await bob.ok({"killOp": 1, "op": 12345})

    play(scenario, SPEC)


@pytest.mark.parametrize(
    "change",
    [
        {"insert": "system.views", "documents": [{}]},
        {"find": "system.views"},
        {"find": "system.users"},
    ],
)
def test_the_collections_of_the_system_are_not_an_ordinary_roles(change: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        _, x = await stage(deployment, "x")
        await refused(x, {**change, "$db": "db"})

    play(scenario, SPEC)


@pytest.mark.parametrize("db", ["local", "config"])
def test_a_privilege_on_all_databases_leaves_out_those_of_the_server(db: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x = await stage(deployment, "x")
        everywhere = [{"role": "readWriteAnyDatabase", "db": "admin"}]
        await bob.ok({"grantRolesToUser": "x", "roles": everywhere, "$db": "db"})
        await x.ok({"find": "c", "$db": "other"})
        await refused(x, {"find": "c", "$db": db})
        await bob.ok({"find": "c", "$db": db})

    play(scenario, SPEC)
