"""Plans as clients see them: those that are remembered, or have lost, and indexes without an order."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import Int64, encode
from bson.raw_bson import RawBSONDocument
from data_commands import Server
from talking import STANDALONE, Deployment, play

from fakeserver.errors import CommandError

AGGREGATE = {"aggregate": "c", "cursor": {}}


def served(*keys: dict[str, Any], **options: Any) -> Server:
    """Return a server whose collection has these indexes."""
    server = Server()
    documents = [{"_id": n, "a": n, "b": n % 3, "t": [n, n + 100], "o": {"x": n}} for n in range(6)]
    server.fill("c", *documents)
    names = ["_".join(f"{name}_{kind}" for name, kind in key.items()) for key in keys]
    specs = [{"key": key, "name": name, **options} for key, name in zip(keys, names, strict=True)]
    if specs:
        server.run({"createIndexes": "c", "indexes": specs})
    return server


def results(server: Server, *stages: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Return what a pipeline yields."""
    found: list[dict[str, Any]] = server.run({**AGGREGATE, "pipeline": list(stages), **more})["cursor"][
        "firstBatch"
    ]
    return found


def explained(server: Server, wanted: dict[str, Any], verbosity: str = "queryPlanner") -> dict[str, Any]:
    """Return the plan of a find."""
    return server.run({"explain": {"find": "c", "filter": wanted}, "verbosity": verbosity})


# Plans that are remembered.


def test_a_query_that_several_indexes_could_serve_leaves_a_plan() -> None:
    server = served({"a": 1}, {"b": 1})
    server.run({"find": "c", "filter": {"a": 5}})
    assert results(server, {"$planCacheStats": {}}) == []
    server.run({"find": "c", "filter": {"a": 5, "b": 2}, "sort": {"a": 1}})
    (plan,) = results(server, {"$planCacheStats": {}})
    assert (plan["isActive"], plan["createdFromQuery"]["sort"]) == (False, {"a": 1})
    assert plan["cachedPlan"]["inputStage"]["indexName"] == "a_1"
    assert len(plan["candidatePlanScores"]) == len(plan["creationExecStats"]) == 2
    server.run({"find": "c", "filter": {"a": 3, "b": 0}, "sort": {"a": 1}})
    results(server, {"$match": {"a": 1, "b": {"$gt": 0}}})
    assert [each["isActive"] for each in results(server, {"$planCacheStats": {}})] == [True, False]


@pytest.mark.parametrize(
    ("forget", "left"),
    [
        ({"planCacheClear": "c", "query": {"a": 9, "b": 9}}, 1),
        ({"planCacheClear": "c", "query": {"z": 9}}, 2),
        ({"planCacheClear": "c"}, 0),
        ({"dropIndexes": "c", "index": "a_1"}, 0),
        ({"createIndexes": "c", "indexes": [{"key": {"o": 1}, "name": "o"}]}, 0),
    ],
)
def test_plans_are_forgotten_by_their_shape_and_with_their_indexes(forget: dict[str, Any], left: int) -> None:
    server = served({"a": 1}, {"b": 1})
    for wanted in ({"a": 1, "b": 1}, {"a": {"$lt": 3}, "b": 1}):
        server.run({"find": "c", "filter": wanted})
    server.run(forget)
    assert len(results(server, {"$planCacheStats": {}})) == left


def test_the_plans_that_have_lost_are_explained_and_all_that_were_tried() -> None:
    server = served({"a": 1}, {"b": 1})
    reply = explained(server, {"a": 5, "b": 2}, "allPlansExecution")
    (lost,) = reply["queryPlanner"]["rejectedPlans"]
    assert lost["inputStage"]["indexName"] == "b_1"
    tried = reply["executionStats"]["allPlansExecution"]
    assert [each["totalKeysExamined"] for each in tried] == [1, 2]
    assert tried[0]["score"] > tried[1]["score"]
    alone = explained(server, {"a": 5}, "allPlansExecution")
    assert alone["executionStats"]["allPlansExecution"] == alone["queryPlanner"]["rejectedPlans"] == []


# Indexes that hold no values in order.

SHAPE = {"$geometry": {"type": "Polygon", "coordinates": [[[0, 0], [0, 9], [9, 9], [9, 0], [0, 0]]]}}


