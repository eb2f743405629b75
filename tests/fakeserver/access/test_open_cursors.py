"""Rights that end while a cursor is open: each getMore needs what the command that opened it needs."""

from __future__ import annotations

from typing import Any, Final

import pytest
from access import ADMIN, log_in_as
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec

USERS: Final = (
    ADMIN,
    UserSpec("x", "x", db="db", roles=("readWrite",)),
    UserSpec("control", "control", roles=("root",)),
    UserSpec("local", "local", roles=({"role": "readWrite", "db": "local"},)),
)
SPECS: Final = {
    "mongod": ClusterSpec.replica_set(1, auth=True, users=USERS),
    "mongos": ClusterSpec.sharded(mongos=1, auth=True, users=USERS),
}
OPENING: Final[dict[str, dict[str, Any]]] = {
    "find": {"find": "c", "batchSize": 1},
    "find on a view": {"find": "v", "batchSize": 1},
    "aggregate": {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 1}},
    "join": {
        "aggregate": "c",
        "pipeline": [{"$lookup": {"from": "d", "pipeline": [], "as": "x"}}, {"$unionWith": "d"}],
        "cursor": {"batchSize": 1},
    },
    "change stream": {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}},
    "listCollections": {"listCollections": 1, "cursor": {"batchSize": 0}},
    "listIndexes": {"listIndexes": "c", "cursor": {"batchSize": 0}},
    "bulkWrite": {
        "bulkWrite": 1,
        "ops": [{"insert": 0, "document": {}} for _ in range(4)],
        "nsInfo": [{"ns": "db.c"}],
        "cursor": {"batchSize": 1},
        "$db": "admin",
    },
}


async def user(deployment: Deployment, name: str, password: str, db: str) -> Talker:
    talker = await deployment.connect()
    await log_in_as(talker, name, password, db)
    return talker


async def opened(deployment: Deployment, opening: dict[str, Any]) -> tuple[Talker, Talker, dict[str, Any]]:
    """Return the administrator, the user, and the getMore of the cursor that the user has opened."""
    bob = await user(deployment, "bob", "pwd123", "admin")
    for collection in "cd":
        documents = [{"_id": number} for number in range(4)]
        await bob.ok({"insert": collection, "documents": documents, "$db": "db"})
    indexes = [{"key": {name: 1}, "name": name} for name in "abc"]
    await bob.ok({"createIndexes": "c", "indexes": indexes, "$db": "db"})
    await bob.ok({"create": "v", "viewOn": "c", "pipeline": [], "$db": "db"})
    x = await user(deployment, "x", "x", "db")
    cursor = (await x.ok({**opening, "$db": opening.get("$db", "db")}))["cursor"]
    assert cursor["id"], "it is left open"
    db, _, collection = cursor["ns"].partition(".")
    return bob, x, {"getMore": cursor["id"], "collection": collection, "batchSize": 1, "$db": db}


async def revoke(bob: Talker) -> None:
    await bob.ok({"revokeRolesFromUser": "x", "roles": ["readWrite"], "$db": "db"})


async def grant(bob: Talker) -> None:
    await bob.ok({"grantRolesToUser": "x", "roles": ["readWrite"], "$db": "db"})


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("opening", OPENING)
def test_a_cursor_gives_nothing_without_the_right_that_opened_it(opening: str, spec: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x, more = await opened(deployment, OPENING[opening])
        await x.ok(more)
        await revoke(bob)
        refused = await x.fails(more)
        assert (refused["code"], refused["errmsg"]) == (
            13,
            f"not authorized for getMore with cursor id {more['getMore']}",
        )
        await grant(bob)
        await x.ok(more)

    play(scenario, SPECS[spec])


def test_another_right_that_is_enough_keeps_the_cursor() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x, more = await opened(deployment, OPENING["find"])
        await bob.ok({"grantRolesToUser": "x", "roles": ["read"], "$db": "db"})
        await revoke(bob)
        await x.ok(more)

    play(scenario, SPECS["mongod"])


def test_a_right_to_one_of_the_collections_is_not_enough() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x, more = await opened(deployment, OPENING["join"])
        privilege = {"resource": {"db": "db", "collection": "c"}, "actions": ["find"]}
        await bob.ok({"createRole": "half", "privileges": [privilege], "roles": [], "$db": "db"})
        await bob.ok({"grantRolesToUser": "x", "roles": ["half"], "$db": "db"})
        await revoke(bob)
        assert (await x.fails(more))["code"] == 13
        privilege["resource"]["collection"] = "d"  # type: ignore[index]
        await bob.ok({"grantPrivilegesToRole": "half", "privileges": [privilege], "$db": "db"})
        await x.ok(more)

    play(scenario, SPECS["mongod"])


def test_a_user_who_is_dropped_has_no_cursor_any_more() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x, more = await opened(deployment, OPENING["change stream"])
        await bob.ok({"dropUser": "x", "$db": "db"})
        assert (await x.fails(more))["code"] == 13

    play(scenario, SPECS["mongod"])


def test_a_getmore_that_waits_learns_that_its_right_has_gone() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x, more = await opened(deployment, OPENING["change stream"])
        await x.send({**more, "maxTimeMS": 10_000})
        await deployment.sleep(0.1)
        await revoke(bob)
        await bob.ok({"insert": "c", "documents": [{"secret": 1}], "$db": "db"})
        reply = await x.reply()
        assert reply is not None
        assert reply["code"] == 13

    play(scenario, SPECS["mongod"])


def test_a_client_without_a_right_may_still_kill_its_cursor() -> None:
    async def scenario(deployment: Deployment) -> None:
        bob, x, more = await opened(deployment, OPENING["find"])
        await revoke(bob)
        kill = {"killCursors": "c", "cursors": [more["getMore"]], "$db": "db"}
        assert (await x.ok(kill))["cursorsKilled"] == [more["getMore"]]

    play(scenario, SPECS["mongod"])


JOURNAL: Final = "pushbackd.journal"
READING: Final[tuple[dict[str, Any], ...]] = (
    {"find": JOURNAL},
    {"count": JOURNAL},
    {"aggregate": JOURNAL, "pipeline": [{"$limit": 1}], "cursor": {}},
    {"aggregate": 1, "pipeline": [{"$documents": [{}]}, {"$unionWith": JOURNAL}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$lookup": {"from": JOURNAL, "pipeline": [], "as": "x"}}], "cursor": {}},
    {"explain": {"find": JOURNAL}},
)


@pytest.mark.parametrize("reading", READING, ids=str)
def test_the_journal_is_for_those_who_may_use_the_control(reading: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        reader = await user(deployment, "local", "local", "admin")
        assert (await reader.fails({**reading, "$db": "local"}))["code"] == 13
        control = await user(deployment, "control", "control", "admin")
        reply = await control.command({**reading, "$db": "local"})
        assert reply is not None
        assert reply.get("code") != 13

    play(scenario, SPECS["mongod"])


@pytest.mark.parametrize("auth", [True, False])
def test_a_command_of_another_database_is_not_explained(auth: bool) -> None:  # noqa: FBT001 - a parameter
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        if auth:
            await log_in_as(talker, "x", "x", "db")
        refused = await talker.fails({"explain": {"find": "c", "$db": "other"}, "$db": "db"})
        assert (refused["code"], refused["errmsg"]) == (
            73,
            "Mismatched $db in explain command. Expected db but got other",
        )
        await talker.ok({"explain": {"find": "c", "$db": "db"}, "$db": "db"})

    play(scenario, SPECS["mongod"] if auth else ClusterSpec.standalone())
