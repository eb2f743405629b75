"""What an optimizer computes before a document comes: constants, and what they decide.

A constant that fails refuses a statement wherever it stands, whether a document reaches it or not.
"""

from __future__ import annotations

from typing import Any

import pytest
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.profile import Profile

FAILING: dict[str, Any] = {"$divide": [1, 0]}
PIPELINE = "Failed to optimize pipeline :: caused by :: "
EXPRESSION = "Failed to optimize expression :: caused by :: "
FILTER = {"$expr": {"$gt": ["$a", FAILING]}}


def aggregate(*stages: dict[str, Any], of: str = "c", **options: Any) -> dict[str, Any]:
    return {"aggregate": of, "pipeline": list(stages), "cursor": {}, **options}


def failure(server: Server, command: dict[str, Any]) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command)
    return caught.value


def holding() -> Server:
    server = Server()
    server.fill("c", {"_id": 1, "a": 1, "zero": 0})
    server.run({"create": "empty"})
    server.run({"create": "failing", "viewOn": "empty", "pipeline": [{"$set": {"x": FAILING}}]})
    return server


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (aggregate({"$set": {"x": FAILING}}, of="empty"), PIPELINE),
        (aggregate({"$set": {"x": FAILING}}, of="absent"), PIPELINE),
        (aggregate({"$match": {"a": 9}}, {"$project": {"x": {"$add": ["$a", FAILING]}}}), PIPELINE),
        (aggregate({"$match": {"a": 9}}, {"$redact": {"$cond": [FAILING, "$$KEEP", "$$PRUNE"]}}), PIPELINE),
        (aggregate({"$match": {"a": 9}}, {"$match": FILTER}), PIPELINE + EXPRESSION),
        (aggregate({"$limit": 1}, {"$skip": 1}, {"$sortByCount": FAILING}), PIPELINE),
        (aggregate({"$bucketAuto": {"groupBy": FAILING, "buckets": 2}}, of="empty"), PIPELINE),
        (aggregate({"$bucket": {"groupBy": {"$add": [1, 8]}, "boundaries": [0, 5]}}, of="empty"), PIPELINE),
        (aggregate({"$facet": {"r": [{"$match": {"a": 9}}, {"$set": {"x": FAILING}}]}}), PIPELINE),
        (aggregate({"$unionWith": {"coll": "empty", "pipeline": [{"$set": {"x": FAILING}}]}}), PIPELINE),
        (aggregate({"$lookup": {"from": "c", "let": {"x": FAILING}, "pipeline": [], "as": "r"}}), PIPELINE),
        ({"find": "failing"}, PIPELINE),
        ({"find": "empty", "filter": FILTER}, EXPRESSION),
        ({"find": "absent", "filter": {"$or": [{"a": 1}, FILTER]}}, EXPRESSION),
        ({"find": "c", "filter": {"_id": 9}, "projection": {"x": FAILING}}, "can't $divide"),
        ({"count": "empty", "query": FILTER}, EXPRESSION),
        ({"distinct": "empty", "key": "a", "query": FILTER}, "Failed to optimize "),
        ({"findAndModify": "empty", "query": FILTER, "remove": True}, EXPRESSION),
        ({"explain": {"find": "empty", "filter": FILTER}}, EXPRESSION),
        ({"explain": aggregate({"$set": {"x": FAILING}}, of="empty")}, PIPELINE),
    ],
    ids=str,
)
def test_a_constant_that_fails_is_refused_where_no_document_comes_to_it(command: Any, told: str) -> None:
    error = failure(holding(), command)
    assert (error.code, error.message[: len(told)]) == (40069 if "$bucket'" in str(command) else 2, told)


@pytest.mark.parametrize("write", ["update", "delete"])
def test_a_constant_in_the_filter_of_a_write_is_refused_where_nothing_is_found(write: str) -> None:
    statement = {"q": FILTER, **({"u": {"$set": {"b": 1}}} if write == "update" else {"limit": 0})}
    (error,) = holding().run({write: "empty", f"{write}s": [statement]})["writeErrors"]
    assert error["code"] == 2


@pytest.mark.parametrize(
    "command",
    [
        aggregate({"$lookup": {"from": "c", "pipeline": [{"$set": {"x": FAILING}}], "as": "r"}}, of="empty"),
        {"update": "empty", "updates": [{"q": {}, "u": [{"$set": {"x": FAILING}}]}]},
        {"create": "seen", "viewOn": "c", "pipeline": [{"$set": {"x": FAILING}}]},
        {"create": "checked", "validator": FILTER},
    ],
    ids=str,
)
def test_what_no_optimizer_has_looked_at_waits_for_a_document(command: Any) -> None:
    assert "writeErrors" not in holding().run(command)


def test_a_pipeline_that_joins_is_optimized_for_the_first_document_that_comes() -> None:
    inner = {"$lookup": {"from": "empty", "pipeline": [{"$set": {"x": FAILING}}], "as": "r"}}
    error = failure(holding(), aggregate(inner))
    assert error.code == 2
    assert f":: caused by :: {PIPELINE}" in error.message


def test_an_explained_pipeline_knows_the_variables_of_its_command() -> None:
    match = {"$match": {"$expr": {"$eq": ["$a", {"$divide": [1, "$$n"]}]}}}
    explained = {"explain": aggregate(match, let={"n": 1})}
    assert "queryPlanner" in holding().run(explained)
    assert failure(holding(), {"explain": aggregate(match, let={"n": 0})}).code == 2


