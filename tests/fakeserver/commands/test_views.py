"""Views and collMod: a view's collation is its own, none reads itself, and a change is checked as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128
from data_commands import Server

from fakeserver.errors import CommandError

NO_CASE = {"locale": "en", "strength": 2}
CASE = {"locale": "en", "strength": 3}
Document = dict[str, Any]


def failure(server: Server, command: Document) -> int:
    with pytest.raises(CommandError) as caught:
        server.run(command)
    return int(caught.value.code)


def aggregate(target: str, *stages: Document, **more: Any) -> Document:
    return {"aggregate": target, "pipeline": list(stages), "cursor": {}, **more}


def found(server: Server, command: Document) -> list[Document]:
    return list(server.run(command)["cursor"]["firstBatch"])


@pytest.fixture
def letters() -> Server:
    server = Server()
    server.fill("c", {"_id": 1, "x": "a"}, {"_id": 2, "x": "A"}, {"_id": 3, "x": "b"})
    server.run({"create": "folding", "viewOn": "c", "collation": NO_CASE})
    server.run({"create": "plain", "viewOn": "c"})
    return server


READS: list[Document] = [
    {"find": "folding", "filter": {"x": "a"}},
    {"count": "folding", "query": {"x": "a"}},
    {"distinct": "folding", "key": "x"},
    aggregate("folding", {"$match": {"x": "a"}}),
    {"explain": {"find": "folding", "filter": {"x": "a"}}},
    {"explain": {**aggregate("folding"), "cursor": {}}},
]


@pytest.mark.parametrize("command", READS, ids=lambda command: next(iter(command)))
def test_a_read_has_the_collation_of_its_view_and_no_other(letters: Server, command: Document) -> None:
    inner = command.get("explain", command)
    for collation, code in ((CASE, 167), ({"locale": "simple"}, 167), (NO_CASE, None)):
        inner["collation"] = collation
        if code is None:
            letters.run(command)
        else:
            assert failure(letters, command) == code
    del inner["collation"]
    letters.run(command)


def test_a_view_folds_as_it_was_made_to(letters: Server) -> None:
    assert [each["_id"] for each in found(letters, {"find": "folding", "filter": {"x": "a"}})] == [1, 2]
    assert letters.run({"count": "folding", "query": {"x": "a"}}) == {"n": 2}
    assert letters.run({"distinct": "folding", "key": "x"}) == {"values": ["a", "b"], "ok": 1}


def test_a_view_does_not_inherit_the_collation_of_its_collection() -> None:
    server = Server()
    server.run({"create": "c", "collation": NO_CASE})
    server.fill("c", {"_id": 1, "x": "a"}, {"_id": 2, "x": "A"})
    server.run({"create": "v", "viewOn": "c"})
    assert len(found(server, {"find": "c", "filter": {"x": "a"}})) == 2
    assert len(found(server, {"find": "v", "filter": {"x": "a"}})) == 1


@pytest.mark.parametrize(
    "stage",
    [
        {"$lookup": {"from": "folding", "localField": "x", "foreignField": "x", "as": "y"}},
        {"$lookup": {"from": "folding", "pipeline": [], "as": "y"}},
        {"$unionWith": "folding"},
        {"$facet": {"y": [{"$unionWith": {"coll": "folding", "pipeline": []}}]}},
        {"$graphLookup": {"from": "folding", "startWith": "$x", "connectFromField": "x",
                          "connectToField": "x", "as": "y"}},
    ],
    ids=lambda stage: next(iter(stage)),
)  # fmt: skip
def test_a_stage_reads_only_views_of_the_pipelines_collation(letters: Server, stage: Document) -> None:
    assert failure(letters, aggregate("c", stage)) == 167
    assert failure(letters, aggregate("c", stage, collation=CASE)) == 167
    assert found(letters, aggregate("c", stage, collation=NO_CASE))
    assert found(letters, aggregate("folding", stage))


def test_a_view_stands_only_on_views_of_its_collation(letters: Server) -> None:
    assert failure(letters, {"create": "w", "viewOn": "folding"}) == 167
    assert failure(letters, {"create": "w", "viewOn": "plain", "collation": NO_CASE}) == 167
    letters.run({"create": "w", "viewOn": "folding", "collation": NO_CASE})


# What views read.


@pytest.mark.parametrize(
    ("name", "on", "pipeline"),
    [
        ("a", "a", []),
        ("c", "a", []),
        ("c", "d", [{"$lookup": {"from": "a", "pipeline": [], "as": "x"}}]),
        ("c", "d", [{"$lookup": {"from": "d", "pipeline": [{"$unionWith": "b"}], "as": "x"}}]),
        ("c", "d", [{"$unionWith": {"coll": "c", "pipeline": []}}]),
        ("c", "d", [{"$facet": {"x": [{"$unionWith": "a"}]}}]),
        ("c", "d", [{"$graphLookup": {"from": "b", "startWith": 1, "connectFromField": "x",
                                      "connectToField": "y", "as": "z"}}]),
    ],
)  # fmt: skip
def test_a_view_that_would_read_itself_is_not_made(name: str, on: str, pipeline: list[Any]) -> None:
    server = Server()
    for view, below in (("a", "b"), ("b", "c")):
        if view != name:
            server.run({"create": view, "viewOn": below})
    assert failure(server, {"create": name, "viewOn": on, "pipeline": pipeline}) == 5
    server.run({"create": name, "viewOn": "elsewhere"})
    assert failure(server, {"collMod": name, "viewOn": on, "pipeline": pipeline}) == 5
    assert found(server, {"find": name}) == []


def test_a_collection_may_be_read_in_two_ways() -> None:
    server = Server()
    server.run({"create": "a", "viewOn": "c", "pipeline": [{"$unionWith": "c"}]})
    server.run({"create": "b", "viewOn": "a", "pipeline": [{"$unionWith": "a"}, {"$unionWith": "c"}]})
    assert found(server, {"find": "b"}) == []


@pytest.mark.parametrize("numbers", [range(21), range(20, -1, -1)], ids=["from above", "from below"])
def test_at_most_twenty_views_stand_on_one_another(numbers: range) -> None:
    server = Server()
    *most, last = [{"create": f"v{number}", "viewOn": f"v{number + 1}"} for number in numbers]
    for command in most:
        server.run(command)
    assert failure(server, last) == 165


# Changes.


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"collMod": "v", "pipeline": [{"$nonsense": 1}]}, 40324),
        ({"collMod": "v", "pipeline": [{"$limit": "x"}]}, 5107201),
        ({"collMod": "v", "validator": {}}, 72),
        ({"collMod": "c", "viewOn": "d", "pipeline": []}, 72),
        ({"collMod": "c", "cappedMax": 1}, 72),
        ({"collMod": "c", "index": {"name": "_id_", "hidden": True}}, 2),
        ({"collMod": "c", "index": {"keyPattern": {"_id": 1}, "hidden": True}}, 2),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_refused(change: Document, code: int) -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    server.run({"create": "v", "viewOn": "c"})
    assert failure(server, change) == code


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [({"cappedMax": 2}, [4, 5]), ({"cappedSize": 30}, [4, 5]), ({"cappedMax": 9}, range(6))],
)
def test_what_is_beyond_new_bounds_goes_with_the_next_insert(bounds: Document, kept: Any) -> None:
    server = Server()
    server.run({"create": "log", "capped": True, "size": 100_000, "max": 10})
    for number in range(5):
        server.fill("log", {"_id": number})
    server.run({"collMod": "log", **bounds})
    assert len(server.documents("log")) == 5
    server.fill("log", {"_id": 5})
    assert [each["_id"] for each in server.documents("log")] == list(kept)


@pytest.mark.parametrize("limit", [0, 0.0, -0.0, Decimal128("0")], ids=str)
def test_a_count_of_a_view_is_a_pipeline_whose_limit_is_not_zero(limit: Any) -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    server.run({"create": "all", "viewOn": "c", "pipeline": []})
    assert server.run({"count": "c", "limit": limit}) == server.run({"count": "all"}) == {"n": 1}
    assert failure(server, {"count": "all", "limit": limit}) == 15958
