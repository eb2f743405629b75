"""`$densify` makes up documents, `$fill` their values, `$bucketAuto` its own boundaries."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st
from pipelines import piped, refusal

from fakeserver.storage.stages.bucketing import Rounder

Document = dict[str, Any]
INFINITY = float("inf")


def day(number: int, month: int = 3) -> dt.datetime:
    return dt.datetime(2024, month, number)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC


def densified(documents: list[Document], spread: Document, *partition: str) -> list[Document]:
    more = {"partitionByFields": list(partition)} if partition else {}
    return piped(documents, {"$densify": {"field": "t", "range": spread, **more}})


def times(documents: list[Document], spread: Document) -> list[Any]:
    return [document.get("t") for document in densified(documents, spread)]


def at(*values: Any) -> list[Document]:
    return [{"_id": place, "t": value} for place, value in enumerate(values)]


DENSE: list[tuple[str, list[Any], Document, list[Any]]] = [
    ("between the documents", [1, 4], {"step": 1, "bounds": "full"}, [1, 2, 3, 4]),
    ("beside those off the step", [1, 2.5, 4], {"step": 1, "bounds": "full"}, [1, 2, 2.5, 3, 4]),
    ("of no documents", [], {"step": 1, "bounds": "full"}, []),
    ("of no documents within bounds", [], {"step": 1, "bounds": [1, 3]}, [1, 2]),
    ("up to the bound, which is left out", [2], {"step": 2, "bounds": [0, 6]}, [0, 2, 4]),
    ("not below the bound", [-5, 1], {"step": 1, "bounds": [0, 3]}, [-5, 0, 1, 2]),
    ("not above the bound", [9], {"step": 1, "bounds": [0, 2]}, [0, 1, 9]),
    ("of doubles", [0.5], {"step": 0.5, "bounds": [0.0, 1.5]}, [0.0, 0.5, 1.0]),
    ("not of nulls", [None, 1, 3], {"step": 1, "bounds": "full"}, [None, 1, 2, 3]),
    ("of days", [day(1), day(3)], {"step": 1, "unit": "day", "bounds": "full"}, [day(1), day(2), day(3)]),
    ("of months", [day(31, 1), day(30, 4)], {"step": 1, "unit": "month", "bounds": "full"},
     [day(31, 1), day(29, 2), day(29, 3), day(29, 4), day(30, 4)]),
    ("of weeks within bounds", [], {"step": 1, "unit": "week", "bounds": [day(1), day(15)]},
     [day(1), day(8)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "spread", "expected"), [case[1:] for case in DENSE], ids=[case[0] for case in DENSE]
)
def test_documents_are_made_up(values: list[Any], spread: Document, expected: list[Any]) -> None:
    assert times(at(*values), spread) == expected


def test_what_is_made_up_holds_the_field_and_the_partition_alone() -> None:
    documents = [{"_id": 1, "t": 1, "p": {"q": "a"}, "x": 1}, {"_id": 2, "t": 3, "p": {"q": "a"}}]
    assert densified(documents, {"step": 1, "bounds": "partition"}, "p.q")[1] == {"p": {"q": "a"}, "t": 2}
    assert densified(documents, {"step": 1, "bounds": "full"})[1] == {"t": 2}


PARTED = [{"_id": 1, "t": 1, "p": "a"}, {"_id": 2, "t": 3, "p": "a"}, {"_id": 3, "t": 2, "p": "b"}]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("partition", {"a": [1, 2, 3], "b": [2]}),
        ("full", {"a": [1, 2, 3], "b": [1, 2, 3]}),
        ([2, 5], {"a": [1, 2, 3, 4], "b": [2, 3, 4]}),
    ],
)
def test_each_partition_is_dense(bounds: Any, expected: Document) -> None:
    found: Document = {}
    for document in densified(PARTED, {"step": 1, "bounds": bounds}, "p"):
        found.setdefault(document["p"], []).append(document["t"])
    assert found == expected


DENSIFY_REFUSALS: list[tuple[Any, int, str]] = [
    (1, 9, "The $densify stage specification must be an object, found int"),
    ({"field": "t"}, 40414, "BSON field '$densify.range' is missing but a required field"),
    ({"step": 0, "bounds": "full"}, 5733401,
     "The step parameter in a range statement must be a strictly positive numeric value"),
    ({"step": Decimal128("NaN"), "bounds": "full"}, 5733401,
     "The step parameter in a range statement must be a strictly positive numeric value"),
    ({"step": 0.5, "unit": "day", "bounds": "full"}, 6586400,
     "The step parameter in a range statement must be a whole number when densifying a date range"),
    ({"step": 1, "unit": "age", "bounds": "full"}, 9, "unknown time unit value: age"),
    ({"step": 1, "bounds": "all"}, 5946802, "Bounds string must either be 'full' or 'partition'"),
    ({"step": 1, "bounds": 1}, 5733404,
     ("The bounds in a range statement must be the string 'full', 'partition', or an ascending array of two"
      " numbers or two dates")),
    ({"step": 1, "bounds": [1]}, 5733403,
     "A bounding array in a range statement must have exactly two elements"),
    ({"step": 1, "bounds": [2, 1]}, 5733402,
     "A bounding array must be an ascending array of either two dates or two numbers"),
    ({"step": 1, "bounds": [1, 2.0]}, 5876900,
     "Upper bound, lower bound, and step must all have the same type"),
    ({"step": 1, "bounds": [1, "x"]}, 5733406,
     "A bounding array must contain either both dates or both numeric types"),
    ({"step": 1, "bounds": ["a", "b"]}, 5946800, "Explicit bounds must be numeric or dates"),
    ({"step": 1, "unit": "day", "bounds": [1, 2]}, 5733409, "Numeric bounds may not have unit parameter"),
    ({"step": 1, "bounds": [day(1), day(2)]}, 5733410, "A bounding array of dates must specify a unit"),
    ({"step": 1, "bounds": "partition"}, 5733408,
     ("One cannot specify the bounds as 'partition' without specifying a non-empty array of"
      " partitionByFields. You may have meant to specify 'full' bounds.")),
    ({"step": 1, "unit": "day", "bounds": "full"}, 6053600,
     "Encountered numeric densify value in collection when step has a date unit."),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "code", "text"), DENSIFY_REFUSALS, ids=lambda value: str(value)[:30])
def test_a_bad_densify_is_refused(argument: Any, code: int, text: str) -> None:
    whole = argument if not isinstance(argument, dict) or "field" in argument else {
        "field": "t", "range": argument
    }  # fmt: skip
    assert refusal(at(1), {"$densify": whole}) == (code, text)


def test_a_value_that_is_neither_a_number_nor_a_date_cannot_be_dense() -> None:
    stage = {"$densify": {"field": "t", "range": {"step": 1, "bounds": "full"}}}
    assert refusal(at("x"), stage)[0] == 5733201
    assert refusal(at(day(1)), stage)[0] == 6053600


# $fill.


def filled(values: list[Any], output: Document, **options: Any) -> list[Any]:
    documents = [{"t": place, "v": value} for place, value in enumerate(values)]
    found = piped(documents, {"$fill": {"sortBy": {"t": 1}, "output": {"v": output}, **options}})
    return [document["v"] for document in found]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"value": 0}, [0, 2, 0, 6, 0]),
        ({"value": {"$multiply": ["$t", 10]}}, [0, 2, 20, 6, 40]),
        ({"method": "locf"}, [None, 2, 2, 6, 6]),
        ({"method": "linear"}, [None, 2, 4.0, 6, None]),
    ],
    ids=str,
)
def test_a_value_or_a_method_fills_what_is_null(output: Document, expected: list[Any]) -> None:
    assert filled([None, 2, None, 6, None], output) == expected


def test_partitions_are_filled_apart() -> None:
    documents = [
        {"p": "a", "t": 1, "v": 1},
        {"p": "b", "t": 2},
        {"p": "a", "t": 3},
        {"p": "b", "t": 4, "v": 4},
    ]
    stage = {"sortBy": {"t": 1}, "output": {"v": {"method": "locf"}}}
    for partition in ({"partitionByFields": ["p"]}, {"partitionBy": "$p"}, {"partitionBy": {"x": "$p"}}):
        found = piped(documents, {"$fill": {**stage, **partition}})
        assert [document["v"] for document in found] == [1, 1, None, 4]


@given(st.lists(st.one_of(st.none(), st.integers(-1000, 1000)), min_size=1, max_size=20))
def test_linear_filling_is_interpolation(values: list[int | None]) -> None:
    known = [place for place, value in enumerate(values) if value is not None]
    for place, found in enumerate(filled(values, {"method": "linear"})):
        left = max((each for each in known if each <= place), default=None)
        right = min((each for each in known if each >= place), default=None)
        if left is None or right is None:
            assert found is None
            continue
        low, high = values[left], values[right]
        assert low is not None
        assert high is not None
        share = Fraction(place - left, right - left) if right > left else Fraction(0)
        assert found == pytest.approx(float(low + share * (high - low)))


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        (1, 9),
        ({}, 40414),
        ({"output": {}}, 6050203),
        ({"output": {"v": 1}}, 6050200),
        ({"output": {"v": {"value": 1, "method": "locf"}}}, 6050201),
        ({"output": {"v": {"method": "spline"}}}, 6050202),
        ({"output": {"v": {"method": "linear"}}}, 605001),
        ({"output": {"v": {"depth": 1}}}, 40415),
        ({"partitionBy": "$p", "partitionByFields": ["p"], "output": {"v": {"value": 1}}}, 6050204),
        ({"partitionBy": 1, "output": {"v": {"value": 1}}}, 14),
        ({"sortBy": {"same": 1}, "output": {"v": {"method": "linear"}}}, 6050106),
        ({"sortBy": {"t": 1}, "output": {"s": {"method": "linear"}}}, 14),
    ],
    ids=str,
)
def test_a_bad_fill_is_refused(argument: Any, code: int) -> None:
    documents: list[Document] = [{"t": 1, "same": 1, "s": "x"}, {"t": 2, "same": 1}]
    assert refusal(documents, {"$fill": argument})[0] == code


# $bucketAuto.


def buckets(values: list[Any], **options: Any) -> list[tuple[Any, Any, Any]]:
    found = piped([{"v": value} for value in values], {"$bucketAuto": {"groupBy": "$v", **options}})
    return [(each["_id"]["min"], each["_id"]["max"], each.get("count")) for each in found]


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([5, 1, 4, 2, 3, 6], {"buckets": 3}, [(1, 3, 2), (3, 5, 2), (5, 6, 2)]),
        ([1, 2, 3], {"buckets": 9}, [(1, 2, 1), (2, 3, 1), (3, 3, 1)]),
        ([1, 1, 1, 2], {"buckets": 2}, [(1, 2, 3), (2, 2, 1)]),
        ([7, 7, 7], {"buckets": 2}, [(7, 7, 3)]),
        ([None, "a", 2], {"buckets": 1.0}, [(None, "a", 3)]),
        ([], {"buckets": 2}, []),
        ([1, 2, 3, 4, 5, 6, 7, 8], {"buckets": 2, "granularity": "POWERSOF2"}, [(0.5, 8, 7), (8, 16, 1)]),
        ([10, 20, 30], {"buckets": 2, "granularity": "R5"}, [(6.3, 25.0, 2), (25.0, 40.0, 1)]),
        ([0, 3, 9], {"buckets": 3, "granularity": "1-2-5"}, [(0, 2.0, 1), (2.0, 5.0, 1), (5.0, 10.0, 1)]),
    ],
    ids=str,
)
def test_buckets_hold_about_as_many_documents_each(
    values: list[Any], options: Document, expected: list[tuple[Any, Any, int]]
) -> None:
    assert buckets(values, **options) == expected


def test_buckets_have_accumulators() -> None:
    found = piped(
        [{"v": value} for value in (1, 2, 3)],
        {"$bucketAuto": {"groupBy": "$v", "buckets": 2, "output": {"all": {"$push": "$v"}}}},
    )
    assert [bucket["all"] for bucket in found] == [[1, 2], [3]]
    assert "count" not in found[0]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 8))
def test_every_document_is_in_one_bucket(values: list[int], wanted: int) -> None:
    found = buckets(values, buckets=wanted)
    assert len(found) <= wanted
    assert sum(count for _low, _high, count in found) == len(values)
    for (_, high, _), (low, _, _) in pairwise(found):
        assert high == low


@pytest.mark.parametrize(
    ("name", "number", "below", "above"),
    [
        ("R5", 10, 6.3, 16.0),
        ("R5", 64.0, 63.0, 100.0),
        ("R80", 100, 97.5, 103.0),
        ("E24", 0.8, 0.75, 0.82),
        ("E6", 7, 6.8, 10.0),
        ("E192", 1, 0.988, 1.01),
        ("1-2-5", 5000, 2000.0, 10000.0),
        ("R20", Decimal128("1"), Decimal128("0.9"), Decimal128("1.12")),
        ("POWERSOF2", 8, 4, 16),
        ("POWERSOF2", 0.3, 0.25, 0.5),
        ("POWERSOF2", 0, 0, 0),
        ("POWERSOF2", 2**63 - 1, 2**62, 2.0**63),
        ("R5", 1.7e308, 1.6e308, INFINITY),
        ("R5", INFINITY, INFINITY, INFINITY),
        ("POWERSOF2", Decimal128("Infinity"), Decimal128("Infinity"), Decimal128("Infinity")),
    ],
)
def test_a_number_is_rounded_to_its_neighbours_in_the_series(
    name: str, number: Any, below: Any, above: Any
) -> None:
    rounder = Rounder(name)
    assert (rounder.down(number), rounder.up(number)) == (below, above)


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        (1, 40240),
        ({}, 40246),
        ({"groupBy": "$v"}, 40246),
        ({"groupBy": 1, "buckets": 1}, 40239),
        ({"groupBy": "v", "buckets": 1}, 40239),
        ({"groupBy": "$v", "buckets": "x"}, 40241),
        ({"groupBy": "$v", "buckets": 1.5}, 40242),
        ({"groupBy": "$v", "buckets": 0}, 40243),
        ({"groupBy": "$v", "buckets": 1, "output": 1}, 40244),
        ({"groupBy": "$v", "buckets": 1, "depth": 1}, 40245),
        ({"groupBy": "$v", "buckets": 1, "granularity": 1}, 40261),
        ({"groupBy": "$v", "buckets": 1, "granularity": "R7"}, 40257),
        ({"groupBy": "$s", "buckets": 1, "granularity": "R5"}, 40258),
        ({"groupBy": "$nan", "buckets": 1, "granularity": "R5"}, 40259),
        ({"groupBy": "$less", "buckets": 1, "granularity": "R5"}, 40260),
        ({"groupBy": "$v", "buckets": 1, "output": {"a": {"$nope": 1}}}, 15952),
    ],
    ids=str,
)
def test_a_bad_bucket_auto_is_refused(argument: Any, code: int) -> None:
    document = {"v": 1, "s": "x", "nan": float("nan"), "less": -1}
    assert refusal([document], {"$bucketAuto": argument})[0] == code