def test_what_is_wrong_with_a_later_stage_comes_before_a_constant() -> None:
    assert failure(holding(), aggregate({"$set": {"x": FAILING}}, {"$nonsense": 1})).code == 40324
    assert failure(holding(), {"find": "c", "filter": FILTER, "projection": {"x": {"$no": 1}}}).code == 31325


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$cond": [True, 1, FAILING]}, 2),
        ({"$ifNull": ["$a", 1, FAILING]}, 2),
        ({"$and": [False, FAILING]}, 2),
        ({"$switch": {"branches": [{"case": True, "then": 1}], "default": FAILING}}, 2),
        ({"$switch": {"branches": [{"case": "$a", "then": FAILING}], "default": 1}}, 2),
        ({"$switch": {"branches": [{"case": False, "then": 1}]}}, 40069),
        ({"$map": {"input": [], "in": {"$add": ["$$this", FAILING]}}}, 2),
        ({"$let": {"vars": {"x": 0}, "in": {"$divide": [1, "$$x"]}}}, 2),
        ({"$divide": [1, "$$none"]}, 2),
        ({"$dateToString": {"date": "$$NOW", "format": 1}}, 18533),
        ({"$add": ["x", 1, "$a"]}, 14),
        ({"$concat": ["$a", 1, 2]}, 16702),
        ({"$setUnion": [1, "$a", [2]]}, 17043),
        ({"$setEquals": [1, "$a"]}, 5887502),
        ({"$setIsSubset": ["$a", 1]}, 17311),
        ({"$indexOfArray": [1, "$a"]}, 50809),
        ({"$regexMatch": {"input": "$a", "regex": {"$concat": ["(", "x"]}}}, 51111),
        ({"$hour": {"date": "$a", "timezone": "Mars/Olympus"}}, 40485),
        ({"$dateAdd": {"startDate": "$a", "unit": "eon", "amount": 1}}, 9),
        ({"$dateTrunc": {"date": "$a", "unit": "day", "startOfWeek": "noday"}}, 5439016),
        ({"$dateTrunc": {"date": "$a", "unit": "day", "binSize": 0}}, 5439018),
    ],
    ids=str,
)
def test_each_constant_within_an_expression_is_computed(expression: Any, code: int) -> None:
    assert (
        failure(holding(), aggregate({"$set": {"x": expression}}, of="empty", let={"none": 0})).code == code
    )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"$and": [{"$divide": [1, "$zero"]}, False]}, False),
        ({"$or": [{"$divide": [1, "$zero"]}, True]}, True),
        ({"$ifNull": [None, 5, {"$divide": [1, "$zero"]}]}, 5),
        ({"$cond": [False, {"$divide": [1, "$zero"]}, 5]}, 5),
        ({"$switch": {"branches": [{"case": False, "then": FAILING}], "default": 5}}, 5),
        ({"$switch": {"branches": [{"case": True, "then": 5}, {"case": FAILING, "then": 1}]}}, 5),
        ({"$literal": FAILING}, FAILING),
        ({"$getField": {"field": "a", "input": {"a": {"$add": [1, "$a"]}}}}, 2),
        ({"$let": {"vars": {"x": 2, "y": "$a"}, "in": {"$add": ["$$x", "$$y"]}}}, 3),
        ({"$let": {"vars": {"x": 2}, "in": {"$let": {"vars": {"x": "$a"}, "in": "$$x"}}}}, 1),
        ({"$let": {"vars": {"CURRENT": {"a": 7}}, "in": "$a"}}, 7),
        ({"$dateTrunc": {"date": "$a", "unit": None}}, None),
        ({"$add": [1, 2, "$a"]}, 4),
        ({"$setIntersection": [[1, 2], "$$list", [2, 3]]}, [2]),
    ],
    ids=str,
)
def test_a_constant_decides_before_a_document_is_looked_at(expression: Any, value: Any) -> None:
    stage = {"$replaceWith": {"x": expression}}
    command = aggregate(stage, let={"list": [2, 9]})
    assert holding().run(command)["cursor"]["firstBatch"] == [{"x": value}]


def test_a_field_that_is_read_by_its_name_is_no_constant() -> None:
    read = {"$getField": {"field": "a", "input": {"a": FAILING}}}
    assert holding().run(aggregate({"$set": {"x": read}}, of="empty"))["cursor"]["firstBatch"] == []


@pytest.mark.parametrize(
    ("bound", "codes"),
    [
        ({"$let": {"vars": {"x": 0}, "in": {"$divide": [1, "$$x"]}}}, {"8.0": 0, "8.2": 2}),
        ({"$let": {"vars": {"x": {"$divide": [1, "$a"]}}, "in": 1}}, {"8.0": 0, "8.2": 0}),
        ({"$let": {"vars": {"x": {"$divide": [1, "$zero"]}}, "in": 1}}, {"8.0": 2, "8.2": 0}),
    ],
    ids=str,
)
def test_a_variable_that_an_expression_binds_is_optimized_since_8_2(
    bound: Any, codes: dict[str, int]
) -> None:
    for release, code in codes.items():
        server = holding()
        server.node.profile = Profile.named(release)
        command = aggregate({"$match": {"a": 9 if bound["$let"]["in"] != 1 else 1}}, {"$set": {"x": bound}})
        if code:
            assert failure(server, command).code == code
        else:
            server.run(command)


def test_a_time_that_a_lookup_binds_is_that_of_each_document() -> None:
    server = holding()
    server.fill("c", {"_id": 2, "a": 2})
    inner = [{"$match": {"_id": 1}}, {"$project": {"_id": 0, "x": {"$add": [1, "$$n"]}}}]
    joined = aggregate({"$lookup": {"from": "c", "let": {"n": "$a"}, "pipeline": inner, "as": "r"}})
    assert [each["r"] for each in server.run(joined)["cursor"]["firstBatch"]] == [[{"x": 2}], [{"x": 3}]]
