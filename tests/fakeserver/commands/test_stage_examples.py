"""Stages that read or write collections answer as their pages of the manual show."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import Decimal128
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.storage.stages.pipeline_stages import STAGES_OF_COMMANDS, UNSUPPORTED_STAGES

Document = dict[str, Any]
OWN_TESTS = {
    "$changeStream": "change_streams",
    "$changeStreamSplitLargeEvent": "change_streams",
    "$currentOp": "commands/test_operation_commands.py",
    "$listLocalSessions": "commands/test_read_commands.py",
    "$listSearchIndexes": "commands/test_statements.py",
    "$listSessions": "access",
    "$shardedDataDistribution": "commands",
}
"""Stages whose answers depend on clients, sessions, shards or the oplog, and where they are tested."""

COLLECTIONS: dict[str, list[Document]] = {
    "orders": [
        {"_id": 1, "item": "almonds", "price": 12, "tags": ["a", "b"]},
        {"_id": 2, "item": "pecans", "price": 20, "tags": []},
        {"_id": 3},
    ],
    "stock": [
        {"_id": 1, "sku": "almonds", "left": 120},
        {"_id": 2, "sku": "bread", "left": 80},
        {"_id": 3, "sku": None},
        {"_id": 4},
    ],
    "staff": [
        {"_id": 1, "name": "Dev"},
        {"_id": 2, "name": "Eliot", "to": "Dev"},
        {"_id": 3, "name": "Ron", "to": "Eliot"},
        {"_id": 4, "name": "Asya", "to": "Ron"},
    ],
}


def server() -> Server:
    made = Server()
    for name, documents in COLLECTIONS.items():
        made.fill(name, *documents)
    return made


def results(of: Any, *stages: Document, on: Server | None = None) -> list[Document]:
    command = {"aggregate": of, "pipeline": list(stages), "cursor": {}}
    return list((on or server()).run(command)["cursor"]["firstBatch"])


def ids(documents: list[Document]) -> list[Any]:
    return [each["_id"] for each in documents]


JOINED: list[tuple[str, Document, dict[int, list[Any]]]] = [
    (
        "a field by a field; what is missing equals null",
        {"from": "stock", "localField": "item", "foreignField": "sku"},
        {1: [1], 2: [], 3: [3, 4]},
    ),
    (
        "an array joins with each of its elements",
        {"from": "orders", "localField": "tags", "foreignField": "tags"},
        {1: [1], 2: [3], 3: [3]},
    ),
    (
        "conditions in a pipeline, with variables; what is missing equals what is missing",
        {
            "from": "stock",
            "let": {"item": "$item", "price": "$price"},
            "pipeline": [
                {"$match": {"$expr": {"$and": [{"$eq": ["$sku", "$$item"]}, {"$gte": ["$left", "$$price"]}]}}}
            ],
        },
        {1: [1], 2: [], 3: [4]},
    ),
    (
        "fields and a pipeline",
        {
            "from": "stock",
            "localField": "item",
            "foreignField": "sku",
            "pipeline": [{"$match": {"left": {"$gt": 100}}}],
        },
        {1: [1], 2: [], 3: []},
    ),
    (
        "a pipeline that has nothing to do with the document",
        {"from": "stock", "pipeline": [{"$sort": {"_id": -1}}, {"$limit": 1}]},
        {1: [4], 2: [4], 3: [4]},
    ),
    (
        "a collection that is not there",
        {"from": "none", "localField": "item", "foreignField": "x"},
        {1: [], 2: [], 3: []},
    ),
]


@pytest.mark.parametrize(
    ("spec", "expected"), [case[1:] for case in JOINED], ids=[case[0] for case in JOINED]
)
def test_lookup_joins(spec: Document, expected: dict[int, list[Any]]) -> None:
    found = results("orders", {"$lookup": {**spec, "as": "joined"}})
    assert {each["_id"]: ids(each["joined"]) for each in found} == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {1: [], 2: [1], 3: [1, 2], 4: [1, 2, 3]}),
        ({"maxDepth": 0}, {1: [], 2: [1], 3: [2], 4: [3]}),
        ({"restrictSearchWithMatch": {"name": {"$ne": "Eliot"}}}, {1: [], 2: [1], 3: [], 4: [3]}),
    ],
    ids=str,
)
def test_graph_lookup_walks(more: Document, expected: dict[int, list[Any]]) -> None:
    walk = {"from": "staff", "startWith": "$to", "connectFromField": "to", "connectToField": "name"}
    found = results("staff", {"$graphLookup": {**walk, "as": "above", "depthField": "far", **more}})
    assert {each["_id"]: sorted(ids(each["above"])) for each in found} == expected
    assert all(other["far"] >= 0 for each in found for other in each["above"])


def test_union_with_keeps_what_comes_twice() -> None:
    union = {"$unionWith": {"coll": "stock", "pipeline": [{"$match": {"_id": {"$lt": 3}}}]}}
    assert ids(results("orders", {"$project": {"_id": 1}}, union)) == [1, 2, 3, 1, 2]


def test_documents_are_made_of_an_expression() -> None:
    assert results(1, {"$documents": [{"x": 10}, {"x": 2}]}, {"$sort": {"x": 1}}) == [{"x": 2}, {"x": 10}]
    with pytest.raises(CommandError) as caught:
        results(1, {"$documents": {"x": 1}})
    assert caught.value.code == 5858203


MERGES: list[tuple[Document, Any]] = [
    ({}, [{"_id": 1, "old": 1, "new": 1}, {"_id": 2, "new": 2}]),
    ({"whenMatched": "replace"}, [{"_id": 1, "new": 1}, {"_id": 2, "new": 2}]),
    ({"whenMatched": "keepExisting"}, [{"_id": 1, "old": 1}, {"_id": 2, "new": 2}]),
    ({"whenMatched": "fail"}, 11000),
    ({"whenNotMatched": "discard"}, [{"_id": 1, "old": 1, "new": 1}]),
    ({"whenNotMatched": "fail"}, 13113),
    ({"whenMatched": [{"$fill": {"output": {"old": {"value": 7}, "new": {"value": 7}}}}]},
     [{"_id": 1, "old": 1, "new": 7}, {"_id": 2, "new": 2}]),
    ({"whenMatched": [{"$set": {"sum": {"$add": ["$old", "$$new.new"]}}}]},
     [{"_id": 1, "old": 1, "sum": 2}, {"_id": 2, "new": 2}]),
    ({"on": "absent"}, 51183),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), MERGES, ids=[str(case[0]) for case in MERGES])
def test_merge_writes_as_it_is_told(options: Document, expected: Any) -> None:
    target = Server()
    target.fill("source", {"_id": 1, "new": 1}, {"_id": 2, "new": 2})
    target.fill("into", {"_id": 1, "old": 1})
    try:
        assert results("source", {"$merge": {"into": "into", **options}}, on=target) == []
        found: Any = target.documents("into")
    except CommandError as error:
        found = error.code
    assert found == expected


def test_out_replaces_a_collection() -> None:
    target = server()
    assert (
        results("orders", {"$match": {"_id": 1}}, {"$project": {"price": 1}}, {"$out": "stock"}, on=target)
        == []
    )
    assert target.documents("stock") == [{"_id": 1, "price": 12}]
    assert results("orders", {"$limit": 1}, {"$out": {"db": "other", "coll": "x"}}, on=target) == []
    assert target.run({"count": "x"}, db="other") == {"n": 1}


def test_statistics_describe_the_collection() -> None:
    (counted,) = results("orders", {"$collStats": {"count": {}}})
    assert (counted["ns"], counted["count"]) == ("db.orders", 3)
    (index,) = results("orders", {"$indexStats": {}})
    assert (index["name"], index["key"], index["spec"]["v"]) == ("_id_", {"_id": 1}, 2)
    assert results("orders", {"$planCacheStats": {}}) == []
    assert results(1, {"$querySettings": {"showDebugQueryShape": True}}) == []
    stage = {"$queryStats": {"transformIdentifiers": {"algorithm": "hmac-sha-256", "hmacKey": b"k"}}}
    for each in (stage, {"$listSampledQueries": {"namespace": "db.c"}}):
        found = Server().run({"aggregate": 1, "pipeline": [each], "cursor": {}}, db="admin")
        assert found["cursor"]["firstBatch"] == []


def test_each_stage_of_a_command_has_a_case_or_tests_of_its_own() -> None:
    here = {"$collStats", "$documents", "$indexStats", "$merge", "$out", "$planCacheStats"}
    here |= {"$listClusterCatalog", "$listSampledQueries", "$querySettings", "$queryStats"}
    assert here | OWN_TESTS.keys() == STAGES_OF_COMMANDS - UNSUPPORTED_STAGES


def refusal(of: Any, *stages: Document, on: Server | None = None) -> int:
    with pytest.raises(CommandError) as refused:
        results(of, *stages, on=on)
    return refused.value.code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"from": 1}, 9),
        ({"From": "stock"}, 9),
        ({"from": ""}, 73),
        ({"from": ".a"}, 73),
        ({"from": {"x": 1}}, 40415),
        ({"from": {"db": 1, "coll": "a"}}, 14),
        ({"from": "stock", "odd": 1}, 40415),
        ({"from": "stock", "as": None}, 40414),
        ({"from": "stock", "as": ""}, 40352),
        ({"from": "stock", "as": "$a"}, 16410),
        ({"from": "stock", "as": "a."}, 40353),
        ({"from": "stock", "localField": 1}, 14),
        ({"from": "stock", "localField": ""}, 9),
        ({"from": "stock", "localField": "a..b"}, 15998),
        ({"from": "stock", "foreignField": ".".join("a" * 201)}, 15),
        ({"from": "stock", "localField": None, "foreignField": None}, 9),
        ({"from": "stock", "let": {"a": "$b"}}, 9),
        ({"from": "stock", "let": 1, "pipeline": []}, 14),
        ({"from": "stock", "let": {"A": 1}, "pipeline": []}, 9),
        ({"from": "stock", "let": {"a": {"$divide": [1, 0]}}, "pipeline": []}, 2),
        ({"from": "stock", "pipeline": None}, 14),
        ({"from": {"db": "db", "coll": "stock"}}, 9),
        ({"from": {"db": "config", "coll": "stock"}}, 9),
        ({"from": "stock", "pipeline": [{"$currentOp": {}}]}, 73),
        ({"from": "stock", "pipeline": [{"$listClusterCatalog": {}}]}, 9621301),
        ({"from": "stock", "pipeline": [{"$match": {}}, {"$documents": []}]}, 40602),
        ({"from": "stock", "pipeline": [{"$match": {}}] * 1001}, 7749501),
    ],
    ids=str,
)
def test_lookup_refuses_options_in_the_order_of_its_parser(options: Document, code: int) -> None:
    spec = {"localField": "item", "foreignField": "sku", "as": "x", **options}
    assert refusal("orders", {"$lookup": spec}) == code


def test_pipelines_stand_within_twenty_others_at_most() -> None:
    stage: Document = {"$match": {}}
    for _ in range(20):
        stage = {"$lookup": {"from": "stock", "pipeline": [{"$limit": 1}, stage], "as": "x"}}
    assert results("orders", {"$limit": 1}, stage)
    assert refusal("orders", {"$unionWith": {"coll": "stock", "pipeline": [stage]}}) == 232


@pytest.mark.parametrize(
    ("local", "matched"),
    [([], [1, 2]), ([["a"]], [3]), ("a", [3, 4]), ([None], [1, 2]), ({"b": 1}, [])],
    ids=str,
)
def test_lookup_takes_arrays_apart_once(local: Any, matched: list[int]) -> None:
    on = Server()
    on.fill("left", {"_id": 1, "k": local})
    on.fill("right", {"_id": 1}, {"_id": 2, "k": None}, {"_id": 3, "k": ["a"]}, {"_id": 4, "k": "a"})
    lookup = {"$lookup": {"from": "right", "localField": "k", "foreignField": "k", "as": "k.found"}}
    (found,) = results("left", lookup, on=on)
    assert ids(found["k"]["found"]) == matched


SERIES: Document = {"db": "db", "coll": "x", "timeseries": {"timeField": "t"}}


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (1, 16990),
        ({"db": "test"}, 40414),
        ({"db": "test", "coll": 1}, 14),
        ({"db": "test", "coll": "x", "odd": 1}, 40415),
        ({"db": "admin", "coll": "x"}, 31321),
        ({"db": "a b", "coll": "x"}, 73),
        ("system.x", 17385),
        ("$x", 20),
        ("x" * 255, 20),
        ({**SERIES, "timeseries": {}}, 40414),
        ({**SERIES, "timeseries": {"timeField": 1}}, 14),
        ({**SERIES, "timeseries": {"timeField": "t", "granularity": "days"}}, 2),
        ({**SERIES, "timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 1}}, 72),
        ({**SERIES, "timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 0}}, 2),
        ({**SERIES, "timeseries": {"timeField": "t", "bucketRoundingSeconds": float("nan")}}, 2),
        ({**SERIES, "coll": "orders"}, 7268700),
        (SERIES, 2),
    ],
    ids=str,
)
def test_out_refuses_what_is_no_target(target: Any, code: int) -> None:
    assert refusal("orders", {"$out": target}) == code


def test_out_makes_a_time_series_and_keeps_to_it() -> None:
    on = server()
    dated = {"$project": {"t": dt.datetime(2024, 1, 1)}}  # noqa: DTZ001 -- BSON dates are decoded as naive UTC
    half = Decimal128("1.5")  # halves are rounded to even
    buckets = {"timeField": "t", "bucketMaxSpanSeconds": 2, "bucketRoundingSeconds": half}
    assert results("orders", dated, {"$out": {**SERIES, "timeseries": buckets}}, on=on) == []
    listed = on.run({"listCollections": 1, "filter": {"name": "x"}})["cursor"]["firstBatch"]
    assert [each["type"] for each in listed] == ["timeseries"]
    assert listed[0]["options"]["timeseries"] == {**buckets, "bucketRoundingSeconds": 2}
    assert len(results("x", on=on)) == 3
    assert refusal("orders", dated, {"$out": SERIES}, on=on) == 7406103
    assert results("orders", dated, {"$limit": 1}, {"$out": "x"}, on=on) == []
    assert len(results("x", on=on)) == 1


def test_out_that_fails_leaves_no_collection() -> None:
    on = server()
    assert refusal("orders", {"$project": {"_id": "one"}}, {"$out": "x"}, on=on) == 11000
    assert on.run({"listCollections": 1, "filter": {"name": "x"}})["cursor"]["firstBatch"] == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (1, 14),
        ({}, 40414),
        ({"into": 1}, 51178),
        ({"into": ""}, 5786800),
        ({"into": {"coll": None}}, 5786801),
        ({"into": {"db": "local", "coll": "x"}}, 31320),
        ({"into": "system.x"}, 31319),
        ({"on": 1}, 51186),
        ({"on": None}, 51186),
        ({"on": []}, 51187),
        ({"on": [1]}, 51134),
        ({"on": ["a", "a"]}, 31465),
        ({"on": "a."}, 40353),
        ({"on": "a"}, 51183),
        ({"whenMatched": 1}, 51191),
        ({"whenMatched": None}, 51191),
        ({"whenMatched": "fail", "whenNotMatched": "discard"}, 51181),
        ({"let": {}}, 51199),
        ({"let": {"new": "$a"}, "whenMatched": []}, 51273),
        ({"let": {"$a": 1}, "whenMatched": []}, 9),
        ({"let": {"a": "$absent"}, "whenMatched": [{"$set": {"b": "$$a"}}]}, 17276),
    ],
    ids=str,
)
def test_merge_refuses_options_in_the_order_of_its_parser(options: Any, code: int) -> None:
    spec = {"into": "stock", **options} if isinstance(options, dict) and options else options
    assert refusal("orders", {"$merge": spec}) == code


def test_merge_tells_of_the_first_failure_when_all_else_is_written() -> None:
    on = server()
    on.fill("x", {"_id": 1})
    assert refusal("orders", {"$merge": {"into": "x", "whenMatched": "fail"}}, on=on) == 11000
    assert ids(results("x", on=on)) == [1, 2, 3]


def test_merge_makes_no_collection_for_nothing_and_sets_fields_by_name() -> None:
    on = server()
    named = {"$project": {"z": "1", "a": "2"}}
    assert results("orders", named, {"$merge": {"into": "x", "whenNotMatched": "discard"}}, on=on) == []
    assert on.run({"listCollections": 1, "filter": {"name": "x"}})["cursor"]["firstBatch"] == []
    assert results("orders", named, {"$merge": "x"}, on=on) == []
    assert [list(each) for each in results("x", on=on)] == [["_id", "a", "z"]] * 3


def test_merge_finds_null_by_an_index_that_has_it() -> None:
    on = server()
    on.run({"createIndexes": "x", "indexes": [{"key": {"k": 1}, "name": "k", "unique": True}]})
    on.fill("x", {"_id": 1, "old": True})
    assert results("orders", {"$match": {"_id": 1}}, {"$merge": {"into": "x", "on": "k"}}, on=on) == []
    assert ids(results("x", {"$match": {"old": True, "item": "almonds"}}, on=on)) == [1]
    array = {"$project": {"k": ["$_id"]}}
    assert refusal("orders", array, {"$merge": {"into": "x", "on": "k"}}, on=on) == 51185


def test_the_catalog_of_a_cluster_tells_of_a_database_or_of_all() -> None:
    on = server()
    on.run({"create": "seen", "viewOn": "stock", "pipeline": []})
    listed = {each["ns"]: each for each in results(1, {"$listClusterCatalog": {"shards": True}}, on=on)}
    assert {ns: each["type"] for ns, each in listed.items() if "system" not in ns} == {
        **{f"{each['db']}.{name}": "collection" for each in listed.values() for name in COLLECTIONS},
        **{f"{each['db']}.seen": "view" for each in listed.values()},
    }
    assert all(each["sharded"] is False and each["shards"] == [] for each in listed.values())
    for argument, code in (
        (1, 9621302),
        ({"shards": 1}, 14),
        ({"shards": None}, 14),
        ({"Shards": True}, 40415),
    ):
        assert refusal(1, {"$listClusterCatalog": argument}, on=on) == code
    assert refusal("orders", {"$listClusterCatalog": {}}, on=on) == 9621301


BY_PRICE: list[Document] = [{"$sort": {"price": -1}}]
BY_ID: list[Document] = [{"$sort": {"_id": 1}}, {"$limit": 2}]


def test_ranks_of_several_pipelines_are_fused() -> None:
    fusion: Document = {"input": {"pipelines": {"cost": BY_PRICE, "age": BY_ID}}, "scoreDetails": True}
    fusion["combination"] = {"weights": {"cost": 2}}
    told = {"$project": {"score": {"$meta": "score"}, "why": {"$meta": "scoreDetails"}}}
    found = results("orders", {"$rankFusion": fusion}, told)
    assert [(each["_id"], each["score"]) for each in found] == [
        (2, 1 / 62 + 2 * (1 / 61)),
        (1, 1 / 61 + 2 * (1 / 62)),
        (3, 2 * (1 / 63)),
    ]
    assert found[2]["why"]["value"] == found[2]["score"]
    assert found[2]["why"]["details"] == [
        {"inputPipelineName": "age", "rank": "NA"},
        {"inputPipelineName": "cost", "rank": 3, "weight": 2.0, "details": []},
    ]


def test_equals_of_a_fusion_share_a_rank_and_come_by_their_ids() -> None:
    on = Server()
    on.fill("c", {"_id": 2, "a": 1}, {"_id": 1, "a": 1}, {"_id": 3, "a": 0})
    fusion = {"$rankFusion": {"input": {"pipelines": {"p": [{"$sort": {"a": -1}}]}}}}
    found = results("c", fusion, {"$set": {"score": {"$meta": "score"}}}, on=on)
    assert [(each["_id"], each["score"]) for each in found] == [(1, 1 / 61), (2, 1 / 61), (3, 1 / 63)]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"input": None}, 40414),
        ({"input": {"pipelines": 1}}, 14),
        ({"input": {"pipelines": {}}}, 2),
        ({"input": {"pipelines": {"p": {}}}}, 14),
        ({"input": {"pipelines": {"p": []}}}, 9834300),
        ({"input": {"pipelines": {"": BY_ID}}}, 15998),
        ({"input": {"pipelines": {"a.b": BY_ID}}}, 16412),
        ({"input": {"pipelines": {"$a": BY_ID}}}, 16410),
        ({"input": {"pipelines": {"p": [{"$match": {}}]}}}, 9191100),
        ({"input": {"pipelines": {"p": [*BY_ID, {"$set": {"a": 1}}]}}}, 9191103),
        ({"input": {"pipelines": {"p": [{"$rankFusion": {}}]}}}, 10473002),
        ({"input": {"pipelines": {"p": [*BY_ID, {"$rankFusion": {}}]}}}, 10170100),
        ({"odd": 1}, 40415),
        ({"scoreDetails": 1}, 14),
        ({"combination": {}}, 40414),
        ({"combination": {"weights": {"q": 1}}}, 9967500),
        ({"combination": {"weights": {"p": 1, "q": 1}}}, 9460301),
        ({"combination": {"weights": {"p": "1"}}}, 13118),
        ({"combination": {"weights": {"p": -1}}}, 9460300),
    ],
    ids=str,
)
def test_a_fusion_is_refused_before_anything_is_read(changed: Document, code: int) -> None:
    fusion = {"input": {"pipelines": {"p": BY_ID}}, **changed}
    assert refusal("orders", {"$rankFusion": fusion}) == code
    assert refusal("orders", {"$rankFusion": [fusion]}) == 9


def test_a_fusion_begins_its_pipeline() -> None:
    fusion = {"$rankFusion": {"input": {"pipelines": {"p": BY_ID}}}}
    assert refusal("orders", {"$match": {}}, fusion) == 10170100
    assert refusal("orders", {"$facet": {"a": [{"$match": {}}, fusion]}}) == 10170100
    assert ids(results("orders", {"$facet": {"a": [fusion]}})[0]["a"]) == [1, 2]
    union = {"$unionWith": {"coll": "orders", "pipeline": [fusion]}}
    assert ids(results("orders", union)) == [1, 2, 3, 1, 2]
    details = {"$project": {"a": {"$meta": "scoreDetails"}}}
    assert refusal("orders", fusion, details) == 40218


@pytest.mark.parametrize(
    ("branches", "code"),
    [
        ({"": []}, 15998),
        ({"a.b": []}, 16412),
        ({"$a": []}, 16410),
        ({"a": [1]}, 40171),
        ({"a": [{"$documents": []}]}, 40600),
        ({"a": [{"$listSessions": {}}]}, 73),
        ({"a": [{"$listLocalSessions": {}}]}, 73),
        ({"a": [{"$listClusterCatalog": {}}]}, 9621301),
        ({"a": [{"$lookup": {"from": "stock", "pipeline": [{"$facet": {}}], "as": "x"}}]}, 40600),
        ({"a": [{"$lookup": {"from": "stock", "pipeline": 1, "as": "x"}}]}, 14),
    ],
    ids=str,
)
def test_a_facet_refuses_names_and_stages(branches: Document, code: int) -> None:
    assert refusal("orders", {"$facet": branches}) == code


@pytest.mark.parametrize(
    "stage", [{"$listLocalSessions": {}}, {"$listClusterCatalog": {}}, {"$currentOp": {}}]
)
def test_a_facet_on_a_database_refuses_its_stages_before_its_place(stage: Document) -> None:
    assert refusal(1, {"$facet": {"a": [stage]}}) == 40600
    assert refusal(1, {"$facet": {"a": []}}) == 73


@pytest.mark.parametrize(
    "name", ["$listLocalSessions", "$listClusterCatalog", "$currentOp", "$querySettings"]
)
def test_a_stage_of_a_database_comes_after_what_begins_on_one(name: str) -> None:
    assert refusal(1, {"$match": {}}, {name: {}}) == 73
    assert refusal(1, {"$documents": []}, {name: {}}) == 40602


@pytest.mark.parametrize(
    ("of", "stage", "code"),
    [
        ("orders", {"$collStats": 1}, 5447000),
        ("orders", {"$collStats": []}, 5447000),
        ("orders", {"$collStats": {"latencyStats": {"histograms": 1}}}, 14),
        ("orders", {"$collStats": {"latencyStats": {"histograms": None}}}, 14),
        ("orders", {"$collStats": {"count": {"x": 1}}}, 31170),
        ("orders", {"$collStats": {"queryExecStats": {"x": 1}}}, 31170),
        ("orders", {"$collStats": {"count": {"x": 1}, "unknown": {}}}, 31170),
        ("orders", {"$collStats": {"unknown": {}, "count": {"x": 1}}}, 40415),
        ("nowhere", {"$collStats": {"count": {"x": 1}}}, 31170),
        ("nowhere", {"$collStats": {"count": {}}}, 26),
        ("nowhere", {"$collStats": {"storageStats": {}}}, 26),
        ("nowhere", {"$collStats": {"queryExecStats": {}}}, 26),
        ("seen", {"$collStats": {"count": {}}}, 166),
        ("seen", {"$collStats": {"storageStats": {}}}, 166),
        ("seen", {"$collStats": {"queryExecStats": {}}}, 166),
        ("seen", {"$indexStats": {}}, 40602),
        ("seen", {"$planCacheStats": {}}, 40602),
        ("orders", {"$planCacheStats": 1}, 9),
        ("orders", {"$planCacheStats": {"x": 1}}, 9),
        ("orders", {"$planCacheStats": {"allhosts": True}}, 9),
        ("orders", {"$planCacheStats": {"allHosts": 1}}, 13111),
        ("orders", {"$planCacheStats": {"allHosts": None}}, 13111),
        ("orders", {"$planCacheStats": {"allHosts": True}}, 4503200),
        ("nowhere", {"$planCacheStats": {}}, 50933),
        (1, {"$querySettings": []}, 7746800),
        (1, {"$querySettings": {"showDebugQueryShape": 1}}, 14),
        (1, {"$querySettings": {"showDebugQueryShape": None}}, 14),
        (1, {"$querySettings": {"x": 1}}, 40415),
        ("orders", {"$querySettings": {}}, 73),
        ("orders", {"$queryStats": {}}, 73),
        (1, {"$queryStats": {}}, 73),
        (1, {"$queryStats": 1}, 9),
        (1, {"$listSampledQueries": {}}, 73),
        ("orders", {"$listSampledQueries": {}}, 73),
        (1, {"$listSampledQueries": {"x": 1}}, 40415),
        (1, {"$queryStats": {"x": 1}}, 40415),
        (1, {"$queryStats": {"transformIdentifiers": {"algorithm": "md5"}}}, 2),
        ("orders", {"$facet": {"a": [{"$querySettings": {}}]}}, 40600),
        ("orders", {"$out": "seen"}, 166),
        ("orders", {"$merge": "seen"}, 166),
        ("orders", {"$merge": "series"}, 166),
        ("orders", {"$merge": ""}, 73),
        ("orders", {"$merge": {"into": ""}}, 5786800),
    ],
    ids=str,
)
def test_a_stage_of_the_command_is_refused_for_what_it_is_told(of: Any, stage: Document, code: int) -> None:
    held = server()
    held.run({"create": "seen", "viewOn": "orders", "pipeline": [{"$match": {"_id": 1}}]})
    held.run({"create": "series", "timeseries": {"timeField": "at"}})
    assert refusal(of, stage, on=held) == code


def test_a_view_without_stages_has_the_indexes_of_its_collection() -> None:
    held = server()
    held.run({"create": "alias", "viewOn": "orders", "pipeline": []})
    assert [each["name"] for each in results("alias", {"$indexStats": {}}, on=held)] == ["_id_"]
    assert results("alias", {"$planCacheStats": {}}, on=held) == []


def test_statistics_have_the_sections_that_are_asked_for() -> None:
    options = {
        "latencyStats": {"histograms": True},
        "queryExecStats": {},
        "storageStats": {"scale": 2**40, "of a later release": 1},
        "count": None,
    }
    (found,) = results("orders", {"$collStats": options})
    assert "count" not in found
    assert found["latencyStats"]["reads"]["histogram"] == []
    assert found["queryExecStats"] == {"collectionScans": {"total": 0, "nonTailable": 0}}
    assert found["storageStats"]["scaleFactor"] == 2**31 - 1


def test_a_search_by_distance_may_follow_matches_of_everything() -> None:
    near = {"$geoNear": {"near": [0, 0], "distanceField": "d"}}
    assert refusal("orders", {"$match": {"_id": 1}}, near) == 40603
    assert refusal("orders", near, near) == 40603
    assert refusal("orders", {"$limit": 1}, {"$geoNear": {}}) == 5860400
    held = server()
    held.run({"createIndexes": "orders", "indexes": [{"key": {"at": "2d"}, "name": "at"}]})
    held.run({"update": "orders", "updates": [{"q": {"_id": 1}, "u": {"$set": {"at": [0, 1]}}}]})
    assert ids(results("orders", {"$match": {}}, near, on=held)) == [1]


def test_lookup_joins_with_collections_of_the_server_itself() -> None:
    joined = {"from": {"db": "config", "coll": "cache.chunks.db.orders"}, "pipeline": [], "as": "x"}
    assert [each["x"] for each in results("orders", {"$lookup": joined})] == [[], [], []]


@pytest.mark.parametrize("matched", ["merge", "keepExisting"])
def test_merge_inserts_null_for_what_it_finds_no_match_by(matched: str) -> None:
    held = server()
    held.run({"createIndexes": "into", "indexes": [{"key": {"a.b": 1}, "name": "ab", "unique": True}]})
    merge = {"$merge": {"into": "into", "on": "a.b", "whenMatched": matched}}
    results("orders", {"$match": {"_id": 1}}, {"$project": {"item": 1}}, merge, on=held)
    assert held.documents("into") == [{"_id": 1, "item": "almonds", "a": {"b": None}}]


def test_a_pipeline_of_merge_is_looked_at_when_there_is_a_result() -> None:
    merge = {"$merge": {"into": "into", "whenMatched": [{"$match": {}}]}}
    assert results("orders", {"$match": {"_id": -1}}, merge) == []
    nothing = {"$merge": {"into": "into", "whenMatched": ["$match"]}}
    assert refusal("orders", {"$match": {"_id": -1}}, nothing) == 14
    assert refusal("orders", merge) == 72


def test_what_is_explained_must_have_a_place_to_go_to() -> None:
    command = {"aggregate": "orders", "pipeline": [{"$merge": {"into": "x", "on": "a"}}], "explain": True}
    with pytest.raises(CommandError) as refused:
        server().run(command)
    assert refused.value.code == 51183


@pytest.mark.parametrize("name", ["randVal", "searchScore", "searchHighlights", "indexKey"])
def test_metadata_of_searches_may_be_asked_for_anywhere(name: str) -> None:
    shown = results("orders", {"$project": {"item": 1, "m": {"$meta": name}}}, {"$limit": 1})
    assert shown == [{"_id": 1, "item": "almonds"}]


def test_merge_finds_matches_by_the_collation_of_the_command() -> None:
    fold = {"locale": "en", "strength": 2}
    on = Server()
    on.fill("source", {"key": "A", "new": 1})
    on.run({"create": "into", "collation": fold})
    on.run({"createIndexes": "into", "indexes": [{"key": {"key": 1}, "name": "key", "unique": True}]})
    on.fill("into", {"_id": 1, "key": "a", "old": 1})
    merge = {"$merge": {"into": "into", "on": "key"}}
    pipeline = [{"$project": {"_id": 0}}, merge]
    on.run({"aggregate": "source", "pipeline": pipeline, "cursor": {}, "collation": fold})
    assert on.documents("into") == [{"_id": 1, "key": "A", "old": 1, "new": 1}]
