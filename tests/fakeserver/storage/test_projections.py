"""Projections show what a server shows, and are refused where a server refuses them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import Int64

from fakeserver.errors import CommandError
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
        ({"a.b": 2}, {"a.$.b": 1}, {"_id": 1, "a": [{"b": 2}]}),
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
        ({"d.$": 1}, 31277),
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
