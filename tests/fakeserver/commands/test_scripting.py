"""Scripts as slow operations: a command waits as long as its scripts sleep, and can be ended meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import NetworkTimeout, WaitQueueTimeoutError
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, lsid, play
from threaded_server import serving

from fakeserver.storage.scripts import javascript

SLEEP = {"$where": "function() { sleep(2 * 1000); return true; }"}
BUSY = (
    "function() { var d = new Date((new Date()).getTime() + 2*1000);"
    " while (d > (new Date())) {} return true; }"
)
ROUND_TRIP = 0.001


@pytest.fixture(params=[True, False], ids=["engine", "no-engine"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test with the extra and without it."""
    installed: bool = request.param
    monkeypatch.setattr(javascript, "available", lambda: installed)
    return installed


def in_db(command: dict[str, Any]) -> dict[str, Any]:
    return {**command, "$db": "db"}


async def filled(deployment: Deployment, count: int = 1) -> Talker:
    talker = await deployment.connect(deployment.primary)
    await talker.ok(in_db({"insert": "c", "documents": [{"_id": n} for n in range(count)]}))
    return talker


async def timed(
    deployment: Deployment, talker: Talker, command: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    before = deployment.world.clock.now()
    reply = await talker.command(in_db(command))
    assert reply is not None
    return round(deployment.world.clock.now() - before - ROUND_TRIP, 6), reply


@pytest.mark.parametrize(
    ("script", "documents", "seconds"),
    [
        ("sleep(1000) || true", 1, 1.0),
        ("sleep(1000) || true", 3, 3.0),
        ("function() { sleep(2 * 1000); return true; }", 1, 2.0),
        (BUSY, 2, 4.0),
        ("sleep(1000)", 2, 2.0),
        ("sleep(1000) || true", 0, 0.0),
    ],
)
def test_a_find_takes_as_long_as_its_script_sleeps_for_each_document(
    script: str, documents: int, seconds: float
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment, max(documents, 1))
        if not documents:
            await talker.ok(in_db({"delete": "c", "deletes": [{"q": {}, "limit": 0}]}))
        took, reply = await timed(deployment, talker, {"find": "c", "filter": {"$where": script}})
        assert took == seconds
        assert len(reply["cursor"]["firstBatch"]) == (documents if "return" in script or "|" in script else 0)

    play(scenario, STANDALONE)


def test_documents_that_another_condition_leaves_out_cost_no_sleep() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment, 5)
        for filter_ in ({"_id": 3, **SLEEP}, {**SLEEP, "_id": {"$gt": 3}}):
            took, reply = await timed(deployment, talker, {"find": "c", "filter": filter_})
            assert (took, len(reply["cursor"]["firstBatch"])) == (2.0, 1)

    play(scenario, STANDALONE)


def test_others_are_served_meanwhile() -> None:
    async def scenario(deployment: Deployment) -> None:
        slow, quick = await filled(deployment), await deployment.connect()
        await slow.send(in_db({"find": "c", "filter": SLEEP}))
        for _ in range(3):
            took, _reply = await timed(deployment, quick, {"count": "c"})
            assert took == 0.0
        assert await slow.reply()

    play(scenario, STANDALONE)


