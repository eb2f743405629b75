"""The switches of upkeep: the lock against writes, the profiler, and what scripts run beside them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from access import ADMIN, log_in_as
from bson import Decimal128
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, play, play_live

from fakeserver import ClusterSpec

INSERT = {"insert": "c", "documents": [{"_id": 1}], "$db": "db"}


def test_a_locked_server_holds_writes_back_until_it_is_unlocked_as_often() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, writer, reader = [await deployment.connect() for _ in range(3)]
        assert (await admin.ok({"fsync": 1, "lock": True}))["lockCount"] == 1
        assert (await admin.ok({"fsync": 1, "lock": True}))["lockCount"] == 2
        await writer.send(dict(INSERT))
        await deployment.sleep(5.0)
        assert (await reader.ok({"count": "c", "$db": "db"}))["n"] == 0
        assert (await admin.ok({"serverStatus": 1}))["globalLock"]["currentQueue"]["writers"] == 1
        (lock,) = (await admin.ok({"lockInfo": 1}))["lockInfo"]
        assert [each["mode"] for each in lock["granted"]] == ["S"]
        assert [each["mode"] for each in lock["pending"]] == ["IX"]
        assert (await admin.ok({"fsyncUnlock": 1}))["lockCount"] == 1
        await deployment.sleep(5.0)
        assert (await reader.ok({"count": "c", "$db": "db"}))["n"] == 0
        assert (await admin.ok({"fsyncUnlock": 1}))["lockCount"] == 0
        reply = await writer.reply()
        assert reply is not None
        assert reply["n"] == 1
        assert (await admin.ok({"lockInfo": 1}))["lockInfo"] == []
        assert (await admin.fails({"fsyncUnlock": 1}))["errmsg"] == "fsyncUnlock called when not locked"

    play(scenario, STANDALONE)


def test_a_write_that_is_held_back_keeps_to_its_max_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        admin, writer = await deployment.connect(), await deployment.connect()
        await admin.ok({"fsync": 1, "lock": True})
        assert (await writer.fails({**INSERT, "maxTimeMS": 100}))["code"] == 50
        assert await admin.ok({"fsync": 1}) == {"numFiles": 1, "ok": 1.0}

    play(scenario, STANDALONE)


async def profiled(talker: Talker) -> list[dict[str, Any]]:
    reply = await talker.ok({"find": "system.profile", "$db": "db"})
    return list(reply["cursor"]["firstBatch"])


@pytest.mark.parametrize("rate", [1, 0.5, Decimal128("0.5")], ids=str)
def test_a_sample_rate_is_any_number(rate: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"profile": 0, "sampleRate": rate, "$db": "db"})
        assert (await talker.ok({"profile": -1, "$db": "db"}))["sampleRate"] == float(str(rate))

    play(scenario)


def test_the_profiler_records_the_operations_of_its_database() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.ok({"profile": 2, "$db": "db"}))["was"] == 0
        await talker.ok(dict(INSERT))
        await talker.fails(dict(INSERT) | {"insert": ""})
        await talker.ok({"find": "c", "$db": "db"})
        await talker.fails({"find": "c", "filter": {"$foo": 1}, "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{}], "$db": "elsewhere"})
        insert, find, failed = await profiled(talker)
        assert (insert["op"], insert["ns"], insert["millis"]) == ("insert", "db.c", 0)
        assert (find["op"], find["nreturned"], find["protocol"]) == ("query", 1, "op_msg")
        assert (failed["errCode"], failed["errName"], failed["ok"]) == (2, "BadValue", 0.0)
        assert (await talker.ok({"profile": 0, "$db": "db"}))["was"] == 2
        await talker.ok({"count": "c", "$db": "db"})
        *_, read = await profiled(talker)
        assert (read["op"], read["ns"]) == ("query", "db.system.profile")
        assert len(await profiled(talker)) == 4

    play(scenario, STANDALONE)


def test_the_profiler_has_an_entry_for_each_statement_of_an_update_or_delete() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}, {"_id": 2}], "$db": "db"})
        await talker.ok({"profile": 2, "$db": "db"})
        updates: list[dict[str, Any]] = [
            {"q": {"_id": 1}, "u": {"$set": {"x": 1}}, "multi": True, "hint": {"_id": 1}},
            {"q": {}, "u": {"$inc": {"_id": 1}}, "collation": {"locale": "en"}},
            {"q": {"_id": 2}, "u": {"$set": {"x": 1}}},
        ]
        await talker.ok({"update": "c", "updates": updates, "$db": "db"})
        deletes = [{"q": {"_id": 1}, "limit": 1}, {"q": {}, "limit": 0, "hint": "_id_"}]
        await talker.ok({"delete": "c", "deletes": deletes, "$db": "db"})
        first, second, *removed = await profiled(talker)
        assert [each["op"] for each in (first, second, *removed)] == ["update", "update", "remove", "remove"]
        assert (first["command"], second["command"]) == (updates[0], updates[1])
        assert "errCode" not in first
        assert (second["errCode"], second["errName"]) == (66, "ImmutableField")
        assert [each["command"] for each in removed] == deletes
        for batch in ({"update": "c", "updates": updates[:1]}, {"delete": "c", "deletes": deletes}):
            await talker.ok({**batch, "comment": {"by": "me"}, "$db": "db"})
        *_, updated, once, often = await profiled(talker)
        assert updated["command"] == {**updates[0], "comment": {"by": "me"}}
        assert [each["command"]["comment"] for each in (once, often)] == [{"by": "me"}] * 2

    play(scenario, STANDALONE)


def test_a_get_more_is_shown_with_the_command_and_the_comment_that_opened_its_cursor() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{}] * 3, "$db": "db"})
        await talker.ok({"profile": 2, "slowms": 0, "$db": "db"})
        opened = {"find": "c", "batchSize": 1, "comment": "mine"}
        cursor = (await talker.ok({**opened, "$db": "db"}))["cursor"]["id"]
        more: dict[str, Any] = {"getMore": cursor, "collection": "c", "batchSize": 1}
        await talker.ok({**more, "$db": "db"})
        await talker.ok({**more, "comment": "own", "$db": "db"})
        find, *mores = await profiled(talker)
        assert "originatingCommand" not in find
        assert [each["command"]["comment"] for each in mores] == ["mine", "own"]
        assert all(opened.items() <= each["originatingCommand"].items() for each in mores)
        log = (await talker.ok({"getLog": "global", "$db": "admin"}))["log"]
        assert len([line for line in log if '"originatingCommand"' in line]) == 2

    play(scenario, STANDALONE)


def test_the_first_level_records_what_is_slow_or_fits_the_filter() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"profile": 1, "slowms": 200, "$db": "db"})
        for block_ms in (100, 300):
            point: dict[str, Any] = {
                "failCommands": ["count"],
                "blockConnection": True,
                "blockTimeMS": block_ms,
            }
            await deployment.configure("failCommand", {"times": 1}, **point)
            await talker.ok({"count": "c", "$db": "db"})
        (slow,) = await profiled(talker)
        assert slow["millis"] >= 300
        reply = await talker.ok({"profile": 1, "filter": {"op": "insert"}, "$db": "db"})
        assert (reply["was"], reply["slowms"]) == (1, 200)
        await talker.ok(dict(INSERT))
        await talker.ok({"count": "c", "$db": "db"})
        assert [each["op"] for each in await profiled(talker)] == ["command", "insert"]
        shown = await talker.ok({"profile": -1, "filter": "unset", "$db": "db"})
        assert shown["filter"] == {"op": {"$eq": "insert"}}
        assert "filter" not in await talker.ok({"profile": -1, "$db": "db"})

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"profile": "x", "$db": "db"}, 14),
        ({"profile": 1, "filter": "all", "$db": "db"}, 2),
        ({"profile": 1, "filter": {"$foo": 1}, "$db": "db"}, 2),
        ({"compact": "nothing", "$db": "db"}, 26),
        ({"setFeatureCompatibilityVersion": "8.2"}, 7369100),
        ({"setFeatureCompatibilityVersion": "7.0", "confirm": True}, 4926900),
        ({"setFeatureCompatibilityVersion": "8.1", "confirm": True}, 5147403),
        ({"setFeatureCompatibilityVersion": "8.0", "confirm": 0}, 7369100),
        ({"dataSize": "db"}, 73),
    ],
)
def test_what_makes_no_sense_is_refused(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails(dict(command)))["code"] == code

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize("level", [1, 2, 3, -2])
def test_a_mongos_takes_settings_of_the_slow_query_log_and_no_profiling_level(level: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        refused = await talker.fails({"profile": level, "slowms": 7, "$db": "db"})
        assert (refused["code"], refused["errmsg"][:35]) == (2, "Profiling is not permitted on mongo")
        assert (await talker.ok({"profile": 0, "slowms": 50, "$db": "db"}))["slowms"] == 100
        assert (await talker.ok({"profile": -1, "$db": "db"}))["slowms"] == 50

    play(scenario, ClusterSpec.sharded())


def test_what_scripts_run_besides_answers_as_on_a_server_in_good_shape() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(dict(INSERT))
        assert (await talker.ok({"compact": "c", "$db": "db"}))["bytesFreed"] == 0
        assert (await talker.ok({"dataSize": "db.c"}))["numObjects"] == 1
        await talker.ok({"setFeatureCompatibilityVersion": "8.2", "confirm": True})
        for command in ({"planCacheClear": "c", "$db": "db"}, {"logRotate": 1}):
            await talker.ok(command)
        concerns = await talker.ok({"getDefaultRWConcern": 1})
        assert concerns["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}

    play(scenario, REPLICA_SET)


def test_the_status_has_the_sections_that_monitoring_tools_read() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": n} for n in range(5)], "$db": "db"})
        await talker.ok({"find": "c", "batchSize": 2, "noCursorTimeout": True, "$db": "db"})
        await talker.ok({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "db"})
        change = [{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}]
        await talker.ok({"update": "c", "updates": change, "$db": "db"})
        await talker.fails({"find": "c", "filter": {"$foo": 1}, "$db": "db"})
        status = await talker.ok({"serverStatus": 1, "network": 0})
        assert status["metrics"]["document"] == {"inserted": 5, "returned": 2, "deleted": 1, "updated": 4}
        assert status["metrics"]["cursor"]["open"] == {"noTimeout": 1, "pinned": 0, "total": 1}
        assert status["metrics"]["cursor"]["totalOpened"] == 1
        assert status["asserts"]["user"] == 1
        assert status["connections"]["active"] == 1
        assert status["opcountersRepl"]["insert"] == 0
        assert status["mem"]["bits"] == 64
        assert {"globalLock", "uptimeEstimate", "pid"} <= set(status)
        assert "network" not in status

    play(scenario, REPLICA_SET)


def test_a_live_server_tells_of_our_process_and_one_in_virtual_time_of_none() -> None:
    async def live(deployment: Deployment) -> None:
        status = await (await deployment.connect()).ok({"serverStatus": 1})
        assert status["pid"] == os.getpid()
        assert status["extra_info"]["user_time_us"] > 0

    async def virtual(deployment: Deployment) -> None:
        status = await (await deployment.connect()).ok({"serverStatus": 1})
        assert status["pid"] == 1
        assert "extra_info" not in status

    play_live(live, STANDALONE)
    play(virtual, STANDALONE)


def test_the_status_counts_who_authenticated_and_who_failed_to() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        with pytest.raises(AssertionError):
            await log_in_as(talker, "bob", "wrong", "admin")
        await log_in_as(talker, "bob", "pwd123", "admin")
        status = await talker.ok({"serverStatus": 1})
        counted = status["security"]["authentication"]["mechanisms"]["SCRAM-SHA-256"]
        assert counted["authenticate"] == {"received": 2, "successful": 1}

    play(scenario, ClusterSpec.standalone(auth=True, users=(ADMIN,)))
