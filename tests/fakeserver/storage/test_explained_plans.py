"""Explain as people assert it: coverage, branches of `$or`, bounds of expressions, counts."""

from __future__ import annotations

from typing import Any

import pytest
from bson import MaxKey, MinKey, Regex
from data_commands import Server
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.profile import Profile
from mongowire.codes import ErrorCode

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "a": 1, "b": 5, "s": "abc"},
    {"_id": 2, "a": 2, "b": 6, "s": "abd"},
    {"_id": 3, "a": 3, "b": 5, "s": "ab"},
    {"_id": 4, "a": 4, "b": 7, "s": "b"},
    {"_id": 5, "s": 7},
]
INDEXES: dict[str, dict[str, Any]] = {
    "a_1": {"a": 1},
    "b_1": {"b": 1},
    "s_1": {"s": 1},
    "ab": {"a": 1, "b": 1},
}


def holding(*names: str, documents: list[dict[str, Any]] = DOCUMENTS) -> Server:
    """Return a server with a collection that has these indexes."""
    server = Server()
    server.fill("c", *documents)
    for name in names:
        server.run({"createIndexes": "c", "indexes": [{"name": name, "key": INDEXES[name]}]})
    return server


def explained(server: Server, command: dict[str, Any]) -> dict[str, Any]:
    """Return the stages that ran, the outermost first, and the figures of the run."""
    found = server.run({"explain": command, "verbosity": "executionStats"})
    stages, plan = [], found["queryPlanner"]["winningPlan"]
    while plan is not None:
        stages.append(plan["stage"])
        plan = plan.get("inputStage")
    figures = found["executionStats"]
    counts = tuple(figures[name] for name in ("nReturned", "totalKeysExamined", "totalDocsExamined"))
    return {"stages": stages, "counts": counts, "plan": found["queryPlanner"]["winningPlan"]}


