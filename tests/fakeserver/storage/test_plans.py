"""By which index a query is run, what comes in which order, and what explain tells of it."""

from __future__ import annotations

from typing import Any

import pytest
from data_commands import Server

from fakeserver.errors import CommandError

Index = tuple[str, dict[str, Any], dict[str, Any]]
"""A name, a key, and options."""


def holding(*documents: dict[str, Any], indexes: tuple[Index, ...]) -> Server:
    """Return a server whose collection has these documents and indexes: name, key, options."""
    server = Server()
    server.fill("c", *documents)
    for name, key, options in indexes:
        server.run({"createIndexes": "c", "indexes": [{"name": name, "key": key, **options}]})
    return server


def ids(server: Server, **find: Any) -> list[Any]:
    """Return the ids that a find returns, in its order."""
    return [each["_id"] for each in server.run({"find": "c", **find})["cursor"]["firstBatch"]]


def stages(server: Server, command: dict[str, Any]) -> list[str]:
    """Return the names of a winning plan's stages, the outermost first."""
    plan = server.run({"explain": command})["queryPlanner"]["winningPlan"]
    names = []
    while plan is not None:
        names.append(plan["stage"])
        plan = plan.get("inputStage")
    return names


A: Index = ("a_1", {"a": 1}, {})
A_B: Index = ("a_1_b_-1", {"a": 1, "b": -1}, {})
MIXED: list[dict[str, Any]] = [
    {"_id": 1, "a": 3, "b": 1},
    {"_id": 2, "a": 1, "b": 1},
    {"_id": 3, "a": 3, "b": 2},
    {"_id": 4, "a": "x"},
    {"_id": 5},
]


@pytest.mark.parametrize(
    ("index", "find", "expected"),
    [
        (A, {"filter": {"a": {"$gt": 0}}}, [2, 1, 3]),
        (A, {"filter": {"a": {"$lte": 3, "$gt": 1}}}, [1, 3]),
        (A, {"filter": {"a": {"$in": [3, 1]}}}, [2, 1, 3]),
        (A, {"filter": {"a": None}}, [5]),
        (A, {"filter": {"b": 1}}, [1, 2]),
        (A, {"filter": {"b": 1}, "hint": "a_1"}, [2, 1]),
        (A, {"hint": {"a": 1}}, [5, 2, 1, 3, 4]),
        (A, {"sort": {"a": -1}}, [4, 3, 1, 2, 5]),
        (A, {"sort": {"a": -1}, "hint": {"$natural": 1}}, [4, 1, 3, 2, 5]),
        (A, {"filter": {"a": {"$gt": 0}}, "sort": {"$natural": -1}}, [3, 2, 1]),
        (A_B, {"filter": {"a": 3}}, [3, 1]),
        (A_B, {"filter": {"a": 3}, "sort": {"b": 1}}, [1, 3]),
        (A_B, {"filter": {"a": 3, "b": {"$lt": 2}}}, [1]),
        (A_B, {"sort": {"a": -1, "b": 1}}, [4, 1, 3, 2, 5]),
        (A_B, {"filter": {"$and": [{"a": {"$gte": 1}}, {"a": {"$lt": 3}}]}}, [2]),
        (A, {"filter": {"_id": {"$gt": 3}}, "sort": {"_id": -1}}, [5, 4]),
        (A, {"min": {"a": 1}, "max": {"a": 3}, "hint": "a_1"}, [2]),
        (A_B, {"min": {"a": 3, "b": 2}, "hint": "a_1_b_-1"}, [3, 1, 4]),
    ],
)
def test_results_come_in_the_order_of_the_index_that_is_read(
    index: Any, find: dict[str, Any], expected: list[int]
) -> None:
    assert ids(holding(*MIXED, indexes=(index,)), **find) == expected


def test_of_several_indexes_that_with_the_fewest_keys_is_read() -> None:
    server = holding(*MIXED, indexes=(A, ("b_1", {"b": 1}, {})))
    scan = server.run({"explain": {"find": "c", "filter": {"a": 3, "b": 2}}})["queryPlanner"]["winningPlan"]
    assert scan["inputStage"]["indexName"] == "b_1"
    assert scan["filter"] == {"a": {"$eq": 3}}


