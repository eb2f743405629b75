"""`$jsonSchema` accepts, explains and refuses as a server does."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code, Decimal128

from fakeserver.errors import CommandError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.filters.schema import compile_schema

Document = dict[str, Any]
NAN = float("nan")


@pytest.mark.parametrize(
    ("schema", "document", "expected"),
    [
        ({"dependencies": {"a": ["b"]}}, {"a": 1}, False),
        ({"dependencies": {"a": ["b"]}}, {"a": 1, "b": 1}, True),
        ({"dependencies": {"a": ["b"]}}, {"c": 1}, True),
        ({"dependencies": {"a": {"required": ["b"]}}}, {"a": 1}, False),
        ({"dependencies": {"a": {"properties": {"b": {"type": "number"}}}}}, {"a": 1, "b": 2}, True),
        ({"properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}}, {"a": 1}, False),
        ({"properties": {"a": {"minimum": 1, "exclusiveMinimum": False}}}, {"a": 1}, True),
        ({"properties": {"a": {"maximum": 1, "exclusiveMaximum": True}}}, {"a": 0.5}, True),
        ({"properties": {"a": {"maximum": 1}}}, {"a": "x"}, True),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": "x"}, False),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": 1, "x": "x"}, True),
        ({"patternProperties": {"^n": {}}, "additionalProperties": False}, {"n1": 1, "x": 1}, False),
        (
            {"properties": {"a": {"items": [{"type": "number"}, {"type": "string"}]}}},
            {"a": [1, "x", {}]},
            True,
        ),
        ({"properties": {"a": {"items": [{"type": "number"}]}}}, {"a": ["x"]}, False),
        ({"properties": {"a": {"items": [{}], "additionalItems": False}}}, {"a": [1]}, True),
        ({"properties": {"a": {"items": [{}], "additionalItems": False}}}, {"a": [1, 2]}, False),
        ({"properties": {"a": {"items": [{}], "additionalItems": {"type": "string"}}}}, {"a": [1, 2]}, False),
        ({"properties": {"a": {"items": {}, "additionalItems": False}}}, {"a": [1, 2]}, True),
        ({"properties": {"a": {"pattern": "^(?<n>x)"}}}, {"a": "x"}, True),
        ({"properties": {"a": {"multipleOf": 0.5}}}, {"a": 1.5}, True),
        ({"properties": {"a": {"multipleOf": NAN}}}, {"a": 1}, False),
        ({"properties": {"a": {"multipleOf": Decimal128("NaN")}}}, {"a": 1}, False),
        ({"properties": {"a": {"multipleOf": Decimal128("NaN")}}}, {"a": "x"}, True),
        ({"properties": {"a": {"multipleOf": float("inf")}}}, {"a": 1}, False),
        ({"properties": {"a": {"multipleOf": float("inf")}}}, {"a": 0.0}, True),
        ({"properties": {"a": {"minimum": Decimal128("NaN")}}}, {"a": 1}, False),
        ({"properties": {"a": {"minimum": Decimal128("NaN")}}}, {"a": NAN}, True),
        ({"properties": {"a": {"minimum": NAN}}}, {"a": Decimal128("1")}, False),
        ({"properties": {"a": {"minimum": NAN, "exclusiveMinimum": True}}}, {"a": NAN}, False),
        ({"properties": {"a": {"maximum": 1}}}, {"a": Decimal128("NaN")}, False),
    ],
    ids=str,
)
def test_a_schema_accepts(schema: Document, document: Document, *, expected: bool) -> None:
    assert compile_filter({"$jsonSchema": schema})(document) is expected


def test_a_missed_dependency_is_named() -> None:
    schema = {"dependencies": {"a": ["b", "c"], "d": {"required": ["e"]}, "f": ["g"]}}
    (violation,) = compile_schema(schema)({"a": 1, "b": 1, "d": 1})
    assert violation == {
        "operatorName": "dependencies",
        "failingDependencies": [
            {"conditionalProperty": "a", "missingProperties": ["c"]},
            {
                "conditionalProperty": "d",
                "details": [
                    {
                        "operatorName": "required",
                        "specifiedAs": {"required": ["e"]},
                        "missingProperties": ["e"],
                    }
                ],
            },
        ],
    }


def test_violations_come_in_the_order_of_the_server_not_of_the_schema() -> None:
    schema = {"required": ["a"], "minProperties": 9, "properties": {"b": {"type": "string"}}}
    names = [violation["operatorName"] for violation in compile_schema(schema)({"b": 1})]
    assert names == ["properties", "required", "minProperties"]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (1, 14),
        ({"nonsense": 1}, 9),
        ({"$ref": "x"}, 9),
        ({"default": 1}, 9),
        ({"type": "integer"}, 9),
        ({"type": "nonsense"}, 2),
        ({"type": 1}, 14),
        ({"bsonType": 16}, 14),
        ({"bsonType": ["int", 2.0]}, 14),
        ({"bsonType": "integer"}, 9),
        ({"bsonType": "nonsense"}, 2),
        ({"title": None}, 14),
        ({"description": ["x"]}, 14),
        ({"properties": {"a": {"title": 1}}}, 14),
        ({"type": "string", "bsonType": "string"}, 9),
        ({"required": "a"}, 14),
        ({"required": []}, 9),
        ({"required": ["a", "a"]}, 9),
        ({"required": [1]}, 14),
        ({"properties": 1}, 14),
        ({"properties": {"a": 1}}, 14),
        ({"dependencies": 1}, 14),
        ({"dependencies": {"a": 1}}, 14),
        ({"dependencies": {"a": []}}, 9),
        ({"dependencies": {"a": [1]}}, 14),
        ({"minimum": "x"}, 14),
        ({"exclusiveMinimum": True}, 9),
        ({"minimum": 1, "exclusiveMinimum": 1}, 14),
        ({"minLength": "x"}, 9),
        ({"minLength": -1}, 9),
        ({"minLength": 1.5}, 9),
        ({"multipleOf": "x"}, 14),
        ({"multipleOf": 0}, 9),
        ({"multipleOf": float("-inf")}, 9),
        ({"pattern": 1}, 14),
        ({"pattern": Code("x", {"a": 1})}, 14),
        ({"required": [Code("a")]}, 14),
        ({"pattern": "("}, 51091),
        ({"enum": 1}, 14),
        ({"enum": []}, 9),
        ({"items": 1}, 14),
        ({"items": [1]}, 14),
        ({"additionalItems": 1}, 14),
        ({"additionalProperties": 1}, 14),
        ({"patternProperties": {"(": {}}}, 2),
        ({"allOf": []}, 9),
        ({"anyOf": 1}, 14),
        ({"not": 1}, 14),
        ({"uniqueItems": 1}, 14),
    ],
)
def test_schemas_that_cannot_be(schema: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_schema(schema)
    assert caught.value.code == code
