"""Dates in expressions: parts, arithmetic and text, in time zones."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import DatetimeMS, Int64, ObjectId, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values import calendar
from fakeserver.storage.values.dates import date_of, folded, unfolded
from fakeserver.storage.values.types import milliseconds

NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"


def at(text: str) -> dt.datetime:
    """Return a date as BSON's are decoded."""
    return dt.datetime.fromisoformat(text)


LEAP = at("2024-02-29T13:45:10.123")
FIRST, LAST = DatetimeMS(-(2**63)), DatetimeMS(2**63 - 1)
FAR = DatetimeMS(320_230_324_800_000)
"""Noon of 12117-09-11: ten thousand years after a day of the same calendar."""
SUNDAY = at("2024-03-10T06:30:00")


def evaluate(expression: Any, document: dict[str, Any] | None = None) -> Any:
    scope = Scope()
    return compile_expression(expression, scope)(scope.frame({"d": LEAP, **(document or {})}))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("$year", 2024),
        ("$month", 2),
        ("$dayOfMonth", 29),
        ("$hour", 13),
        ("$minute", 45),
        ("$second", 10),
        ("$millisecond", 123),
        ("$dayOfYear", 60),
        ("$dayOfWeek", 5),
        ("$week", 8),
        ("$isoDayOfWeek", 4),
        ("$isoWeek", 9),
        ("$isoWeekYear", 2024),
    ],
)
def test_a_date_has_parts(operator: str, expected: int) -> None:
    assert evaluate({operator: "$d"}) == evaluate({operator: ["$d"]}) == expected
    assert evaluate({operator: {"date": "$d", "timezone": "UTC"}}) == expected
    assert evaluate({operator: "$nothing"}) is None
    assert evaluate({operator: {"date": "$d", "timezone": "$nothing"}}) is None


@pytest.mark.parametrize(
    ("zone", "hour", "day"),
    [(NEW_YORK, 8, 29), (TOKYO, 22, 29), ("+11:30", 1, 1), ("-0030", 13, 29), ("+03", 16, 29)],
)
def test_parts_are_those_that_clocks_in_the_time_zone_show(zone: str, hour: int, day: int) -> None:
    assert evaluate({"$hour": {"date": "$d", "timezone": zone}}) == hour
    assert evaluate({"$dayOfMonth": {"date": "$d", "timezone": zone}}) == day


def test_timestamps_and_object_ids_stand_for_instants() -> None:
    assert evaluate({"$year": "$t"}, {"t": Timestamp(0, 1)}) == 1970
    assert evaluate({"$year": "$i"}, {"i": ObjectId.from_datetime(LEAP)}) == 2024


@pytest.mark.parametrize(
    ("amount", "unit", "zone", "expected"),
    [
        (1, "year", "UTC", "2025-02-28T13:45:10.123"),
        (1, "quarter", "UTC", "2024-05-29T13:45:10.123"),
        (-1, "month", "UTC", "2024-01-29T13:45:10.123"),
        (12, "month", "UTC", "2025-02-28T13:45:10.123"),
        (1, "week", "UTC", "2024-03-07T13:45:10.123"),
        (1, "day", "UTC", "2024-03-01T13:45:10.123"),
        (36, "hour", "UTC", "2024-03-02T01:45:10.123"),
        (-10, "second", "UTC", "2024-02-29T13:45:00.123"),
        (7, "millisecond", "UTC", "2024-02-29T13:45:10.130"),
        # The clocks go forward on the 10th of March: a day is an hour shorter, hours are not.
        (14, "day", NEW_YORK, "2024-03-14T12:45:10.123"),
        (14 * 24, "hour", NEW_YORK, "2024-03-14T13:45:10.123"),
    ],
)
def test_units_are_added_on_the_clocks_of_the_time_zone(
    amount: int, unit: str, zone: str, expected: str
) -> None:
    given_ = {"startDate": "$d", "unit": unit, "timezone": zone}
    assert evaluate({"$dateAdd": {**given_, "amount": amount}}) == at(expected)
    assert evaluate({"$dateSubtract": {**given_, "amount": -amount}}) == at(expected)