def test_an_array_has_a_key_for_each_element_and_is_found_once() -> None:
    server = holding({"_id": 1, "a": [5, 1]}, {"_id": 2, "a": 3}, {"_id": 3, "a": []}, indexes=(A,))
    assert ids(server, filter={"a": {"$gt": 0}}) == [1, 2]
    assert ids(server, filter={"a": {"$gt": 2, "$lt": 4}}) == [2, 1]
    assert ids(server, sort={"a": -1}) == [1, 2, 3]
    assert ids(server, hint="a_1") == [3, 1, 2]
    told = server.run({"explain": {"find": "c", "hint": "a_1"}})["executionStats"]
    assert (told["nReturned"], told["totalKeysExamined"], told["totalDocsExamined"]) == (3, 4, 3)


@pytest.mark.parametrize(
    ("options", "filters"),
    [
        ({"sparse": True}, [{"b": {"$in": [1, 2]}}, {"a": None}]),
        ({"partialFilterExpression": {"a": {"$gt": 2}}}, [{"a": {"$gt": 0}}, {"b": 1}]),
    ],
)
def test_a_sparse_or_partial_index_is_read_where_it_holds_all_or_is_hinted(
    options: dict[str, Any], filters: list[dict[str, Any]]
) -> None:
    server = holding(*MIXED, indexes=(("a_1", {"a": 1}, options),))
    for wanted in filters:
        assert stages(server, {"find": "c", "filter": wanted}) == ["COLLSCAN"]
    assert stages(server, {"find": "c", "filter": {"a": {"$gte": 3}}}) == ["FETCH", "IXSCAN"]
    held = server.run({"count": "c", "hint": "a_1"})["n"]
    assert held == (4 if "sparse" in options else 2)
    assert len(ids(server, hint="a_1")) == held
    found = server.run({"aggregate": "c", "pipeline": [{"$count": "n"}], "cursor": {}, "hint": "a_1"})
    assert found["cursor"]["firstBatch"] == [{"n": held}]
    distinct = server.run({"distinct": "c", "key": "_id", "hint": "a_1"})["values"]
    assert len(distinct) == held
    assert server.run({"delete": "c", "deletes": [{"q": {}, "limit": 0, "hint": "a_1"}]})["n"] == held


NO_SUCH_INDEX = "hint provided does not correspond to an existing index"
HINTED: list[dict[str, Any]] = [
    {"find": "c", "hint": "b_1"},
    {"find": "c", "hint": "hidden"},
    {"aggregate": "c", "pipeline": [], "cursor": {}, "hint": "b_1"},
    {"count": "c", "hint": {"b": 1}},
    {"distinct": "c", "key": "a", "hint": "b_1"},
    {"findAndModify": "c", "query": {}, "remove": True, "hint": "b_1"},
    {"explain": {"find": "c", "hint": "b_1"}},
    {"explain": {"aggregate": "c", "pipeline": [], "cursor": {}, "hint": "b_1"}},
    {"explain": {"count": "c", "hint": "b_1"}},
    {"explain": {"distinct": "c", "key": "a", "hint": "hidden"}},
    {"explain": {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "hint": "b_1"}]}},
    {"explain": {"delete": "c", "deletes": [{"q": {}, "limit": 1, "hint": "b_1"}]}},
    {"explain": {"findAndModify": "c", "remove": True, "hint": "b_1"}},
]


@pytest.mark.parametrize("command", HINTED, ids=str)
def test_a_hint_that_names_no_index_that_can_be_read_is_refused(command: dict[str, Any]) -> None:
    server = holding(*MIXED, indexes=(A, ("hidden", {"b": -1}, {"hidden": True})))
    with pytest.raises(CommandError, match=NO_SUCH_INDEX) as refused:
        server.run(command)
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("command", "operations"),
    [
        ("update", [{"q": {}, "u": {"$set": {"a": 1}}, "hint": "b_1"}]),
        ("delete", [{"q": {}, "limit": 1, "hint": "b_1"}]),
    ],
)
def test_a_write_with_a_hint_that_names_no_index_fails(command: str, operations: list[Any]) -> None:
    server = holding(*MIXED, indexes=(A,))
    reply = server.run({command: "c", f"{command}s": operations})
    (error,) = reply["writeErrors"]
    assert error["code"] == 2
    bulk = {"updateMods": operations[0].get("u"), "multi": False, "filter": {}, "hint": "b_1"}
    if command == "delete":
        del bulk["updateMods"]
    reply = server.run(
        {"bulkWrite": 1, "ops": [{command: 0, **bulk}], "nsInfo": [{"ns": "db.c"}]}, db="admin"
    )
    assert reply["cursor"]["firstBatch"][0]["code"] == 2


