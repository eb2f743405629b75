"""The commands for maintenance: what they make of a collection, and where they are refused."""

from __future__ import annotations

import hashlib
from typing import Any

import bson
import pytest
from bson import Decimal128
from data_commands import Server
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver import ClusterSpec
from fakeserver.commands.default_table import default_table
from fakeserver.errors import CommandError


def test_a_standalone_makes_indexes_anew_and_tells_which() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        index = {"key": {"a": 1}, "name": "a_1"}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        reply = await talker.ok({"reIndex": "c", "$db": "db"})
        assert (reply["nIndexesWas"], reply["nIndexes"]) == (2, 2)
        assert [each["name"] for each in reply["indexes"]] == ["_id_", "a_1"]

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("spec", "command", "code"),
    [
        (REPLICA_SET, {"reIndex": "c"}, 20),
        (STANDALONE, {"reIndex": "c"}, 26),
        (STANDALONE, {"convertToCapped": "c", "size": 100}, 26),
        (STANDALONE, {"convertToCapped": "c"}, 72),
        (STANDALONE, {"convertToCapped": "c", "size": "large"}, 72),
        (STANDALONE, {"convertToCapped": "c", "size": 2**50 + 1}, 2),
        (STANDALONE, {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 100}, 26),
        (STANDALONE, {"cloneCollectionAsCapped": "c", "size": 100}, 14),
        (STANDALONE, {"cloneCollectionAsCapped": 1, "toCollection": "d", "size": 100}, 14),
        (STANDALONE, {"cloneCollectionAsCapped": "c", "toCollection": "$d", "size": 100}, 73),
        (STANDALONE, {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 0.5}, 72),
        (STANDALONE, {"dataSize": 1}, 14),
        (STANDALONE, {"dataSize": "db"}, 73),
        (STANDALONE, {"dataSize": "db.c", "other": 1}, 40415),
        (STANDALONE, {"dataSize": "db.c", "keyPattern": 1}, 14),
        (STANDALONE, {"dataSize": "db.c", "keyPattern": {"_id": 1}, "min": {"_id": 1}}, 2),
        (STANDALONE, {"compact": "c", "dryRun": 1}, 14),
        (STANDALONE, {"validate": "c", "background": True}, 115),
        (STANDALONE, {"logRotate": "other"}, 4),
        (STANDALONE, {"logRotate": None}, 14),
        (STANDALONE, {"fsync": 1, "fsyncLockAcquisitionTimeoutMillis": 1.0}, 14),
        (STANDALONE, {"fsync": 1, "other": 1}, 40415),
        (STANDALONE, {"autoCompact": 1}, 14),
        (STANDALONE, {"autoCompact": True, "freeSpaceTargetMB": 2**43}, 2),
        (STANDALONE, {"hello": 1, "saslSupportedMechs": None}, 14),
        (STANDALONE, {"killOp": 1}, 4),
        (STANDALONE, {"killOp": 1, "op": "1"}, 14),
        (STANDALONE, {"killOp": 1, "op": 1.5}, 2),
        (STANDALONE, {"killOp": 1, "op": 2**31}, 26823),
        (STANDALONE, {"dropConnections": 1, "hostAndPort": ["host:"]}, 9),
        (STANDALONE, {"dropConnections": 1, "hostAndPort": ["host:0"]}, 9),
        (STANDALONE, {"dropConnections": 1, "hostAndPort": ["a:b:c"]}, 9),
        (STANDALONE, {"dropConnections": 1}, 40414),
        (STANDALONE, {"getParameter": {"showDetails": "yes"}, "logLevel": 1}, 14),
        (STANDALONE, {"getParameter": {"allParameters": True, "setAt": "x"}}, 2),
        (STANDALONE, {"getParameter": {"other": 1}, "logLevel": 1}, 40415),
        (STANDALONE, {"getClusterParameter": "nothing"}, 4),
        (STANDALONE, {"getClusterParameter": []}, 2),
        (STANDALONE, {"getClusterParameter": [1]}, 14),
        (STANDALONE, {"setClusterParameter": {"nothing": {}}}, 4),
        (STANDALONE, {"setClusterParameter": {"changeStreams": {}, "nothing": {}}}, 72),
        (STANDALONE, {"setClusterParameter": {"changeStreams": {"expireAfterSeconds": 0}}}, 2),
        (STANDALONE, {"setClusterParameter": {"changeStreams": {"expireAfterSeconds": "1"}}}, 14),
        (STANDALONE, {"setClusterParameter": {"changeStreamOptions": {}}}, 2),
        (STANDALONE, {"setClusterParameter": {"changeStreamOptions": {"$bad": 1}}}, 52),
        (STANDALONE, {"lockInfo": 1, "other": 1}, 40415),
        (STANDALONE, {"profile": 0, "filter": 1}, 2),
        (STANDALONE, {"dbStats": 1, "other": 1}, 40415),
        (STANDALONE, {"connectionStatus": 1, "showPrivileges": "yes"}, 14),
        (STANDALONE, {"compact": "c", "freeSpaceTargetMB": 0}, 2),
        (STANDALONE, {"dbHash": 1, "collections": [1]}, 2),
        (ClusterSpec.sharded(), {"dbHash": 1}, 59),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_refused(spec: ClusterSpec, command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        of_admin = default_table().commands[next(iter(command))].admin_only
        reply = await talker.fails({**command, "$db": "admin" if of_admin else "db"})
        assert reply["code"] == code, reply["errmsg"]

    play(scenario, spec)


@pytest.mark.parametrize("confirmed", [True, 1, Decimal128("1"), float("nan"), float("-inf")])
def test_a_deployment_may_have_the_features_of_the_last_release_of_long_support(confirmed: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        asked = {"getParameter": 1, "featureCompatibilityVersion": 1}
        for version in ("8.0", "8.0", "8.2"):
            await talker.ok({"setFeatureCompatibilityVersion": version, "confirm": confirmed})
            assert (await talker.ok(dict(asked)))["featureCompatibilityVersion"] == {"version": version}

    play(scenario, REPLICA_SET)


def test_a_compaction_that_is_on_keeps_its_settings_until_it_is_off() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        other: dict[str, Any] = {"autoCompact": True}
        on = {**other, "freeSpaceTargetMB": 30}
        await talker.ok({**on, "runOnce": True})
        for command in (on, on):
            await talker.ok(dict(command))
        for command in (other, {**on, "runOnce": True}):
            assert (await talker.fails(dict(command)))["code"] == 23
        for command in (
            {"autoCompact": False},
            {"autoCompact": False},
            other,
            {**other, "freeSpaceTargetMB": 20},
        ):
            await talker.ok(dict(command))

    play(scenario, STANDALONE)


@pytest.mark.parametrize(("letters", "code"), [(227, 0), (228, 73)])
def test_the_name_of_a_collection_that_is_converted_leaves_room_for_a_longer_one(
    letters: int, code: int
) -> None:
    server = Server()
    name = "c" * letters
    server.fill(name, {"_id": 1})
    command = {"convertToCapped": name, "size": 4096}
    if not code:
        server.run(command)
        return
    with pytest.raises(CommandError) as caught:
        server.run(command)
    assert caught.value.code == code


def test_the_size_of_a_time_series_or_a_view_is_not_told() -> None:
    server = Server()
    server.run({"create": "t", "timeseries": {"timeField": "at"}})
    server.run({"create": "v", "viewOn": "c"})
    for name in ("t", "v"):
        with pytest.raises(CommandError) as caught:
            server.run({"dataSize": f"db.{name}"})
        assert caught.value.code == 166


def test_a_converted_collection_keeps_the_newest_documents_that_fit() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number, "text": "x" * 100} for number in range(10)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        await talker.ok({"convertToCapped": "c", "size": 4096, "$db": "db"})
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 10
        await talker.ok({"convertToCapped": "c", "size": 300, "$db": "db"})
        found = (await talker.ok({"find": "c", "$db": "db"}))["cursor"]["firstBatch"]
        assert found == documents[-len(found) :]
        assert 0 < len(found) < 10
        (described,) = (await talker.ok({"listCollections": 1, "$db": "db"}))["cursor"]["firstBatch"]
        assert described["options"] == {"capped": True, "size": 300}

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize("command", ["convertToCapped", "cloneCollectionAsCapped"])
def test_a_capped_collection_made_of_another_has_its_size_and_no_number_of_documents(command: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "capped": True, "size": 4096, "max": 3, "$db": "db"})
        target = {"toCollection": "d"} if command == "cloneCollectionAsCapped" else {}
        await talker.ok({command: "c", **target, "size": 8192, "$db": "db"})
        names = {"filter": {"name": target.get("toCollection", "c")}}
        (made,) = (await talker.ok({"listCollections": 1, **names, "$db": "db"}))["cursor"]["firstBatch"]
        assert made["options"] == {"capped": True, "size": 8192}

    play(scenario, STANDALONE)


def test_a_collection_is_cloned_as_a_capped_one_and_stays() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number, "text": "x" * 100} for number in range(10)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        command = {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 300, "$db": "db"}
        await talker.ok(command)
        found = (await talker.ok({"find": "d", "$db": "db"}))["cursor"]["firstBatch"]
        assert 0 < len(found) < 10
        assert found == documents[-len(found) :]
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 10
        assert (await talker.fails(command))["code"] == 48
        await talker.ok({"create": "view", "viewOn": "c", "$db": "db"})
        for changed in ({"toCollection": "view"}, {"cloneCollectionAsCapped": "view", "toCollection": "e"}):
            assert (await talker.fails({**command, **changed}))["code"] == 166

    play(scenario, STANDALONE)