@pytest.mark.parametrize(
    ("start", "end", "unit", "expected"),
    [
        ("2023-12-31T23:59", "2024-01-01T00:00", "year", 1),
        ("2024-01-01T00:00", "2024-12-31T23:59", "year", 0),
        ("2024-03-31T00:00", "2024-04-01T00:00", "quarter", 1),
        ("2024-05-15T00:00", "2024-02-15T00:00", "month", -3),
        ("2024-03-09T23:00", "2024-03-10T01:00", "week", 1),
        ("2024-03-09T23:00", "2024-03-10T01:00", "day", 1),
        ("2024-03-10T01:59", "2024-03-10T02:01", "hour", 1),
        ("2024-03-10T01:00", "2024-03-10T01:01:30", "second", 90),
    ],
)
def test_a_difference_counts_the_boundaries_between(start: str, end: str, unit: str, expected: int) -> None:
    dates = {"startDate": at(start), "endDate": at(end)}
    assert evaluate({"$dateDiff": {**dates, "unit": unit}}) == expected


def test_a_week_begins_when_it_is_said_to() -> None:
    dates = {"startDate": at("2024-03-09T23:00"), "endDate": SUNDAY, "unit": "week"}
    assert evaluate({"$dateDiff": {**dates, "startOfWeek": "monday"}}) == 0
    week = {"date": SUNDAY, "unit": "week"}
    assert evaluate({"$dateTrunc": week}) == at("2024-03-10")
    assert evaluate({"$dateTrunc": {**week, "startOfWeek": "Mon"}}) == at("2024-03-04")


@pytest.mark.parametrize(
    ("unit", "size", "zone", "expected"),
    [
        ("year", 1, "UTC", "2024-01-01"),
        ("year", 5, "UTC", "2020-01-01"),
        ("quarter", 1, "UTC", "2024-01-01"),
        ("month", 1, "UTC", "2024-02-01"),
        ("day", 1, "UTC", "2024-02-29"),
        ("day", 1, NEW_YORK, "2024-02-29T05:00"),
        ("hour", 6, "UTC", "2024-02-29T12:00"),
        ("minute", 15, "UTC", "2024-02-29T13:45"),
        ("second", 1, "UTC", "2024-02-29T13:45:10"),
    ],
)
def test_a_date_is_cut_to_the_start_of_its_bin(unit: str, size: int, zone: str, expected: str) -> None:
    cut = {"date": "$d", "unit": unit, "binSize": size, "timezone": zone}
    assert evaluate({"$dateTrunc": cut}) == at(expected)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({}, "2024-02-29T13:45:10.123Z"),
        ({"timezone": TOKYO}, "2024-02-29T22:45:10.123"),
        ({"format": "%d/%m/%Y %H:%M:%S,%L"}, "29/02/2024 13:45:10,123"),
        ({"format": "%G-W%V-%u %j %U %w %b %B %%"}, "2024-W09-4 060 08 5 Feb February %"),
        ({"format": "%z %Z", "timezone": NEW_YORK}, "-0500 -300"),
        ({"date": None}, None),
        ({"date": None, "onNull": "none"}, "none"),
    ],
)
def test_a_date_is_shown_in_a_format(given_: dict[str, Any], expected: str | None) -> None:
    assert evaluate({"$dateToString": {"date": "$d", **given_}}) == expected


@pytest.mark.parametrize(
    ("text", "given_", "expected"),
    [
        ("2024-02-29", {}, "2024-02-29"),
        ("2024-02-29T13:45:10.123Z", {}, "2024-02-29T13:45:10.123"),
        ("2024-02-29 13:45:10+0100", {}, "2024-02-29T12:45:10"),
        ("2024-02-29T08:45:10", {"timezone": NEW_YORK}, "2024-02-29T13:45:10"),
        ("06-15-2018", {"format": "%m-%d-%Y"}, "2018-06-15"),
        ("15 June 2018", {"format": "%d %B %Y"}, "2018-06-15"),
        ("2020-W01-1", {"format": "%G-W%V-%u"}, "2019-12-30"),
    ],
)
def test_a_date_is_read_from_text(text: str, given_: dict[str, Any], expected: str) -> None:
    assert evaluate({"$dateFromString": {"dateString": text, **given_}}) == at(expected)