@pytest.mark.parametrize(
    ("key", "wanted", "pattern", "bounds"),
    [
        ({"$**": 1}, {"a": 5}, {"$_path": 1, "a": 1}, ["[5, 5]"]),
        ({"$**": 1}, {"o.x": {"$gt": 3}}, {"$_path": 1, "o.x": 1}, ["(3, inf.0]"]),
        ({"o.$**": 1}, {"o.x": 3}, {"$_path": 1, "o.x": 1}, ["[3, 3]"]),
        ({"o.$**": 1}, {"a": 3}, None, None),
        ({"$**": 1}, {"a": None}, None, None),
        ({"$**": 1}, {"a": {"$ne": 1}}, None, None),
        ({"a": "hashed"}, {"a": 5}, {"a": "hashed"}, ["[4470791281878691347, 4470791281878691347]"]),
        ({"a": "hashed"}, {"a": {"$gt": 5}}, None, None),
        ({"p": "2dsphere"}, {"p": {"$geoWithin": SHAPE}}, {"p": "2dsphere"}, ["[MinKey, MaxKey]"]),
        ({"p": "2dsphere"}, {"p": 5}, None, None),
    ],
)
def test_an_index_without_order_is_the_plan_of_what_it_serves(
    key: dict[str, Any], wanted: dict[str, Any], pattern: Any, bounds: Any
) -> None:
    server = served(key)
    reply = explained(server, wanted, "executionStats")
    scan = reply["queryPlanner"]["winningPlan"].get("inputStage", {})
    assert scan.get("keyPattern") == pattern
    assert scan.get("indexBounds", {}).get(next(iter(wanted))) == bounds
    found = server.documents("c", wanted)
    assert reply["executionStats"]["nReturned"] == len(found)
    if pattern is not None:
        assert reply["executionStats"]["totalKeysExamined"] == len(found)
    hidden = served(key, hidden=True)
    assert explained(hidden, wanted)["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"


def test_a_wildcard_index_that_was_read_counts_it() -> None:
    server = served({"$**": 1})
    server.run({"find": "c", "filter": {"a": 5}})
    used = {each["name"]: each["accesses"]["ops"] for each in results(server, {"$indexStats": {}})}
    assert used["$**_1"] == 1


# The key by which a document was found.


@pytest.mark.parametrize(
    ("key", "wanted", "expected"),
    [
        ({"a": 1}, {"a": 5}, {"a": 5}),
        ({"a": 1, "b": -1}, {"a": {"$gt": 4}, "b": {"$gt": 1}}, {"a": 5, "b": 2}),
        ({"t": 1}, {"t": 105}, {"t": 105}),
        ({"t": 1}, {"t": {"$gt": 104}}, {"t": 105}),
        ({"a": "hashed"}, {"a": 5}, {"a": Int64(4470791281878691347)}),
        ({"$**": 1}, {"a": 5}, {"$_path": "a", "a": 5}),
    ],
)
def test_the_key_of_an_index_is_metadata_of_a_pipeline(
    key: dict[str, Any], wanted: dict[str, Any], expected: dict[str, Any]
) -> None:
    server, shown = served(key), {"k": {"$meta": "indexKey"}}
    assert (
        results(server, {"$match": wanted}, {"$addFields": {"x": 1}}, {"$project": shown})[0]["k"] == expected
    )
    assert "k" not in results(server, {"$match": {"zz": None}}, {"$project": shown})[0]
    after_group = results(server, {"$match": wanted}, {"$group": {"_id": "$_id"}}, {"$project": shown})
    assert after_group == [{"_id": 5}]
    reply = server.run({"find": "c", "filter": wanted, "returnKey": True})
    assert reply["cursor"]["firstBatch"] == [expected]


# Fields that stand twice.


def twice(*pairs: tuple[str, Any]) -> RawBSONDocument:
    """Return a document with these fields, also where a name repeats."""
    body = b"".join(encode({name: value})[4:-1] for name, value in pairs)
    return RawBSONDocument((len(body) + 5).to_bytes(4, "little") + body + b"\0")


@pytest.mark.parametrize(
    ("name", "pairs", "code"),
    [
        ("$lookup", [("from", "c"), ("as", "x"), ("pipeline", []), ("as", "x")], 40413),
        ("$out", [("db", "x"), ("coll", "y"), ("db", "x")], 40413),
        ("$unionWith", [("coll", "c"), ("coll", "d")], 40413),
        ("$sort", [("a", 1), ("a", -1)], 7472500),
        ("$planCacheStats", [("allHosts", False), ("allHosts", True)], 9),
        ("$group", [("_id", 1), ("n", {"$sum": 1}), ("_id", 2)], 15948),
        ("$collStats", [("count", {}), ("count", None)], 0),
        ("$addFields", [("a", 1), ("a", 2)], 0),
    ],
)
def test_a_field_that_stands_twice_is_refused_unless_one_is_null(
    name: str, pairs: list[tuple[str, Any]], code: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        reply = await talker.command({**AGGREGATE, "pipeline": [{name: twice(*pairs)}], "$db": "db"})
        assert reply is not None
        assert reply.get("code", 0) == code, reply
        if name == "$collStats":
            assert reply["cursor"]["firstBatch"][0]["count"] == 1

    play(scenario, STANDALONE)


# Statistics of collections.


def test_statistics_begin_the_pipeline_of_a_stage() -> None:
    server = served()
    inner = {"pipeline": [{"$collStats": {"count": {}}}, {"$project": {"count": 1, "_id": 0}}]}
    joined = results(server, {"$limit": 1}, {"$lookup": {"from": "c", "as": "s", **inner}})
    assert joined[0]["s"] == [{"count": 6}]
    assert results(server, {"$limit": 1}, {"$unionWith": {"coll": "c", **inner}})[1] == {"count": 6}
    with pytest.raises(CommandError) as caught:
        results(server, {"$unionWith": {"coll": "nowhere", **inner}})
    assert caught.value.code == 26


def test_a_time_series_has_statistics_of_its_buckets() -> None:
    server = Server()
    server.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}})
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    server.fill("s", *({"t": at, "m": meta, "x": n} for n, meta in enumerate("aabba")))
    (found,) = server.run(
        {
            "aggregate": "s",
            "pipeline": [{"$collStats": {"count": {}, "storageStats": {"scale": 2}}}],
            "cursor": {},
        }
    )["cursor"]["firstBatch"]
    assert found["count"] == found["storageStats"]["timeseries"]["bucketCount"] == 2
    assert found["storageStats"]["timeseries"]["bucketsNs"] == "db.system.buckets.s"
    assert found["storageStats"].keys().isdisjoint({"count", "avgObjSize"})
    assert "count" not in server.run({"collStats": "s"})


def test_latencies_are_those_of_the_commands_that_named_a_collection() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        stage = {"$collStats": {"latencyStats": {"histograms": True}}}
        reply = await talker.ok({**AGGREGATE, "pipeline": [stage], "$db": "db"})
        stats = reply["cursor"]["firstBatch"][0]["latencyStats"]
        assert (stats["writes"]["ops"], stats["reads"]["ops"]) == (1, 0)
        assert [each["count"] for each in stats["writes"]["histogram"]] == [1]

    play(scenario, STANDALONE)
