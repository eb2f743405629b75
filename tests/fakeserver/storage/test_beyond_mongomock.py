"""What mongomock lacks or gets wrong, and what stands in its place: a case or more for each module."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import mongomock
import pytest
from bson import Decimal128
from data_commands import Server

from fakeserver.storage.port.engine import IndexSpec, Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.waiting.pause import Park

if TYPE_CHECKING:
    from collections.abc import Callable

    Document = dict[str, Any]

NS = Namespace("db", "c")
UPDATED = 1
"""The `_id` of the document that the update cases change."""

FINDS: list[tuple[str, list[Document], Document, list[Any]]] = [
    ("true is not 1", [{"_id": 1, "a": True}, {"_id": 2, "a": 1}], {"a": 1}, [2]),
    ("decimals are numbers", [{"_id": 1, "a": Decimal128("1.5")}], {"a": {"$gt": 1}}, [1]),
    ("a decimal equals an int", [{"_id": 1, "a": Decimal128("1")}], {"a": 1}, [1]),
    (
        "documents are equal in the order of their fields",
        [{"_id": 1, "a": {"x": 1, "y": 2}}],
        {"a": {"y": 2, "x": 1}},
        [],
    ),
    ("bits are tested", [{"_id": 1, "a": 6}, {"_id": 2, "a": 1}], {"a": {"$bitsAllSet": 2}}, [1]),
    (
        "places are in a box",
        [{"_id": 1, "a": [1, 1]}],
        {"a": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}},
        [1],
    ),
    ("null has a type", [{"_id": 1, "a": None}, {"_id": 2}], {"a": {"$type": "null"}}, [1]),
    ("the remainder is tested", [{"_id": 1, "a": 5}, {"_id": 2, "a": 4}], {"a": {"$mod": [4, 1]}}, [1]),
    (
        "a schema is a filter",
        [{"_id": 1, "a": 1}, {"_id": 2}],
        {"$jsonSchema": {"required": ["a"]}},
        [1],
    ),
]

UPDATES: list[tuple[str, Document, Document, Any, Document]] = [
    (
        "fields are set in the order of their names",
        {"_id": 1},
        {},
        {"$set": {"b": 1, "a": 2}},
        {"_id": 1, "a": 2, "b": 1},
    ),
    ("bits are changed", {"_id": 1, "a": 5}, {}, {"$bit": {"a": {"and": 3}}}, {"_id": 1, "a": 1}),
    (
        "all elements are changed",
        {"_id": 1, "a": [1, 2]},
        {},
        {"$inc": {"a.$[]": 1}},
        {"_id": 1, "a": [2, 3]},
    ),
    (
        "the greatest of two types is kept",
        {"_id": 1, "a": "text"},
        {},
        {"$max": {"a": 5}},
        {"_id": 1, "a": "text"},
    ),
    (
        "a path is renamed",
        {"_id": 1, "a": {"b": 1}},
        {},
        {"$rename": {"a.b": "c"}},
        {"_id": 1, "a": {}, "c": 1},
    ),
    ("a pipeline unsets", {"_id": 1, "a": 1, "b": 2}, {}, [{"$unset": "a"}], {"_id": 1, "b": 2}),
    ("a pipeline replaces", {"_id": 1, "a": {"b": 1}}, {}, [{"$replaceWith": "$a"}], {"_id": 1, "b": 1}),
]

PIPELINES: list[tuple[str, list[Document], list[Document], list[Document]]] = [
    ("unset", [{"_id": 1, "a": 1}], [{"$unset": "a"}], [{"_id": 1}]),
    ("replaceWith", [{"_id": 1, "a": {"b": 1}}], [{"$replaceWith": "$a"}], [{"b": 1}]),
    (
        "redact",
        [{"_id": 1, "a": [{"b": 1, "hide": 1}, {"b": 2}], "c": {"hide": 1}}],
        [{"$redact": {"$cond": [{"$eq": ["$hide", 1]}, "$$PRUNE", "$$DESCEND"]}}],
        [{"_id": 1, "a": [{"b": 2}]}],
    ),
    (
        "sortByCount",
        [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}, {"_id": 3, "a": 2}],
        [{"$sortByCount": "$a"}],
        [{"_id": 2, "count": 2}, {"_id": 1, "count": 1}],
    ),
    (
        "an array sorts down by its greatest",
        [{"_id": 1, "a": [1, 9]}, {"_id": 2, "a": [5]}],
        [{"$sort": {"a": -1}}, {"$project": {"_id": 1}}],
        [{"_id": 1}, {"_id": 2}],
    ),
    (
        "a date is cut to its hour",
        [{"_id": 1, "a": dt.datetime.fromisoformat("2024-02-29T13:45")}],
        [{"$set": {"a": {"$dateTrunc": {"date": "$a", "unit": "hour"}}}}],
        [{"_id": 1, "a": dt.datetime.fromisoformat("2024-02-29T13:00")}],
    ),
    (
        "an empty array has no first",
        [{"_id": 1, "a": []}],
        [{"$set": {"b": {"$first": "$a"}}}],
        [{"_id": 1, "a": []}],
    ),
    ("counting nothing yields nothing", [{"_id": 1}], [{"$match": {"_id": 2}}, {"$count": "n"}], []),
]


def outcome(action: Callable[[], Any]) -> Any:
    """Return what an action answers, or the error that it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 -- mongomock raises all kinds
        return error


def library(documents: list[Document]) -> Any:
    """Return a collection of mongomock alone."""
    collection: Any = mongomock.MongoClient().db.c
    if documents:
        collection.insert_many(documents)
    return collection