def test_a_size_is_that_of_the_keys_in_a_range_of_an_index() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number, "a": number, "b": 1} for number in range(10)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        index = {"key": {"a": 1, "b": 1}, "name": "a_1_b_1"}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        size = len(bson.encode(documents[0]))
        for lowest, highest, count in ((2, 5, 3), (5, 5, 0), (7, 2, 0), (-1, 99, 10)):
            command = {"keyPattern": {"a": 1}, "min": {"a": lowest}, "max": {"a": highest}}
            reply = await talker.ok({"dataSize": "db.c", **command, "$db": "db"})
            assert (reply["numObjects"], reply["size"]) == (count, count * size)
        unindexed = {"keyPattern": {"b": 1}, "min": {"b": 1}, "max": {"b": 2}}
        assert (await talker.fails({"dataSize": "db.c", **unindexed, "$db": "db"}))["code"] == 96

    play(scenario, STANDALONE)


def test_a_mongos_measures_as_a_shard_does_and_does_not_say_how() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        reply = await talker.ok({"dataSize": "db.c", "estimate": True, "$db": "db"})
        assert (reply["numObjects"], reply["size"], "estimate" in reply) == (1, 14, False)
        assert (await talker.ok({"filemd5": 1, "$db": "db"}))["numChunks"] == 0

    play(scenario, ClusterSpec.sharded())


