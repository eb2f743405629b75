"""What is shown and given to a user: its own cursors, the databases that it may use, itself."""

from __future__ import annotations

from typing import Any

import pytest
from access import ADMIN, log_in_as
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec

SPEC = ClusterSpec.replica_set(
    1,
    auth=True,
    users=(ADMIN, UserSpec("x", "x", db="db", roles=("read",)), UserSpec("y", "y", db="db", roles=("read",))),
)


async def people(deployment: Deployment) -> dict[str, Talker]:
    """Return an administrator and two users, with something to read."""
    talkers = {name: await deployment.connect() for name in ("bob", "x", "y")}
    await log_in_as(talkers["bob"], "bob", "pwd123", "admin")
    for name in ("x", "y"):
        await log_in_as(talkers[name], name, name, "db")
    for db in ("db", "other"):
        await talkers["bob"].ok({"insert": "c", "documents": [{"_id": n} for n in range(5)], "$db": db})
    return talkers


async def open_cursor(talker: Talker) -> Any:
    reply = await talker.ok({"find": "c", "batchSize": 2, "$db": "db"})
    return reply["cursor"]["id"]


def test_a_cursor_is_for_the_user_who_opened_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = await people(deployment)
        cursor = await open_cursor(talkers["x"])
        more = {"getMore": cursor, "collection": "c", "batchSize": 1, "$db": "db"}
        for stranger in ("y", "bob"):
            failure = await talkers[stranger].fails(dict(more))
            assert failure["code"] == 13
            assert failure["errmsg"] == f"cursor id {cursor} was not created by the authenticated user"
        await talkers["x"].ok(more)

    play(scenario, SPEC)


def test_another_users_cursor_is_killed_by_one_who_may_kill_any() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = await people(deployment)
        cursor = await open_cursor(talkers["x"])
        kill = {"killCursors": "c", "cursors": [cursor], "$db": "db"}
        failure = await talkers["y"].fails(dict(kill))
        assert (failure["code"], failure["errmsg"]) == (13, "not authorized to kill cursor on db.c")
        assert (await talkers["bob"].ok(kill))["cursorsKilled"] == [cursor]
        own = await open_cursor(talkers["y"])
        killed = await talkers["y"].ok({"killCursors": "c", "cursors": [own, cursor], "$db": "db"})
        assert (killed["cursorsKilled"], killed["cursorsNotFound"]) == ([own], [cursor])

    play(scenario, SPEC)


@pytest.mark.parametrize(
    ("who", "how", "names"),
    [
        ("x", {}, ["db"]),
        ("x", {"authorizedDatabases": True}, ["db"]),
        ("bob", {}, ["admin", "config", "db", "local", "other"]),
        ("bob", {"authorizedDatabases": True}, ["admin", "config", "db", "local", "other"]),
        ("bob", {"authorizedDatabases": False}, ["admin", "config", "db", "local", "other"]),
    ],
)
def test_a_user_sees_the_databases_that_it_may_use(who: str, how: dict[str, Any], names: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = await people(deployment)
        reply = await talkers[who].ok({"listDatabases": 1, "nameOnly": True, **how})
        assert [each["name"] for each in reply["databases"]] == names

    play(scenario, SPEC)


def test_all_databases_are_for_those_who_may_list_them() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = await people(deployment)
        failure = await talkers["x"].fails({"listDatabases": 1, "authorizedDatabases": False})
        assert (failure["code"], failure["errmsg"]) == (13, "Insufficient permissions to list all databases")

    play(scenario, SPEC)


def test_the_names_of_authorized_collections_need_no_privilege() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = await people(deployment)
        insert = {"resource": {"db": "other", "collection": "d"}, "actions": ["insert"]}
        await talkers["bob"].ok({"createRole": "r", "privileges": [insert], "roles": [], "$db": "other"})
        await talkers["bob"].ok(
            {"grantRolesToUser": "x", "roles": [{"role": "r", "db": "other"}], "$db": "db"}
        )
        await talkers["bob"].ok({"create": "d", "$db": "other"})
        names = {"listCollections": 1, "nameOnly": True, "authorizedCollections": True, "$db": "other"}
        assert (await talkers["x"].fails({"listCollections": 1, "$db": "other"}))["code"] == 13
        batch = (await talkers["x"].ok(names))["cursor"]["firstBatch"]
        assert batch == [{"name": "d", "type": "collection"}]

    play(scenario, SPEC)


def test_a_user_may_ask_about_itself() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = await people(deployment)
        for target in ("x", {"user": "x", "db": "db"}, ["x"]):
            (user,) = (await talkers["x"].ok({"usersInfo": target, "$db": "db"}))["users"]
            assert user["user"] == "x"
        others: tuple[Any, ...] = ("y", ["x", "y"], 1)
        for target in others:
            assert (await talkers["x"].fails({"usersInfo": target, "$db": "db"}))["code"] == 13

    play(scenario, SPEC)
