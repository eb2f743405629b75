"""Unified Test Format: Evaluating Matches."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.base import EntityKind
from harness.unified.entities import EntityMap, SessionEntity
from harness.unified.errors import EntityError, ScenarioError
from harness.unified.matching.matcher import match, match_each, match_exactly, missing

LSID = {"id": Binary(b"0123456789abcdef", 4)}


@pytest.fixture
def entities() -> EntityMap:
    made = EntityMap()
    made.add_document("saved", {"x": 1})
    made.add_document("number", 5)
    made.add(EntityKind.SESSION, "session0", SessionEntity(None, LSID))
    return made


MATCHES: list[tuple[str, Any, Any]] = [
    ("equal scalars", 1, 1),
    ("an int32 and a double of the same value", 1, 1.0),
    ("an int32 and an int64 of the same value", 1, Int64(1)),
    ("a double and an int64 of the same value", 2.0, Int64(2)),
    ("two NaN", float("nan"), float("nan")),
    ("null and null", None, None),
    ("a document with keys in another order", {"x": 1, "y": 2}, {"y": 2, "x": 1}),
    ("a root document with more keys", {"x": 1}, {"x": 1, "y": 2}),
    ("nested documents that are equal", {"x": {"y": 1}}, {"x": {"y": 1}}),
    ("arrays of equal elements", [1, {"x": 1}], [1, {"x": 1}]),
    ("exists", {"x": {"$$exists": True}}, {"x": None}),
    ("does not exist", {"x": {"$$exists": False}}, {}),
    ("unset", {"x": {"$$unsetOrMatches": 1}}, {}),
    ("set and matching", {"x": {"$$unsetOrMatches": {"$$type": "int"}}}, {"x": 1}),
    ("an unset result", {"$$unsetOrMatches": {"x": 1}}, missing),
    ("a result that the driver does not give", {"$$unsetOrMatches": {"insertedId": 1}}, None),
    ("unsetOrMatches keeps a root document root", {"$$unsetOrMatches": {"x": 1}}, {"x": 1, "y": 2}),
    ("a saved document", {"$$matchesEntity": "saved"}, {"x": 1}),
    ("a saved document as root", {"$$matchesEntity": "saved"}, {"x": 1, "y": 2}),
    ("hexadecimal bytes", {"$$matchesHexBytes": "12AB"}, b"\x12\xab"),
    ("no bytes", {"$$matchesHexBytes": ""}, b""),
    ("a session's lsid", {"lsid": {"$$sessionLsid": "session0"}}, {"lsid": dict(LSID)}),
    ("at most, equal", {"$$lte": 5}, 5.0),
    ("at most, decimal", {"$$lte": 5}, Decimal128("4.9")),
    ("Extended JSON text", {"$$matchAsDocument": {"x": 1}}, '{"x": {"$numberInt": "1"}}'),
    ("Extended JSON text as root", {"$$matchAsDocument": {"$$matchAsRoot": {"x": 1}}}, '{"x": 1, "y": 2}'),
    ("a nested document as root", {"x": {"$$matchAsRoot": {"y": 1}}}, {"x": {"y": 1, "z": 2}}),
    ("code with an equal scope", Code("f", {"a": 1, "b": 2}), Code("f", {"b": 2, "a": 1})),
    ("dates with and without a zone", dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),  # noqa: DTZ001  # what BSON decodes to
    ("a dollar string is data", {"x": "$$id"}, {"x": "$$id"}),
    ("two operators' names in one document are data", {"$$a": 1, "$$b": 2}, {"$$a": 1, "$$b": 2}),
]

MISMATCHES: list[tuple[str, Any, Any, str]] = [
    ("another value", 1, 2, ""),
    ("a fraction", 1, 1.5, ""),
    ("true is no number", 1, True, ""),
    ("a number is not true", True, 1, ""),
    ("a decimal is of another type", 1, Decimal128("1"), ""),
    ("a string is no number", 1, "1", ""),
    ("a missing key", {"x": {"y": 1}}, {"x": {}}, "x.y"),
    ("an extra key in a nested document", {"x": {"y": 1}}, {"x": {"y": 1, "z": 2}}, "x.z"),
    ("an extra key in an array's document", [{"x": 1}], [{"x": 1, "y": 2}], "[0].y"),
    ("null is there", {"x": {"$$exists": False}}, {"x": None}, "x"),
    ("not there", {"x": {"$$exists": True}}, {}, "x"),
    ("fewer elements", {"a": [1, 2]}, {"a": [1]}, "a"),
    ("more elements", [1], [1, 2], ""),
    ("an element", {"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "a[0].b"),
    ("a document for an array", [1], {"0": 1}, ""),
    ("an array for a document", {"x": 1}, [1], ""),
    ("another type", {"x": {"$$type": "string"}}, {"x": 1}, "x"),
    ("type of a missing key", {"x": {"$$type": "int"}}, {}, "x"),
    ("set but null", {"x": {"$$unsetOrMatches": 1}}, {"x": None}, "x"),
    ("another lsid", {"$$sessionLsid": "session0"}, {"id": Binary(b"0" * 16, 4)}, "id"),
    ("other bytes", {"$$matchesHexBytes": "00"}, b"\x01", ""),
    ("text for bytes", {"$$matchesHexBytes": "61"}, "a", ""),
    ("too large", {"$$lte": 1}, 1.1, ""),
    ("no order", {"$$lte": 1}, Decimal128("NaN"), ""),
    ("no number at all", {"$$lte": 1}, "1", ""),
    ("an extra field in Extended JSON", {"$$matchAsDocument": {"x": 1}}, '{"x": 1, "y": 2}', "y"),
    ("Extended JSON that is no document", {"$$matchAsDocument": {"x": 1}}, "[1]", ""),
    ("text that is not JSON", {"$$matchAsDocument": {"x": 1}}, "{", ""),
    ("a document for Extended JSON text", {"$$matchAsDocument": {"x": 1}}, {"x": 1}, ""),
    ("code with another scope", Code("f", {"a": 1}), Code("f", {"a": 2}), ""),
    ("another binary subtype", Binary(b"a", 0), Binary(b"a", 4), ""),
]


@pytest.mark.parametrize(
    ("expected", "actual"), [row[1:] for row in MATCHES], ids=[row[0] for row in MATCHES]
)
def test_matches(expected: Any, actual: Any, entities: EntityMap) -> None:
    assert match(expected, actual, entities=entities) is None


@pytest.mark.parametrize(
    ("expected", "actual", "path"), [row[1:] for row in MISMATCHES], ids=[row[0] for row in MISMATCHES]
)
def test_mismatches_name_the_path(expected: Any, actual: Any, path: str, entities: EntityMap) -> None:
    found = match(expected, actual, entities=entities)
    assert found is not None
    assert found.path == path
    assert found.why


def test_only_the_documents_of_a_cursor_are_root_documents(entities: EntityMap) -> None:
    actual = [{"x": 1, "y": 2}]
    assert match_each([{"x": 1}], actual, entities=entities) is None
    assert match([{"x": 1}], actual, entities=entities) is not None


TYPES = {
    "double": 1.0,
    "string": "a",
    "object": {},
    "array": [],
    "binData": Binary(b"a", 4),
    "objectId": ObjectId(b"0" * 12),
    "bool": True,
    "date": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "null": None,
    "regex": Regex("a"),
    "javascript": Code("f"),
    "javascriptWithScope": Code("f", {}),
    "int": 1,
    "timestamp": Timestamp(1, 1),
    "long": Int64(1),
    "decimal": Decimal128("1"),
    "minKey": MinKey(),
    "maxKey": MaxKey(),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_value_has_the_type_of_its_alias_and_no_other(name: str, entities: EntityMap) -> None:
    matching = [other for other in TYPES if match({"$$type": other}, TYPES[name], entities=entities) is None]
    assert matching == [name]


@pytest.mark.parametrize("name", ["int", "long", "double", "decimal"])
def test_number_is_the_alias_of_four_types(name: str, entities: EntityMap) -> None:
    assert match({"$$type": "number"}, TYPES[name], entities=entities) is None
    assert match({"$$type": ["string", "number"]}, TYPES[name], entities=entities) is None
    assert match({"$$type": "number"}, "1", entities=entities) is not None


def test_a_date_beyond_the_year_9999_is_a_date(entities: EntityMap) -> None:
    assert match({"$$type": "date"}, DatetimeMS(2**62), entities=entities) is None
    assert match(DatetimeMS(2**62), DatetimeMS(2**62), entities=entities) is None


def test_an_integer_beyond_32_bits_is_a_long(entities: EntityMap) -> None:
    assert match({"$$type": "long"}, 2**31, entities=entities) is None
    assert match({"$$type": "int"}, -(2**31), entities=entities) is None


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ({"$$unknown": 1}, ScenarioError),
        ({"$$placeholder": 1}, ScenarioError),
        ({"$$type": "integer"}, ScenarioError),
        ({"$$matchesHexBytes": "1"}, ScenarioError),
        ({"$$matchesHexBytes": "zz"}, ScenarioError),
        ({"$$lte": "1"}, ScenarioError),
        ({"$$matchesEntity": "nobody"}, EntityError),
        ({"$$sessionLsid": "saved"}, EntityError),
    ],
)
def test_an_operator_that_is_misused_is_an_error_of_the_scenario(
    expected: Any, error: type[Exception], entities: EntityMap
) -> None:
    with pytest.raises(error):
        match(expected, 1, entities=entities)


@pytest.mark.parametrize(
    ("expected", "actual", "path"),
    [
        ([{"_id": 1}], [{"_id": 1, "x": 1}], "[0].x"),
        ([{"_id": 1, "x": 1}], [{"_id": 1}], "[0].x"),
        ([{"_id": 1}], [], ""),
        ([], [{"_id": 1}], ""),
        ([{"_id": {"$$exists": True}}], [{"_id": 1}], "[0]._id"),
    ],
)
def test_stored_data_must_be_exactly_the_same(expected: Any, actual: Any, path: str) -> None:
    found = match_exactly(expected, actual)
    assert found is not None
    assert found.path == path


def test_stored_data_may_have_their_keys_in_another_order() -> None:
    assert match_exactly([{"_id": 1, "x": {"a": 1, "b": 2}}], [{"x": {"b": 2, "a": 1}, "_id": 1}]) is None


names = st.sampled_from(["_id", "x", "y", "$set", "$", "", "a.b"])
integers = st.integers(-(2**63), 2**63 - 1)
scalars = st.none() | st.booleans() | integers | st.floats() | names | st.binary(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(names, values, max_size=4)


@dataclass
class NoEntities:
    def document(self, name: str) -> Any:
        raise AssertionError(name)

    def session(self, name: str) -> Any:
        raise AssertionError(name)


@pytest.mark.slow
@given(documents)
def test_any_document_matches_itself(document: dict[str, Any]) -> None:
    assert match(document, document, entities=NoEntities()) is None
    assert match(document, document, entities=NoEntities(), root=False) is None
    assert match_exactly(document, document) is None


@pytest.mark.slow
@given(documents, names, values)
def test_an_extra_key_is_allowed_in_a_root_document_only(
    document: dict[str, Any], key: str, value: Any
) -> None:
    expected = {name: member for name, member in document.items() if name != key}
    actual = {**expected, key: value}
    assert match(expected, actual, entities=NoEntities()) is None
    assert match(expected, actual, entities=NoEntities(), root=False) is not None
    assert match({"inside": expected}, {"inside": actual}, entities=NoEntities()) is not None


@pytest.mark.slow
@given(documents, st.data())
def test_a_missing_key_is_never_allowed(document: dict[str, Any], data: st.DataObject) -> None:
    full = {**document, "last": 1}
    absent = data.draw(st.sampled_from(sorted(full)))
    actual = {name: value for name, value in full.items() if name != absent}
    found = match(full, actual, entities=NoEntities())
    assert found is not None
    assert found.path == absent