def test_writes_happen_once_and_after_the_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await filled(deployment, 2), await deployment.connect()
        statements = [
            {"q": {"_id": 0}, "u": {"$inc": {"n": 1}}},
            {"q": {"_id": 1, **SLEEP}, "u": {"$inc": {"n": 10}}},
            {"q": {"_id": 0, **SLEEP}, "u": {"$inc": {"n": 100}}},
        ]
        await talker.send(in_db({"update": "c", "updates": statements}))
        seen = []
        for _ in range(5):
            found = (await other.ok(in_db({"find": "c"})))["cursor"]["firstBatch"]
            seen.append([each.get("n", 0) for each in found])
            await deployment.sleep(1.0)
        reply = await talker.reply()
        assert reply is not None
        assert (reply["n"], reply["nModified"]) == (3, 3)
        assert seen == [[1, 0], [1, 0], [1, 10], [1, 10], [101, 10]]

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": SLEEP},
        {"count": "c", "query": SLEEP},
        {"distinct": "c", "key": "_id", "query": SLEEP},
        {"delete": "c", "deletes": [{"q": SLEEP, "limit": 0}]},
        {"update": "c", "updates": [{"q": SLEEP, "u": {"$set": {"a": 1}}}]},
        {"findAndModify": "c", "query": SLEEP, "update": {"$set": {"a": 1}}},
    ],
    ids=lambda command: next(iter(command)),
)
def test_max_time_ms_ends_the_wait_and_nothing_is_written(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        took, reply = await timed(deployment, talker, {**command, "maxTimeMS": 500})
        assert (took, reply["code"]) == (0.5, 50)
        found = await talker.ok(in_db({"find": "c"}))
        assert found["cursor"]["firstBatch"] == [{"_id": 0}]
        took, reply = await timed(deployment, talker, {**command, "maxTimeMS": 5000})
        assert (took, reply["ok"]) == (2.0, 1.0)

    play(scenario, STANDALONE)


def test_a_wait_is_told_by_current_op_and_ended_by_kill_op() -> None:
    async def scenario(deployment: Deployment) -> None:
        slow, killer = await filled(deployment), await deployment.connect()
        await slow.send(in_db({"delete": "c", "deletes": [{"q": SLEEP, "limit": 0}]}))
        await deployment.sleep(1.5)
        (told,) = (await killer.ok({"currentOp": 1, "op": "remove"}))["inprog"]
        assert told["secs_running"] == 1
        await killer.ok({"killOp": 1, "op": told["opid"]})
        reply = await slow.reply()
        assert reply is not None
        assert reply["code"] == 11601
        assert (await killer.ok(in_db({"count": "c"})))["n"] == 1

    play(scenario, STANDALONE)


def test_a_step_down_ends_a_write_that_waits() -> None:
    async def scenario(deployment: Deployment) -> None:
        slow, other = await filled(deployment), await deployment.connect(deployment.primary)
        await slow.send(in_db({"delete": "c", "deletes": [{"q": SLEEP, "limit": 0}]}))
        await deployment.sleep(0.5)
        await other.ok({"replSetStepDown": 10, "force": True})
        reply = await slow.reply()
        assert reply is not None
        assert reply["code"] == 11602
        await deployment.sleep(5.0)
        assert (await (await deployment.connect(deployment.primary)).ok(in_db({"count": "c"})))["n"] == 1

    play(scenario, REPLICA_SET)


def test_a_client_that_is_missed_at_once_takes_its_write_along() -> None:
    async def scenario(deployment: Deployment) -> None:
        slow, other = await filled(deployment), await deployment.connect()
        deployment.primary.parameters.set({"abandonedRequests": "atOnce"})
        await slow.send(in_db({"delete": "c", "deletes": [{"q": SLEEP, "limit": 0}]}))
        await deployment.sleep(0.5)
        await slow.aclose()
        await deployment.sleep(5.0)
        assert (await other.ok(in_db({"count": "c"})))["n"] == 1

    play(scenario, STANDALONE)


def test_a_retried_write_that_waited_is_not_done_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        update = {"update": "c", "updates": [{"q": SLEEP, "u": {"$inc": {"n": 1}}}]}
        for retried in (False, True):
            command = {**update, "lsid": lsid(), "txnNumber": Int64(1)}
            took, reply = await timed(deployment, talker, command)
            assert (took, reply["n"]) == (0.0 if retried else 2.0, 1)
        found = await talker.ok(in_db({"find": "c"}))
        assert found["cursor"]["firstBatch"] == [{"_id": 0, "n": 1}]

    play(scenario, REPLICA_SET)


def test_a_write_in_a_transaction_waits_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        fields = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        update = {"update": "c", "updates": [{"q": SLEEP, "u": {"$inc": {"n": 1}}}], "startTransaction": True}
        took, reply = await timed(deployment, talker, {**update, **fields})
        assert (took, reply["n"]) == (2.0, 1)
        await talker.ok({"commitTransaction": 1, **fields})
        assert (await talker.ok(in_db({"find": "c"})))["cursor"]["firstBatch"] == [{"_id": 0, "n": 1}]

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    ("options", "seconds", "code"), [({"maxTimeMS": 500}, 0.5, 50), ({}, 60.0, 139)], ids=["limit", "none"]
)
@pytest.mark.parametrize("script", ["while (true) {}", "while (true) sleep(1e12)"])
def test_a_script_without_end_is_waited_for_and_given_up(
    script: str, options: dict[str, Any], seconds: float, code: int, *, engine: bool
) -> None:
    if not engine:
        options, seconds, code = {}, 0.0, 2

    async def scenario(deployment: Deployment) -> None:
        talker = await filled(deployment)
        command = {"find": "c", "filter": {"$where": script}, **options}
        took, reply = await timed(deployment, talker, command)
        assert reply["code"] == code
        assert took >= seconds

    play(scenario, STANDALONE)


def test_a_driver_meets_its_own_time_limits_while_a_script_sleeps() -> None:
    with (
        serving(STANDALONE) as server,
        MongoClient[Any](server.cluster.uri, maxPoolSize=1, waitQueueTimeoutMS=100) as client,
    ):
        client.db.c.insert_one({"_id": 1})

        async def main() -> None:
            slow = asyncio.to_thread(lambda: list(client.db.c.find({"$where": "sleep(600) || true"})))
            running = asyncio.ensure_future(slow)
            with MongoClient[Any](server.cluster.uri) as watcher:
                while not any(
                    "find" in op["command"] for op in watcher.admin.aggregate([{"$currentOp": {}}])
                ):
                    await asyncio.to_thread(watcher.admin.command, "ping")
            with pytest.raises(WaitQueueTimeoutError):
                await asyncio.to_thread(client.db.c.find_one)
            assert await running == [{"_id": 1}]

        asyncio.run(main())
        with (
            MongoClient[Any](server.cluster.uri, socketTimeoutMS=100, retryReads=False) as hasty,
            pytest.raises(NetworkTimeout),
        ):
            hasty.db.c.find_one({"$where": "function() { sleep(5 * 1000); return true; }"})
