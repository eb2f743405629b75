"""`$setWindowFields`: windows of documents and ranges, and the functions that look through them."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128, Int64
from hypothesis import given
from hypothesis import strategies as st
from pipelines import piped, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

Document = dict[str, Any]


def day(number: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(2024, 3, number, hour)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC


def seen(documents: Iterable[Document], function: Document, **options: Any) -> list[Any]:
    """Return what a window function computes, in the order of the sorted field."""
    options = {"sortBy": {"t": 1}, **options}
    stage = {key: value for key, value in options.items() if value is not None}
    found = piped(list(documents), {"$setWindowFields": {**stage, "output": {"out": function}}})
    return [document["out"] for document in found]


def points(*values: Any) -> list[Document]:
    return [{"_id": place, "t": place, "v": value} for place, value in enumerate(values)]


WINDOWS: list[tuple[Document, list[list[int]]]] = [
    ({}, [[0, 1, 2, 3]] * 4),
    ({"documents": ["unbounded", "unbounded"]}, [[0, 1, 2, 3]] * 4),
    ({"documents": ["unbounded", "current"]}, [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]),
    ({"documents": ["current", "unbounded"]}, [[0, 1, 2, 3], [1, 2, 3], [2, 3], [3]]),
    ({"documents": [-1, 1]}, [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]),
    ({"documents": [1, 2]}, [[1, 2], [2, 3], [3], []]),
    ({"documents": [-9, -2.0]}, [[], [], [0], [0, 1]]),
    ({"documents": [{"$add": [-2, 1]}, "current"]}, [[0], [0, 1], [1, 2], [2, 3]]),
    ({"range": [-1, 0]}, [[0], [0, 1], [1, 2], [2, 3]]),
    ({"range": ["unbounded", -1.5]}, [[], [], [0], [0, 1]]),
    ({"range": [Decimal128("0.5"), "unbounded"]}, [[1, 2, 3], [2, 3], [3], []]),
]


@pytest.mark.parametrize(("window", "expected"), WINDOWS, ids=str)
def test_a_window_is_told_by_places_or_by_distance(window: Document, expected: list[list[int]]) -> None:
    assert seen(points(0, 1, 2, 3), {"$push": "$v", "window": window}) == expected


def test_a_range_sees_all_that_are_as_far_away() -> None:
    ties = [{"t": time, "v": place} for place, time in enumerate((1, 1, 2, 4))]
    assert seen(ties, {"$push": "$v", "window": {"range": [-1, 0]}}) == [[0, 1], [0, 1], [0, 1, 2], [3]]
    assert seen(ties, {"$push": "$v", "window": {"range": ["current", 0]}}) == [[0, 1], [1], [2], [3]]


def test_a_range_of_dates_has_a_unit() -> None:
    days = [{"t": day(number, 12), "v": number} for number in (1, 2, 4)]
    window = {"range": [-1, 0], "unit": "day"}
    assert seen(days, {"$push": "$v", "window": window}) == [[1], [1, 2], [4]]
    month = {"range": [-1, "current"], "unit": "month"}
    assert seen(days, {"$sum": "$v", "window": month}) == [1, 3, 7]


def test_a_range_of_numbers_leaves_out_what_is_none() -> None:
    mixed: list[Document] = [{"t": None, "v": 0}, {"t": 1, "v": 1}, {"t": 2, "v": 2}]
    window = {"range": ["unbounded", "unbounded"]}
    code, _text = refusal(
        mixed, {"$setWindowFields": {"sortBy": {"t": 1}, "output": {"a": {"$sum": "$v", "window": window}}}}
    )
    assert code == 5429414
    assert seen(mixed[1:], {"$sum": "$v", "window": window}) == [3, 3]


def test_partitions_know_nothing_of_each_other_and_come_in_the_order_of_their_keys() -> None:
    documents: list[Document] = [
        {"_id": 1, "p": "b", "t": 2, "v": 10},
        {"_id": 2, "p": "a", "t": 1, "v": 1},
        {"_id": 3, "t": 0, "v": 100},
        {"_id": 4, "p": "b", "t": 1, "v": 20},
        {"_id": 5, "p": None, "t": 1, "v": 200},
    ]
    output = {"out": {"$sum": "$v", "window": {"documents": ["unbounded", "current"]}}}
    stage = {"$setWindowFields": {"partitionBy": "$p", "sortBy": {"t": 1}, "output": output}}
    found = [(document["_id"], document["out"]) for document in piped(documents, stage)]
    assert found == [(3, 100), (5, 300), (2, 1), (4, 20), (1, 30)]


FUNCTIONS: list[tuple[str, list[Any], Document, list[Any]]] = [
    ("sum", [1, 2.5, "x"], {"$sum": "$v", "window": {"documents": [-1, 0]}}, [1, 3.5, 2.5]),
    ("an empty sum", [1, 2], {"$sum": "$v", "window": {"documents": [5, 6]}}, [0, 0]),
    ("avg", [1, 2, 6], {"$avg": "$v"}, [3.0, 3.0, 3.0]),
    ("an empty avg", [1], {"$avg": "$v", "window": {"documents": [1, 1]}}, [None]),
    ("min", [3, None, 1], {"$min": "$v", "window": {"documents": [-1, 0]}}, [3, 3, 1]),
    ("max", [3, None, 1], {"$max": "$v", "window": {"documents": [0, 1]}}, [3, 1, 1]),
    ("first", [3, 4], {"$first": "$v", "window": {"documents": [-1, 0]}}, [3, 3]),
    ("last of none", [3, 4], {"$last": "$v", "window": {"documents": [1, 1]}}, [4, None]),
    ("count", [3, 4], {"$count": {}, "window": {"documents": [0, 1]}}, [2, 1]),
    ("addToSet", [3, 3.0], {"$addToSet": "$v"}, [[3], [3]]),
    ("stdDevPop", [1, 3], {"$stdDevPop": "$v"}, [1.0, 1.0]),
    ("stdDevSamp of one", [1, 3], {"$stdDevSamp": "$v", "window": {"documents": [0, 0]}}, [None, None]),
    ("firstN", [1, 2, 3], {"$firstN": {"n": 2, "input": "$v"}}, [[1, 2]] * 3),
    ("maxN", [1, None, 3], {"$maxN": {"n": 2, "input": "$v"}, "window": {"documents": [-1, 0]}},
     [[1], [1], [3]]),
    ("top", [2, 1], {"$top": {"sortBy": {"v": 1}, "output": "$t"}}, [1, 1]),
    ("bottomN", [2, 1], {"$bottomN": {"n": 1, "sortBy": {"v": 1}, "output": "$v"}}, [[2], [2]]),
    ("median", [4, 1, 2], {"$median": {"input": "$v", "method": "approximate"}}, [2.0] * 3),
    ("percentile of none", ["x"], {"$percentile": {"input": "$v", "p": [0.5, 1], "method": "approximate"}},
     [[None, None]]),
    ("setUnion", [[1], [1, 2]], {"$setUnion": "$v"}, [[1, 2], [1, 2]]),
    ("concatArrays", [[1], [1, 2]], {"$concatArrays": "$v"}, [[1, 1, 2]] * 2),
    ("covariancePop", [[1, 2], [3, 6], "x"], {"$covariancePop": "$v"}, [2.0] * 3),
    ("covarianceSamp", [[1, 2], [3, 6]], {"$covarianceSamp": "$v"}, [4.0] * 2),
    ("covarianceSamp of one", [[1, 2]], {"$covarianceSamp": "$v"}, [None]),
    ("documentNumber", [5, 5], {"$documentNumber": {}}, [1, 2]),
    ("shift", [1, 2, 3], {"$shift": {"output": "$v", "by": -1}}, [None, 1, 2]),
    ("shift with a default", [1, 2], {"$shift": {"output": "$v", "by": 1, "default": "none"}}, [2, "none"]),
    ("derivative", [1, 4, 4], {"$derivative": {"input": "$v"}, "window": {"documents": [-1, 0]}},
     [None, 3.0, 0.0]),
    ("integral", [1, 3, 5], {"$integral": {"input": "$v"}, "window": {"documents": ["unbounded", "current"]}},
     [0, 2.0, 6.0]),
    ("expMovingAvg by N", [10, 20, None, 40], {"$expMovingAvg": {"input": "$v", "N": 3}},
     [10.0, 15.0, 15.0, 27.5]),
    ("expMovingAvg by alpha", [Decimal128("10"), 20], {"$expMovingAvg": {"input": "$v", "alpha": 0.25}},
     [Decimal128("10"), Decimal128("12.500000000000000")]),
    ("locf", [None, 1, None, 2], {"$locf": "$v"}, [None, 1, 1, 2]),
    ("linearFill", [None, 1, None, None, 7, None], {"$linearFill": "$v"}, [None, 1, 3.0, 5.0, 7, None]),
    ("minMaxScaler", [1, 3, 5], {"$minMaxScaler": {"input": "$v"}}, [0.0, 0.5, 1.0]),
    ("minMaxScaler of one", [4], {"$minMaxScaler": {"input": "$v", "min": 10, "max": 20}}, [10]),
    ("minMaxScaler to a scale of one's own", [1, 3, 5],
     {"$minMaxScaler": {"input": "$v", "min": 0, "max": 100}, "window": {"documents": [-1, 1]}},
     [0.0, 50.0, 100.0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "function", "expected"), [case[1:] for case in FUNCTIONS], ids=[case[0] for case in FUNCTIONS]
)
def test_a_function_looks_through_its_window(
    values: list[Any], function: Document, expected: list[Any]
) -> None:
    assert seen(points(*values), function) == expected


@pytest.mark.parametrize(
    ("operator", "expected"), [("$rank", [1, 1, 3, 4]), ("$denseRank", [1, 1, 2, 3])], ids=str
)
def test_equals_share_a_rank(operator: str, expected: list[int]) -> None:
    found = seen([{"t": time} for time in (5, 5.0, 7, "x")], {operator: {}})
    assert found == expected
    assert not any(isinstance(rank, Int64) for rank in found)


INFINITY, NAN = math.inf, math.nan
BEFORE: Document = {"window": {"documents": [-1, 0]}}
SO_FAR: Document = {"window": {"documents": ["unbounded", "current"]}}
LARGEST = Decimal128("9.999999999999999999999999999999999E+6144")

SLIDING: list[tuple[str, list[Any], Document, list[Any]]] = [
    ("an infinity counts for nothing until two others are there", [[INFINITY, 1], [1, 2], [2, 4]],
     {"$covariancePop": "$v", **SO_FAR}, [None, 0.0, INFINITY]),
    ("an infinity leaves with its document", [[1, 2], [-INFINITY, 4], [3, 6], [4, 8]],
     {"$covarianceSamp": "$v", **BEFORE}, [None, None, None, 1.0]),
    ("so does what is no number", [[1, NAN], [2, 4], [4, 8]],
     {"$covariancePop": "$v", **BEFORE}, [None, 0.0, 2.0]),
    ("alike pairs differ by nothing, in the places of decimals", [[Decimal128("0.5"), Decimal128("1.5")]] * 2,
     {"$covarianceSamp": "$v"}, [Decimal128("0E+12")] * 2),
    ("a sum may be beyond all decimals", [[Decimal128("1"), LARGEST], [Decimal128("2"), LARGEST]],
     {"$covarianceSamp": "$v"}, [Decimal128("-Infinity")] * 2),
    ("a deviation that slides is null beside an infinity", [INFINITY, 10, 20, 30],
     {"$stdDevPop": "$v", **BEFORE}, [None, None, 5.0, 5.0]),
    ("one that slides over one number is an integer", [10, 20], {"$stdDevPop": "$v", "window": {
     "documents": [0, 0]}}, [0, 0]),
    ("of a sample it is null", [10, NAN, 20], {"$stdDevSamp": "$v", **BEFORE}, [None, None, None]),
    ("an array is one value", [1, 2], {"$addToSet": ["$v", "$t"]}, [[[1, 0], [2, 1]]] * 2),
    ("and no number", [1, 2], {"$stdDevPop": ["$v", "$v"]}, [None, None]),
    ("the mean of the longs at both ends", [2**63 - 1, -(2**63)], {"$avg": "$v"}, [-0.5, -0.5]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "function", "expected"), [case[1:] for case in SLIDING], ids=[case[0] for case in SLIDING]
)
def test_numbers_come_into_a_window_and_leave_it(
    values: list[Any], function: Document, expected: list[Any]
) -> None:
    found = seen(points(*values), function)
    assert [(type(each), str(each)) for each in found] == [(type(each), str(each)) for each in expected]


@pytest.mark.parametrize("operator", ["$rank", "$denseRank"])
def test_what_sorts_alike_shares_a_rank(operator: str) -> None:
    documents: list[Document] = [{"_id": 1, "t": None}, {"_id": 2}, {"_id": 3, "t": [None, "a"]}, {"_id": 4}]
    found = piped(documents, {"$setWindowFields": {"sortBy": {"t": 1}, "output": {"r": {operator: {}}}}})
    assert [each["r"] for each in found] == [1, 1, 1, 1]
    texts = [{"_id": 1, "t": "a"}, {"_id": 2, "t": "A"}]
    stage = {"$setWindowFields": {"sortBy": {"t": 1}, "output": {"r": {operator: {}}}}}
    found = piped(texts, stage, collation={"locale": "en", "strength": 2})
    assert [each["r"] for each in found] == [1, 1]


def test_slopes_and_areas_of_dates_are_told_in_a_unit() -> None:
    hours = [{"t": day(1, 2 * place), "v": value} for place, value in enumerate((0, 10, 40))]
    window = {"documents": [-1, 0]}
    assert seen(hours, {"$derivative": {"input": "$v", "unit": "hour"}, "window": window}) == [
        None,
        5.0,
        15.0,
    ]
    assert seen(hours, {"$integral": {"input": "$v", "unit": "hour"}}) == [60.0] * 3


def test_an_area_with_a_hole_is_no_number() -> None:
    assert all(map(math.isnan, seen(points(1, math.nan), {"$integral": {"input": "$v"}})))


def test_a_computed_field_replaces_what_was_there_and_the_stored_document_stays() -> None:
    documents = [{"_id": 1, "a": {"b": 1, "c": 2}}]
    found = piped(documents, {"$setWindowFields": {"output": {"a.b": {"$count": {}}, "n": {"$count": {}}}}})
    assert found == [{"_id": 1, "a": {"b": 1, "c": 2}, "n": 1}]
    assert documents == [{"_id": 1, "a": {"b": 1, "c": 2}}]


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.integers(-99, 99), st.none())), max_size=12))
def test_a_window_without_bounds_is_a_group(pairs: list[tuple[int, Any]]) -> None:
    documents = [{"_id": place, "p": p, "v": v} for place, (p, v) in enumerate(pairs)]
    accumulators = {"sum": {"$sum": "$v"}, "max": {"$max": "$v"}, "all": {"$push": "$v"}, "n": {"$count": {}}}
    groups = {
        group.pop("_id"): group for group in piped(documents, {"$group": {"_id": "$p", **accumulators}})
    }
    for document in piped(documents, {"$setWindowFields": {"partitionBy": "$p", "output": accumulators}}):
        assert {name: document[name] for name in accumulators} == groups[document["p"]]


REFUSALS: list[tuple[Any, int, str]] = [
    ([], 9, "the $setWindowFields stage specification must be an object, found array"),
    ({}, 40414, "BSON field '$setWindowFields.output' is missing but a required field"),
    ({"output": {}, "x": 1}, 40415, "BSON field '$setWindowFields.x' is an unknown field."),
    ({"output": {"a": 1}}, 9, "The field 'a' must be an object"),
    ({"output": {"a": {}}}, 9, "Expected a $-prefixed window function"),
    ({"output": {"a": {"b": 1}}}, 9, "Expected a $-prefixed window function, b"),
    ({"output": {"a": {"$nope": 1}}}, 9, "Unrecognized window function, $nope"),
    ({"output": {"a": {"$sum": 1, "$avg": 1}}}, 9, "Cannot specify two functions in window function spec"),
    ({"output": {"a": {"$sum": 1, "x": 1}}}, 9, "Window function found an unknown argument: x"),
    ({"output": {"a": {"$sum": 1}, "a.b": {"$sum": 1}}}, 6307900,
     "$setWindowFields 'output' specification contains two conflicting paths"),
    ({"output": {"a": {"$sum": 1, "window": 1}}}, 9, "'window' field must be an object"),
    ({"output": {"a": {"$sum": 1, "window": {"documents": [1]}}}}, 9,
     "Window bounds must be a 2-element array: [ 1 ]"),
    ({"output": {"a": {"$sum": 1, "window": {"documents": [0, "next"]}}}}, 9,
     "Window bounds must be 'unbounded', 'current', or a number."),
    ({"output": {"a": {"$sum": 1, "window": {"documents": [0, "current"]}}}}, 5339901,
     "Document-based bounds require a sortBy"),
    ({"sortBy": {}, "output": {"a": {"$rank": {}}}}, 5371602,
     "$rank must be specified with a top level sortBy expression with exactly one element"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$sum": 1, "window": {"documents": [1, 0]}}}}, 5339900,
     "Lower bound must not exceed upper bound: [1, 0]"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$sum": 1, "window": {"documents": [0, 0.5]}}}}, 9,
     "Numeric document-based bounds must be an integer"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$sum": 1, "window": {"documents": [0, {"$add": ["$t"]}]}}}}, 9,
     "Window bounds expression must be a constant."),
    ({"sortBy": {"t": 1, "u": 1}, "output": {"a": {"$sum": 1, "window": {"range": [0, 1]}}}}, 5339902,
     "Range-based bounds require sortBy a single field"),
    ({"sortBy": {"t": -1}, "output": {"a": {"$sum": 1, "window": {"range": [0, 1]}}}}, 8947401,
     "Range-based bounds require an ascending sortBy"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$sum": 1, "window": {"range": [0, 1.5], "unit": "day"}}}}, 9,
     "With 'unit', range-based bounds must be an integer"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$sum": 1, "window": {"range": [0, 1], "unit": "day"}}}}, 5429513,
     "Invalid range: Expected the sortBy field to be a Date, but it was int"),
    ({"output": {"a": {"$rank": {}}}}, 5371602,
     "$rank must be specified with a top level sortBy expression with exactly one element"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$rank": 1}}}, 5371603,
     "$rank must be specified with '{}' as the value"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$rank": {}, "window": {}}}}, 5371601,
     "Rank style window functions take no other arguments"),
    ({"output": {"a": {"$shift": {"output": 1, "by": 1}}}}, 9, "'$shift' requires a sortBy"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$derivative": {"input": 1}}}}, 9,
     "$derivative requires explicit window bounds"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$integral": {"input": 1, "unit": "month"}}}}, 5490710,
     "unit must be 'week' or smaller"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$integral": {"input": "x"}}}}, 5423900,
     ("The input value of $integral window function must be a vector of 2 value, the first value must be"
      " numeric or date type and the second must be numeric.")),
    ({"sortBy": {"t": 1}, "output": {"a": {"$expMovingAvg": {"input": 1, "N": 0}}}}, 9,
     "'N' must be greater than zero. Got 0"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$expMovingAvg": {"input": 1, "alpha": Decimal128("NaN")}}}}, 9,
     "'alpha' must be between 0 and 1 (exclusive), found alpha: NaN"),
    ({"sortBy": {"t": 1}, "output": {"a": {"$sum": 1, "window": {"range": [0, Decimal128("NaN")]}}}}, 5339900,
     "Lower bound must not exceed upper bound: [0, NaN]"),
    ({"output": {"a": {"$percentile": {"input": 1, "p": [Decimal128("NaN")], "method": "approximate"}}}},
     7750303, "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: NaN"),
    ({"output": {"a": {"$linearFill": "$v"}}}, 605001,
     "$linearFill must be specified with a top level sortBy expression with exactly one element"),
    ({"output": {"a": {"$locf": "$v", "window": {}}}}, 9, "'window' field is not allowed in $locf"),
    ({"partitionBy": "$list", "output": {"a": {"$sum": 1}}}, 14,
     "An expression used to partition cannot evaluate to value of type array"),
    ({"output": {"a": {"$count": 1}}}, 14, "$count takes no arguments, i.e. $count:{}"),
    ({"output": {"a": {"$firstN": {"n": 0, "input": 1}}}}, 5787908, "'n' must be greater than 0, found 0"),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "code", "text"), REFUSALS, ids=[str(case[2])[:40] for case in REFUSALS])
def test_a_bad_stage_is_refused_in_a_servers_words(argument: Any, code: int, text: str) -> None:
    assert refusal([{"t": 1, "list": [1]}], {"$setWindowFields": argument}) == (code, text)


def test_an_order_without_fields_is_one_for_windows_that_count_documents() -> None:
    window = {"$sum": "$x", "window": {"documents": [-1, 0]}}
    stage = {"$setWindowFields": {"sortBy": {}, "output": {"s": window}}}
    assert [each["s"] for each in piped([{"x": 1}, {"x": 2}, {"x": 4}], stage)] == [1, 3, 6]