def test_a_write_changes_the_first_document_of_the_hinted_index() -> None:
    server = holding(*MIXED, indexes=(A,))
    change = {"q": {"b": 1}, "u": {"$set": {"changed": True}}}
    server.run({"update": "c", "updates": [{**change, "hint": "a_1"}]})
    assert ids(server, filter={"changed": True}) == [2]
    found = server.run({"findAndModify": "c", "query": {"b": 1}, "remove": True, "hint": {"$natural": -1}})
    assert found["value"]["_id"] == 2
    found = server.run({"findAndModify": "c", "query": {"b": {"$gt": 0}}, "remove": True, "hint": {"a": 1}})
    assert found["value"]["_id"] == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"min": {"a": 1}}, 51173),
        ({"min": {"a": 1}, "hint": {"$natural": 1}}, 51173),
        ({"min": {"b": 1}, "hint": "a_1"}, 51174),
        ({"min": {"b": 1, "a": 1}, "hint": "a_1_b_-1"}, 51174),
        ({"max": {"a": 1}, "hint": "a_1_b_-1"}, 51174),
        ({"min": {"a": 2}, "max": {"a": 2}, "hint": "a_1"}, 51175),
        ({"min": {"a": 1, "b": 1}, "max": {"a": 1, "b": 2}, "hint": "a_1_b_-1"}, 51175),
    ],
)
def test_min_and_max_are_keys_of_the_hinted_index(options: dict[str, Any], code: int) -> None:
    server = holding(*MIXED, indexes=(A, A_B))
    for command in ({"find": "c", **options}, {"explain": {"find": "c", **options}}):
        with pytest.raises(CommandError) as refused:
            server.run(command)
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"find": "c", "filter": {"_id": 1}}, ["EXPRESS_IXSCAN"]),
        ({"find": "c", "filter": {"_id": 1}, "sort": {"b": 1}}, ["SORT", "IDHACK"]),
        ({"find": "c", "filter": {"_id": 1}, "hint": "_id_"}, ["FETCH", "IXSCAN"]),
        ({"find": "c", "filter": {"a": 3}}, ["FETCH", "IXSCAN"]),
        ({"find": "c", "filter": {"a": 3}, "limit": 1}, ["EXPRESS_IXSCAN"]),
        ({"find": "c", "filter": {"u": 3}}, ["EXPRESS_IXSCAN"]),
        ({"find": "c", "filter": {"u": 3}, "skip": 1}, ["SKIP", "FETCH", "IXSCAN"]),
        ({"find": "c", "sort": {"a": 1}, "limit": 2}, ["LIMIT", "FETCH", "IXSCAN"]),
        ({"find": "c", "sort": {"b": 1}, "limit": 2}, ["SORT", "COLLSCAN"]),
        ({"find": "c", "filter": {"b": 1}, "projection": {"b": 1}}, ["PROJECTION_SIMPLE", "COLLSCAN"]),
        ({"find": "nothing"}, ["EOF"]),
        ({"count": "c", "query": {"a": {"$gt": 1}}}, ["COUNT", "COUNT_SCAN"]),
        ({"distinct": "c", "key": "a"}, ["PROJECTION_COVERED", "DISTINCT_SCAN"]),
        ({"distinct": "c", "key": "a", "query": {"a": {"$gt": 1}}}, ["PROJECTION_COVERED", "DISTINCT_SCAN"]),
        ({"distinct": "c", "key": "b"}, ["COLLSCAN"]),
        ({"aggregate": "c", "pipeline": [{"$match": {"a": 1}}], "cursor": {}}, ["FETCH", "IXSCAN"]),
        ({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]}, ["EXPRESS_UPDATE"]),
        ({"delete": "c", "deletes": [{"q": {"b": 1}, "limit": 0}]}, ["DELETE", "COLLSCAN"]),
        ({"findAndModify": "c", "query": {"a": 1}, "remove": True}, ["DELETE", "FETCH", "IXSCAN"]),
        (
            {"findAndModify": "c", "query": {"a": 1}, "update": {"$set": {"b": 1}}},
            ["UPDATE", "FETCH", "IXSCAN"],
        ),
    ],
    ids=str,
)
def test_explain_shows_the_stages_of_the_plan(command: dict[str, Any], expected: list[str]) -> None:
    server = holding(*MIXED[:4], indexes=(A, ("u_1", {"u": 1}, {"unique": True, "sparse": True})))
    assert stages(server, command) == expected


