"""Filters, updates, projections, expressions and pipelines mean what they mean on a server."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.sorting import sort_documents
from fakeserver.storage.values.types import copy_value, equal, identity, order

Document = dict[str, Any]
NS = Namespace("db", "c")
NOON = dt.datetime(2020, 1, 2, 12, 30, 15, 500_000)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC

MATCHES: list[tuple[Document, Document, bool]] = [
    ({"a": 1}, {"a": [1, 2]}, True),
    ({"a": [1, 2]}, {"a": [1, 2]}, True),
    ({"a": [1, 2]}, {"a": [[1, 2]]}, True),
    ({"a.b": 1}, {"a": {"b": 1}}, True),
    ({"a.b": 1}, {"a": [{"b": 2}, {"b": 1}]}, True),
    ({"a.0": 1}, {"a": [1, 2]}, True),
    ({"a.1.b": 1}, {"a": [{"b": 2}, {"b": 1}]}, True),
    ({"a.b": None}, {"a": [{"b": 1}, {}]}, True),
    ({"a.b": None}, {"a": []}, False),
    ({"a.b": None}, {"a": [1]}, False),
    ({"a.b": None}, {}, True),
    ({"a": None}, {"a": None}, True),
    ({"a.b": {"$exists": False}}, {"a": [{"b": 1}, {}]}, False),
    ({"a.b": {"$exists": False}}, {"a": []}, True),
    ({"a": {"$ne": 1}}, {"a": [1, 2]}, False),
    ({"a": {"$nin": [3, 4]}}, {"a": [1, 2]}, True),
    ({"a": {"$gt": 1, "$lt": 2}}, {"a": [0, 3]}, True),
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 2}}}, {"a": [0, 3]}, False),
    ({"a": {"$elemMatch": {"b": 1, "c": 2}}}, {"a": [{"b": 1, "c": 2}]}, True),
    ({"a": {"$elemMatch": {"b": 1, "c": 2}}}, {"a": [{"b": 1}, {"c": 2}]}, False),
    ({"a": {"$all": [1, 2]}}, {"a": [2, 1, 3]}, True),
    ({"a": {"$all": [{"$elemMatch": {"b": 1}}]}}, {"a": [{"b": 1}]}, True),
    ({"a": {"$size": 2}}, {"a": [1, [2]]}, True),
    ({"a": {"$not": {"$gt": 1}}}, {"a": 1}, True),
    ({"a": {"$not": {"$gt": 1}}}, {}, True),
    ({"a": {"$not": Regex("^x")}}, {"a": "xy"}, False),
    ({"a": Regex("^X", "i")}, {"a": ["b", "xy"]}, True),
    ({"a": {"$regex": "^X", "$options": "i"}}, {"a": "xy"}, True),
    ({"a": {"$regex": "istanbul", "$options": "i"}}, {"a": "\u0130stanbul"}, False),
    ({"a": {"$regex": "istanbul", "$options": "i"}}, {"a": "Istanbul \u0131"}, True),
    ({"a": {"$regex": "\u0130stanbul", "$options": "i"}}, {"a": "\u0130STANBUL"}, True),
    ({"a": {"$in": [Regex("^x"), 1]}}, {"a": "xy"}, True),
    ({"a": {"$in": [None]}}, {}, True),
    ({"a": {"$gt": "b"}}, {"a": 5}, False),
    ({"a": {"$gte": None}}, {}, True),
    ({"a": {"$gt": MinKey()}}, {"a": 1}, True),
    ({"a": float("nan")}, {"a": float("nan")}, True),
    ({"a": {"$lt": 5}}, {"a": float("nan")}, False),
    ({"a": Int64(1)}, {"a": 1.0}, True),
    ({"a": {"$type": "number"}}, {"a": Decimal128("1")}, True),
    ({"a": {"$type": ["string", 16]}}, {"a": [1]}, True),
    ({"a": {"$type": "array"}}, {"a": []}, True),
    ({"a": {"$bitsAnyClear": [0, 1]}}, {"a": 3}, False),
    ({"$nor": [{"a": 1}, {"b": 1}]}, {"a": 2}, True),
    ({"$expr": {"$gt": ["$a", "$b"]}}, {"a": 2, "b": 1}, True),
    ({"$comment": "hello"}, {"a": 2}, True),
    ({"$alwaysFalse": 1}, {"a": 2}, False),
    ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, False),
    ({"a": {"$jsonSchema": 1}}, {"a": 1}, False),
]


@pytest.mark.parametrize(("query", "document", "expected"), MATCHES[:-1])
def test_filters(query: Document, document: Document, expected: bool) -> None:  # noqa: FBT001 -- a case of the table
    assert compile_filter(query)(document) is expected


def test_a_top_level_operator_is_unknown_below() -> None:
    with pytest.raises(CommandError, match="unknown operator: \\$jsonSchema"):
        compile_filter(MATCHES[-1][0])


CHANGES: list[tuple[Document, Document, Any, Document]] = [
    ({"a": [1]}, {}, {"$push": {"a": {"$each": [3, 2], "$sort": 1}}}, {"a": [1, 2, 3]}),
    ({"a": [1, 2]}, {}, {"$push": {"a": {"$each": [0], "$position": 0, "$slice": 2}}}, {"a": [0, 1]}),
    ({"a": [1]}, {}, {"$push": {"a": {"$each": [2, 3], "$slice": -2}}}, {"a": [2, 3]}),
    (
        {"a": [{"b": 2}]},
        {},
        {"$push": {"a": {"$each": [{"b": 1}], "$sort": {"b": 1}}}},
        {"a": [{"b": 1}, {"b": 2}]},
    ),
    ({"a": [1]}, {}, {"$addToSet": {"a": {"$each": [1.0, 2, 2]}}}, {"a": [1, 2]}),
    ({"a": [1, 2, 3]}, {}, {"$pop": {"a": -1}}, {"a": [2, 3]}),
    ({"a": [1, 2, 3]}, {}, {"$pull": {"a": {"$gte": 2}}}, {"a": [1]}),
    ({"a": [{"b": 1, "c": 1}, {"b": 2}]}, {}, {"$pull": {"a": {"b": 1}}}, {"a": [{"b": 2}]}),
    ({"a": [1, 2, 1]}, {}, {"$pullAll": {"a": [1]}}, {"a": [2]}),
    ({"a": [1, 2]}, {"a": 2}, {"$set": {"a.$": 9}}, {"a": [1, 9]}),
    ({"a": [{"b": 1}, {"b": 2}]}, {"a.b": 2}, {"$inc": {"a.$.b": 1}}, {"a": [{"b": 1}, {"b": 3}]}),
    (
        {"a": [{"b": 1}, {"b": 2}]},
        {"a": {"$elemMatch": {"b": 2}}},
        {"$set": {"a.$.c": 1}},
        {"a": [{"b": 1}, {"b": 2, "c": 1}]},
    ),
    ({"a": [1]}, {}, {"$set": {"a.3": 4}}, {"a": [1, None, None, 4]}),
    ({"a": [1, 2]}, {}, {"$unset": {"a.0": 1}}, {"a": [None, 2]}),
    ({"a": {"b": 1}}, {}, {"$unset": {"a.b": 1, "x.y": 1}}, {"a": {}}),
    ({"a": 5}, {}, {"$min": {"a": 3}, "$max": {"b": 3}}, {"a": 3, "b": 3}),
    ({"a": 2}, {}, {"$mul": {"a": 2.5, "b": 3}}, {"a": 5.0, "b": 0}),
    ({"a": 2**31 - 1}, {}, {"$inc": {"a": 1}}, {"a": Int64(2**31)}),
    ({"a": Decimal128("0.1")}, {}, {"$inc": {"a": 1}}, {"a": Decimal128("1.1")}),
    ({"a": 1}, {}, {"$rename": {"a": "b"}}, {"b": 1}),
    ({"a": 1}, {}, {"$currentDate": {"b": True}}, {"a": 1, "b": NOON}),
    ({"a": 1}, {}, [{"$set": {"b": {"$add": ["$a", 1]}}}, {"$unset": ["a"]}], {"b": 2}),
    ({"a": 1, "b": 2}, {}, [{"$project": {"a": 1}}], {"a": 1}),
]


@pytest.mark.parametrize(("document", "query", "change", "expected"), CHANGES)
def test_updates(document: Document, query: Document, change: Any, expected: Document) -> None:
    engine = MemoryEngine()
    engine.insert(NS, {"_id": 1, **document})
    engine.update(NS, Update(Query(query, now=NOON), change))
    (changed,) = engine.find(NS, Query())
    assert list(changed.items()) == list({"_id": 1, **expected}.items())
    assert [type(value) for value in changed.values()] == [int, *map(type, expected.values())]


PROJECTIONS: list[tuple[Document, Document, Document]] = [
    ({"a": 1}, {"_id": 1, "a": 1, "b": 2}, {"_id": 1, "a": 1}),
    ({"b": 1, "a": 1}, {"_id": 1, "a": 1, "b": 2}, {"_id": 1, "a": 1, "b": 2}),
    ({"a": 0}, {"_id": 1, "a": 1, "b": 2}, {"_id": 1, "b": 2}),
    ({"_id": 0}, {"_id": 1, "a": 1}, {"a": 1}),
    ({"_id": 1}, {"_id": 1, "a": 1}, {"_id": 1}),
    ({"_id": 0, "a": 1}, {"_id": 1, "a": 1, "b": 2}, {"a": 1}),
    ({"a.b": 1}, {"_id": 1, "a": [{"b": 1, "c": 2}, 3]}, {"_id": 1, "a": [{"b": 1}]}),
    ({"a.b": 0}, {"_id": 1, "a": [{"b": 1, "c": 2}, 3]}, {"_id": 1, "a": [{"c": 2}, 3]}),
    ({"a": {"b": 1}}, {"_id": 1, "a": {"b": 1, "c": 2}}, {"_id": 1, "a": {"b": 1}}),
    ({"a": {"$slice": 1}}, {"_id": 1, "a": [1, 2], "b": 3}, {"_id": 1, "a": [1], "b": 3}),
    ({"a": {"$slice": [-2, 1]}}, {"_id": 1, "a": [1, 2, 3]}, {"_id": 1, "a": [2]}),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {"_id": 1, "a": [1, 2, 3], "b": 1}, {"_id": 1, "a": [2]}),
    ({"a.$": 1}, {"_id": 1, "a": [1, 5, 6]}, {"_id": 1, "a": [5]}),
    ({"c": {"$add": ["$_id", 1]}}, {"_id": 1}, {"_id": 1, "c": 2}),
    ({"c": "literal"}, {"_id": 1}, {"_id": 1, "c": "literal"}),
]


@pytest.mark.parametrize(("projection", "document", "expected"), PROJECTIONS)
def test_projections(projection: Document, document: Document, expected: Document) -> None:
    engine = MemoryEngine()
    engine.insert(NS, document)
    query = {"a": {"$gte": 5}} if "a.$" in projection else {}
    (seen,) = engine.find(NS, Query(query, projection=projection))
    assert list(seen.items()) == list(expected.items())


EXPRESSIONS: list[tuple[Any, Any]] = [
    ({"$bitAnd": [6, 3]}, 2),
    ({"$bitOr": [6, 3]}, 7),
    ({"$bitXor": [6, 3]}, 5),
    ({"$bitNot": 5}, -6),
    ({"$bitAnd": [6, None]}, None),
    ({"$firstN": {"n": 2, "input": [3, 1, 2]}}, [3, 1]),
    ({"$lastN": {"n": 2, "input": [3, 1, 2]}}, [1, 2]),
    ({"$minN": {"n": 2, "input": [3, None, 1, 2]}}, [1, 2]),
    ({"$maxN": {"n": 2, "input": [3, None, 1, 2]}}, [3, 2]),
    ({"$tsSecond": Timestamp(5, 6)}, Int64(5)),
    ({"$tsIncrement": Timestamp(5, 6)}, Int64(6)),
    ({"$bsonSize": {}}, 5),
    ({"$binarySize": "né"}, 3),
    ({"$add": ["$i", 1, 0.5]}, 4.5),
    ({"$subtract": ["$d", 500]}, NOON.replace(microsecond=0)),
    ({"$subtract": ["$d", NOON.replace(second=14)]}, Int64(1000)),
    ({"$multiply": ["$i", Int64(2)]}, Int64(6)),
    ({"$divide": ["$i", 2]}, 1.5),
    ({"$mod": [-7, 3]}, -1),
    ({"$round": [2.5]}, 2.0),
    ({"$trunc": [-2.7]}, -2.0),
    ({"$abs": -4}, 4),
    ({"$abs": -(2.0**63)}, 2.0**63),
    ({"$pow": ["$i", 2]}, 9),
    ({"$sqrt": 16}, 4.0),
    ({"$cmp": ["$i", "$s"]}, -1),
    ({"$eq": ["$missing", None]}, False),
    ({"$and": ["$i", {"$gt": ["$i", 2]}]}, True),
    ({"$cond": [{"$lt": ["$i", 1]}, "low", "high"]}, "high"),
    ({"$ifNull": ["$missing", None, "default"]}, "default"),
    ({"$switch": {"branches": [{"case": {"$eq": ["$i", 3]}, "then": "three"}], "default": "?"}}, "three"),
    ({"$let": {"vars": {"x": {"$add": ["$i", 1]}}, "in": {"$multiply": ["$$x", 2]}}}, 8),
    ({"$map": {"input": "$a", "as": "n", "in": {"$multiply": ["$$n", 2]}}}, [2, 4, 6]),
    ({"$filter": {"input": "$a", "cond": {"$gt": ["$$this", 1]}, "limit": 1}}, [2]),
    ({"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 6),
    ({"$size": "$a"}, 3),
    ({"$arrayElemAt": ["$a", -1]}, 3),
    ({"$slice": ["$a", 1, 5]}, [2, 3]),
    ({"$concatArrays": ["$a", [4]]}, [1, 2, 3, 4]),
    ({"$in": [2.0, "$a"]}, True),
    ({"$indexOfArray": ["$a", 3]}, 2),
    ({"$sortArray": {"input": [3, 1, 2], "sortBy": -1}}, [3, 2, 1]),
    ({"$setUnion": ["$a", [3, 4]]}, [1, 2, 3, 4]),
    ({"$setDifference": ["$a", [1]]}, [2, 3]),
    ({"$objectToArray": {"x": 1}}, [{"k": "x", "v": 1}]),
    ({"$arrayToObject": [[["x", 1]]]}, {"x": 1}),
    ({"$mergeObjects": [{"x": 1}, None, {"y": 2}]}, {"x": 1, "y": 2}),
    ({"$getField": "s"}, "text"),
    ({"$setField": {"field": "y", "input": {"x": 1}, "value": 2}}, {"x": 1, "y": 2}),
    ({"$concat": ["$s", "!"]}, "text!"),
    ({"$toUpper": "$s"}, "TEXT"),
    ({"$substrCP": ["$s", 1, 2]}, "ex"),
    ({"$split": ["a,b", ","]}, ["a", "b"]),
    ({"$trim": {"input": "  x "}}, "x"),
    ({"$replaceAll": {"input": "aab", "find": "a", "replacement": "c"}}, "ccb"),
    ({"$regexMatch": {"input": "$s", "regex": "^TE", "options": "i"}}, True),
    (
        {"$regexFind": {"input": "\u0131 \u0130x iX", "regex": "(.)(I)(x)(y)?", "options": "i"}},
        {"match": " iX", "idx": 4, "captures": [" ", "i", "X", None]},
    ),
    ({"$strLenCP": "é"}, 1),
    ({"$strLenBytes": "é"}, 2),
    ({"$type": "$missing"}, "missing"),
    ({"$toString": 1.5}, "1.5"),
    ({"$toInt": "12"}, 12),
    ({"$toLong": 5}, Int64(5)),
    ({"$toDecimal": "1.10"}, Decimal128("1.10")),
    ({"$toBool": "x"}, True),
    ({"$toDate": Int64(0)}, dt.datetime(1970, 1, 1)),  # noqa: DTZ001 -- as BSON decodes it
    ({"$convert": {"input": "x", "to": "int", "onError": -1}}, -1),
    ({"$sum": ["$a", 1]}, 1),
    ({"$sum": "$a"}, 6),
    ({"$avg": "$a"}, 2.0),
    ({"$max": ["$i", "$s", None]}, "text"),
    ({"$year": "$d"}, 2020),
    ({"$dayOfWeek": "$d"}, 5),
    ({"$dateToString": {"format": "%Y-%m-%d", "date": "$d"}}, "2020-01-02"),
    ({"$literal": "$i"}, "$i"),
    ({"x": "$i", "y": "$missing"}, {"x": 3}),
    (["$i", "$missing"], [3, None]),
    ("$docs.x", [1, 2]),
    ("$$ROOT.i", 3),
]
ROOT: Document = {"_id": 1, "i": 3, "s": "text", "a": [1, 2, 3], "d": NOON, "docs": [{"x": 1}, {}, {"x": 2}]}


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS)
def test_expressions(expression: Any, expected: Any) -> None:
    (result,) = MemoryEngine().aggregate(
        NS, [{"$replaceWith": {"r": expression}}], options=Query(now=NOON), documents=[ROOT]
    )
    assert result["r"] == expected
    assert type(result["r"]) is type(expected)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$nonsense": 1}, 168),
        ({"$eq": [1]}, 16020),
        ({"$add": 1, "$subtract": 2}, 15983),
        ("$$nonsense", 17276),
        ({"$divide": [1, 0]}, 2),
        ({"$toInt": "x"}, 241),
        ({"$size": "$i"}, 17124),
        ({"$concat": [1]}, 16702),
    ],
)
def test_expressions_that_cannot_be(expression: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        MemoryEngine().aggregate(
            NS, [{"$replaceWith": {"r": expression}}], options=Query(), documents=[dict(ROOT)]
        )
    assert caught.value.code == code


SALES: list[Document] = [
    {"_id": 1, "item": "a", "n": 1, "tags": ["x", "y"]},
    {"_id": 2, "item": "b", "n": 5, "tags": []},
    {"_id": 3, "item": "a", "n": 3},
]
PIPELINES: list[tuple[list[Document], list[Any]]] = [
    ([{"$unwind": "$tags"}, {"$project": {"tags": 1}}], [{"_id": 1, "tags": "x"}, {"_id": 1, "tags": "y"}]),
    (
        [
            {"$unwind": {"path": "$tags", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}},
            {"$project": {"i": 1}},
        ],
        [{"_id": 1, "i": 0}, {"_id": 1, "i": 1}, {"_id": 2, "i": None}, {"_id": 3, "i": None}],
    ),
    (
        [{"$group": {"_id": "$item", "all": {"$push": "$n"}, "top": {"$max": "$n"}, "c": {"$count": {}}}}],
        [{"_id": "a", "all": [1, 3], "top": 3, "c": 2}, {"_id": "b", "all": [5], "top": 5, "c": 1}],
    ),
    (
        [
            {
                "$group": {
                    "_id": None,
                    "top": {"$top": {"sortBy": {"n": -1}, "output": "$item"}},
                    "last": {"$bottom": {"sortBy": {"n": -1}, "output": "$n"}},
                    "two": {"$topN": {"n": 2, "sortBy": {"n": 1}, "output": "$n"}},
                    "rest": {"$bottomN": {"n": 2, "sortBy": {"n": 1}, "output": "$n"}},
                }
            }
        ],
        [{"_id": None, "top": "b", "last": 1, "two": [1, 3], "rest": [3, 5]}],
    ),
    ([{"$sort": {"item": -1, "n": -1}}, {"$project": {"_id": 1}}], [{"_id": 2}, {"_id": 3}, {"_id": 1}]),
    ([{"$skip": 1}, {"$limit": 1}, {"$count": "n"}], [{"n": 1}]),
    (
        [{"$facet": {"few": [{"$limit": 1}, {"$project": {"n": 1}}], "none": [{"$match": {"n": 9}}]}}],
        [{"few": [{"_id": 1, "n": 1}], "none": []}],
    ),
    (
        [{"$bucket": {"groupBy": "$n", "boundaries": [0, 2, 4], "default": "more"}}],
        [{"_id": 0, "count": 1}, {"_id": 2, "count": 1}, {"_id": "more", "count": 1}],
    ),
    (
        [
            {"$limit": 1},
            {"$lookup": {"from": "c", "localField": "item", "foreignField": "item", "as": "o.same"}},
            {"$project": {"n": {"$size": "$o.same"}}},
        ],
        [{"_id": 1, "n": 2}],
    ),
    (
        [
            {"$match": {"_id": 3}},
            {
                "$graphLookup": {
                    "from": "c",
                    "startWith": "$item",
                    "connectFromField": "n",
                    "connectToField": "item",
                    "as": "found",
                    "depthField": "its.depth",
                }
            },
            {"$project": {"found._id": 1, "found.its": 1}},
        ],
        [{"_id": 3, "found": [{"_id": 1, "its": {"depth": 0}}, {"_id": 3, "its": {"depth": 0}}]}],
    ),
    ([{"$unionWith": {"coll": "c", "pipeline": [{"$limit": 1}]}}, {"$count": "n"}], [{"n": 4}]),
    ([{"$match": {"_id": 2}}, {"$replaceRoot": {"newRoot": {"x": "$n"}}}], [{"x": 5}]),
    (
        [{"$match": {"_id": 2}}, {"$set": {"a.b": "$n"}}, {"$unset": ["item", "tags"]}],
        [{"_id": 2, "n": 5, "a": {"b": 5}}],
    ),
]


@pytest.mark.parametrize(("pipeline", "expected"), PIPELINES)
def test_pipelines(pipeline: list[Document], expected: list[Any]) -> None:
    engine = MemoryEngine()
    for document in SALES:
        engine.insert(NS, document)
    options = Query(read=lambda name: engine.find(Namespace("db", name), Query()))
    assert engine.aggregate(NS, pipeline, options=options) == expected


def test_a_graph_is_followed_to_its_end_or_to_a_depth() -> None:
    engine = MemoryEngine()
    for name, boss in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        engine.insert(NS, {"_id": {"name": name}, "name": name, "boss": boss})
    options = Query({"name": "d"}, read=lambda name: engine.find(Namespace("db", name), Query()))
    lookup = {
        "from": "c",
        "startWith": "$boss",
        "connectFromField": "boss",
        "connectToField": "name",
        "as": "up",
    }

    def bosses(**more: Any) -> list[str]:
        (found,) = engine.aggregate(NS, [{"$graphLookup": {**lookup, **more}}], options=options)
        return [each["name"] for each in found["up"]]

    assert bosses() == ["a", "b", "c"]
    assert bosses(maxDepth=1) == ["a", "b"]
    assert bosses(restrictSearchWithMatch={"name": {"$ne": "b"}}) == ["a"]


def test_types_are_ordered_as_bson_orders_them() -> None:
    values = [None, 1, "a", {"a": 1}, [1], b"a", ObjectId(b"x" * 12), False, True, NOON, Regex("a")]
    documents = [{"v": value} for value in values]
    without_array = [document for document in documents if document["v"] != [1]]
    assert sort_documents(without_array[::-1], {"v": 1}) == without_array
    assert [order(value) for value in values] == sorted(order(value) for value in values)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1"),
        (1.0, "1.0"),
        ("a", '"a"'),
        (None, "null"),
        (True, "true"),
        ([1, "a"], '[ 1, "a" ]'),
        ({"a": {"b": 1}}, "{ a: { b: 1 } }"),
        ({}, "{}"),
        (ObjectId("5f" * 12), "ObjectId('5f5f5f5f5f5f5f5f5f5f5f5f')"),
        (NOON, "new Date(1577968215500)"),
    ],
)
def test_values_are_printed_as_a_server_prints_them(value: Any, shown: str) -> None:
    assert show(value) == shown


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-5, 5), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.slow
@given(VALUES, VALUES)
def test_equality_order_and_identity_agree(left: Any, right: Any) -> None:
    assert equal(left, right) == (order(left) == order(right)) == (identity(left) == identity(right))
    assert (order(left) < order(right)) + (order(left) > order(right)) + equal(left, right) == 1


@given(VALUES)
def test_a_copy_is_equal_and_shares_nothing_that_changes(value: Any) -> None:
    copied = copy_value(value)
    assert copied == value
    if isinstance(value, list | dict):
        assert copied is not value
