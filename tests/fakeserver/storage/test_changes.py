"""Updates change what a server changes, and are refused where a server refuses them."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine

Document = dict[str, Any]
NS = Namespace("db", "c")
DOLLAR = (
    "The dollar ($) prefixed field '$x' in '$x' is not allowed in the context of an update's replacement "
    "document. Consider using an aggregation pipeline with $replaceWith."
)


def changed(document: Document, change: Any, query: Document | None = None) -> Document:
    engine = MemoryEngine()
    engine.insert(NS, {"_id": 1, **document})
    engine.update(NS, Update(Query(query or {}), change))
    (found,) = engine.find(NS, Query())
    return found


def upserted(change: Any, query: Document | None = None) -> Document:
    engine = MemoryEngine()
    engine.update(NS, Update(Query(query or {"_id": 1}), change, upsert=True))
    (found,) = engine.find(NS, Query())
    return found


def refused(document: Document, change: Any, query: Document | None = None) -> CommandError:
    with pytest.raises(CommandError) as caught:
        changed(document, change, query)
    return caught.value


@pytest.mark.parametrize(
    ("document", "change", "code", "message"),
    [
        (
            {"a": [{"b": 1}]},
            {"$rename": {"a.0.b": "c"}},
            2,
            (
                "The source field cannot be an array element, 'a.0.b' in doc with _id: 1 has an array "
                "field called 'a'"
            ),
        ),
        (
            {"a": [1], "b": 2},
            {"$rename": {"b": "a.0"}},
            2,
            (
                "The destination field cannot be an array element, 'a.0' in doc with _id: 1 has an array "
                "field called 'a'"
            ),
        ),
        ({}, {"$rename": {"a": "a"}}, 2, 'The source and target field for $rename must differ: a: "a"'),
        (
            {},
            {"$rename": {"a": "a.b"}},
            2,
            'The source and target field for $rename must not be on the same path: a: "a.b"',
        ),
        (
            {"a": 1},
            {"$rename": {"a": "_id"}},
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        ({"a": 1}, {"$rename": {"a": "b\0"}}, 9867600, "Field paths cannot contain null bytes"),
        ({}, {"$rename": {"a.$[]": "b"}}, 2, "The source field for $rename may not be dynamic: a.$[]"),
        ({}, {"$rename": {"b": "a.$[]"}}, 2, "The destination field for $rename may not be dynamic: a.$[]"),
        ({}, {"$rename": {"a": 1}}, 2, "The 'to' field for $rename must be a string: a: 1"),
        (
            {"a": 1},
            {"$rename": {"a.b": "c"}},
            28,
            "Cannot use the part (b) of (a.b) to traverse the element ({a: 1})",
        ),
        (
            {},
            {"$rename": {"a": "b"}, "$set": {"b": 1}},
            40,
            "Updating the path 'b' would create a conflict at 'b'",
        ),
        (
            {"a": 1},
            {"$pop": {"a.b": 1}},
            28,
            "Cannot use the part (b) of (a.b) to traverse the element ({a: 1})",
        ),
        (
            {"a": [1]},
            {"$pull": {"a.b": 1}},
            28,
            "Cannot use the part (b) of (a.b) to traverse the element ({a: [ 1 ]})",
        ),
        (
            {"a": "x"},
            {"$pullAll": {"a.b.c": [1]}},
            28,
            'Cannot use the part (b) of (a.b.c) to traverse the element ({a: "x"})',
        ),
        ({"a": 1}, {"$pop": {"a": 1}}, 14, "Path 'a' contains an element of non-array type 'int'"),
        ({}, {"$set": {"$x": 1}}, 52, DOLLAR),
        ({}, {"$set": {"$x.y": 1}}, 52, DOLLAR),
        ({}, {"$inc": {"$x": 1}}, 52, DOLLAR),
        ({"a": 1}, {"$rename": {"a": "$x"}}, 52, DOLLAR),
        ({}, {"a": 1, "$x": 1}, 52, DOLLAR),
        ({}, {"$set": {"$id": 1}}, 55, "Found $id field without a $ref before it, which is invalid."),
        (
            {},
            {"$set": {"$[]": 1}},
            2,
            (
                "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in "
                "path '$[]'"
            ),
        ),
        (
            {},
            {"$set": {"$": 1}},
            2,
            "Cannot have positional (i.e. '$') element in the first position in path '$'",
        ),
        ({}, {"$set": {"a.$[x]": 1}}, 2, "No array filter found for identifier 'x' in path 'a.$[x]'"),
        ({}, {"$set": {"a.$.b.$": 1}}, 2, "Too many positional (i.e. '$') elements found in path 'a.$.b.$'"),
        ({}, {"$pop": {"a": "x"}}, 9, 'Expected a number in: a: "x"'),
        ({}, {"$pop": {"a": 2}}, 9, "$pop expects 1 or -1, found: 2"),
        (
            {},
            {"$push": {"a": {"$each": [], "$sort": "x"}}},
            2,
            (
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} "
                "to sort embedded fields"
            ),
        ),
        (
            {},
            {"$push": {"a": {"$each": [], "$sort": {}}}},
            2,
            "The $sort pattern is empty when it should be a set of fields.",
        ),
        (
            {},
            {"$push": {"a": {"$each": [], "$sort": 2}}},
            2,
            "The $sort element value must be either 1 or -1",
        ),
        (
            {},
            {"$push": {"a": {"$each": [], "$sort": {"b..c": 1}}}},
            2,
            "The $sort field is a dotted field but has an empty part: b..c",
        ),
        (
            {},
            {"$addToSet": {"a": {"$each": [], "x": 1}}},
            2,
            "Found unexpected fields after $each in $addToSet: { $each: [], x: 1 }",
        ),
        ({}, {"$currentDate": {"a": {"x": 1}}}, 2, "Unrecognized $currentDate option: x"),
        ({}, [{"$match": {}}], 72, "$match is not allowed to be used within an update"),
        ({}, [{"$out": "x"}], 72, "$out is not allowed to be used within an update"),
        ({}, [{"$bucketAuto": {}}], 72, "$bucketAuto is not allowed to be used within an update"),
        ({}, [{"$nonsense": {}}], 40324, "Unrecognized pipeline stage name: '$nonsense'"),
    ],
)
def test_changes_that_a_server_refuses(document: Document, change: Any, code: int, message: str) -> None:
    error = refused(document, change)
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    ("document", "change", "expected"),
    [
        ({"a": {"b": 1}}, {"$rename": {"a.b": "c.d"}}, {"a": {}, "c": {"d": 1}}),
        ({"a": 1, "b": 2, "c": 3}, {"$rename": {"a": "b"}}, {"b": 1, "c": 3}),
        ({"a": [1]}, {"$rename": {"a": "b"}}, {"b": [1]}),
        ({"a": {}}, {"$pop": {"a.b": 1, "x.y": 1}}, {"a": {}}),
        ({"a": [1]}, {"$pop": {"a.5.b": 1}}, {"a": [1]}),
        ({"a": 1}, {"$unset": {"a.b": 1}}, {"a": 1}),
        ({"a": {}}, {"$set": {"a.$x": 1}}, {"a": {"$x": 1}}),
        ({}, {"$addToSet": {"a": {"x": 1, "$each": []}}}, {"a": [{"x": 1, "$each": []}]}),
        ({"a": {}}, {"$set": {"a.01": 1}}, {"a": {"01": 1}}),
        ({"a": 1}, {"$set": {"a": {"$x": 1}}}, {"a": {"$x": 1}}),
        ({"$x": {"y": 1}}, {"$set": {"$x.y": 2}}, {"$x": {"y": 2}}),
        ({"$x": 1, "a": 1}, {"$unset": {"$x": 1}}, {"a": 1}),
        ({"$x": 1}, {"$set": {"a": 1}}, {"$x": 1, "a": 1}),
        ({"a": 1}, [{"$replaceWith": {"$setField": {"field": {"$literal": "$x"}, "input": "$$ROOT",
                                              "value": 1}}}],
         {"a": 1, "$x": 1}),
    ],
)  # fmt: skip
def test_changes_that_a_server_makes(document: Document, change: Any, expected: Document) -> None:
    assert list(changed(document, change).items()) == list({"_id": 1, **expected}.items())


@pytest.mark.parametrize(
    ("value", "change", "expected"),
    [
        (-0.0, {"$inc": {"a": 0.0}}, -0.0),
        (-0.0, {"$mul": {"a": -0.0}}, -0.0),
        (0, {"$inc": {"a": -0.0}}, 0.0),
        (Decimal128("-0"), {"$inc": {"a": Decimal128("0")}}, Decimal128("-0")),
        (Decimal128("-0"), {"$mul": {"a": -1}}, Decimal128("-0")),
        (Decimal128("1.0"), {"$mul": {"a": Decimal128("1.00")}}, Decimal128("1.0")),
        (Decimal128("1.0"), {"$mul": {"a": Decimal128("2.00")}}, Decimal128("2.000")),
    ],
)
def test_what_is_calculated_to_an_equal_number_of_its_type_stays_as_it_is(
    value: Any, change: Any, expected: Any
) -> None:
    assert str(changed({"a": value}, change)["a"]) == str(expected)


@pytest.mark.parametrize(
    ("query", "change", "expected"),
    [
        ({"a": {"$gt": 1}}, {"$set": {"a.$": 0}}, {"a": [1, 0, 9], "b": [4, 5]}),
        ({"a": 3}, {"$set": {"b.$": 0}}, {"a": [1, 3, 9], "b": [4, 0]}),
        ({"$or": [{"a": 3}, {"a": 7}]}, {"$set": {"a.$": 0}}, {"a": [1, 0, 9], "b": [4, 5]}),
    ],
)
def test_the_positional_operator_is_the_element_that_decided(
    query: Document, change: Any, expected: Document
) -> None:
    assert changed({"a": [1, 3, 9], "b": [4, 5]}, change, query) == {"_id": 1, **expected}


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"a": {"$ne": 2}},
        {"a": {"$nin": [2]}},
        {"a": {"$not": {"$gt": 9}}},
        {"$nor": [{"a": 2}]},
        {"a.0": 1},
        {"$or": [{"a": 1}, {"_id": 1}]},
    ],
)
def test_the_positional_operator_needs_an_element_that_decides(query: Document) -> None:
    error = refused({"a": [1]}, {"$set": {"a.$": 0}}, query)
    assert (error.code, error.message) == (
        2,
        "The positional operator did not find the match needed from the query.",
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"$set": {"$x": 1}}, {"_id": 1, "$x": 1}),
        ({"$setOnInsert": {"$x.y": 1}}, {"_id": 1, "$x": {"y": 1}}),
        ({"a": 1, "$x": 1}, {"_id": 1, "a": 1, "$x": 1}),
    ],
)
def test_an_upsert_may_insert_names_that_begin_with_a_dollar_sign(change: Any, expected: Document) -> None:
    assert upserted(change) == expected


@pytest.mark.parametrize("query", [{"$expr": True}, {"$and": [{"_id": 1}, {"$or": [{"$expr": True}]}]}])
def test_an_upserts_filter_has_no_expression(query: Document) -> None:
    with pytest.raises(CommandError, match="is not allowed in the query predicate for an upsert") as caught:
        upserted({"$set": {"a": 1}}, query)
    assert caught.value.code == 224
