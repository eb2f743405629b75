"""What operators make of what is not quite theirs: numbers as text, clocks that are set, signs of zeros."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from bson import Decimal128, ObjectId, Timestamp
from pipelines import piped

from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.port.engine import Scope

NOON = dt.datetime(2024, 6, 15, 12)  # noqa: DTZ001 -- BSON dates are naive UTC


def value(expression: Any, **document: Any) -> Any:
    return piped([document], {"$project": {"_id": 0, "x": expression}})[0].get("x")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (123456.789, "123457"),
        (1e6, "1e+06"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (5e-324, "4.94066e-324"),
        (7, "7"),
        (Decimal128("1.50"), "1.50"),
        (Timestamp(1704067200, 42), "jan  1 00:00:00:42"),
        (Timestamp(1721500800, 1), "jul 20 18:40:00:1"),
    ],
)
def test_operators_on_text_print_a_number_as_c_does(number: Any, text: str) -> None:
    assert value({"$toLower": number}) == text
    assert value({"$toUpper": number}) == text.upper()
    assert value({"$toLower": {"$substrCP": [number, 0, 99]}}) == text


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (1.9, 3, "ell"),
        (-0.9, 2, "he"),
        (Decimal128("1.5"), 3, "llo"),
        (Decimal128("0.5"), 2, "he"),
        (0, Decimal128("1.5"), "he"),
        (2, Decimal128("NaN"), "llo"),
    ],
)
def test_a_bound_in_bytes_cuts_a_double_and_rounds_a_decimal(start: Any, count: Any, expected: str) -> None:
    assert value({"$substrBytes": ["hello", start, count]}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("+0x1p0", 1.0), ("-0x1.8p1", -3.0), ("+0X.8", 0.5), ("1e-300", 1e-300), ("0e-999", 0.0)],
)
def test_a_double_is_read_as_c_reads_it(text: str, expected: float) -> None:
    assert value({"$toDouble": text}) == expected


def test_a_decimal_is_rounded_to_its_34_digits() -> None:
    assert value({"$toDecimal": "12345678901234567890123456789012345"}) == Decimal128(
        "1.234567890123456789012345678901234E+34"
    )


@pytest.mark.parametrize(
    "expression",
    [
        {"$multiply": [Decimal128("-0"), 1]},
        {"$mod": [Decimal128("-0"), 5]},
        {"$round": [Decimal128("-0.5")]},
        {"$trunc": [Decimal128("-0.5")]},
        {"$ceil": -0.5},
        {"$floor": -0.0},
    ],
    ids=str,
)
def test_a_zero_keeps_its_sign(expression: Any) -> None:
    assert str(value(expression)) in {"-0", "-0.0"}


@pytest.mark.parametrize("name", ["$ln", "$log10"])
def test_the_logarithm_of_what_is_no_number_is_a_double(name: str) -> None:
    assert math.isnan(value({name: Decimal128("NaN")}))
    assert math.isnan(value({"$log": [Decimal128("NaN"), 2]}))


@pytest.mark.parametrize(
    ("first_bytes", "expected"),
    [
        ("7fffffff", dt.datetime(2038, 1, 19, 3, 14, 7)),  # noqa: DTZ001
        ("80000000", dt.datetime(1901, 12, 13, 20, 45, 52)),  # noqa: DTZ001
        ("ffffffff", dt.datetime(1969, 12, 31, 23, 59, 59)),  # noqa: DTZ001
    ],
)
def test_an_object_id_counts_signed_seconds(first_bytes: str, expected: dt.datetime) -> None:
    made = ObjectId(first_bytes + "0" * 16)
    assert value({"$toDate": made}) == expected
    assert value({"$year": made}) == expected.year


@pytest.mark.parametrize(("zone", "hour"), [("+25:00", 13), ("-25:00", 11), ("+99:59", 15), ("+24:00", 12)])
def test_clocks_may_be_more_than_a_day_ahead(zone: str, hour: int) -> None:
    assert value({"$hour": {"date": NOON, "timezone": zone}}) == hour


NEW_YORK = {"timezone": "America/New_York"}
SPRING = dt.datetime(2021, 3, 14, 6, 30)  # noqa: DTZ001 -- 01:30 there, half an hour before clocks are set
AUTUMN = dt.datetime(2021, 11, 7, 6, 30)  # noqa: DTZ001 -- 01:30 there, for the second time


@pytest.mark.parametrize(("unit", "passed"), [("hour", 2), ("minute", 120), ("second", 7200)])
def test_an_hour_that_clocks_skip_does_not_pass(unit: str, passed: int) -> None:
    later = SPRING + dt.timedelta(hours=2)
    assert value({"$dateDiff": {"startDate": SPRING, "endDate": later, "unit": unit, **NEW_YORK}}) == passed


def test_an_hour_that_clocks_repeat_begins_twice() -> None:
    started = AUTUMN.replace(minute=0)
    assert value({"$dateTrunc": {"date": AUTUMN, "unit": "hour", **NEW_YORK}}) == started
    earlier = AUTUMN - dt.timedelta(hours=1)
    assert value({"$dateDiff": {"startDate": earlier, "endDate": AUTUMN, "unit": "hour", **NEW_YORK}}) == 1


def test_a_path_of_an_expression_does_not_enter_arrays_within_arrays() -> None:
    assert value("$a.b", a=[[{"b": 1}], {"b": 2}]) == [2]
    assert value("$a.0", a=[[1], [2]]) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hello", "llo", 0, 4], 2),  # begins before the end, and reaches beyond it
        (["hello", "", 0, 0], -1),
        (["hello", "", 2, 2], -1),
        (["", ""], 0),
        (["hello", "o", 0, 4], -1),
    ],
)
def test_a_part_that_is_counted_in_characters_begins_before_the_end(
    arguments: list[Any], expected: int
) -> None:
    assert value({"$indexOfCP": arguments}) == expected


def test_elements_are_sorted_by_arrays_as_they_stand() -> None:
    elements = [{"a": [3, 1]}, {"a": [2]}]
    assert value({"$sortArray": {"input": "$e", "sortBy": {"a": 1}}}, e=elements) == elements[::-1]


def test_a_field_of_an_order_may_begin_with_a_dollar() -> None:
    elements = [{"$a": 2}, {"$a": 1}]
    order = {"$sortArray": {"input": {"$literal": elements}, "sortBy": {"$a": 1}}}
    assert value(order) == elements[::-1]


def test_a_choice_that_is_always_true_is_made_before_anything_is_evaluated() -> None:
    assert value({"$or": [{"$divide": [1, "$zero"]}, True]}, zero=0) is True


def test_the_name_of_a_field_may_be_read_from_another() -> None:
    assert value({"$getField": {"field": {"$getField": "name"}, "input": {"x": 1}}}, name="x") == 1


def test_a_case_that_a_variable_decides_is_no_constant() -> None:
    branches = [{"case": "$$soon", "then": 1}]
    chosen = {"$let": {"vars": {"soon": "$n"}, "in": {"$switch": {"branches": branches}}}}
    assert value(chosen, n=True) == 1
    by_now = {"$switch": {"branches": [{"case": "$$NOW", "then": 1}]}}
    assert piped([{}], {"$project": {"_id": 0, "x": by_now}}, now=NOON) == [{"x": 1}]
    compile_expression(
        by_now, Scope(variables={"NOW": None})
    )  # a view is examined before there is an instant
