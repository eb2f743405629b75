"""Commands that no handler may see: arguments of a wrong type, and messages nested too deeply."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Code, Decimal128, Int64, Timestamp
from talking import REPLICA_SET, STANDALONE, Deployment, lsid, play

from fakeserver import ClusterSpec
from mongowire.messages import DocumentSequence


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("preference", "code"),
    [
        ("primary", 14),
        ({}, 4),
        ({"mode": 1}, 14),
        ({"mode": Code("primary")}, 14),
        ({"mode": "x"}, 2),
        ({"mode": "nearest", "tags": {}}, 14),
        ({"mode": "primary", "tags": [{"a": "b"}]}, 2),
        ({"mode": "nearest", "maxStalenessSeconds": "a"}, 14),
        ({"mode": "nearest", "maxStalenessSeconds": -1}, 2),
        ({"mode": "nearest", "maxStalenessSeconds": 89}, 160),
        ({"mode": "primary", "maxStalenessSeconds": 90}, 2),
        ({"mode": "primary", "tags": [{}], "maxStalenessSeconds": 0}, None),
        ({"mode": "nearest", "tags": [{"a": "b"}, {}], "maxStalenessSeconds": 90}, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("spec", [STANDALONE, ClusterSpec.sharded()], ids=["mongod", "mongos"])
def test_a_read_preference_is_checked(spec: ClusterSpec, preference: Any, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.command({"find": "c", "$readPreference": preference, "$db": "db"})
        assert reply is not None
        assert reply.get("code") == code

    play(scenario, spec)


CLUSTERED = {"key": {"_id": 1}, "unique": True}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"create": "c", "timeseries": {}}, 40414),
        ({"create": "c", "timeseries": {"timeField": 1}}, 14),
        ({"create": "c", "timeseries": {"timeField": "t", "granularity": "x"}}, 2),
        ({"create": "c", "timeseries": {"timeField": "t", "x": 1}}, 40415),
        ({"create": "c", "clusteredIndex": {"key": {"_id": 1}}}, 40414),
        ({"create": "c", "clusteredIndex": {**CLUSTERED, "name": 1}}, 14),
        ({"create": "c", "changeStreamPreAndPostImages": {}}, 40414),
        ({"create": "c", "changeStreamPreAndPostImages": {"enabled": "yes"}}, 14),
        ({"collMod": "c", "changeStreamPreAndPostImages": {"enabled": "yes"}}, 14),
        ({"create": Code("c")}, 73),
        ({"find": Code("c")}, 73),
        ({"createUser": "u", "pwd": "p", "roles": [Code("read")]}, 2),
        ({"usersInfo": Code("u")}, 2),
        ({"createIndexes": "c", "indexes": [{"key": {"a": Code("text")}, "name": "a"}]}, 67),
        ({"aggregate": "c", "pipeline": [{"$out": Code("d")}], "cursor": {}}, 16990),
        ({"aggregate": "c", "pipeline": [{"$out": {"db": Code("d", {}), "coll": "c"}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$merge": Code("d")}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$merge": {}}], "cursor": {}}, 40414),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": 1}}], "cursor": {}}, 51178),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": {"db": "x"}}}], "cursor": {}}, 5786801),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": "d", "on": 1}}], "cursor": {}}, 51186),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": "d", "let": 1}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": "d", "odd": 1}}], "cursor": {}}, 40415),
        ({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": -1}}, 2),
        ({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": "a"}}, 14),
        ({"aggregate": "c", "pipeline": [1], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$collStats": 1}], "cursor": {}}, 5447000),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"storageStats": 1}}], "cursor": {}}, 14),
        (
            {"aggregate": "c", "pipeline": [{"$collStats": {"storageStats": {"scale": 0}}}], "cursor": {}},
            2,
        ),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"latencyStats": []}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"count": 1}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"x": 1}}], "cursor": {}}, 40415),
        ({"find": "c", "filter": {"$and": {"a": 1}}, "projection": {"a.$": 1}}, 2),
        ({"find": "c", "filter": {"$or": [1]}, "projection": {"a.$": 1}}, 2),
        ({"count": "c", "limit": "a"}, 2),
        ({"count": "c", "limit": 1.5}, 9),
        ({"count": "c", "limit": float("inf")}, 9),
        ({"count": "c", "limit": -(2**63)}, 2),
        ({"explain": {"count": "c", "limit": float("-inf")}}, 9),
        ({"profile": 1, "sampleRate": Decimal128("NaN")}, 2),
        ({"profile": 1, "sampleRate": Decimal128("1.5")}, 2),
        ({"insert": "c", "documents": [{}], "lsid": lsid(), "txnNumber": 1, "stmtIds": [{}]}, 14),
        ({"insert": "c", "documents": [{}], "lsid": lsid(), "txnNumber": 1, "stmtId": "a"}, 14),
    ],
    ids=str,
)
def test_an_argument_is_refused(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        reply = await talker.fails({**command, "$db": "db"})
        assert reply["code"] == code, reply["errmsg"]

    play(scenario, REPLICA_SET)


_KILL = {"killCursors": "c", "cursors": [Int64(1)]}


@pytest.mark.parametrize(
    ("concern", "code"),
    [
        ({"readConcern": 1}, 14),
        ({"readConcern": {"level": Code("local")}}, 14),
        ({"readConcern": {"level": "local", "speed": 1}}, 40415),
        ({"readConcern": {"provenance": "hearsay"}}, 2),
        ({"readConcern": {"level": "available"}}, 72),
        ({"readConcern": {"afterClusterTime": None}}, 14),
        ({"writeConcern": 1}, 14),
        ({"writeConcern": {}}, 72),
        ({"maxTimeMS": "x"}, 14),
        ({"maxTimeMS": Decimal128("1.5")}, 9),
        ({"maxTimeMS": float("nan")}, 9),
        ({"maxTimeMS": Decimal128("Infinity")}, 9),
        ({"maxTimeMS": -1.0}, 2),
    ],
)
def test_a_generic_argument_is_looked_at_whatever_the_command(concern: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.fails({**_KILL, **concern, "$db": "db"})
        assert reply["code"] == code, reply["errmsg"]

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    ("concern", "code"),
    [
        ({"w": None}, 2),
        ({"w": "Majority"}, 2),
        ({"w": Code("majority")}, 9),
        ({"w": Decimal128("NaN")}, 9),
        ({"w": {"rack": "a"}}, 9),
        ({"w": {"rack": {"a": 1}}}, 9),
        ({"w": 1, "wtimeout": Int64(2**31)}, 9),
        ({"w": 1, "wtimeout": float("inf")}, 9),
        ({"w": 1, "j": "x"}, 14),
        ({"w": 1, "speed": 1}, 40415),
        ({"w": 1, "provenance": "hearsay"}, 2),
        ({"w": 1, "provenance": 1}, 14),
        (None, None),
        ({"w": 0.5, "wtimeout": float("-inf"), "j": None}, None),
        ({"w": 1, "j": Decimal128("1"), "wtimeout": "soon"}, None),
    ],
)
def test_a_write_concern_is_refused_before_the_write(concern: Any, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        insert = {"insert": "c", "documents": [{"_id": 1}], "writeConcern": concern, "$db": "db"}
        reply = await (talker.ok(insert) if code is None else talker.fails(insert))
        assert reply.get("code") == code
        found = await talker.ok({"find": "c", "$db": "db"})
        assert bool(found["cursor"]["firstBatch"]) == (code is None)

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("concern", "code"),
    [(None, None), ({"level": None}, None), ({"level": "linearizable"}, 123), ({"level": "snapshot"}, 123)],
)
def test_a_null_is_no_read_concern_and_some_need_a_replica_set(concern: Any, code: int | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        find = {"find": "c", "readConcern": concern, "$db": "db"}
        reply = await (talker.ok(find) if code is None else talker.fails(find))
        assert reply.get("code") == code

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("stage", "level", "code"),
    [
        ({"$out": "d"}, "linearizable", 72),
        ({"$merge": "d"}, "linearizable", 72),
        ({"$planCacheStats": {}}, "majority", 72),
        ({"$planCacheStats": {}}, "snapshot", 72),
        ({"$match": {}}, "linearizable", 123),
        (7, "linearizable", 123),
    ],
    ids=str,
)
def test_a_stage_refuses_a_read_concern_before_the_server_does(stage: Any, level: str, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        command = {"aggregate": "c", "pipeline": [stage], "cursor": {}, "readConcern": {"level": level}}
        assert (await talker.fails({**command, "$db": "db"}))["code"] == code

    play(scenario, STANDALONE)


@pytest.mark.parametrize("spec", [STANDALONE, REPLICA_SET], ids=["standalone", "replica set"])
def test_no_snapshot_is_at_a_null_timestamp(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        concern = {"level": "snapshot", "atClusterTime": Timestamp(0, 1)}
        assert (await talker.fails({"find": "c", "readConcern": concern, "$db": "db"}))["code"] == 72

    play(scenario, spec)


@pytest.mark.parametrize(("journaled", "told"), [(False, False), (True, True)])
def test_who_does_not_want_to_hear_of_a_write_is_told_nothing(*, journaled: bool, told: bool) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        insert = {"insert": "c", "documents": [{"_id": 1}, {"_id": 1}], "$db": "db"}
        reply = await talker.ok({**insert, "writeConcern": {"w": 0, "j": journaled}})
        assert ("writeErrors" in reply, reply["n"] == 1) == (told, told)

    play(scenario, STANDALONE)


@pytest.mark.parametrize(("levels", "code"), [(100, None), (200, None), (201, 15), (400, 15)])
def test_a_message_is_no_deeper_than_a_server_allows(levels: int, code: int | None) -> None:
    """The command is a level by itself; a document of a sequence begins anew."""

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        body = await talker.command({"ping": 1, "comment": nested(levels)})
        assert body is not None
        assert body.get("code") == code
        sequence = DocumentSequence.of("documents", [{"_id": 1, "x": nested(levels)}])
        reply = await talker.command({"insert": "c", "$db": "db"}, sequences=[sequence])
        assert reply is not None
        assert reply.get("code") == code

    play(scenario, STANDALONE)


def test_a_document_with_the_fields_of_a_reference_is_a_document() -> None:
    inner = {"$ref": "d", "$id": {"a": 2}, "$db": "db"}
    reference = {"$ref": "c", "$id": 1, "x": [inner]}

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "r": reference}], "$db": "db"})
        change = {"q": {"r": reference}, "u": {"$set": {"r.x.0.y": 1}}}
        await talker.ok({"update": "c", "updates": [change], "$db": "db"})
        stages = [{"$project": {"_id": 0, "kind": {"$type": "$r"}, "inner": {"$first": "$r.x"}}}]
        found = await talker.ok({"aggregate": "c", "pipeline": stages, "cursor": {}, "$db": "db"})
        (document,) = found["cursor"]["firstBatch"]
        assert document["kind"] == "object"
        assert document["inner"].as_doc() == {**inner, "y": 1}

    play(scenario, STANDALONE)


_CLOCK = {"$addFields": {"t": {"$type": "$$CLUSTER_TIME"}}}
_LATER = {"$expr": {"$lt": ["$d", "$$NOW"]}}


@pytest.mark.parametrize(
    ("command", "alone", "replicated"),
    [
        ({"aggregate": "c", "pipeline": [_CLOCK], "cursor": {}}, 10071200, None),
        ({"find": "none", "filter": {"$expr": {"$gt": ["$$CLUSTER_TIME", None]}}}, 10071200, None),
        ({"explain": {"aggregate": "c", "pipeline": [_CLOCK], "cursor": {}}}, 10071200, None),
        ({"create": "v", "viewOn": "c", "pipeline": [_CLOCK]}, None, None),
        ({"update": "c", "updates": [{"q": {}, "u": [_CLOCK]}]}, None, None),
        ({"count": "c", "query": _LATER}, 51144, 51144),
        ({"distinct": "c", "key": "d", "query": _LATER}, 51144, 51144),
        ({"listCollections": 1, "filter": _LATER}, 51144, 51144),
        ({"find": "c", "filter": _LATER}, None, None),
        ({"find": "c", "filter": {"$expr": "$$LATER"}}, 17276, 17276),
    ],
)
@pytest.mark.parametrize("replica_set", [False, True])
def test_a_servers_variables_are_there_for_most_commands(
    *, command: dict[str, Any], alone: int | None, replicated: int | None, replica_set: bool
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        code = replicated if replica_set else alone
        reply = await (talker.ok if code is None else talker.fails)({**command, "$db": "db"})
        assert reply.get("code") == code, reply

    play(scenario, REPLICA_SET if replica_set else STANDALONE)


def test_a_validator_compares_with_the_time_of_the_write_and_by_the_collections_collation() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        validator = {"$expr": {"$lt": ["$d", "$$NOW"]}, "s": "on"}
        collation = {"locale": "en", "strength": 2}
        await talker.ok({"create": "c", "validator": validator, "collation": collation, "$db": "db"})
        past, future = datetime(1960, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)
        for date, switch, count in ((past, "ON", 1), (future, "on", 0), (past, "off", 0)):
            insert = {"insert": "c", "documents": [{"d": date, "s": switch}], "$db": "db"}
            assert (await talker.ok(insert))["n"] == count

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("stage", "result"),
    [
        ({"$project": {"x.y": "$$REMOVE"}}, {"_id": 1, "x": {}}),
        ({"$project": {"a": {"b": "$$REMOVE"}}}, {"_id": 1, "a": {}}),
        ({"$addFields": {"x.y": "$$REMOVE"}}, {"_id": 1, "a": {"b": 1, "c": 2}, "x": {}}),
        ({"$addFields": {"a.b": "$$REMOVE"}}, {"_id": 1, "a": {"c": 2}}),
    ],
)
def test_what_leads_to_a_removed_field_is_there(stage: dict[str, Any], result: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "a": {"b": 1, "c": 2}}], "$db": "db"})
        reply = await talker.ok({"aggregate": "c", "pipeline": [stage], "cursor": {}, "$db": "db"})
        assert reply["cursor"]["firstBatch"] == [result]

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"find": "v", "tailable": True}, 168),
        ({"find": "c", "tailable": True, "singleBatch": True}, 2),
        ({"find": "c", "sort": {"a": "asc"}}, 15974),
        ({"find": "$c"}, 73),
        ({"find": "c", "sort": {"a": 2}}, 15975),
    ],
)
def test_an_option_of_find_is_refused(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "capped": True, "size": 4096, "$db": "db"})
        await talker.ok({"create": "v", "viewOn": "c", "$db": "db"})
        assert (await talker.fails({**command, "$db": "db"}))["code"] == code

    play(scenario, STANDALONE)


_CASELESS = {"locale": "en", "strength": 2}


def test_a_cursor_learns_that_its_collection_has_another_name() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "capped": True, "size": 4096, "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        opened = await talker.ok({"find": "c", "tailable": True, "$db": "db"})
        await talker.ok({"renameCollection": "db.c", "to": "db.d", "$db": "admin"})
        more = {"getMore": opened["cursor"]["id"], "collection": "c", "$db": "db"}
        assert (await talker.fails(more))["code"] == 175

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("statement", "code", "modified"),
    [
        ({"u": {"a": ["x"]}}, None, 1),
        ({"u": {"_id": 1, "a": ["x"]}}, None, 0),
        (
            {"q": {"a": "X"}, "u": {"$set": {"a.$": "y"}}, "collation": {"locale": "en", "strength": 2}},
            None,
            1,
        ),
        ({"u": {"$set": {"a.$[e]": 1}}, "arrayFilters": [{"e.p": {"$near": [0, 0]}}]}, 5626500, 0),
        ({"u": {"$set": {"a.$[e]": 1}}, "arrayFilters": [{"$text": {"$search": "x"}}]}, 2, 0),
    ],
)
def test_an_update_counts_what_it_modified(
    statement: dict[str, Any], code: int | None, modified: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "a": ["x"]}], "$db": "db"})
        update = {"update": "c", "updates": [{"q": {"_id": 1}, **statement}], "$db": "db"}
        reply = await talker.ok(update)
        errors = [error["code"] for error in reply.get("writeErrors", [])]
        assert (errors, reply["nModified"]) == ([] if code is None else [code], modified)

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ({"$toDecimal": "1." + "0" * 33 + "99"}, Decimal128("1." + "0" * 33)),
        ({"$toDouble": "0X1P0"}, 1.0),
        ({"$toString": Binary(b"hello", 2)}, "BQAAAGhlbGxv"),
        ({"$toLong": Binary(b"", 2)}, 0),
        ({"$lt": [Binary(b"a", 128), Binary(b"a", 2)]}, True),
        ({"$lt": [Binary(b"a", 5), Binary(b"a", 128)]}, True),
        ({"$year": {"$toDate": "\x002024-06-15T12:30:45Z"}}, 2024),
        ({"$toDecimal": "1E-6177"}, 241),
        ({"$toDate": "\u20002024-06-15T12:30:45Z"}, 241),
        ({"$ifNull": ["$_id", {"$divide": [1, 0]}]}, 2),
        ({"$regexMatch": {"input": "a", "regex": "a" * (2**14 + 1)}}, 51111),
    ],
)
def test_an_expression_is_converted_folded_or_refused(expression: Any, result: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        pipeline = [{"$project": {"_id": 0, "r": expression}}]
        aggregate = {"aggregate": "c", "pipeline": pipeline, "cursor": {}, "$db": "db"}
        refused = type(result) is int and result not in (0, 2024)
        reply = await (talker.fails if refused else talker.ok)(aggregate)
        assert reply.get("code", result) == result
        assert refused or reply["cursor"]["firstBatch"] == [{"r": result}]

    play(scenario, STANDALONE)
