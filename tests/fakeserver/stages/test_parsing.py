"""Commands that no handler may see: arguments of a wrong type, and messages nested too deeply."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code, Decimal128
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
        ({"aggregate": "c", "pipeline": [{"$out": {"db": Code("d", {}), "coll": "c"}}], "cursor": {}}, 16990),
        ({"aggregate": "c", "pipeline": [{"$merge": Code("d")}], "cursor": {}}, 51182),
        ({"aggregate": "c", "pipeline": [{"$merge": {}}], "cursor": {}}, 40414),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": 1}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": {"db": "x"}}}], "cursor": {}}, 40414),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": "d", "on": 1}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": "d", "let": 1}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$merge": {"into": "d", "odd": 1}}], "cursor": {}}, 40415),
        ({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": -1}}, 51024),
        ({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": "a"}}, 14),
        ({"aggregate": "c", "pipeline": [1], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$collStats": 1}], "cursor": {}}, 40166),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"storageStats": 1}}], "cursor": {}}, 14),
        (
            {"aggregate": "c", "pipeline": [{"$collStats": {"storageStats": {"scale": 0}}}], "cursor": {}},
            51024,
        ),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"storageStats": {"x": 1}}}], "cursor": {}}, 40415),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"latencyStats": []}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"count": 1}}], "cursor": {}}, 14),
        ({"aggregate": "c", "pipeline": [{"$collStats": {"x": 1}}], "cursor": {}}, 40415),
        ({"find": "c", "filter": {"$and": {"a": 1}}, "projection": {"a.$": 1}}, 2),
        ({"find": "c", "filter": {"$or": [1]}, "projection": {"a.$": 1}}, 2),
        ({"count": "c", "limit": "a"}, 14),
        ({"count": "c", "limit": 1.5}, 9),
        ({"count": "c", "limit": float("inf")}, 9),
        ({"count": "c", "limit": -(2**63)}, 2),
        ({"explain": {"count": "c", "limit": float("-inf")}}, 9),
        ({"profile": 1, "sampleRate": Decimal128("NaN")}, 51024),
        ({"profile": 1, "sampleRate": Decimal128("1.5")}, 51024),
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


@pytest.mark.parametrize(("levels", "code"), [(100, None), (199, None), (200, 15), (400, 15)])
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
