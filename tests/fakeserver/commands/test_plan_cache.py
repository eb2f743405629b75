"""Shapes of queries: which indexes a filter leaves to them, and when two have the same hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from talking import REPLICA_SET, STANDALONE, Deployment, play

if TYPE_CHECKING:
    from talking import Talker

_BY_B = {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": [{"a": 1, "b": 1}]}


async def _prepared(deployment: Deployment) -> Talker:
    talker = await deployment.connect()
    documents = [{"_id": number, "a": number, "b": number, "c": number} for number in range(5)]
    await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
    keys = ({"a": 1, "b": 1}, {"a": 1, "c": 1})
    indexes = [{"key": key, "name": "_".join(f"{name}_1" for name in key)} for key in keys]
    await talker.ok({"createIndexes": "c", "indexes": indexes, "$db": "db"})
    return talker


def _index(plan: dict[str, Any]) -> str | None:
    while plan:
        if "indexName" in plan:
            return str(plan["indexName"])
        plan = plan.get("inputStage", {})
    return None


@pytest.mark.parametrize("index", ["a_1_b_1", "a_1_c_1"])
@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": {"a": 7}},
        {"find": "c", "filter": {"a": 7}, "hint": "a_1_c_1"},
        {"count": "c", "query": {"a": 7}},
        {"distinct": "c", "key": "b", "query": {"a": 7}},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 7}}], "cursor": {}},
        {"delete": "c", "deletes": [{"q": {"a": 7}, "limit": 0}]},
        {"update": "c", "updates": [{"q": {"a": 7}, "u": {"$set": {"x": 1}}}]},
        {"findAndModify": "c", "query": {"a": 7}, "remove": True},
    ],
    ids=lambda command: next(iter(command)),
)
def test_a_query_of_the_shape_uses_the_indexes_left_to_it_whatever_its_hint(
    command: dict[str, Any], index: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        await talker.ok({**_BY_B, "indexes": [index], "$db": "db"})
        reply = await talker.ok({"explain": command, "verbosity": "queryPlanner", "$db": "db"})
        planner = reply["queryPlanner"]
        assert (planner["indexFilterSet"], _index(planner["winningPlan"])) == (True, index)

    play(scenario, STANDALONE)


def test_a_shape_has_the_collation_of_its_collection_unless_the_query_has_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        french, english = {"locale": "fr"}, {"locale": "en"}
        await talker.ok({"create": "c", "collation": french, "$db": "db"})
        for own in ({}, {"collation": english}):
            leaves = {"query": {"a": 1}, "indexes": ["x"], **own}
            await talker.ok({"planCacheSetFilter": "c", **leaves, "$db": "db"})
        listed = await talker.ok({"planCacheListFilters": "c", "$db": "db"})
        assert [each.get("collation", {}).get("locale") for each in listed["filters"]] == [None, "en"]
        await talker.ok({"planCacheClearFilters": "c", "query": {"a": 1}, "collation": french, "$db": "db"})
        for collation, is_set in ((french, False), (english, True)):
            command = {"find": "c", "filter": {"a": 2}, "collation": collation}
            planner = (await talker.ok({"explain": command, "$db": "db"}))["queryPlanner"]
            assert planner["indexFilterSet"] is is_set

    play(scenario, STANDALONE)


def test_where_no_index_is_left_the_collection_is_read_and_other_shapes_are_left_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        await talker.ok({**_BY_B, "indexes": ["gone"], "$db": "db"})
        for wanted, is_set, stage in (({"a": 2}, True, "COLLSCAN"), ({"a": {"$gt": 2}}, False, "FETCH")):
            command = {"find": "c", "filter": wanted}
            planner = (await talker.ok({"explain": command, "$db": "db"}))["queryPlanner"]
            assert (planner["indexFilterSet"], planner["winningPlan"]["stage"]) == (is_set, stage)
        found = (await talker.ok({"find": "c", "filter": {"a": 2}, "$db": "db"}))["cursor"]["firstBatch"]
        assert [each["_id"] for each in found] == [2]

    play(scenario, STANDALONE)


def test_filters_are_listed_and_forgotten_by_shape() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)

        async def listed() -> list[Any]:
            return list((await talker.ok({"planCacheListFilters": "c", "$db": "db"}))["filters"])

        assert await listed() == []
        await talker.ok({**_BY_B, "$db": "db"})
        await talker.ok({**_BY_B, "query": {"a": 2}, "indexes": ["a_1_c_1"], "$db": "db"})
        first = {"query": {"a": 2}, "sort": {}, "projection": {}, "indexes": ["a_1_c_1"]}
        assert await listed() == [first]
        await talker.ok({**_BY_B, "sort": {"b": 1}, "collation": {"locale": "fr"}, "$db": "db"})
        assert (await listed())[1]["collation"]["locale"] == "fr"
        asked = {"query": {"a": 0}, "sort": {"b": 1}, "collation": {"locale": "fr"}}
        await talker.ok({"planCacheClearFilters": "c", **asked, "$db": "db"})
        assert await listed() == [first]
        await talker.ok({"planCacheClearFilters": "c", "$db": "db"})
        assert await listed() == []

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"planCacheSetFilter": "none", "query": {}, "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": {}}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "indexes": {}}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "indexes": []}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "indexes": [1]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "indexes": [""]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "indexes": [{}]}, 2),
        ({"planCacheSetFilter": "c", "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": 1, "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "sort": None, "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "projection": "a", "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "collation": {}, "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "collation": [], "indexes": ["a"]}, 2),
        ({"planCacheSetFilter": "c", "query": {}, "collation": {"strength": 1}, "indexes": ["a"]}, 40414),
        ({"planCacheSetFilter": "view", "query": {}, "indexes": ["a"]}, 166),
        ({"planCacheListFilters": "view"}, 166),
        ({"planCacheClearFilters": "view"}, 166),
        ({"planCacheClearFilters": "c", "sort": {"a": 1}}, 2),
        ({"planCacheClearFilters": 1}, 73),
        ({"planCacheClear": "view"}, 166),
        ({"planCacheClear": "c", "query": "a"}, 2),
    ],
    ids=str,
)
def test_a_shape_that_cannot_be_read_is_refused(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        await talker.ok({"create": "view", "viewOn": "c", "$db": "db"})
        assert (await talker.fails({**command, "$db": "db"}))["code"] == code

    play(scenario, STANDALONE)


@pytest.mark.parametrize("name", ["planCacheClear", "planCacheListFilters", "planCacheClearFilters"])
def test_a_collection_that_is_not_there_has_no_plans_and_fields_of_others_are_left_alone(name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        await talker.ok({name: "none", "query": 1, "sort": "a", "$db": "db"})
        await talker.ok({name: "c", "other": 1, "$db": "db"})

    play(scenario, STANDALONE)


_PAIRS: list[tuple[dict[str, Any], dict[str, Any], bool, bool]] = [
    ({"filter": {"a": 1}}, {"filter": {"a": {"$eq": 5}}}, True, True),
    ({"filter": {"a": 1}}, {"filter": {"b": 1}}, False, False),
    ({"filter": {"a": 1, "b": 1}}, {"filter": {"$and": [{"a": 2}, {"b": 3}]}}, True, True),
    ({"filter": {"a": 1, "b": 1}}, {"filter": {"b": 1, "a": 1}}, True, False),
    ({"filter": {"a": {"$gt": 1}}}, {"filter": {"a": {"$lt": 1}}}, False, False),
    ({"filter": {"a": {"$in": [1, 2]}}}, {"filter": {"a": {"$in": [3, 4, 5]}}}, True, True),
    ({"filter": {"a": {"$in": [1]}}}, {"filter": {"a": {"$in": [1, 2]}}}, False, True),
    ({"filter": {"a": {"$all": [1]}}}, {"filter": {"a": {"$all": [1, 2]}}}, False, False),
    ({"filter": {"a": {"$type": "int"}}}, {"filter": {"a": {"$type": ["string"]}}}, True, False),
    ({"filter": {"a": {"$exists": True}}}, {"filter": {"a": {"$exists": False}}}, False, False),
    ({"filter": {"a": {"$not": {"$gt": 1}}}}, {"filter": {"a": {"$not": {"$gt": 9}}}}, True, True),
    ({"filter": {"$expr": {"$gt": ["$a", 1]}}}, {"filter": {"$expr": {"$lt": ["$a", 1]}}}, True, False),
    ({"filter": {"$or": [{"a": 1}]}}, {"filter": {"$or": [{"a": 1}, {"b": 1}]}}, False, False),
    ({"filter": {"a": 1}, "sort": {"b": 1}}, {"filter": {"a": 1}}, False, False),
    (
        {"filter": {"a": 1}, "projection": {"a": 1, "b": 1}},
        {"filter": {"a": 1}, "projection": {"b": 1, "a": 1}},
        True,
        False,
    ),
    (
        {"filter": {"a": 1}, "collation": {"locale": "en"}},
        {"filter": {"a": 1}, "collation": {"locale": "en", "strength": 1}},
        False,
        False,
    ),
]


@pytest.mark.parametrize(("one", "other", "same_plan", "same_query"), _PAIRS, ids=str)
def test_hashes_are_equal_for_queries_of_one_shape(
    one: dict[str, Any], other: dict[str, Any], *, same_plan: bool, same_query: bool
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        hashes = []
        for query in (one, other):
            reply = await talker.ok({"explain": {"find": "c", **query}, "$db": "db"})
            hashes.append((reply["queryPlanner"]["planCacheShapeHash"], reply["queryShapeHash"]))
        (first, second), (third, fourth) = hashes
        assert (first == third, second == fourth) == (same_plan, same_query)

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("stage", "same_plan"),
    [
        ({"$group": {"_id": "$a"}}, False),
        ({"$project": {"a": 1}}, False),
        ({"$sort": {"a": 1}}, False),
        ({"$unwind": "$a"}, True),
        ({"$limit": 1}, True),
        ({"$out": "d"}, True),
    ],
    ids=str,
)
def test_a_stage_is_part_of_a_query_and_may_be_part_of_its_plan(
    stage: dict[str, Any], *, same_plan: bool
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        plans, queries = set(), set()
        for pipeline in ([{"$match": {"b": 1}}], [{"$match": {"b": 1}}, stage]):
            command: dict[str, Any] = {"aggregate": "c", "pipeline": pipeline, "cursor": {}}
            reply = await talker.ok({"explain": command, "$db": "db"})
            queries.add(reply["queryShapeHash"])
            planned = reply["stages"][0]["$cursor"] if "stages" in reply else reply
            plans.add(planned["queryPlanner"]["planCacheShapeHash"])
        assert (len(plans) == 1, len(queries)) == (same_plan, 2)

    play(scenario, STANDALONE)


# Settings of shapes: named by an example or by its hash, merged, shown, forgotten; `reject` refuses queries.

_QUERY: dict[str, Any] = {"find": "c", "filter": {"a": 1}, "$db": "db"}
_HINTS = [{"ns": {"db": "db", "coll": "c"}, "allowedIndexes": ["a_1_b_1"]}]
_HASH = "0123456789abcdef" * 4


async def _set(talker: Talker, settings: dict[str, Any], query: Any = _QUERY) -> dict[str, Any]:
    return await talker.ok({"setQuerySettings": query, "settings": settings, "$db": "admin"})


async def _listed(talker: Talker, **argument: Any) -> list[dict[str, Any]]:
    pipeline = [{"$querySettings": argument}]
    reply = await talker.ok({"aggregate": 1, "pipeline": pipeline, "cursor": {}, "$db": "admin"})
    return list(reply["cursor"]["firstBatch"])


_REJECTED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"find": "c", "filter": {"a": 1}, "let": {"x": 1}},
        {"find": "c", "filter": {"a": 7}},
        {"find": "c", "filter": {"b": 7}},
    ),
    (
        {"distinct": "c", "key": "b", "query": {"a": 1}},
        {"distinct": "c", "key": "b", "query": {"a": 8}},
        {"distinct": "c", "key": "c", "query": {"a": 8}},
    ),
    (
        {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}]},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 9}}], "cursor": {}},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 9}}, {"$limit": 1}], "cursor": {}},
    ),
]


@pytest.mark.parametrize(("example", "alike", "other"), _REJECTED, ids=["find", "distinct", "aggregate"])
def test_queries_of_a_rejected_shape_are_refused_and_no_others(
    example: dict[str, Any], alike: dict[str, Any], other: dict[str, Any]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await _prepared(deployment)
        await _set(talker, {"reject": True}, {**example, "$db": "db"})
        assert (await talker.fails({**alike, "$db": "db"}))["codeName"] == "QueryRejectedBySettings"
        await talker.ok({**alike, "$db": "elsewhere"})
        await talker.ok({**other, "$db": "db"})
        await talker.ok({"explain": alike, "$db": "db"})
        await talker.ok({"removeQuerySettings": {**example, "$db": "db"}, "$db": "admin"})
        await talker.ok({**alike, "$db": "db"})

    play(scenario, REPLICA_SET)


def test_settings_are_merged_by_shape_and_shown_until_they_are_removed() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        first = await _set(talker, {"indexHints": _HINTS[0], "queryFramework": "classic", "comment": "why"})
        digest = first["queryShapeHash"]
        settings = {"indexHints": _HINTS, "queryFramework": "classic", "comment": "why"}
        assert (first["settings"], first["representativeQuery"]) == (settings, _QUERY)
        await _set(talker, {"comment": "because", "reject": False}, digest.lower())
        entry = {"queryShapeHash": digest, "settings": {**settings, "comment": "because"}}
        entry["representativeQuery"] = _QUERY
        shape = {"cmdNs": {"db": "db", "coll": "c"}, "command": "find", "filter": {"a": {"$eq": "?number"}}}
        assert await _listed(talker) == [entry]
        assert await _listed(talker, showDebugQueryShape=True) == [{**entry, "debugQueryShape": shape}]
        for _ in range(2):
            await talker.ok({"removeQuerySettings": digest, "$db": "admin"})
        assert await _listed(talker) == []

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    ("query", "settings", "code"),
    [
        (_QUERY, {}, 8727502),
        (_QUERY, {"reject": False}, 7746604),
        (_QUERY, {"comment": "alone"}, 7746604),
        (_QUERY, {"indexHints": [{**_HINTS[0], "allowedIndexes": []}]}, 7746604),
        (_QUERY, {"indexHints": [{**_HINTS[0], "allowedIndexes": [1]}]}, 9),
        (_QUERY, {"indexHints": [{**_HINTS[0], "ns": {"coll": "c"}}]}, 8727500),
        (_QUERY, {"indexHints": [{**_HINTS[0], "ns": {"db": "db"}}]}, 8727501),
        (_QUERY, {"indexHints": [{"allowedIndexes": ["x"]}]}, 40414),
        (_QUERY, {"queryFramework": "other"}, 2),
        (_QUERY, {"reject": 1}, 14),
        (_QUERY, {"unknown": 1}, 40415),
        ({**_QUERY, "unknown": 1}, {"reject": True}, 40415),
        ({**_QUERY, "filter": {"_id": 1}}, {"reject": True}, 7746606),
        ({**_QUERY, "$db": "admin"}, {"reject": True}, 8584900),
        ({**_QUERY, "find": "system.js"}, {"reject": True}, 8584901),
        ({"aggregate": "c", "pipeline": [{"$indexStats": {}}], "$db": "db"}, {"reject": True}, 8705200),
        ({"find": "c"}, {"reject": True}, 40414),
        ({**_QUERY, "$db": ""}, {"reject": True}, 73),
        ({**_QUERY, "$db": {}}, {"reject": True}, 14),
        ({"count": "c", "$db": "db"}, {"reject": True}, 7746402),
        ({}, {"reject": True}, 7746402),
        (1, {"reject": True}, 14),
        ("", {"reject": True}, 16),
        ("ab", {"reject": True}, 16),
        ("xy", {"reject": True}, 2),
    ],
    ids=str,
)
def test_bad_settings_and_queries_that_can_have_none_are_refused(
    query: Any, settings: dict[str, Any], code: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        command = {"setQuerySettings": query, "settings": settings, "$db": "admin"}
        assert (await talker.fails(command))["code"] == code

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    "command", [{"setQuerySettings": _HASH, "settings": {"reject": True}}, {"removeQuerySettings": _QUERY}]
)
def test_a_standalone_has_no_settings_of_shapes(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({**command, "$db": "admin"}))["code"] == 20

    play(scenario, STANDALONE)