def test_a_dry_run_of_compact_tells_what_it_would_free() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{}], "$db": "db"})
        assert "bytesFreed" in await talker.ok({"compact": "c", "$db": "db"})
        assert "estimatedBytesFreed" in await talker.ok({"compact": "c", "dryRun": True, "$db": "db"})

    play(scenario, STANDALONE)


def test_a_parameter_of_the_deployment_is_kept_where_every_member_finds_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        asked = {"getClusterParameter": ["changeStreams", "changeStreamOptions"], "$db": "admin"}

        async def shown() -> list[Any]:
            return [
                {name: value for name, value in each.items() if name != "clusterParameterTime"}
                for each in (await talker.ok(asked))["clusterParameters"]
            ]

        off = {"_id": "changeStreamOptions", "preAndPostImages": {"expireAfterSeconds": "off"}}
        assert await shown() == [{"_id": "changeStreams", "expireAfterSeconds": 3600}, off]
        await talker.ok(
            {"setClusterParameter": {"changeStreams": {"expireAfterSeconds": 60}}, "$db": "admin"}
        )
        assert await shown() == [{"_id": "changeStreams", "expireAfterSeconds": 60}, off]
        every = await talker.ok({"getClusterParameter": "*", "$db": "admin"})
        assert {"changeStreams", "defaultMaxTimeMS"} <= {each["_id"] for each in every["clusterParameters"]}
        kept = await talker.ok({"find": "clusterParameters", "$db": "config"})
        assert [each["_id"] for each in kept["cursor"]["firstBatch"]] == ["changeStreams"]

    play(scenario, REPLICA_SET)


def test_the_hash_of_a_file_is_that_of_its_chunks() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        chunks = [{"files_id": 1, "n": number, "data": data} for number, data in ((1, b"b"), (0, b"a"))]
        await talker.ok({"insert": "fs.chunks", "documents": chunks, "$db": "db"})
        reply = await talker.ok({"filemd5": 1, "root": "fs", "$db": "db"})
        assert (reply["numChunks"], reply["md5"]) == (
            2,
            hashlib.md5(b"ab", usedforsecurity=False).hexdigest(),
        )

    play(scenario, STANDALONE)