def test_a_text_that_is_no_date_is_an_error_unless_something_stands_in() -> None:
    with pytest.raises(CommandError) as caught:
        evaluate({"$dateFromString": {"dateString": "2024-02-30"}})
    assert caught.value.code == 241
    assert evaluate({"$dateFromString": {"dateString": "x", "onError": "bad"}}) == "bad"
    assert evaluate({"$dateFromString": {"dateString": "$nothing", "onNull": "none"}}) == "none"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"year": 2024}, "2024-01-01"),
        ({"year": 2024, "month": 14, "day": 0}, "2025-01-31"),
        ({"year": 2024, "hour": 12, "timezone": TOKYO}, "2024-01-01T03:00"),
        ({"isoWeekYear": 2020, "isoWeek": 1}, "2019-12-30"),
    ],
)
def test_a_date_is_made_of_parts_that_may_overflow(parts: dict[str, Any], expected: str) -> None:
    assert evaluate({"$dateFromParts": parts}) == at(expected)


def test_a_date_falls_apart() -> None:
    day = {"year": 2024, "month": 2, "day": 29}
    time = {"hour": 13, "minute": 45, "second": 10, "millisecond": 123}
    assert evaluate({"$dateToParts": {"date": "$d"}}) == {**day, **time}
    iso = {"isoWeekYear": 2024, "isoWeek": 9, "isoDayOfWeek": 4}
    assert evaluate({"$dateToParts": {"date": "$d", "iso8601": True}}) == {**iso, **time}


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$year": "text"}, 16006),
        ({"$year": ["$d", 1]}, 40536),
        ({"$year": {"date": "$d", "zone": "UTC"}}, 40535),
        ({"$year": {"timezone": "UTC"}}, 40539),
        ({"$hour": {"date": "$d", "timezone": "Middle/Earth"}}, 40485),
        ({"$hour": {"date": "$d", "timezone": 1}}, 40517),
        ({"$dateToString": {"date": "$d", "format": "%"}}, 18535),
        ({"$dateToString": {"date": "$d", "format": "%k"}}, 18536),
        ({"$dateToString": {"date": "$d", "form": "%Y"}}, 18534),
        ({"$dateAdd": {"startDate": "$d", "unit": "moment", "amount": 1}}, 9),
        ({"$dateAdd": {"startDate": "$d", "unit": "day", "amount": 1.5}}, 5166405),
        ({"$dateAdd": {"startDate": "$d", "unit": "year", "amount": 300_000_000}}, 5166406),
        ({"$dateAdd": {"startDate": "$d", "unit": "year", "amount": 10**9}}, 5976500),
        ({"$dateAdd": {"startDate": "$d", "unit": "hour", "amount": -(10**14)}}, 5976500),
        ({"$dateAdd": {"startDate": "$d", "unit": "millisecond", "amount": 2**63 - 1}}, 5166406),
        ({"$dateSubtract": {"startDate": "$d", "unit": "second", "amount": -(2**63)}}, 6045000),
        ({"$dateDiff": {"startDate": LAST, "endDate": FIRST, "unit": "millisecond"}}, 15),
        ({"$subtract": [LAST, FIRST]}, 15),
        ({"$add": [LAST, 1]}, 15),
        ({"$dateTrunc": {"date": FIRST, "unit": "year"}}, 15),
        ({"$dateToString": {"date": FAR}}, 18537),
        ({"$toString": FAR}, 18537),
        ({"$dateAdd": {"startDate": "$d", "unit": "day"}}, 5166402),
        ({"$dateDiff": {"startDate": 1, "endDate": "$d", "unit": "day"}}, 5166307),
        ({"$dateTrunc": {"date": "$d", "unit": "day", "binSize": 0}}, 5439018),
        ({"$dateTrunc": {"date": "$d", "unit": "week", "startOfWeek": "someday"}}, 5439016),
        ({"$dateFromParts": {"month": 1}}, 40516),
        ({"$dateFromParts": {"year": 2024.5}}, 40515),
        ({"$dateFromParts": {"year": 2024, "month": 2**15}}, 31034),
        ({"$dateFromParts": {"year": 2024, "minute": -(2**15) - 1}}, 31034),
    ],
)
def test_what_makes_no_sense_is_refused(expression: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        evaluate(expression)
    assert caught.value.code == code


DATES = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2037, 1, 1)).map(  # noqa: DTZ001 - as BSON's
    lambda date: date.replace(microsecond=date.microsecond // 1000 * 1000)
)
ZONES = st.sampled_from(["UTC", "+05:30", "-11:00"]).map(calendar.zone)
UNITS = st.sampled_from(sorted(calendar.UNITS))


@given(DATES, UNITS, st.integers(1, 20), ZONES, st.integers(0, 6))
def test_a_bin_holds_the_date_that_it_was_made_of(
    date: dt.datetime, unit: str, size: int, where: dt.tzinfo, week_start: int
) -> None:
    start = calendar.truncate(date, unit, size, where, week_start)
    end = calendar.add(start, unit, size, where)
    assert milliseconds(start) <= milliseconds(date) < milliseconds(end)
    assert calendar.truncate(start, unit, size, where, week_start) == start


@given(DATES, ZONES)
def test_what_is_shown_is_read_as_the_same_date(date: dt.datetime, where: dt.tzinfo) -> None:
    pattern = "%Y-%m-%dT%H:%M:%S.%L%z"
    assert calendar.parse(calendar.show(date, pattern, where), pattern, None) == date


@given(DATES, UNITS, st.integers(-50, 50), ZONES)
def test_as_many_boundaries_are_crossed_as_units_were_added(
    date: dt.datetime, unit: str, amount: int, where: dt.tzinfo
) -> None:
    later = calendar.add(date, unit, amount, where)
    assert calendar.difference(date, later, unit, where, 6) == amount


@given(DATES, UNITS, st.integers(-50, 50), ZONES, st.integers(-1000, 1000))
def test_the_calendar_begins_anew_every_400_years(
    date: dt.datetime, unit: str, amount: int, where: dt.tzinfo, cycles: int
) -> None:
    far, later = unfolded(date, cycles), calendar.add(date, unit, amount, where)
    assert calendar.add(far, unit, amount, where) == unfolded(*_near(later, cycles))
    assert calendar.truncate(far, unit, 1, where, 0) == unfolded(
        *_near(calendar.truncate(date, unit, 1, where, 0), cycles)
    )
    boundaries = calendar.difference(date, later, unit, where, 0)
    assert calendar.difference(far, unfolded(*_near(later, cycles)), unit, where, 0) == boundaries


def _near(date: Any, cycles: int) -> tuple[dt.datetime, int]:
    near, more = folded(date)
    return near, more + cycles


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_date_is_found_again_by_its_milliseconds(total: int) -> None:
    date = date_of(total)
    assert milliseconds(date) == total
    assert unfolded(*folded(date)) == date


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$year": FAR}, 12117),
        ({"$isoWeekYear": FAR}, 12117),
        ({"$month": FAR}, 9),
        ({"$dayOfYear": FAR}, 254),
        ({"$dayOfWeek": FAR}, 7),
        ({"$hour": {"date": FAR, "timezone": TOKYO}}, 21),
        ({"$hour": {"date": FAR, "timezone": NEW_YORK}}, 8),
        ({"$year": FIRST}, -292_275_055),
        ({"$year": LAST}, 292_278_994),
        ({"$getField": {"field": "isoWeek", "input": {"$dateToParts": {"date": FAR, "iso8601": True}}}}, 36),
        ({"$dateToString": {"date": FAR, "format": "%m-%d %H:%M"}}, "09-11 12:00"),
        ({"$dateToString": {"date": {"$dateSubtract": {"startDate": at("0001-03-01"), "unit": "month",
                                                       "amount": 3}}}}, "0000-12-01T00:00:00.000Z"),
        ({"$dateAdd": {"startDate": at("2117-09-11T12:00"), "unit": "year", "amount": 10_000}}, FAR),
        ({"$dateAdd": {"startDate": FAR, "unit": "day", "amount": -3_652_425}}, at("2117-09-11T12:00")),
        ({"$dateDiff": {"startDate": "$d", "endDate": FAR, "unit": "year"}}, 10_093),
        ({"$dateTrunc": {"date": FAR, "unit": "day"}}, DatetimeMS(int(FAR) - 43_200_000)),
        ({"$dateFromParts": {"year": 9999, "month": 13}}, DatetimeMS(253_402_300_800_000)),
        ({"$add": [FAR, 5]}, DatetimeMS(int(FAR) + 5)),
        ({"$subtract": [FAR, 5.7]}, DatetimeMS(int(FAR) - 6)),
        ({"$subtract": [FAR, LEAP]}, Int64(int(FAR) - 1_709_214_310_123)),
        ({"$gt": [FAR, LEAP]}, True),
        ({"$max": [FIRST, FAR, LEAP]}, FAR),
    ],
    ids=str,
)  # fmt: skip
def test_a_date_may_be_of_any_year(expression: Any, expected: Any) -> None:
    assert evaluate(expression) == expected
