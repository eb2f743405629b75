"""Dates in texts without a format: what is read, what is incomplete, and what is broken."""

from __future__ import annotations

from typing import Any

import pytest
from operator_examples import day
from pipelines import piped, refusal

AFTERNOON = "2024-03-15T13:45:59"


def value(text: str, **more: Any) -> Any:
    (found,) = piped([{}], {"$replaceWith": {"r": {"$dateFromString": {"dateString": text, **more}}}})
    return found["r"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-15T13:45:59.81Z", "2024-03-15T13:45:59.810"),
        ("2024-03-15T13:45.59", AFTERNOON),
        ("2024-03-15T13:45.59.8", "2024-03-15T13:45:59.800"),
        ("2024-03-15 13:45:59", AFTERNOON),
        ("2024-03-15 13:45", "2024-03-15T13:45"),
        ("2024-03-15", "2024-03-15"),
        ("20240315", "2024-03-15"),
        ("2024/03/15", "2024-03-15"),
        ("15-03-2024", "2024-03-15"),
        ("3/15/24", "2024-03-15"),
        ("3/15/1999 1pm", "1999-03-15T13:00"),
        ("2024-Mar-15 noon", "2024-03-15T12:00"),
        ("March 15th, 2024", "2024-03-15"),
        ("March 15th, 2024 1:45pm", "2024-03-15T13:45"),
        ("March 15th, 2024 12am", "2024-03-15"),
        ("15 March 2024", "2024-03-15"),
        ("2024-03-15T13:45:59 GMT", AFTERNOON),
        ("2024-03-15T13:45:59 GMT+02", "2024-03-15T11:45:59"),
        ("2024-03-15T13:45:59+0330", "2024-03-15T10:15:59"),
        ("2024-03-15 13:45:59 GMT-0200", "2024-03-15T15:45:59"),
        ("2024-03-15T13:45:59 CEST", "2024-03-15T11:45:59"),
        ("2024-03-15T13:45:59 EST", "2024-03-15T18:45:59"),
        ("2024-03-15T13:45:59 A", "2024-03-15T12:45:59"),
        ("2024-03-15T13:45:59 P", "2024-03-15T16:45:59"),
        ("Fri, 15 Mar 2024 13:45:59 +0200", "2024-03-15T11:45:59"),
        ("Friday March 15th, 2024", "2024-03-15"),
        ("Sun 15 March 2024", "2024-03-17"),
        ("WED jan 31 12:05:28 +03:30 1996", "1996-01-31T08:35:28"),
        ("Fri Mar 15 13:45:59 2024", AFTERNOON),
        ("20609-01-01T00:00:00Z", "2009-01-01"),
        ("199990-01-01", "1990-01-01"),
        (f"{'9' * 49}1-01-01", "1991-01-01"),
    ],
)
def test_a_text_is_read_as_a_date(text: str, expected: str) -> None:
    assert value(text) == day(expected)


@pytest.mark.parametrize(
    ("text", "year", "hour"),
    [("0000-01-01T00:00:00Z", 0, 0), ("-0001-02-28 13:45", -1, 13), ("-0400-01-01T00:00:00+01:00", -401, 23)],
)
def test_a_year_may_be_one_before_the_first(text: str, year: int, hour: int) -> None:
    parts = {"year": {"$year": "$r"}, "hour": {"$hour": "$r"}}
    read = {"$set": {"r": {"$toDate": text}}}
    assert piped([{}], read, {"$replaceWith": parts}) == [{"year": year, "hour": hour}]


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("15 3 2024", "%d %m %Y", "2024-03-15"),
        ("2024 % 03 % 15", "%Y %% %m %% %d", "2024-03-15"),
        ("3/15/2024:+0445", "%m/%d/%Y:%z", "2024-03-14T19:15"),
        ("3/15/2024:+285", "%m/%d/%Y:%Z", "2024-03-14T19:15"),
        ("2024-03-15T13:45:59.678 GMT+02:00", "%Y-%m-%dT%H:%M:%S.%L%z", "2024-03-15T11:45:59.678"),
        ("2017, Week 53", "%G, Week %V", "2018-01-01"),
        ("53.7.2017", "%V.%u.%G", "2018-01-07"),
        ("1.1.1", "%V.%u.%G", "0001-01-01"),
    ],
)
def test_a_format_says_what_a_text_shows(text: str, pattern: str, expected: str) -> None:
    assert value(text, format=pattern) == day(expected)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ({"dateString": "March 15th"}, "incomplete"),
        ({"dateString": "13:45:59"}, "incomplete"),
        ({"dateString": "2024, 13:45:59"}, "Error parsing"),
        ({"dateString": "2024-02-30"}, "Error parsing"),
        ({"dateString": "2024-03-15T13:45:59 Europe/Paris"}, "Error parsing"),
        ({"dateString": "2024-03-15T25:00"}, "Error parsing"),
        ({"dateString": "2024-03-15T13:45:59Z", "timezone": "Europe/Paris"}, "timezone argument"),
        ({"dateString": "2024-03", "format": "%Y-%m-%d"}, "Error parsing"),
        ({"dateString": "Day 6", "format": "Day %u"}, "invalid"),
        ({"dateString": "Week 1, 2018", "format": "Week %V, %Y"}, "Mixing"),
    ],
    ids=str,
)
def test_what_is_no_date_is_refused_with_its_reason(argument: Any, reason: str) -> None:
    code, text = refusal([{}], {"$set": {"r": {"$dateFromString": argument}}})
    assert code == 241
    assert reason in text
