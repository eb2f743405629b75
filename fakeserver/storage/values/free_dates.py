"""Dates in free text: what `$dateFromString` and `$toDate` read without a format.

A text is a date, a time and a time zone, each in one of the forms that a server's parser knows; the date must
be there as a whole. Forms that count from today (`tomorrow`, `next week`) are not read.

A server has timelib, the parser of PHP's `strtotime`, and its peculiarities are kept: a year of more than
four digits is read four by four (`_last_year`), two digits are of 1970 to 2069, a weekday that is not the
date's moves the date on. `read` takes one part after the other off the beginning of the text; what is left
over at the end must be a time zone. `calendar.parse` makes an instant of the result.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.storage.values.dates import folded_year
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED: Final = "(?P<name>[a-z]{3,9})"
_ORDINAL: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
# Tried in this order, the first that matches: day before month only where hyphens separate them (European),
# month before day where slashes do (American), and digits without a separator last.
_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
        r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
        rf"(?P<year>\d{{4}})[- ]{_NAMED}[- ](?P<day>\d{{1,2}})",
        r"(?P<day>\d{1,2})-(?P<month>\d{1,2})-(?P<year>\d{4})",
        r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}|\d{2})(?!\d)",
        rf"{_NAMED} {_ORDINAL},? (?P<year>\d{{4}})(?![:\d])",
        rf"{_ORDINAL}[- ]{_NAMED}[- ,]+(?P<year>\d{{4}})",
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?!\d)",
    )
)
_EARLY: Final = re.compile(r"(?:0000|-(?P<before>\d{4}))(?=-\d{2}-\d{2})")
"""A year before 1 at the beginning of a date."""
_LONG: Final = re.compile(r"\d{5,}(?=-\d{2}-\d{2})")
"""A year with more than four digits."""
_CLOCK: Final = re.compile(r"(?:[01]\d|2[0-4])[0-5]\d")
_TIMES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?:[:.](?P<second>\d{2})(?:[.,:](?P<fraction>\d{1,9}))?)?"
            r"(?: ?(?P<half>[ap]\.?m\.?)(?![a-z]))?"
        ),
        r"(?P<hour>\d{1,2}) ?(?P<half>[ap]\.?m\.?)",
        "(?P<word>noon|midnight)",
    )
)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY: Final = re.compile(rf"({'|'.join(_WEEKDAYS)})(?:[a-z]{{3,6}})?[,.]?\s+(?=\S)", re.IGNORECASE)
_YEAR_LAST: Final = re.compile(
    r"(?P<date>[a-z]{3,9} \d{1,2}) (?P<time>\d{1,2}:\d{2}(?::\d{2})?(?: (?:[+-]\d{1,2}:?\d{2}|[A-Z]{3,5}))?)"
    r" (?P<year>\d{4})",
    re.IGNORECASE,
)
"""A date as C prints it: the time, and its zone, between the day and the year."""
_INCOMPLETE: Final = re.compile(rf"(?:{_NAMED} {_ORDINAL}|[\d:.]+)", re.IGNORECASE)
ZONE: Final = r"(?:\s*(?:(?:GMT|UTC)?[+-]\d{1,2}(?::?\d{2})?|[A-Z]{1,5}))"
"""A time zone in a text: an offset, also behind GMT, an abbreviation, or a military letter."""
_OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE)
# Abbreviations have one meaning each: `IST` is India's, `CST` America's. The military letters leave out J.
_HOURS: Final[Mapping[str, float]] = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "BST": 1, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3,
    "MSK": 3, "IST": 5.5, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13, "EST": -5,
    "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8,
    "HST": -10,
    **{letter: hours for hours, letter in enumerate("ABCDEFGHI", start=1)},
    **{letter: hours for hours, letter in enumerate("KLM", start=10)},
    **{letter: -hours for hours, letter in enumerate("NOPQRSTUVWXY", start=1)},
}  # fmt: skip
_CENTURY: Final = 100
_LAST_OF_2000: Final = 70


class FreeDate(NamedTuple):
    """What a text shows: clocks, and how far they are ahead where the text says it."""

    shown: dt.datetime
    ahead: dt.timedelta | None
    cycles: int = 0
    """How far the year is away from the one that is shown: those before 1 have no dates of their own."""


_BLANKS: Final = " \t\n\v\f\r\0\xa0"


def read(text: str) -> FreeDate:
    """Return what a text shows. Raises `CommandError` 241."""
    found: dt.date | None = None
    # Only spaces of ASCII, and the one that does not break, stand around a date; null bytes are passed over.
    rest = text.strip(_BLANKS)
    weekday = _WEEKDAY.match(rest)
    if weekday is not None:
        rest = rest[weekday.end() :]
    as_printed = _YEAR_LAST.fullmatch(rest)
    if as_printed is not None:
        rest = f"{as_printed['date']} {as_printed['year']} {as_printed['time']}"
    cycles = 0
    # Python's dates begin with year 1, so an earlier one is read as one that is whole cycles later.
    early = _EARLY.match(rest)
    if early is not None:
        year, cycles = folded_year(-int(early["before"] or 0))
        rest = f"{year:04}{rest[early.end() :]}"
    long = _LONG.match(rest)
    if long is not None:
        rest = f"{_last_year(long[0], text)}{rest[long.end() :]}"
    for pattern in _DATES:
        match = pattern.match(rest)
        if match is not None:
            found, rest = _date(match, text), rest[match.end() :]
            break
    if found is None:
        if _INCOMPLETE.fullmatch(rest):
            raise _failed(f"an incomplete date/time string has been found, with elements missing: '{text}'")
        raise _broken(text)
    if weekday is not None:
        # A day of the week that is not that of the date is the next one.
        found += dt.timedelta((_WEEKDAYS.index(weekday[1].lower()) - found.weekday()) % 7)
    rest = rest.lstrip()
    # A `T` between date and time; one without a digit behind it is the military zone.
    rest = rest[1:] if rest[:1] in {"T", "t", ","} and rest[1:2].isdigit() else rest
    clock, rest = _time(rest.lstrip(), text)
    ahead = zone(rest.strip(_BLANKS)) if rest.strip(_BLANKS) else None
    if rest.strip(_BLANKS) and ahead is None:
        raise _broken(text)
    return FreeDate(dt.datetime.combine(found, dt.time()) + clock, ahead, cycles)


def zone(text: str) -> dt.timedelta | None:
    """Return how far a time zone of a text is ahead, None for one that is not known."""
    text = text.strip()
    match = _OFFSET.fullmatch(text)
    if match is not None:
        ahead = dt.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return -ahead if match[1] == "-" else ahead
    hours = _HOURS.get(text.upper())
    return None if hours is None else dt.timedelta(hours=hours)


def _failed(message: str) -> CommandError:
    return CommandError(ErrorCode.CONVERSION_FAILURE, message)


def _broken(text: str) -> CommandError:
    return _failed(f"Error parsing date string '{text}'")


def _date(match: re.Match[str], text: str) -> dt.date:
    parts = match.groupdict()
    year = int(parts["year"])
    if year < _CENTURY and len(parts["year"]) == 2:  # noqa: PLR2004 -- digits
        year = _of_century(year)
    name = parts.get("name")
    try:
        month = _MONTHS.index(name[:3].lower()) + 1 if name else int(parts["month"])
        return dt.date(year, month, int(parts["day"]))
    except ValueError:
        raise _broken(text) from None


def _last_year(digits: str, text: str) -> int:
    """Return what is read of a year with too many digits: four by four are years, of which the last counts.

    Four that may be hours and minutes are the time of day, which then stands there twice.
    """
    left = len(digits) % 4
    groups = re.findall(r"\d{4}", digits)
    if left not in {1, 2} or any(map(_CLOCK.fullmatch, groups)):
        raise _broken(text)
    return _of_century(int(digits[-left:]))


def _of_century(year: int) -> int:
    return year + (2000 if year < _LAST_OF_2000 else 1900)


def _time(rest: str, text: str) -> tuple[dt.timedelta, str]:
    """Return the time of day at the beginning of a text, and what follows it."""
    for pattern in _TIMES:
        match = pattern.match(rest)
        if match is None:
            continue
        parts = match.groupdict()
        if "word" in parts:
            return dt.timedelta(hours=12 if parts["word"].lower() == "noon" else 0), rest[match.end() :]
        hour = int(parts["hour"])
        if parts.get("half"):
            # 12am is midnight, and 12pm noon.
            hour = hour % 12 + (12 if parts["half"][0].lower() == "p" else 0)
        if hour > 24:  # noqa: PLR2004 -- the hours of a day, the end of it included
            raise _broken(text)
        millis = int((parts.get("fraction") or "0").ljust(3, "0")[:3])
        minutes, seconds = int(parts.get("minute") or 0), int(parts.get("second") or 0)
        return dt.timedelta(hours=hour, minutes=minutes, seconds=seconds, milliseconds=millis), rest[
            match.end() :
        ]
    return dt.timedelta(), rest