def inmost(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the stage that reads."""
    while "inputStage" in plan:
        plan = plan["inputStage"]
    return plan


COVERED: dict[str, Any] = {"find": "c", "filter": {"a": {"$gt": 1}}, "projection": {"_id": 0, "a": 1}}


@pytest.mark.parametrize(
    ("names", "changes", "stages", "counts"),
    [
        (("a_1",), {}, ["PROJECTION_COVERED", "IXSCAN"], (3, 3, 0)),
        (("ab",), {"projection": {"_id": 0, "b": 1}}, ["PROJECTION_COVERED", "IXSCAN"], (3, 3, 0)),
        (("ab",), {"filter": {"a": {"$gt": 1}, "b": 5}}, ["PROJECTION_COVERED", "IXSCAN"], (1, 3, 0)),
        (("a_1",), {"projection": {"a": 1}}, ["PROJECTION_SIMPLE", "FETCH", "IXSCAN"], (3, 3, 3)),
        (("a_1",), {"projection": {"_id": 0, "a": 0}}, ["PROJECTION_SIMPLE", "FETCH", "IXSCAN"], (3, 3, 3)),
        (("a_1",), {"projection": {"_id": 0, "b": 1}}, ["PROJECTION_SIMPLE", "FETCH", "IXSCAN"], (3, 3, 3)),
        (("a_1",), {"filter": {"a": None}}, ["PROJECTION_SIMPLE", "FETCH", "IXSCAN"], (1, 1, 1)),
        (("a_1",), {"filter": {}, "sort": {"a": 1}}, ["PROJECTION_COVERED", "IXSCAN"], (5, 5, 0)),
        (("ab",), {"sort": {"b": 1}}, ["PROJECTION_COVERED", "SORT", "IXSCAN"], (3, 3, 0)),
        ((), {"filter": {"_id": {"$gt": 3}}, "projection": {"_id": 1}},
         ["PROJECTION_COVERED", "IXSCAN"], (2, 2, 0)),
    ],
)  # fmt: skip
def test_a_projection_of_indexed_fields_alone_reads_no_document(
    names: tuple[str, ...], changes: dict[str, Any], stages: list[str], counts: tuple[int, int, int]
) -> None:
    ran = explained(holding(*names), {**COVERED, **changes})
    assert (ran["stages"], ran["counts"]) == (stages, counts)


def test_an_index_whose_keys_are_of_arrays_covers_what_is_no_array() -> None:
    documents: list[dict[str, Any]] = [{"_id": 1, "a": [1, 2], "b": 5}, {"_id": 2, "a": 3, "b": 6}]
    server = holding("ab", documents=documents)
    find = {"find": "c", "filter": {"a": 3}, "projection": {"_id": 0, "b": 1}}
    assert explained(server, find)["counts"] == (1, 1, 0)
    assert explained(server, {**find, "projection": {"_id": 0, "a": 1}})["counts"] == (1, 1, 1)


def test_a_covered_projection_shows_a_missing_field_as_the_null_of_its_key() -> None:
    server = holding("a_1")
    found = server.run({"find": "c", "sort": {"a": 1}, "projection": {"_id": 0, "a": 1}, "limit": 2})
    assert found["cursor"]["firstBatch"] == [{"a": None}, {"a": 1}]


def test_each_branch_of_an_or_is_read_by_its_index() -> None:
    ran = explained(
        holding("a_1", "s_1"), {"find": "c", "filter": {"$or": [{"a": {"$lt": 3}}, {"s": "abc"}]}}
    )
    assert ran["stages"] == ["SUBPLAN", "FETCH", "OR"]
    either = inmost(ran["plan"])
    assert [(each["stage"], each["indexName"]) for each in either["inputStages"]] == [
        ("IXSCAN", "a_1"),
        ("IXSCAN", "s_1"),
    ]
    assert ran["counts"][:2] == (2, 3)


def test_an_or_beside_another_condition_is_read_by_its_branches_and_the_rest_asked_of_documents() -> None:
    ran = explained(holding("a_1", "s_1"), {"find": "c", "filter": {"b": 5, "$or": [{"a": 1}, {"s": "ab"}]}})
    assert ran["stages"] == ["FETCH", "OR"]
    assert ran["plan"]["filter"] == {"b": {"$eq": 5}}


def test_an_or_of_which_one_branch_has_no_index_reads_everything() -> None:
    ran = explained(holding("a_1"), {"find": "c", "filter": {"$or": [{"a": 1}, {"b": 5}]}})
    assert ran["stages"] == ["SUBPLAN", "COLLSCAN"]


def test_equalities_of_which_one_must_hold_are_one_in() -> None:
    ran = explained(holding("a_1"), {"find": "c", "filter": {"$or": [{"a": 1}, {"a": 3}]}})
    assert inmost(ran["plan"])["indexBounds"] == {"a": ["[1, 1]", "[3, 3]"]}


@pytest.mark.parametrize(
    ("regex", "bounds", "of_key", "counts"),
    [
        (Regex("^ab"), ['["ab", "ac")', "[/^ab/, /^ab/]"], None, (3, 4, 3)),
        (Regex("^ab."), ['["ab", "ac")', "[/^ab./, /^ab./]"], {"s": {"$regex": "^ab."}}, (2, 4, 2)),
        (Regex("^ab?"), ['["a", "b")', "[/^ab?/, /^ab?/]"], {"s": {"$regex": "^ab?"}}, (3, 4, 3)),
        (Regex("b$"), ['["", {})', "[/b$/, /b$/]"], {"s": {"$regex": "b$"}}, (2, 4, 2)),
        (Regex("^AB", "i"), ['["", {})', "[/^AB/i, /^AB/i]"],
         {"s": {"$regex": "^AB", "$options": "i"}}, (3, 4, 3)),
    ],
)  # fmt: skip
def test_an_anchored_expression_bounds_the_index_and_what_else_it_asks_is_asked_of_keys(
    regex: Any, bounds: list[str], of_key: Any, counts: tuple[int, int, int]
) -> None:
    ran = explained(holding("s_1"), {"find": "c", "filter": {"s": regex}})
    scan = inmost(ran["plan"])
    assert (scan["indexBounds"]["s"], scan.get("filter"), ran["counts"]) == (bounds, of_key, counts)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ({"$ne": 2}, ["[MinKey, 2)", "(2, MaxKey]"]),
        ({"$nin": [2, 3]}, ["[MinKey, 2)", "(2, 3)", "(3, MaxKey]"]),
        ({"$not": {"$gt": 2}}, ["[MinKey, 2]", "(inf.0, MaxKey]"]),
        ({"$in": [2, 1]}, ["[1, 1]", "[2, 2]"]),
    ],
)
def test_what_must_not_hold_is_what_lies_between(condition: Any, bounds: list[str]) -> None:
    ran = explained(holding("a_1"), {"find": "c", "filter": {"a": condition}})
    assert inmost(ran["plan"])["indexBounds"]["a"] == bounds


@pytest.mark.parametrize(
    ("command", "stages", "counts"),
    [
        ({}, ["COUNT", "RECORD_STORE_FAST_COUNT"], (0, 0, 0)),
        ({"query": {"a": {"$gt": 1}}}, ["COUNT", "COUNT_SCAN"], (0, 4, 0)),
        ({"query": {"a": {"$in": [1, 3]}}}, ["COUNT", "IXSCAN"], (0, 4, 0)),
        ({"query": {"a": 1, "b": 5}}, ["COUNT", "FETCH", "IXSCAN"], (0, 1, 1)),
        ({"query": {"b": 5}}, ["COUNT", "COLLSCAN"], (0, 0, 5)),
        ({"query": {"_id": 1}}, ["COUNT", "COUNT_SCAN"], (0, 2, 0)),
        ({"query": {"$or": [{"a": 1}, {"a": {"$gt": 3}}]}}, ["SUBPLAN", "COUNT", "OR"], (0, 2, 0)),
    ],
)
def test_a_count_within_bounds_reads_keys_alone(
    command: dict[str, Any], stages: list[str], counts: tuple[int, int, int]
) -> None:
    ran = explained(holding("a_1"), {"count": "c", **command})
    assert (ran["stages"], ran["counts"]) == (stages, counts)


def test_a_count_scan_shows_its_first_and_last_key() -> None:
    plan = explained(holding("ab"), {"count": "c", "query": {"a": {"$gt": 1, "$lte": 3}}})["plan"]
    assert inmost(plan)["indexBounds"] == {
        "startKey": {"a": 1, "b": MinKey()},
        "startKeyInclusive": False,
        "endKey": {"a": 3, "b": MaxKey()},
        "endKeyInclusive": True,
    }


@pytest.mark.parametrize(
    ("documents", "paths"),
    [
        ([{"a": 1, "b": 1}], {"a": [], "b": []}),
        ([{"a": [1], "b": 1}, {"a": 1, "b": [2]}], {"a": ["a"], "b": ["b"]}),
    ],
)
def test_an_index_tells_at_which_paths_it_met_arrays(documents: list[Any], paths: dict[str, Any]) -> None:
    scan = inmost(explained(holding("ab", documents=documents), {"find": "c", "hint": "ab"})["plan"])
    assert (scan["isMultiKey"], scan["multiKeyPaths"]) == (any(paths.values()), paths)


def test_a_path_through_arrays_of_documents_is_multikey_at_each() -> None:
    server = holding(documents=[{"a": [{"b": [1, 2]}]}])
    server.run({"createIndexes": "c", "indexes": [{"name": "n", "key": {"a.b": 1}}]})
    scan = inmost(explained(server, {"find": "c", "hint": "n"})["plan"])
    assert scan["multiKeyPaths"] == {"a.b": ["a", "a.b"]}


EXPRESS: list[tuple[str, dict[str, Any], bool]] = [
    ("8.2", {"find": "c", "filter": {"_id": 1}}, True),
    ("7.0", {"find": "c", "filter": {"_id": 1}}, False),
    ("8.2", {"find": "c", "filter": {"_id": 1}, "batchSize": 2}, False),
    ("8.2", {"find": "c", "filter": {"_id": 1}, "projection": {"a": 1}}, True),
    ("8.2", {"find": "c", "filter": {"a": 1}}, False),
    ("8.2", {"find": "c", "filter": {"a": 1}, "limit": 1}, True),
    ("8.2", {"find": "c", "filter": {"a": 1}, "limit": 1, "projection": {"_id": 0, "a": 1}}, False),
    ("9.0", {"find": "c", "filter": {"a": 1}, "limit": 1, "projection": {"_id": 0, "a": 1}}, True),
    ("8.2", {"find": "c", "filter": {"a": {"$gt": 1}}, "limit": 1}, False),
    ("8.2", {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, True),
    ("8.2", {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 1}]}, False),
    ("8.2", {"count": "c", "query": {"_id": 1}}, False),
]


@pytest.mark.parametrize(("release", "command", "expected"), EXPRESS, ids=str)
def test_an_equality_that_needs_no_plan_is_express(release: str, command: Any, expected: bool) -> None:  # noqa: FBT001
    server = holding("a_1")
    server.node.profile = Profile.named(release)
    stages = explained(server, command)["stages"]
    assert stages[-1].startswith("EXPRESS") == expected


@pytest.mark.parametrize("pipeline", [[1], [{}], [[{"$out": "c"}]], [{"$match": {}}, None]], ids=str)
def test_what_is_no_pipeline_has_no_plan(pipeline: Any) -> None:
    with pytest.raises(CommandError) as refused:
        holding().run({"explain": {"aggregate": "c", "pipeline": pipeline, "cursor": {}}})
    assert refused.value.code in {ErrorCode.TYPE_MISMATCH, 40323}


def test_index_stats_count_the_commands_that_read_each_index() -> None:
    server = holding("a_1", "b_1")
    for wanted in ({"a": 1}, {"a": {"$gt": 1}}, {"_id": 1}, {"x": 1}, {"$or": [{"a": 1}, {"b": {"$gt": 5}}]}):
        server.run({"find": "c", "filter": wanted})
    server.run({"explain": {"find": "c", "filter": {"a": 1}}})
    server.run({"update": "c", "updates": [{"q": {"b": 5}, "u": {"$set": {"x": 1}}}]})
    found = server.run({"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}})
    assert {each["name"]: each["accesses"]["ops"] for each in found["cursor"]["firstBatch"]} == {
        "_id_": 1,
        "a_1": 3,
        "b_1": 2,
    }


SCALARS = st.sampled_from([None, 0, 1, 2.5, "", "a", "ab", "b", True])
VALUES = SCALARS | st.lists(SCALARS, max_size=2)
FIELDS = st.sampled_from(["a", "b"])
REGEXES = st.sampled_from(["^a", "^ab?", "^a.", "b", "^", "^a|b"]).map(Regex)
CONDITIONS = (
    SCALARS
    | REGEXES
    | st.dictionaries(
        st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]), SCALARS, min_size=1, max_size=2
    )
    | st.builds(
        lambda name, values: {name: values}, st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3)
    )
    | st.builds(lambda regex, values: {"$in": [regex, *values]}, REGEXES, st.lists(SCALARS, max_size=2))
    | st.builds(lambda name, value: {"$not": {name: value}}, st.sampled_from(["$gt", "$lte", "$eq"]), SCALARS)
    | st.builds(lambda there: {"$exists": there}, st.booleans())
)  # fmt: skip
LEAVES = st.dictionaries(FIELDS, CONDITIONS, max_size=2)
FILTERS = LEAVES | st.builds(
    lambda leaf, branches: {**leaf, "$or": branches}, LEAVES, st.lists(LEAVES, min_size=1, max_size=3)
)
KEYS = st.lists(
    st.tuples(FIELDS, st.sampled_from([1, -1])), min_size=1, max_size=2, unique_by=lambda each: each[0]
)


@given(
    documents=st.lists(st.dictionaries(FIELDS, VALUES, max_size=2), max_size=6),
    keys=st.lists(KEYS.map(dict), min_size=1, max_size=2, unique_by=lambda each: tuple(each.items())),
    wanted=FILTERS,
    backwards=st.booleans(),
)
def test_a_plan_finds_what_a_scan_finds_and_its_figures_are_those_of_its_run(
    documents: list[dict[str, Any]],
    keys: list[dict[str, int]],
    wanted: dict[str, Any],
    backwards: bool,  # noqa: FBT001
) -> None:
    rows = [{"_id": number, **each} for number, each in enumerate(documents)]
    rows = [each for each in rows if not all(isinstance(each.get(name), list) for name in "ab")]
    server = holding(documents=rows) if rows else Server()
    find: dict[str, Any] = {"find": "c", "filter": wanted}
    expected = sorted(each["_id"] for each in server.run(find)["cursor"]["firstBatch"])
    for number, key in enumerate(keys):
        server.run({"createIndexes": "c", "indexes": [{"name": str(number), "key": key}]})
    if backwards:
        find["sort"] = {next(iter(keys[0])): -1}
    assert sorted(each["_id"] for each in server.run(find)["cursor"]["firstBatch"]) == expected
    assert server.run({"count": "c", "query": wanted})["n"] == len(expected)
    returned, _keys, examined = explained(server, find)["counts"]
    assert returned == len(expected)
    assert examined <= 3 * len(rows)


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ([{"$documents": [{"x": 1}]}], 0),
        ([{"$documents": [{"x": 1}]}, {"$match": {"x": 1}}, {"$out": "d"}], 0),
        ([{"$documents": 1}], 5858203),
        ([{"$documents": []}, {"$match": {"$bad": 1}}], 2),
        ([{"$documents": []}, {"$project": {"x": {"$divide": [1, 0]}}}], 2),
    ],
    ids=str,
)
def test_a_pipeline_without_a_collection_is_explained_by_its_stages(pipeline: Any, code: int) -> None:
    server = Server()
    command = {"aggregate": 1, "pipeline": pipeline, "cursor": {}, "explain": True}
    if code:
        with pytest.raises(CommandError) as refused:
            server.run(command)
        assert refused.value.code == code
        return
    explained = server.run(command)
    assert explained["stages"] == pipeline
    assert {"command", "serverInfo", "serverParameters", "queryShapeHash"} <= explained.keys()