def test_a_hash_is_of_the_documents_in_the_order_of_their_ids() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "b", "documents": [{"_id": 2}, {"_id": 1}], "$db": "db"})
        await talker.ok({"create": "a", "capped": True, "size": 4096, "$db": "db"})
        reply = await talker.ok({"dbHash": 1, "$db": "db"})
        expected = hashlib.md5(bson.encode({"_id": 1}) + bson.encode({"_id": 2}), usedforsecurity=False)
        assert reply["collections"]["b"] == expected.hexdigest()
        assert reply["capped"] == ["a"]
        assert set(reply["uuids"]) == {"a", "b"}
        whole = "".join(reply["collections"][name] for name in ("a", "b")).encode()
        assert reply["md5"] == hashlib.md5(whole, usedforsecurity=False).hexdigest()
        only = await talker.ok({"dbHash": 1, "collections": ["b"], "$db": "db"})
        assert list(only["collections"]) == ["b"]

    play(scenario, REPLICA_SET)


_WRITES: list[dict[str, Any]] = [
    {"insert": "c", "documents": [{"_id": 2}]},
    {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
    {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
    {"findAndModify": "c", "query": {}, "remove": True},
    {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}},
    {"insert": "new", "documents": [{"_id": 1}]},
    {"create": "new"},
    {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
    {"dropIndexes": "c", "index": "*"},
    {"collMod": "c", "validator": {}},
    {"renameCollection": "db.c", "to": "db.d", "$db": "admin"},
    {"drop": "c"},
    {"dropDatabase": 1},
]


@pytest.mark.parametrize("command", _WRITES, ids=lambda command: next(iter(command)))
def test_writes_of_users_are_refused_while_they_are_blocked(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        await talker.ok({"setUserWriteBlockMode": 1, "global": True, "$db": "admin"})
        reply = await talker.command({**command, "$db": command.get("$db", "db")}) or {}
        (error,) = reply.get("writeErrors", [reply])
        assert error["code"] == 371
        found = await talker.ok({"find": "c", "$db": "db"})
        assert found["cursor"]["firstBatch"] == [{"_id": 1}]
        names = await talker.ok({"listCollections": 1, "nameOnly": True, "$db": "db"})
        assert [each["name"] for each in names["cursor"]["firstBatch"]] == ["c"]
        await talker.ok({"insert": "c", "documents": [{"_id": 2}], "$db": "admin"})
        await talker.ok({"setUserWriteBlockMode": 1, "global": False, "$db": "admin"})
        await talker.ok({"insert": "c", "documents": [{"_id": 3}], "$db": "db"})

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    ("spec", "first", "second", "code"),
    [
        (REPLICA_SET, {"global": True}, {"global": True, "reason": "Unspecified"}, None),
        (REPLICA_SET, {"global": False, "reason": "DiskUseThresholdExceeded"}, {"global": True}, None),
        (REPLICA_SET, {"global": True}, {"global": False, "reason": "DiskUseThresholdExceeded"}, 20),
        (REPLICA_SET, {"global": True}, {"global": True, "reason": "DiskUseThresholdExceeded"}, 20),
        (REPLICA_SET, None, {"global": True, "reason": "other"}, 2),
        (REPLICA_SET, None, {"global": 1}, 14),
        (REPLICA_SET, None, {}, 40414),
        (STANDALONE, None, {"global": True}, 20),
    ],
)
def test_a_block_of_writes_ends_for_the_reason_that_it_began_for(
    spec: ClusterSpec, first: dict[str, Any] | None, second: dict[str, Any], code: int | None
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        if first is not None:
            await talker.ok({"setUserWriteBlockMode": 1, **first, "$db": "admin"})
        reply = await talker.command({"setUserWriteBlockMode": 1, **second, "$db": "admin"})
        assert (reply or {}).get("code") == code

    play(scenario, spec)


def test_no_index_is_ever_being_built_and_certificates_stay_as_they_are() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        command = {"setIndexCommitQuorum": "c", "indexNames": ["a_1"], "commitQuorum": "majority"}
        assert (await talker.fails({**command, "$db": "db"}))["code"] == 27
        await talker.ok({"rotateCertificates": 1, "$db": "admin"})

    play(scenario)
