"""Whose a session is: of the user who uses it, so that two users who say the same `lsid` have two."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from access import ADMIN, log_in_as
from bson import Int64
from talking import Deployment, Talker, lsid, play, retryable_insert

from fakeserver import ClusterSpec, UserSpec

USERS = (
    ADMIN,
    UserSpec("x", "x", db="db", roles=("readWrite",)),
    UserSpec("y", "y", db="db", roles=("readWrite",)),
    UserSpec("watch", "watch", roles=("clusterMonitor",)),
    UserSpec("host", "host", roles=("hostManager",)),
    UserSpec("system", "system", roles=("__system",)),
)
SPECS = {
    "mongod": ClusterSpec.replica_set(1, auth=True, users=USERS),
    "mongos": ClusterSpec.sharded(mongos=1, auth=True, users=USERS),
}
SPEC = SPECS["mongod"]
HOMES = {"bob": ("pwd123", "admin"), "watch": ("watch", "admin"), "host": ("host", "admin")}
HOMES["system"] = ("system", "admin")


async def user(deployment: Deployment, name: str) -> Talker:
    talker = await deployment.connect()
    password, db = HOMES.get(name, (name, "db"))
    await log_in_as(talker, name, password, db)
    return talker


async def users(deployment: Deployment, *names: str) -> list[Talker]:
    """Return users, and have the collection made that their transactions would both make."""
    await (await user(deployment, "bob")).command({"create": "c", "$db": "db"})
    return [await user(deployment, name) for name in names]


def uid(name: str, db: str = "db") -> bytes:
    return hashlib.sha256(f"{name}@{db}".encode()).digest()


def statement(command: dict[str, Any], *, number: int = 1, start: bool = False) -> dict[str, Any]:
    fields: dict[str, Any] = {"lsid": lsid(), "txnNumber": Int64(number), "autocommit": False}
    return {**command, **fields, **({"startTransaction": True} if start else {})}


async def begin(talker: Talker, _id: int = 1) -> dict[str, Any]:
    """Begin a transaction that has inserted a document, and return the token by which a mongos finds it."""
    insert = {"insert": "c", "documents": [{"_id": _id}], "$db": "db"}
    reply = await talker.ok(statement(insert, start=True))
    return {name: reply[name] for name in ("recoveryToken",) if name in reply}


async def is_open(talker: Talker) -> bool:
    reply = await talker.command(statement({"find": "c", "$db": "db"}))
    assert reply is not None
    return bool(reply["ok"])


async def documents(talker: Talker) -> list[int]:
    reply = await talker.ok({"find": "c", "sort": {"_id": 1}, "$db": "db"})
    return [each["_id"] for each in reply["cursor"]["firstBatch"]]


@pytest.mark.parametrize("kind", SPECS)
def test_two_users_with_one_lsid_have_two_sessions(kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y = await users(deployment, "x", "y")
        await begin(x, 1)
        await begin(y, 2)
        await x.ok(statement({"commitTransaction": 1}))
        assert await documents(y) == [1]
        await y.ok(statement({"abortTransaction": 1}))
        assert await documents(y) == [1]

    play(scenario, SPECS[kind])


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("command", ["commitTransaction", "abortTransaction"])
def test_another_users_transaction_is_not_ended(command: str, kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y = await users(deployment, "x", "y")
        token = await begin(x)
        assert (await y.fails(statement({command: 1, **token})))["code"] == 251
        assert await is_open(x)

    play(scenario, SPECS[kind])


def test_a_retried_write_of_another_user_is_another_write() -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y = await users(deployment, "x", "y")
        await x.ok(retryable_insert(1, txn_number=1))
        assert "retriedStmtIds" not in await y.ok(retryable_insert(2, txn_number=1))
        assert (await x.ok(retryable_insert(1, txn_number=1)))["retriedStmtIds"] == [0]

    play(scenario, SPEC)


@pytest.mark.parametrize("kind", SPECS)
def test_a_stranger_ends_no_session(kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        x, stranger = await user(deployment, "x"), await deployment.connect()
        await begin(x)
        for mine in (lsid(), {**lsid(), "uid": uid("x")}):
            failure = await stranger.fails({"endSessions": [mine]})
            assert failure["code"] == 13
            assert failure["errmsg"] == "Command endSessions requires authentication"
        assert await is_open(x)

    play(scenario, SPECS[kind])


@pytest.mark.parametrize("command", ["endSessions", "killSessions"])
@pytest.mark.parametrize("named", [[lsid()], []])
def test_a_user_ends_its_own_sessions_alone(command: str, named: list[dict[str, Any]]) -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y = await users(deployment, "x", "y")
        await begin(x, 1)
        await begin(y, 2)
        await y.ok({command: named})
        assert await is_open(x)
        assert await is_open(y) is (command == "endSessions" and not named)

    play(scenario, SPEC)


def test_only_who_may_kill_any_session_names_another_users() -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y, host = await users(deployment, "x", "y", "host")
        await begin(x)
        theirs = {**lsid(), "uid": uid("x")}
        refused = "Unauthorized to set user digest in LogicalSessionId"
        for command in ("killSessions", "endSessions", "refreshSessions"):
            failure = await y.fails({command: [theirs]})
            assert (failure["code"], failure["errmsg"]) == (13, refused)
        assert (await host.fails({"endSessions": [theirs]}))["errmsg"] == refused
        assert (await y.fails({"find": "c", "lsid": theirs, "$db": "db"}))["errmsg"] == refused
        assert (await y.fails({"find": "c", "lsid": {**lsid(), "uid": "x"}, "$db": "db"}))["code"] == 14
        assert await is_open(x)
        await x.ok({"find": "c", "lsid": theirs, "$db": "db"})
        await host.ok({"killSessions": [theirs]})
        assert not await is_open(x)

    play(scenario, SPEC)


@pytest.mark.parametrize(
    ("kill", "survivors"),
    [
        ({"killAllSessions": []}, []),
        ({"killAllSessions": [{"user": "x", "db": "db"}]}, ["y"]),
        ({"killAllSessions": [{"user": "x", "db": "admin"}]}, ["x", "y"]),
        ({"killAllSessionsByPattern": []}, []),
        ({"killAllSessionsByPattern": [{"uid": uid("y")}]}, ["x"]),
        ({"killAllSessionsByPattern": [{"lsid": {**lsid(), "uid": uid("x")}}]}, ["y"]),
    ],
)
def test_the_sessions_of_users_are_killed_by_who_may(kill: dict[str, Any], survivors: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y, watch, host = await users(deployment, "x", "y", "watch", "host")
        await begin(x, 1)
        await begin(y, 2)
        for other in (x, watch):
            assert (await other.fails(dict(kill)))["code"] == 13
        await host.ok(dict(kill))
        assert [name for name, talker in (("x", x), ("y", y)) if await is_open(talker)] == survivors

    play(scenario, SPEC)


def test_nobody_kills_in_the_name_of_others_without_leave() -> None:
    async def scenario(deployment: Deployment) -> None:
        host, system = await users(deployment, "host", "system")
        for pattern in ({"users": [{"user": "x", "db": "db"}]}, {"roles": [{"role": "read", "db": "db"}]}):
            failure = await host.fails({"killAllSessionsByPattern": [pattern]})
            assert failure["code"] == 13
            assert failure["errmsg"] == "Not authorized to impersonate in killAllSessionsByPattern"
            await system.ok({"killAllSessionsByPattern": [pattern]})

    play(scenario, SPEC)


@pytest.mark.parametrize(
    ("stage", "target", "db"),
    [("$listLocalSessions", 1, "admin"), ("$listSessions", "system.sessions", "config")],
)
def test_a_user_lists_its_own_sessions_and_others_by_leave(stage: str, target: Any, db: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y, watch = await users(deployment, "x", "y", "watch")
        for talker in (x, y):
            await talker.ok({"find": "c", "lsid": lsid(), "$db": "db"})

        def asked(argument: Any) -> dict[str, Any]:
            return {"aggregate": target, "pipeline": [{stage: argument}], "cursor": {}, "$db": db}

        async def told(talker: Talker, **argument: Any) -> list[tuple[Any, str]]:
            found = (await talker.ok(asked(argument)))["cursor"]["firstBatch"]
            return [(each["_id"]["uid"], each["user"]) for each in found]

        mine = [(uid("x"), "x@db")]
        assert await told(x) == mine
        assert await told(x, users=[{"user": "x", "db": "db"}]) == mine
        assert await told(watch, users=[{"user": "x", "db": "db"}]) == mine
        assert await told(watch, allUsers=True) == [*mine, (uid("y"), "y@db")]
        assert await told(watch) == []
        for argument in ({"allUsers": True}, {"users": [{"user": "y", "db": "db"}]}):
            assert (await x.fails(asked(argument)))["code"] == 13
        both = {"allUsers": True, "users": [{"user": "y", "db": "db"}]}
        assert (await watch.fails(asked(both)))["code"] == 12
        assert (await watch.fails(asked(1)))["code"] == 14

    play(scenario, SPEC)


def test_a_user_sees_the_idle_sessions_that_are_its_own() -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y, watch = await users(deployment, "x", "y", "watch")
        await begin(x)

        async def told(talker: Talker, **switches: Any) -> list[Any]:
            pipeline = [
                {"$currentOp": {"idleSessions": True, **switches}},
                {"$match": {"type": "idleSession"}},
            ]
            found = await talker.ok({"aggregate": 1, "pipeline": pipeline, "cursor": {}})
            return [each["lsid"]["uid"] for each in found["cursor"]["firstBatch"]]

        assert await told(x) == [uid("x")]
        assert await told(y) == []
        assert await told(watch, allUsers=True) == [uid("x")]

    play(scenario, SPEC)


def test_a_session_that_is_begun_by_command_is_the_users() -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y = await users(deployment, "x", "y")
        begun = (await x.ok({"startSession": 1}))["id"]
        await y.ok({"refreshSessions": [begun]})
        assert [(each.user, each.uid) for each in deployment.cluster.sessions.live()] == [
            ("x@db", uid("x")),
            ("y@db", uid("y")),
        ]

    play(scenario, SPEC)


def test_a_cursor_of_another_users_session_is_out_of_reach() -> None:
    async def scenario(deployment: Deployment) -> None:
        x, y = await users(deployment, "x", "y")
        await x.ok({"insert": "c", "documents": [{"_id": n} for n in range(5)], "$db": "db"})
        cursor = (await x.ok({"find": "c", "batchSize": 1, "lsid": lsid(), "$db": "db"}))["cursor"]["id"]
        more = {"getMore": cursor, "collection": "c", "batchSize": 1, "$db": "db"}
        for session in ({}, {"lsid": lsid()}):
            failure = await y.fails({**more, **session})
            assert failure["code"] == 13
            assert failure["errmsg"] == f"cursor id {cursor} was not created by the authenticated user"
        assert (await x.fails(dict(more)))["code"] == 50737
        assert (await x.fails({**more, "lsid": lsid(2)}))["code"] == 50738
        await y.ok({"killSessions": []})
        await x.ok({**more, "lsid": lsid()})

    play(scenario, SPEC)


def test_the_localhost_exception_has_no_sessions() -> None:
    async def scenario(deployment: Deployment) -> None:
        stranger = await deployment.connect()
        refused = "Logical sessions require authentication"
        for command in ({"startSession": 1}, {"endSessions": [lsid()]}, {"killSessions": [lsid()]}):
            failure = await stranger.fails(dict(command))
            assert (failure["code"], failure["errmsg"]) == (13, refused)
        await stranger.ok({"ping": 1, "lsid": lsid()})
        first = {"createUser": "a", "pwd": "a", "roles": ["root"], "lsid": lsid(), "txnNumber": Int64(1)}
        await stranger.ok({**first, "autocommit": False, "startTransaction": True})
        assert len(deployment.cluster.sessions) == 0

    play(scenario, ClusterSpec.replica_set(1, auth=True))


def test_what_a_session_wrote_tells_whose_it_is() -> None:
    async def scenario(deployment: Deployment) -> None:
        x, bob = await users(deployment, "x", "bob")
        await begin(x)
        await x.ok(statement({"commitTransaction": 1}))
        wanted = {"find": "oplog.rs", "filter": {"lsid": {"$exists": True}}, "$db": "local"}
        (entry,) = (await bob.ok(wanted))["cursor"]["firstBatch"]
        assert entry["lsid"] == {**lsid(), "uid": uid("x")}

    play(scenario, SPEC)


def test_the_journal_tells_the_uuid_of_a_session() -> None:
    async def scenario(deployment: Deployment) -> None:
        x = await user(deployment, "x")
        await x.ok({"find": "c", "lsid": lsid(), "$db": "db"})
        told: Any = deployment.cluster.journal.of_kind("commandFinished")[-1].event
        assert told.lsid == bytes(lsid()["id"])

    play(scenario, SPEC)
