"""Operations that wait: `currentOp` tells of them, `killOp` and the killing of sessions end them."""

from __future__ import annotations

from typing import Any

import pytest
from access import ADMIN, log_in_as
from bson import Binary, Int64
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, lsid, play

from fakeserver import ClusterSpec, UserSpec

INSERT = {"insert": "c", "documents": [{"_id": 1}], "$db": "db"}


async def operations(talker: Talker, **options: Any) -> list[dict[str, Any]]:
    """Return what `$currentOp` tells, without the one who asks."""
    pipeline = [{"$currentOp": {"allUsers": True, **options}}, {"$match": {"ns": {"$ne": "admin.$cmd"}}}]
    command = {"aggregate": 1, "pipeline": pipeline, "cursor": {}}
    return list((await talker.ok(command))["cursor"]["firstBatch"])


async def blocked(deployment: Deployment, command: dict[str, Any], *, ms: int = 60_000) -> Talker:
    """Return a connection on which a command is held up by a fail point."""
    await deployment.fail_command(
        {"times": 1}, next(iter(command)), blockConnection=True, blockTimeMS=ms, errorCode=9
    )
    talker = await deployment.connect()
    await talker.send(command)
    await deployment.sleep(1.0)
    return talker


def test_an_operation_that_waits_is_told_with_its_client_and_its_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        await blocked(deployment, {**INSERT, "lsid": lsid()})
        asking = await deployment.connect()
        (told,) = await operations(asking)
        assert told["op"] == "insert"
        assert told["ns"] == "db.c"
        assert told["secs_running"] == 1
        assert told["lsid"]["id"] == lsid()["id"]
        assert told["command"]["documents"] == [{"_id": 1}]
        assert told["command"]["$db"] == "db"
        (found,) = (await asking.ok({"currentOp": 1, "op": "insert"}))["inprog"]
        assert found["opid"] == told["opid"]
        assert (await asking.ok({"currentOp": 1, "op": "query"}))["inprog"] == []

    play(scenario, STANDALONE)


def test_a_large_command_is_told_by_its_beginning() -> None:
    async def scenario(deployment: Deployment) -> None:
        large = {**INSERT, "documents": [{"_id": "x" * 1000}], "comment": "many"}
        await blocked(deployment, large)
        asking = await deployment.connect()
        (whole,) = await operations(asking)
        assert whole["command"]["documents"] == large["documents"]
        (told,) = await operations(asking, truncateOps=True)
        (found,) = (await asking.ok({"currentOp": 1, "op": "insert"}))["inprog"]
        assert told["command"] == found["command"]
        assert told["command"].keys() == {"$truncated", "comment"}
        assert told["command"]["$truncated"].startswith('{ insert: "c", documents: [ { _id: "xxx')

    play(scenario, STANDALONE)


def test_an_operation_that_is_killed_fails_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        waiting, killer = await blocked(deployment, dict(INSERT)), await deployment.connect()
        (told,) = await operations(killer)
        assert await killer.ok({"killOp": 1, "op": told["opid"]}) == {
            "info": "attempting to kill op",
            "ok": 1.0,
        }
        before = deployment.world.clock.now()
        reply = await waiting.reply()
        assert reply is not None
        assert (reply["code"], reply["codeName"]) == (11601, "Interrupted")
        assert deployment.world.clock.now() - before < 1.0
        assert await operations(killer) == []
        await waiting.ok(dict(INSERT))

    play(scenario, STANDALONE)


def test_killing_what_does_not_run_is_no_error() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for number in (12345, -1):
            await talker.ok({"killOp": 1, "op": number})
        assert (await talker.fails({"killOp": 1, "op": "shard:5"}))["code"] == 14  # a mongos knows shards
        assert (await talker.fails({"killOp": 1}))["code"] == 4

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("kill", "survives"),
    [
        ({"killSessions": [lsid()]}, False),
        ({"killSessions": [lsid(2)]}, True),
        ({"killAllSessions": []}, False),
        ({"killAllSessions": [{"user": "nobody", "db": "db"}]}, True),
        ({"killAllSessionsByPattern": []}, False),
        ({"killAllSessionsByPattern": [{"lsid": lsid()}]}, False),
        ({"killAllSessionsByPattern": [{"lsid": lsid(2)}]}, True),
        ({"killAllSessionsByPattern": [{"uid": Binary(bytes(32))}]}, True),
        ({"killAllSessionsByPattern": [{"users": [{"user": "nobody", "db": "db"}]}]}, True),
    ],
)
def test_killing_a_session_ends_what_runs_in_it(kill: dict[str, Any], *, survives: bool) -> None:
    async def scenario(deployment: Deployment) -> None:
        waiting = await blocked(deployment, {**INSERT, "lsid": lsid()}, ms=5000)
        await (await deployment.connect()).ok(dict(kill))
        reply = await waiting.reply()
        assert reply is not None
        assert reply["code"] == (9 if survives else 11601)

    play(scenario, STANDALONE)


