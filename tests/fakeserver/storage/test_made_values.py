"""Operators that make a value: percentiles, UUIDs, ObjectIds, hashes, chance."""

from __future__ import annotations

import math
import uuid
from itertools import cycle
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pipelines import piped, refusal

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.quantiles import percentiles
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Scope
from mongowire.system import SeededRng

APPROXIMATELY = {"method": "approximate"}
UUID_TEXT = "0e3b9063-8abd-4eb3-9f9f-f4c59fd30a60"


def value(expression: Any, scope: Scope | None = None, **document: Any) -> Any:
    scope = scope or Scope()
    return compile_expression(expression, scope)(scope.frame(document))


def failure(expression: Any, **document: Any) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        value(expression, **document)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([3, 1, 2], 2.0),
        ([1, 2, 3, 4], 2.0),
        ([5, "x", None, Decimal128("7.5")], 5.0),
        ([math.nan, 1], 1.0),
        ([math.inf, 1, 2], 2.0),
        (9, 9.0),
        ([], None),
        ("x", None),
        (None, None),
    ],
)
def test_a_median_is_the_number_in_the_middle_or_the_lower_of_two(numbers: Any, expected: Any) -> None:
    assert value({"$median": {"input": "$a", **APPROXIMATELY}}, a=numbers) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [([0.0, 1.0], [1.0, 10.0]), ([0.1, 0.11, 0.95], [1.0, 2.0, 10.0]), ([0.5], [5.0])],
    ids=str,
)
def test_a_percentile_is_the_least_number_that_so_many_do_not_exceed(
    wanted: list[float], expected: list[float]
) -> None:
    numbers = list(range(10, 0, -1))
    operator = {"$percentile": {"input": "$a", "p": wanted, **APPROXIMATELY}}
    assert value(operator, a=numbers) == expected
    (group,) = piped([{"a": number} for number in numbers], {
        "$group": {"_id": None, "found": {"$percentile": {"input": "$a", "p": wanted, **APPROXIMATELY}}}
    })  # fmt: skip
    assert group["found"] == expected


@given(st.lists(st.integers(), min_size=1, max_size=30), st.floats(0, 1))
def test_a_percentile_is_one_of_the_numbers_and_divides_them(numbers: list[int], part: float) -> None:
    (found,) = percentiles(numbers, [part])
    assert found is not None
    assert sum(float(number) <= found for number in numbers) >= part * len(numbers) - 1e-9


@pytest.mark.parametrize(
    ("operator", "code", "text"),
    [
        ({"$median": 1}, 7436201, "specification must be an object; found $median: 1"),
        ({"$median": {"input": 1}}, 40414, "BSON field '$median.method' is missing but a required field"),
        ({"$median": {"input": 1, "method": "exact"}}, 2,
         "Currently only 'approximate' can be used as percentile 'method'."),
        ({"$percentile": {"input": 1, **APPROXIMATELY}}, 40414,
         "BSON field '$percentile.p' is missing but a required field"),
        ({"$percentile": {"input": 1, "p": "$a", **APPROXIMATELY}}, 7750300,
         "The $percentile 'p' field must be an array of constant values, but found value: \"$a\"."),
        ({"$percentile": {"input": 1, "p": [], **APPROXIMATELY}}, 7750301,
         "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: []"),
        ({"$percentile": {"input": 1, "p": ["x"], **APPROXIMATELY}}, 7750302,
         "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: \"x\""),
        ({"$percentile": {"input": 1, "p": [1.5], **APPROXIMATELY}}, 7750303,
         "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: 1.5"),
        ({"$createObjectId": 1}, 9, "$createObjectId does not accept arguments"),
        ({"$toUUID": True}, 241,
         "Unsupported conversion from bool to binData in $convert with no onError value"),
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_operator_is_refused(operator: Any, code: int, text: str) -> None:
    assert failure(operator) == (code, text)


def test_the_accumulators_refuse_with_codes_of_their_own() -> None:
    for name, code in (("$median", 7436100), ("$percentile", 7429703)):
        assert refusal([], {"$group": {"_id": 1, "a": {name: 1}}})[0] == code


def test_a_uuid_is_made_of_its_text() -> None:
    made = value({"$toUUID": UUID_TEXT})
    assert made == Binary(uuid.UUID(UUID_TEXT).bytes, 4)
    assert value({"$toUUID": made}) == made
    assert value({"$toUUID": "$nothing"}) is None
    for text in (UUID_TEXT.replace("-", ""), "x", "{" + UUID_TEXT + "}"):
        assert failure({"$toUUID": text})[0] == 241


def test_an_object_id_is_made_for_each_document() -> None:
    ids = [ObjectId(bytes([number]) * 12) for number in (1, 2)]
    made = piped([{}, {}], {"$set": {"a": {"$createObjectId": {}}}}, make_id=iter(ids).__next__)
    assert [document["a"] for document in made] == ids


@pytest.mark.parametrize(
    ("key", "expected"),
    [(1, 5902408780260971510), (None, 2338878944348059895), (Int64(1), 5902408780260971510)],
)
def test_a_hash_is_that_of_a_hashed_index(key: Any, expected: int) -> None:
    assert value({"$toHashedIndexKey": {"$literal": key}}) == expected


@pytest.mark.parametrize("key", [1.9, Decimal128("1.2"), Int64(1)])
def test_numbers_hash_as_the_integer_that_they_are_cut_to(key: Any) -> None:
    assert value({"$toHashedIndexKey": key}) == value({"$toHashedIndexKey": 1})


def test_a_sample_rate_lets_as_many_pass_as_chance_has_it() -> None:
    class Alternating(SeededRng):
        numbers = cycle([0.1, 0.9])

        def random(self) -> float:
            return next(self.numbers)

    chosen = compile_filter({"$sampleRate": 0.5}, Scope(rng=Alternating(0)))
    assert [chosen({}) for _ in range(4)] == [True, False, True, False]
    assert compile_filter({"$sampleRate": 1})({})
    assert not compile_filter({"$sampleRate": 0})({})


@pytest.mark.parametrize("rate", [1.5, -0.1, math.nan, "x"])
def test_a_sample_rate_is_a_part_of_one(rate: Any) -> None:
    with pytest.raises(CommandError) as caught:
        compile_filter({"$sampleRate": rate})
    assert caught.value.code == 2
