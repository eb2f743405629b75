"""Projections show what a server shows, and are refused where a server refuses them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.storage.filters.positional import matched_index
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.store.memory_engine import MemoryEngine

Document = dict[str, Any]
NS = Namespace("db", "c")
DOCUMENT: Document = {"_id": 1, "a": [{"b": 1, "c": 1}, {"b": 2}], "d": 3, "e": {"f": [5, 6, 7], "g": 1}}


def shown(projection: Document, **parts: Any) -> Document:
    engine = MemoryEngine()
    engine.insert(NS, DOCUMENT)
    (found,) = engine.find(NS, Query(projection=projection, **parts))
    return found


@pytest.mark.parametrize(
    ("projection", "expected"),
    [
        ({"a": {"$elemMatch": {"b": 2}}, "e": 0}, {"_id": 1, "a": [{"b": 2}], "d": 3}),
        ({"e": 0, "a": {"$elemMatch": {"b": 9}}}, {"_id": 1, "d": 3}),
        ({"a": {"$elemMatch": {"b": 2}}}, {"_id": 1, "a": [{"b": 2}]}),
        ({"a": {"$elemMatch": {"b": 2}}, "_id": 0}, {"a": [{"b": 2}]}),
        ({"a": {"$elemMatch": {"b": 2}}, "d": 1}, {"_id": 1, "d": 3, "a": [{"b": 2}]}),
        ({"a": {"$slice": 1}, "_id": 1}, {"_id": 1, "a": [{"b": 1, "c": 1}]}),
        ({"a": {"$slice": ["$e.f", 1]}}, {"_id": 1, "a": [5]}),
        ({"e.f": {"$slice": [-2, 1]}, "d": 1}, {"_id": 1, "d": 3, "e": {"f": [6]}}),
        ({"_id": {"$literal": 5}, "d": 1}, {"d": 3, "_id": 5}),
        ({"x": {"$meta": "recordId"}, "_id": 1}, {"_id": 1, "x": Int64(1)}),
        ({"a": {"c": 0}, "e": 0}, {"_id": 1, "a": [{"b": 1}, {"b": 2}], "d": 3}),
    ],
)
def test_projections_in_find(projection: Document, expected: Document) -> None:
    assert list(shown(projection).items()) == list(expected.items())


@pytest.mark.parametrize(
    ("query", "projection", "expected"),
    [
        ({"a.b": 2}, {"a.$": 1}, {"_id": 1, "a": [{"b": 2}]}),
        ({"a.b": 2}, {"a.b.$": 1}, {"_id": 1, "a": [{"b": 2}]}),
        ({"e.f": 6}, {"a.$": 1}, {"_id": 1, "a": [{"b": 2}]}),
        ({"e.f": 6}, {"e.h.$": 1}, {"_id": 1, "e": {}}),
        ({"d": 3}, {"x.$": 1}, {"_id": 1}),
        ({"e.f": {"$gt": 5}}, {"e.f.$": 1, "d": 1}, {"_id": 1, "d": 3, "e": {"f": [6]}}),
    ],
)
def test_a_positional_projection_cuts_the_first_array_on_its_path(
    query: Document, projection: Document, expected: Document
) -> None:
    assert shown(projection, filter=query) == expected


@pytest.mark.parametrize(
    ("projection", "code"),
    [
        ({"a": 0, "x": {"$add": [1, 2]}}, 31252),
        ({"a": 0, "x": "text"}, 31310),
        ({"a": 1, "d": 0}, 31254),
        ({"a": 0, "d": 1}, 31253),
        ({"a": 1, "a.b": 1}, 31249),
        ({"a.b": 1, "a": 1}, 31250),
        ({"a": {"$nonsense": 1}}, 31325),
        ({"a.$x": 1}, 16410),
        ({"a.": 1}, 40353),
        ({"a..b": 1}, 15998),
        ({"a": {"$elemMatch": 1}}, 31274),
        ({"a.b": {"$elemMatch": {}}}, 31275),
        ({"a.$": 1, "a": {"$elemMatch": {}}}, 31255),
        ({"x": {"$elemMatch": {}}, "a.$": 1}, 31256),
        ({"a.$": 1, "a.b.$": 1}, 31276),
        ({"a.$.b": 1}, 31394),
        ({"$": 1}, 16410),
        ({"d.$": 1, "d": {"$slice": 1}}, 28667),
        ({"a": {"$elemMatch": {"$sampleRate": 0.5}}}, 2),
        ({"a": {"$elemMatch": {"b": {"$near": [0, 0]}}}}, 5626500),
        ({"a": {"$elemMatch": {"$jsonSchema": {}}}}, 224),
        ({"a.$.b.$": 1}, 31287),
        ({"a.$": {"$slice": 1}}, 31271),
        ({"a.$": "text"}, 31308),
        ({"a": {"$slice": "x"}}, 28667),
        ({"a": {"$slice": [1]}}, 28667),
        ({"a": {"$meta": 1}}, 17307),
        ({"a": {"$meta": "nonsense"}}, 17308),
        ({"a": {"$meta": "sortKey"}}, 40218),
        ({"a": {"$meta": "textScore"}}, 40218),
    ],
)
def test_projections_that_find_refuses(projection: Document, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        shown(projection, filter={"a.b": 1})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"d": 3}, 51246),
        ({"e.f.0": 5}, 51246),
        ({"e.f": {"$not": {"$gt": 9}}}, 51246),
        ({"$or": [{"e.f": 5}, {"d": 3}]}, 51246),
        ({"e.f": [5, 6, 7]}, 51246),
        ({"e.f": 7}, 51247),
        ({"e.f": 5, "$expr": True}, 224),
        ({"e.f": 5, "$where": "true"}, 2),
    ],
)
def test_a_positional_projection_needs_an_element_that_decides(query: Document, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        shown({"a.$": 1}, filter=query)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({"a": 3}, 1),
        ({"a": {"$gt": 1, "$lt": 5}}, 1),
        ({"a": {"$in": [9, 3]}}, 1),
        ({"a": {"$all": [9, 3]}}, 1),
        ({"a": {"$all": [3, 9]}}, 2),
        ({"a": {"$in": [9]}, "b.c": {"$gte": 2}}, 0),
        ({"b.c": {"$gte": 3}}, 1),
        ({"b": {"$elemMatch": {"c": 4}}}, 1),
        ({"b": {"$elemMatch": {"c": 4}}, "a": 1}, 0),
        ({"b.c": {"$size": 2}}, 0),
        ({"b.d": {"$exists": True}}, 1),
        ({"b.0.c": 2}, 1),
        ({"t": {"$regex": "^Y", "$options": "i"}}, 1),
        ({"t": re.compile("^y")}, 1),
        ({"$or": [{"a": 3}, {"a": {"$eq": 9}}]}, 1),
        ({"$or": [{"a": 9}]}, 2),
        ({"$and": [{"x": 1}, {"a": 9}]}, 2),
        ({"$or": [{"a": 3}, {"t": "y"}]}, None),
        ({"a": {"$size": 3}}, None),
        ({"a": {"$ne": 4}}, None),
        ({"a": {"$nin": [4]}}, None),
        ({"z": {"$exists": False}}, None),
        ({"a.1": 3}, None),
        ({"x": 1}, None),
        ({}, None),
    ],
)
def test_the_element_by_which_a_document_matches(query: Document, index: int | None) -> None:
    document = {"a": [1, 3, 9], "b": [{"c": [1, 2]}, {"c": 4, "d": 1}], "t": ["x", "y"], "x": 1}
    assert matched_index(document, query) == index


@pytest.mark.parametrize(
    ("stage", "code", "message"),
    [
        (
            {"$project": {"a.$": 1}},
            31324,
            "Invalid $project :: caused by :: Cannot use positional projection",
        ),
        ({"$project": {"a": {"$elemMatch": {}}}}, 168, "Cannot use $elemMatch in this context"),
        ({"$project": {"a": {"$nonsense": 1}}}, 31325, "Unknown expression $nonsense"),
        ({"$set": {"a": {"$nonsense": 1}}}, 168, "Unrecognized expression '$nonsense'"),
        ({"$project": {"a": {"$meta": "sortKey"}}}, 40218, "query requires sort key metadata"),
    ],
)
def test_projections_that_a_pipeline_refuses(stage: Document, code: int, message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)) as caught:
        MemoryEngine().aggregate(NS, [stage], options=Query())
    assert caught.value.code == code


def test_slice_says_why_neither_of_its_forms_was_meant() -> None:
    with pytest.raises(CommandError) as caught:
        shown({"a": {"$slice": "x"}})
    assert caught.value.message == (
        'Invalid $slice syntax. The given syntax { $slice: "x" } did not match the find() syntax because :: '
        "Location31273: $slice only supports numbers and [skip, limit] arrays :: The given syntax "
        "did not match "
        "the expression $slice syntax. :: caused by :: Expression $slice takes at least 2 arguments, and at "
        "most 3, but 1 were passed in."
    )


@pytest.mark.parametrize(
    ("sort", "key"),
    [({"d": 1}, [3]), ({"e.f": 1, "d": -1}, [5, 3]), ({"e.f": -1}, [7]), ({"x": 1, "_id": 1}, [None, 1])],
)
def test_the_sort_key_is_what_a_document_was_sorted_by(sort: Document, key: list[Any]) -> None:
    meta = {"$meta": "sortKey"}
    assert shown({"k": meta}, sort=sort) == {**DOCUMENT, "k": key}
    assert shown({"_id": 1, "k": meta}, sort=sort) == {"_id": 1, "k": key}
    stages: list[Document] = [
        {"$sort": sort},
        {"$match": {"_id": 1}},
        {"$set": {"d": "changed", "e": "changed"}},
        {"$project": {"_id": 1, "k": meta}},
    ]
    assert MemoryEngine().aggregate(NS, stages, options=Query(), documents=[DOCUMENT]) == [
        {"_id": 1, "k": key}
    ]


def test_a_group_has_no_sort_key() -> None:
    stages: list[Document] = [
        {"$sort": {"d": 1}},
        {"$group": {"_id": "$d"}},
        {"$set": {"k": {"$meta": "sortKey"}}},
    ]
    with pytest.raises(CommandError) as caught:
        MemoryEngine().aggregate(NS, stages, options=Query())
    assert caught.value.code == 40218