def engine(documents: list[Document]) -> MemoryEngine:
    made = MemoryEngine()
    for document in documents:
        made.insert(NS, document)
    return made


@pytest.mark.parametrize(
    ("documents", "query", "expected"), [case[1:] for case in FINDS], ids=[case[0] for case in FINDS]
)
def test_filters(documents: list[Document], query: Document, expected: list[Any]) -> None:
    def alone() -> list[Any]:
        return [document["_id"] for document in library(documents).find(query)]

    found = [document["_id"] for document in engine(documents).find(NS, Query(query))]
    assert found == expected
    assert outcome(alone) != expected, "mongomock does it now: the detour can go"


@pytest.mark.parametrize(
    ("document", "query", "change", "expected"),
    [case[1:] for case in UPDATES],
    ids=[case[0] for case in UPDATES],
)
def test_updates(document: Document, query: Document, change: Any, expected: Document) -> None:
    def alone() -> list[tuple[str, Any]]:
        collection = library([document])
        collection.update_one(query, change)
        return list(collection.find_one({"_id": UPDATED}).items())

    made = engine([document])
    made.update(NS, Update(Query(query), change))
    (changed,) = made.find(NS, Query({"_id": UPDATED}))
    assert list(changed.items()) == list(expected.items())
    assert outcome(alone) != list(expected.items()), "mongomock does it now: the detour can go"


@pytest.mark.parametrize(
    ("documents", "pipeline", "expected"),
    [case[1:] for case in PIPELINES],
    ids=[case[0] for case in PIPELINES],
)
def test_pipelines(documents: list[Document], pipeline: list[Document], expected: list[Document]) -> None:
    assert engine(documents).aggregate(NS, pipeline, options=Query()) == expected
    alone = outcome(lambda: list(library(documents).aggregate(pipeline)))
    assert alone != expected, "mongomock does it now: the detour can go"


def test_array_filters_choose_elements() -> None:
    change, filters = {"$set": {"a.$[big].x": 0}}, [{"big.x": {"$gt": 1}}]
    documents = [{"_id": 1, "a": [{"x": 1}, {"x": 2}]}]
    made = engine(documents)
    made.update(NS, Update(Query(), change, array_filters=filters))
    assert made.find(NS, Query()) == [{"_id": 1, "a": [{"x": 1}, {"x": 0}]}]
    alone = outcome(lambda: library(documents).update_one({}, change, array_filters=filters))
    assert isinstance(alone, NotImplementedError)


def test_collations_fold_strings() -> None:
    documents = [{"_id": 1, "a": "PING"}]
    collation = {"locale": "en", "strength": 2}
    found = engine(documents).find(NS, Query({"a": "ping"}, collation=collation))
    assert found == documents
    alone = outcome(lambda: list(library(documents).find({"a": "ping"}, collation=collation)))
    assert alone != documents


def test_let_defines_variables() -> None:
    query = {"$expr": {"$eq": ["$_id", "$$id"]}}
    documents = [{"_id": 1}, {"_id": 2}]
    assert engine(documents).find(NS, Query(query, let={"id": 2})) == [{"_id": 2}]
    alone = outcome(lambda: library(documents).delete_one(query, let={"id": 2}))
    assert isinstance(alone, TypeError)


def test_projections_compute() -> None:
    documents = [{"_id": 1, "a": 2}]
    projection = {"b": {"$multiply": ["$a", 3]}}
    assert engine(documents).find(NS, Query(projection=projection)) == [{"_id": 1, "b": 6}]
    assert outcome(lambda: list(library(documents).find({}, projection))) != [{"_id": 1, "b": 6}]


def test_the_id_index_orders_results() -> None:
    documents = [{"_id": 2}, {"_id": 1}]
    query = {"_id": {"$gt": 0}}
    assert engine(documents).find(NS, Query(query)) == [{"_id": 1}, {"_id": 2}]
    assert list(library(documents).find(query)) == documents


def test_unique_indexes_name_the_key() -> None:
    made = engine([{"_id": 1, "a": {"b": 1}}])
    made.create_index(NS, IndexSpec("a.b_1", {"a.b": 1}, unique=True))
    error = outcome(lambda: made.insert(NS, {"_id": 2, "a": {"b": 1}}))
    assert str(error) == "E11000 duplicate key error collection: db.c index: a.b_1 dup key: { a.b: 1 }"
    collection = library([{"_id": 1, "a": {"b": 1}}])
    collection.create_index("a.b", unique=True)
    assert str(outcome(lambda: collection.insert_one({"_id": 2, "a": {"b": 1}}))) != str(error)


def test_texts_are_searched() -> None:
    documents: list[Document] = [{"_id": 1, "a": "a word"}]
    query = {"$text": {"$search": "words"}}
    assert outcome(lambda: list(library(documents).find(query))) != documents
    server = Server()
    server.run({"createIndexes": "c", "indexes": [{"key": {"a": "text"}, "name": "a_text"}]})
    server.fill("c", *documents)
    assert server.documents("c", query) == documents


def test_scripts_run_and_have_their_command_wait() -> None:
    documents: list[Document] = [{"_id": 1, "a": 1}]
    query = {"$where": "sleep(1) || true"}
    assert outcome(lambda: list(library(documents).find(query))) != documents
    server = Server()
    server.fill("c", *documents)
    with pytest.raises(Park) as caught:
        server.documents("c", query)
    assert caught.value.action.until == pytest.approx(0.001)