def test_explain_shows_the_index_with_its_bounds() -> None:
    server = holding(*MIXED, indexes=(A_B,))
    command = {"find": "c", "filter": {"a": {"$in": [3, 1]}, "b": {"$gte": 1.5}}}
    scan = server.run({"explain": command})["queryPlanner"]["winningPlan"]["inputStage"]
    assert scan == {
        "stage": "IXSCAN",
        "keyPattern": {"a": 1, "b": -1},
        "indexName": "a_1_b_-1",
        "isMultiKey": False,
        "multiKeyPaths": {"a": [], "b": []},
        "isUnique": False,
        "isSparse": False,
        "isPartial": False,
        "indexVersion": 2,
        "direction": "forward",
        "indexBounds": {"a": ["[1, 1]", "[3, 3]"], "b": ["[inf.0, 1.5]"]},
    }


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ({"find": "c", "filter": {"_id": 1}}, (1, 1, 1)),
        ({"find": "c", "filter": {"b": 1}}, (2, 0, 5)),
        ({"find": "c", "filter": {"b": 1}, "limit": 1}, (1, 0, 1)),
        ({"find": "c", "filter": {"a": 3, "b": 1}}, (1, 2, 2)),
        ({"find": "c", "filter": {"a": {"$gt": 0}}, "limit": 2}, (2, 2, 2)),
        ({"aggregate": "c", "pipeline": [{"$match": {"a": 3}}], "cursor": {}}, (2, 2, 2)),
        ({"update": "c", "updates": [{"q": {"a": 3}, "u": {"$set": {"b": 1}}, "multi": True}]}, (0, 2, 2)),
    ],
    ids=str,
)
def test_explain_counts_what_is_examined(command: dict[str, Any], counts: tuple[int, int, int]) -> None:
    told = holding(*MIXED, indexes=(A,)).run({"explain": command, "verbosity": "executionStats"})
    stats = told["executionStats"]
    assert (stats["nReturned"], stats["totalKeysExamined"], stats["totalDocsExamined"]) == counts


