"""Filters mean what they mean on a server: array elements, ends of the order, references, refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, Regex

from fakeserver.errors import CommandError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine

Document = dict[str, Any]
NS = Namespace("db", "c")


@pytest.mark.parametrize(
    ("condition", "array", "expected"),
    [
        ({"$gt": 3}, [4], True),
        ({"$gt": 3}, [[4]], False),
        ({"$eq": [4]}, [[4]], True),
        ({"$in": [4]}, [[4]], False),
        ({"$in": [[4]]}, [[4]], True),
        ({"$type": "int"}, [[4]], False),
        ({"$type": "array"}, [[4]], True),
        ({"$regex": "^x"}, [["x"]], False),
        ({"$size": 1}, [[4]], True),
        ({"$elemMatch": {"$gt": 3}}, [[4]], True),
        ({"$not": {"$gt": 3}}, [[4]], True),
        ({"$all": [4]}, [[4]], False),
        ({"$ne": 4}, [[4]], True),
        ({"$exists": True}, [None], True),
        ({"b": 1}, [[{"b": 1}]], False),
        ({"b": None}, [[{"b": 1}]], True),
        ({"0": 4}, [[4]], True),
        ({"0.b": 1}, [[{"b": 1}]], True),
        ({}, [4], False),
        ({}, [{}], True),
        ({"$id": 1}, [{"$ref": "c", "$id": 1}], True),
        ({"$id": 1, "x": 2}, [DBRef("c", 1, x=2)], True),
        ({"$ref": "c"}, [DBRef("c", 1)], True),
        ({"$ref": "c", "$id": 2}, [DBRef("c", 1)], False),
        (DBRef("c", 1), [DBRef("c", 1, x=2)], True),
        ({"$id": {"$gt": 0}}, [{"$ref": "c", "$id": 1}], False),
        ({"$comment": "why", "b": 1}, [{"b": 1}], True),
    ],
)
def test_elem_match_is_about_the_elements_themselves(
    condition: Any, array: list[Any], *, expected: bool
) -> None:
    assert compile_filter({"a": {"$elemMatch": condition}})({"a": array}) is expected


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ({"$bitsAllSet": 1}, 2.0**63, False),
        ({"$bitsAllClear": 1}, -(2.0**64), False),
        ({"$bitsAnySet": 1}, Decimal128("1E40"), False),
        ({"$bitsAllClear": 1}, -(2.0**63), True),
        ({"$bitsAllClear": 1}, Decimal128("1E3"), True),
        ({"$bitsAllSet": [63]}, Int64(-1), True),
        ({"$bitsAllSet": [1, 32]}, Binary(b"\1\0", 2), True),
        ({"$bitsAllClear": [0, 2, 31]}, Binary(b"\1\0", 2), True),
        ({"$bitsAllSet": [0]}, Binary(b"\1\0", 128), True),
        ({"$bitsAllSet": Binary(b"\1", 2)}, (1 << 32) + 1, True),
        ({"$mod": [2, 0]}, 2.0**63, False),
        ({"$mod": [2, 0]}, Decimal128("1E40"), False),
        ({"$mod": [2, 0]}, -(2.0**63), True),
    ],
)
def test_bits_and_remainders_are_those_of_64_bits(condition: Any, value: Any, *, expected: bool) -> None:
    assert compile_filter({"a": condition})({"a": value}) is expected


VALUES: list[Any] = [MinKey(), None, 1, "x", {"b": 1}, [], True, Code("f"), MaxKey()]


@pytest.mark.parametrize(
    ("operator", "limit", "without"),
    [
        ("$gt", MinKey(), [MinKey()]),
        ("$gte", MinKey(), []),
        ("$lt", MaxKey(), [MaxKey()]),
        ("$lte", MaxKey(), []),
    ],
)
def test_the_ends_of_the_order_bound_every_type_and_missing_fields(
    operator: str, limit: Any, without: list[Any]
) -> None:
    accepts = compile_filter({"a": {operator: limit}})
    assert [value for value in VALUES if not accepts({"a": value})] == without
    assert accepts({})


@pytest.mark.parametrize(
    ("operator", "limit"), [("$lt", MinKey()), ("$gt", MaxKey()), ("$lt", None), ("$gt", None)]
)
def test_nothing_lies_beyond_the_ends_of_the_order_or_beside_null(operator: str, limit: Any) -> None:
    accepts = compile_filter({"a": {operator: limit}})
    assert not any(accepts({"a": value}) for value in VALUES)
    assert not accepts({})


@pytest.mark.parametrize(("operator", "limit"), [("$lte", MinKey()), ("$gte", MaxKey())])
def test_an_end_of_the_order_equals_itself_alone(operator: str, limit: Any) -> None:
    accepts = compile_filter({"a": {operator: limit}})
    assert [value for value in VALUES if accepts({"a": value})] == [limit]


def test_null_and_missing_are_at_most_and_at_least_null() -> None:
    for operator in ("$gte", "$lte"):
        accepts = compile_filter({"a": {operator: None}})
        assert accepts({})
        assert accepts({"a": None})
        assert not accepts({"a": 1})


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"a": {"$id": 1}}, 2, "unknown operator: $id"),
        ({"a": {"$elemMatch": {"$expr": 1}}}, 2, "$expr can only be applied to the top-level document"),
        ({"a": {"$elemMatch": {"$where": "1"}}}, 2, "$elemMatch cannot contain $where expression"),
        (
            {"a": {"$elemMatch": {"$or": [{"$expr": 1}]}}},
            2,
            "$expr can only be applied to the top-level document",
        ),
        ({"a": {"$elemMatch": 1}}, 2, "$elemMatch needs an Object"),
        ({"a": {"$all": [{"$gt": 1}]}}, 2, "no $ expressions in $all"),
        ({"a": {"$all": [{"$elemMatch": {"b": 1}}, 1]}}, 2, "$all/$elemMatch has to be consistent"),
        ({"a": {"$in": [{"$gt": 1}]}}, 2, "cannot nest $ under $in"),
        (
            {"a": {"$options": "m", "$regex": Regex("x", "i")}},
            51074,
            "options set in both $regex and $options",
        ),
        (
            {"a": {"$regex": Regex("x", "i"), "$options": "m"}},
            51075,
            "options set in both $regex and $options",
        ),
        ({"a": {"$regex": "x", "$options": "q"}}, 51108, "invalid flag in regex options: q"),
        ({"a": {"$bitsAllSet": [-1]}}, 2, "bit positions must be >= 0 but got: 0: -1"),
        ({"a": {"$bitsAnySet": [0, "x"]}}, 2, 'bit positions must be an integer but got: 1: "x"'),
        (
            {"a": {"$bitsAnySet": [2**31]}},
            2,
            "bit positions cannot be represented as a 32-bit signed integer: 0: 2147483648",
        ),
        ({"a": {"$bitsAllClear": -1}}, 9, "Expected a non-negative number in: $bitsAllClear: -1"),
        ({"a": {"$bitsAllClear": 1.5}}, 9, "Expected an integer: $bitsAllClear: 1.5"),
        ({"a": {"$bitsAllClear": 2.0**63}}, 9, "Cannot represent as a 64-bit integer: $bitsAllClear: "),
        ({"a": {"$size": 2**31}}, 2, "Failed to parse $size. Cannot represent in int: $size: "),
        ({"a": {"$mod": [2.0**63, 1]}}, 2, "malformed mod, divisor value is invalid"),
        ({"a": {"$mod": [1, Decimal128("1E30")]}}, 2, "malformed mod, remainder value is invalid"),
        ({"a": {"$size": float("nan")}}, 2, "$size. Expected an integer, but found NaN in: $size: nan"),
        ({"a": {"$size": float("inf")}}, 2, "$size. Cannot represent as a 64-bit integer: $size: inf"),
        (
            {"a": {"$bitsAllClear": "x"}},
            2,
            '$bitsAllClear takes an Array, a number, or a BinData but received: $bitsAllClear: "x"',
        ),
        ({"a": {"$regex": "x\0"}}, 2, "Regular expression cannot contain an embedded null byte"),
    ],
)
def test_filters_that_cannot_be(query: Document, code: int, message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)) as caught:
        compile_filter(query)
    assert caught.value.code == code


PATTERNS = [
    (r"(?<year>\d{4})-\k<year>", "2020-2020", True),
    (r"(?<year>\d{4})-\k{year}", "2020-2021", False),
    (r"(?'q'a)\g{q}", "aa", True),
    (r"(a)(b)\g{-1}\g1", "abba", True),
    (r"^\d$", "٣", False),
    (r"^\w$", "é", False),
    (r"^[\w-]$", "é", False),
    (r"^[^\W]$", "é", False),
    (r"é\b", "éa", True),
    (r"^\h\R$", " \r\n", True),
    (r"a\z", "a\n", False),
    (r"a\Z", "a\n", True),
    (r"\Qa.b\E+", "a.bb", True),
    (r"\Qa.b\E", "axb", False),
    (r"^[[:alpha:][:digit:]]+$", "a1", True),
    (r"^[]a]+$", "a]", True),
    (r"^[a-z&&b]$", "&", True),
    (r"\x{e9}", "é", True),
    (r"^\p{L}\p{Lu}\PL$", "éÉ1", True),
    (r"^[\p{Nd}x]+$", "٣x", True),
    (r"a(?i)b|c", "aB", True),
    (r"a(?i)b|c", "C", True),
    (r"a(?i)b|c", "A", False),
    (r"(a(?i)b)c", "aBC", False),
    (r"(?x) a b # a comment (", "ab", True),
    (r"(?#a comment)a", "a", True),
    (r"(?>a+)b", "aab", True),
    (r"a++b", "aab", True),
    (r"(?P<n>a)(?P=n)", "aa", True),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), PATTERNS)
def test_regular_expressions_are_those_of_pcre(pattern: str, text: str, *, expected: bool) -> None:
    assert compile_filter({"a": {"$regex": pattern}})({"a": text}) is expected
    assert compile_filter({"a": Regex(pattern)})({"a": text}) is expected


def test_letters_of_every_alphabet_have_two_cases() -> None:
    assert compile_filter({"a": Regex("É", "i")})({"a": "é"})


def test_a_regular_expression_meets_itself_as_it_was_written() -> None:
    accepts = compile_filter({"a": Regex(r"^\d", "i")})
    assert accepts({"a": Regex(r"^\d", "i")})
    assert not accepts({"a": Regex(r"^\d")})


@pytest.mark.parametrize(
    "pattern", ["(", "(?R)", "(*FAIL)", "a(*UTF)b", "[[:nonsense:]]", "(?|a|b)", r"\p{Qq}"]
)
def test_a_pattern_that_does_not_compile_is_refused(pattern: str) -> None:
    with pytest.raises(CommandError) as caught:
        compile_filter({"a": {"$regex": pattern}})
    assert caught.value.code == 51091


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({"$gte": 2}, [1, None, {"b": 1}, [{"b": 1}]]),
        (2, [1, [2], None, {"b": 1}, [{"b": 1}]]),
        (None, [1, 2, [2], {"b": 1}, [{"b": 1}]]),
        ({"b": 1}, [1, 2, [2], None, [{"b": 1}]]),
        ({}, [1, 2, [2], None, [{"b": 1}]]),
        ({"$in": [2, None]}, [1, {"b": 1}, [{"b": 1}]]),
        ([2], [1, 2, None, {"b": 1}, [{"b": 1}]]),
        ({"$elemMatch": {"b": 1}}, [1, 2, [2], None, {"b": 1}]),
    ],
)
def test_pull_looks_into_arrays_by_operators_and_into_documents_by_fields(
    condition: Any, left: list[Any]
) -> None:
    engine = MemoryEngine()
    engine.insert(NS, {"_id": 1, "a": [1, 2, [2], None, {"b": 1}, [{"b": 1}]]})
    engine.update(NS, Update(Query(), {"$pull": {"a": condition}}))
    assert engine.find(NS, Query()) == [{"_id": 1, "a": left}]


@pytest.mark.parametrize(
    ("part", "found"), [("0", True), ("00", False), ("²", False), ("-1", False), ("1", False)]
)
def test_an_index_is_written_in_digits_without_a_zero_in_front(part: str, *, found: bool) -> None:
    assert compile_filter({f"a.{part}": 5})({"a": [5]}) is found
