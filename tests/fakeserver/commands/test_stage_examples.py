"""Stages that read or write collections answer as their pages of the manual show."""

from __future__ import annotations

from typing import Any

import pytest
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
        {1: [1], 2: [], 3: [3]},
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


def test_each_stage_of_a_command_has_a_case_or_tests_of_its_own() -> None:
    here = {"$collStats", "$documents", "$indexStats", "$merge", "$out", "$planCacheStats"}
    assert here | OWN_TESTS.keys() == STAGES_OF_COMMANDS - UNSUPPORTED_STAGES