def test_a_pipeline_is_explained_as_a_query_and_the_stages_after_it() -> None:
    pipeline = [{"$match": {"a": 3}}, {"$group": {"_id": "$b"}}]
    told = holding(*MIXED, indexes=(A,)).run({"aggregate": "c", "pipeline": pipeline, "explain": True})
    cursor, group = told["stages"]
    assert cursor["$cursor"]["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "a_1"
    assert group == {"$group": {"_id": "$b"}}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"find": "c", "filter": "x"}, 14),
        ({"find": "c", "filter": {"$nope": 1}}, 2),
        ({"update": "c", "updates": []}, 16),
        ({"delete": "c", "deletes": [{"q": {}}]}, 40414),
        ({"aggregate": "c", "pipeline": [{"$nope": 1}], "cursor": {}}, 40324),
        ({"ping": 1}, 20),
        ({}, 59),
    ],
    ids=str,
)
def test_a_command_that_cannot_be_is_not_explained(command: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as refused:
        Server().run({"explain": command})
    assert refused.value.code == code


@pytest.mark.parametrize("direction", [1, -1, None])
def test_distinct_values_come_in_their_order_whatever_plan_finds_them(direction: int | None) -> None:
    documents: list[dict[str, Any]] = [{"_id": 1, "a": 3}, {"_id": 2, "a": 1}, {"_id": 3, "a": [2, 0]}]
    indexes: tuple[Any, ...] = () if direction is None else (("a", {"a": direction, "b": 1}, {}),)
    server = holding(*documents, indexes=indexes)
    assert server.run({"distinct": "c", "key": "a"})["values"] == [0, 1, 2, 3]
    assert server.run({"distinct": "c", "key": "_id", "query": {"a": {"$gt": 0}}})["values"] == [1, 2, 3]


def test_an_index_with_a_collation_orders_by_it_and_serves_queries_that_have_it() -> None:
    english = {"locale": "en", "strength": 2}
    documents = [{"_id": 1, "a": "b"}, {"_id": 2, "a": "A"}, {"_id": 3, "a": "a"}]
    server = holding(*documents, indexes=(("a_1", {"a": 1}, {"collation": english}),))
    assert stages(server, {"find": "c", "filter": {"a": "a"}}) == ["COLLSCAN"]
    assert ids(server, filter={"a": "a"}) == [3]
    assert stages(server, {"find": "c", "filter": {"a": "a"}, "collation": english}) == ["FETCH", "IXSCAN"]
    assert ids(server, filter={"a": {"$gte": "a"}}, collation=english) == [2, 3, 1]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ({"a.0.b": 1}, [4, 2, 1, 3]),
        ({"a.0.b": -1}, [3, 1, 2, 4]),
        ({"a.1.b": 1, "_id": -1}, [4, 3, 2, 1]),
        ({"a.b": 1}, [4, 1, 2, 3]),
        ({"a.b": 1, "a.c": -1}, [4, 1, 2, 3]),
    ],
)
def test_a_number_in_a_path_is_a_place_in_an_array(sort: dict[str, int], expected: list[int]) -> None:
    server = holding(
        {"_id": 1, "a": [{"b": 5, "c": 1}, {"b": 1, "c": 9}]},
        {"_id": 2, "a": [{"b": 2, "c": 7}]},
        {"_id": 3, "a": [{"b": 7, "c": 3}]},
        {"_id": 4},
        indexes=(),
    )
    assert ids(server, sort=sort) == expected
    server.run({"createIndexes": "c", "indexes": [{"name": "i", "key": sort}]})
    assert ids(server, sort=sort) == expected


def test_parallel_arrays_have_no_order() -> None:
    server = holding({"_id": 1, "a": [1], "b": [2]}, indexes=())
    with pytest.raises(CommandError, match="cannot sort with keys that are parallel arrays") as refused:
        ids(server, sort={"a": 1, "b": 1})
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("partial", "wanted", "found"),
    [
        ({"b": True}, {"a": 1, "b": 1}, [2]),
        ({"b": True}, {"a": 1, "b": True}, [1]),
        ({"$and": [{"$or": [{"b": True}, {"b": 7}]}]}, {"a": 1}, [1, 2]),
        ({"b": {"$exists": True}}, {"a": 1, "b": {"$gte": 0}}, [2]),
        ({"b": {"$gte": 1}}, {"a": 1, "b": {"$gt": 0}}, [2]),
    ],
)
def test_a_partial_index_hides_nothing_from_queries_that_reach_beyond_it(
    partial: dict[str, Any], wanted: dict[str, Any], found: list[int]
) -> None:
    index = ("a_1", {"a": 1}, {"partialFilterExpression": partial})
    server = holding({"_id": 1, "a": 1, "b": True}, {"_id": 2, "a": 1, "b": 1}, indexes=(index,))
    assert ids(server, filter=wanted) == found


def test_an_index_may_lead_into_references() -> None:
    reference = {"$ref": "other", "$id": 7}
    server = holding({"_id": 1, "r": reference}, indexes=(("r", {"r.$id": 1}, {}),))
    assert ids(server, filter={"r.$id": 7}) == [1]
    assert stages(server, {"find": "c", "filter": {"r.$id": {"$gt": 1}}}) == ["FETCH", "IXSCAN"]


def test_a_pipeline_is_sorted_by_the_index_that_its_head_reads() -> None:
    server = holding(*MIXED, indexes=(A,))
    pipeline = [{"$match": {"a": {"$gt": 0}}}, {"$sort": {"a": -1}}, {"$project": {"_id": 1}}]
    found = server.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})["cursor"]["firstBatch"]
    assert [each["_id"] for each in found] == [3, 1, 2]