def test_a_write_that_waits_for_members_tells_of_its_end_in_the_write_concern() -> None:
    async def scenario(deployment: Deployment) -> None:
        for node in deployment.cluster.nodes[1:]:
            await deployment.configure("stopReplProducer", "alwaysOn", node=node)
        waiting, killer = await deployment.connect(deployment.primary), await deployment.connect()
        await waiting.send({**INSERT, "writeConcern": {"w": 3}})
        await deployment.sleep(1.0)
        (told,) = await operations(killer)
        await killer.ok({"killOp": 1, "op": told["opid"]})
        reply = await waiting.reply()
        assert reply is not None
        assert (reply["ok"], reply["n"]) == (1.0, 1)
        assert reply["writeConcernError"]["code"] == 11601

    play(scenario, REPLICA_SET)


def test_what_does_not_run_is_told_where_it_is_asked_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, idle = await deployment.connect(), await deployment.connect()
        await idle.ok({"ping": 1})
        await talker.ok({**INSERT, "documents": [{}, {}, {}]})
        await talker.ok({"find": "c", "batchSize": 1, "noCursorTimeout": True, "$db": "db"})
        transaction = {"txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
        await talker.ok({**INSERT, "lsid": lsid(), **transaction})
        assert await operations(talker, idleSessions=False) == []
        (connection,) = await operations(talker, idleSessions=False, idleConnections=True)
        assert (connection["desc"], connection["active"]) == ("conn2", False)
        (cursor,) = await operations(talker, idleSessions=False, idleCursors=True)
        assert (cursor["type"], cursor["cursor"]["noCursorTimeout"]) == ("idleCursor", True)
        (session,) = await operations(talker)  # which are told unless they are not asked for
        assert (session["type"], session["lsid"]["id"]) == ("idleSession", lsid()["id"])

    play(scenario, ClusterSpec.replica_set(1))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (1, 14, "$currentOp options must be specified in an object, but found: int"),
        ({"foo": True}, 40415, "BSON field '$currentOp.foo' is an unknown field."),
        (
            {"allUsers": 1},
            14,
            "BSON field '$currentOp.allUsers' is the wrong type 'int', expected type 'bool'",
        ),
        ({"localOps": None}, 14, "BSON field '$currentOp.localOps' is the wrong type 'null'"),
        (
            {"targetAllNodes": True},
            9,
            "$currentOp supports targetAllNodes parameter only for sharded clusters",
        ),
    ],
)
def test_options_that_there_are_not_are_refused(options: Any, code: int, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        failure = await talker.fails({"aggregate": 1, "pipeline": [{"$currentOp": options}], "cursor": {}})
        assert failure["code"] == code
        assert message in failure["errmsg"]

    play(scenario, STANDALONE)


def test_without_the_privilege_a_user_sees_its_own_operations_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = {}
        for name in ("bob", "x", "y"):
            talkers[name] = await deployment.connect()
            db, password = ("admin", "pwd123") if name == "bob" else ("db", name)
            await log_in_as(talkers[name], name, password, db)
        point = {"configureFailPoint": "failCommand", "mode": {"times": 2}}
        data = {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 5000}
        await talkers["bob"].ok({**point, "data": data})
        for name in ("x", "y"):
            await talkers[name].send({"find": "c", "$db": "db"})
        await deployment.sleep(1.0)
        asking = await deployment.connect()
        await log_in_as(asking, "x", "x", "db")
        own = [{"$currentOp": {}}, {"$match": {"op": "query"}}]
        reply = await asking.ok({"aggregate": 1, "pipeline": own, "cursor": {}})
        (told,) = reply["cursor"]["firstBatch"]
        assert told["effectiveUsers"] == [{"user": "x", "db": "db"}]
        everybodys = [{"$currentOp": {"allUsers": True}}]
        assert (await asking.fails({"aggregate": 1, "pipeline": everybodys, "cursor": {}}))["code"] == 13
        assert (await asking.fails({"currentOp": 1}))["code"] == 13
        assert len((await asking.ok({"currentOp": 1, "$ownOps": True, "op": "query"}))["inprog"]) == 1

    users = (
        ADMIN,
        UserSpec("x", "x", db="db", roles=("read",)),
        UserSpec("y", "y", db="db", roles=("read",)),
    )
    play(scenario, ClusterSpec.standalone(auth=True, users=users))


def test_secrets_are_not_told() -> None:
    async def scenario(deployment: Deployment) -> None:
        await blocked(deployment, {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=u,r=abcd"})
        (told,) = (await (await deployment.connect()).ok({"currentOp": 1, "command.saslStart": 1}))["inprog"]
        assert "payload" not in told["command"]

    play(scenario, STANDALONE)
