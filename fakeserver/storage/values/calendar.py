"""Arithmetic of dates in a time zone: units, parts, text. Dates are naive and in UTC, as decoded ones are.

`add`, `difference` and `truncate` are `$dateAdd`, `$dateDiff` and `$dateTrunc`; `show` and `parse` are
`$dateToString` and `$dateFromString`. Each turns an instant into what the clocks of the zone show (`local`),
computes there, and turns it back (`instant`): a day is from midnight to midnight, though it may have 23
hours. Units below a day pass in universal time (`_TIMES`), so that an hour is an hour when clocks are set.

Dates of any year are computed with in a near one, whole cycles of 400 years away (`dates.folded`); functions
that take or return `cycles` are those in between.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from fakeserver.errors import CommandError
from fakeserver.storage.values import free_dates
from fakeserver.storage.values.dates import (
    MILLIS_OF_A_CYCLE,
    YEARS_OF_A_CYCLE,
    Date,
    date_of,
    folded,
    folded_milliseconds,
    folded_year,
    unfolded,
)
from fakeserver.storage.values.limits import checked_text
from fakeserver.storage.values.types import INT64_MAX, milliseconds
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UNKNOWN_ZONE: Final = 40485
_BAD_FORMAT: Final = 18536
_OPEN_FORMAT: Final = 18535
_BAD_YEAR: Final = 18537
ISO_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%LZ"
_REFERENCE: Final = dt.datetime(2000, 1, 1)  # noqa: DTZ001 -- where a server begins to count its bins
_SPECIFIER: Final = re.compile("%(.?)", re.DOTALL)
_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)?")
_A_DAY: Final = dt.timedelta(days=1)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_LENGTHS: Final[Mapping[str, dt.timedelta]] = {
    "week": dt.timedelta(weeks=1),
    "day": dt.timedelta(days=1),
    "hour": dt.timedelta(hours=1),
    "minute": dt.timedelta(minutes=1),
    "second": dt.timedelta(seconds=1),
    "millisecond": _MILLISECOND,
}
_MONTHS: Final[Mapping[str, int]] = {"year": 12, "quarter": 3, "month": 1}
_MONTHS_OF_A_CYCLE: Final = 12 * YEARS_OF_A_CYCLE
UNITS: Final = frozenset(_MONTHS) | frozenset(_LENGTHS)
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


class _FarZone(dt.tzinfo):
    """A time zone whose clocks are a day or more ahead or behind, which no zone of Python's may be."""

    def __init__(self, ahead: dt.timedelta) -> None:
        self.ahead = ahead

    def utcoffset(self, _date: dt.datetime | None) -> dt.timedelta:
        """Return how far its clocks are ahead."""
        return self.ahead

    def dst(self, _date: dt.datetime | None) -> dt.timedelta:
        """Return nothing: its clocks are never set."""
        return dt.timedelta()

    def tzname(self, _date: dt.datetime | None) -> str:
        """Return its offset as text."""
        return str(self.ahead)


def zone(name: str) -> dt.tzinfo:
    """Return a time zone by its Olson name or offset. Raises `CommandError` 40485."""
    if name in {"UTC", "GMT"}:
        return dt.UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        length = dt.timedelta(hours=int(hours), minutes=int(minutes or 0)) * (1 if sign == "+" else -1)
        # `+99:00` is an offset to a server, and none that `datetime` accepts.
        return dt.timezone(length) if abs(length) < _A_DAY else _FarZone(length)
    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError):
        raise CommandError(_UNKNOWN_ZONE, f'unrecognized time zone identifier: "{name}"') from None


def local(date: dt.datetime, where: dt.tzinfo) -> dt.datetime:
    """Return what the clocks of a time zone show at an instant."""
    # By hand, because `astimezone` refuses an offset of a day or more.
    if isinstance(where, _FarZone):
        return date + where.ahead
    return date.replace(tzinfo=dt.UTC).astimezone(where).replace(tzinfo=None)


def instant(shown: dt.datetime, where: dt.tzinfo) -> dt.datetime:
    """Return when the clocks of a time zone show that.

    Of a time that they show twice, the first; one that they skip counts from the offset before the change.
    """
    if isinstance(where, _FarZone):
        return shown - where.ahead
    return shown.replace(tzinfo=where).astimezone(dt.UTC).replace(tzinfo=None)


def offset(date: dt.datetime, where: dt.tzinfo) -> dt.timedelta:
    """Return how far the clocks of a time zone are ahead at an instant."""
    return local(date, where) - date


def _elapsed(shown: dt.datetime, cycles: int, since: dt.datetime) -> int:
    """Return the milliseconds between what clocks show, so many cycles away, and something else they show."""
    return (shown - since) // _MILLISECOND + cycles * MILLIS_OF_A_CYCLE


def far_instant(shown: dt.datetime, cycles: int, where: dt.tzinfo) -> Date:
    """Return when the clocks of a time zone show that, so many cycles away. Raises OverflowError."""
    return unfolded(instant(shown, where), cycles)


def milliseconds_of(unit: str) -> int:
    """Return the length of a unit that is always the same, a week at most."""
    return _LENGTHS[unit] // _MILLISECOND


def most(unit: str) -> int:
    """Return how many units are too many for any date: more than lie between the first one and the last.

    Callers refuse such an amount at once, instead of computing with integers of any length.
    """
    days = (2**64 - 1) // milliseconds_of("day") + 1
    if unit in _MONTHS:
        return (days // 365 + 1) * 12 // _MONTHS[unit]
    return 2**64 if unit == "millisecond" else days * milliseconds_of("day") // milliseconds_of(unit)


def add(date: Date, unit: str, amount: int, where: dt.tzinfo) -> Date:
    """Return the date that many units later; a month that is too short ends sooner.

    Raises OverflowError beyond the dates of 64 bits.
    """
    shown, cycles = folded(date)
    if unit in _MONTHS:
        # In months since year 0: a quarter or a year is 3 or 12 of them, and only the day is left to fit.
        shown = local(shown, where)
        year, month = divmod(_month(shown) + amount * _MONTHS[unit], 12)
        year, more = folded_year(year)
        day = min(shown.day, monthrange(year, month + 1)[1])
        return far_instant(shown.replace(year=year, month=month + 1, day=day), cycles + more, where)
    clock = where if unit in {"week", "day"} else dt.UTC
    shown = local(shown, clock)
    passed = amount * milliseconds_of(unit)
    # A cycle at a time is only for what is far away: nearer dates keep to the clocks of their own years.
    more = passed // MILLIS_OF_A_CYCLE if passed >= 0 else -(-passed // MILLIS_OF_A_CYCLE)
    return far_instant(shown + (passed - more * MILLIS_OF_A_CYCLE) * _MILLISECOND, cycles + more, clock)


def difference(start: Date, end: Date, unit: str, where: dt.tzinfo, week_start: int) -> int:
    """Return how many boundaries of a unit lie between two dates."""
    (first, past), (last, ahead) = folded(start), folded(end)
    if unit in _TIMES:
        length = milliseconds_of(unit)
        begun, ended = (_bin_start(*each, length, where) for each in ((first, past), (last, ahead)))
        return (ended - begun) // length
    first, last = local(first, where), local(last, where)
    if unit in _MONTHS:
        length = _MONTHS[unit]
        return (_month(last) + ahead * _MONTHS_OF_A_CYCLE) // length - (
            _month(first) + past * _MONTHS_OF_A_CYCLE
        ) // length
    # Days and weeks are counted from the same beginning on both sides: the difference of the numbers is that
    # of the boundaries, however far apart the dates are.
    since = _REFERENCE
    if unit == "week":
        since = _REFERENCE - dt.timedelta(days=(_REFERENCE.weekday() - week_start) % 7)
    length = milliseconds_of(unit)
    return _elapsed(last, ahead, since) // length - _elapsed(first, past, since) // length


_TIMES: Final = frozenset({"hour", "minute", "second", "millisecond"})
"""The units that pass alike when clocks are set: an hour that is skipped or repeated counts as it was."""


def _bin_start(date: dt.datetime, cycles: int, length: int, where: dt.tzinfo) -> int:
    """Return when a bin of `length` milliseconds began, in milliseconds of universal time."""
    passed = _elapsed(date, cycles, _REFERENCE)
    return passed - _elapsed(local(date, where), cycles, _REFERENCE) % length


def _month(shown: dt.datetime) -> int:
    return shown.year * 12 + shown.month - 1


_MOST_YEARS: Final = 100_000_000_000
"""The years of the largest bin of `$dateTrunc`; error 5439006 beyond."""


def _too_large(code: int, size: int) -> CommandError:
    return CommandError(code, f"dateTrunc unsupported binSize value: {size}")


def truncate(date: Date, unit: str, size: int, where: dt.tzinfo, week_start: int) -> Date:
    """Return the start of the bin of `size` units that a date is in.

    Raises `CommandError` for a bin that is too large, and OverflowError where its start is beyond the dates
    of 64 bits.
    """
    shown, cycles = folded(date)
    shown = local(shown, where)
    if unit in _MONTHS:
        months = size * _MONTHS[unit]
        if months > _MOST_YEARS * 12:
            raise _too_large(5439006, size)
        reference = _month(_REFERENCE)
        passed = _month(shown) + cycles * _MONTHS_OF_A_CYCLE - reference
        year, month = divmod(reference + passed // months * months, 12)
        year, cycles = folded_year(year)
        return far_instant(dt.datetime(year, month + 1, 1), cycles, where)  # noqa: DTZ001 -- what clocks show
    reference_date = _REFERENCE
    # Bins of weeks begin on the first such weekday of 2000, not with the week that the year begins in.
    if unit == "week":
        reference_date += dt.timedelta(days=(week_start - _REFERENCE.weekday()) % 7)
    length = size * milliseconds_of(unit)
    if length > INT64_MAX:
        raise _too_large(5439002, size)
    if unit in _TIMES:
        begun = _bin_start(folded(date)[0], cycles, length, where)
        return date_of(milliseconds(_REFERENCE) + begun)
    passed = _elapsed(shown, cycles, reference_date) // length * length
    shown, cycles = folded_milliseconds(milliseconds(reference_date) + passed)
    return far_instant(shown, cycles, where)


# Text.
#
# One table for each direction: `_FORMATS` and `_YEARS` print, `_PARSERS` read. A specifier that a server
# prints and does not read (`%U`, `%w`) is in the first alone; any other is an error before a date is seen.

_YEARS: Final[Mapping[str, Callable[[dt.datetime], int]]] = {
    "G": lambda shown: shown.isocalendar().year,
    "Y": lambda shown: shown.year,
}
_FORMATS: Final[Mapping[str, Callable[[dt.datetime, dt.timedelta], str]]] = {
    "b": lambda shown, _: _NAMES[shown.month - 1][:3],
    "B": lambda shown, _: _NAMES[shown.month - 1],
    "d": lambda shown, _: f"{shown.day:02}",
    "H": lambda shown, _: f"{shown.hour:02}",
    "j": lambda shown, _: f"{shown.timetuple().tm_yday:03}",
    "L": lambda shown, _: f"{shown.microsecond // 1000:03}",
    "m": lambda shown, _: f"{shown.month:02}",
    "M": lambda shown, _: f"{shown.minute:02}",
    "S": lambda shown, _: f"{shown.second:02}",
    "u": lambda shown, _: str(shown.isoweekday()),
    "U": lambda shown, _: f"{week(shown):02}",
    "V": lambda shown, _: f"{shown.isocalendar().week:02}",
    "w": lambda shown, _: str(shown.isoweekday() % 7 + 1),
    "z": lambda _, ahead: _signed(ahead),
    "Z": lambda _, ahead: str(_minutes(ahead)),
    "%": lambda _shown, _ahead: "%",
}


def week(shown: dt.datetime) -> int:
    """Return the week of the year, which begins on Sundays; days before the first Sunday are in week 0."""
    return (shown.timetuple().tm_yday + 6 - shown.isoweekday() % 7) // 7


def _minutes(ahead: dt.timedelta) -> int:
    """Return whole minutes; what clocks of old were ahead in seconds is cut off."""
    return int(ahead / dt.timedelta(minutes=1))


def _signed(ahead: dt.timedelta) -> str:
    minutes = _minutes(ahead)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"


def check_format(pattern: str, known: str) -> None:
    """Refuse a format with other specifiers than `known`. Raises `CommandError` 18535 or 18536."""
    for found in interruptible(_SPECIFIER.finditer(pattern)):
        specifier = found[1]
        if not specifier:
            raise CommandError(_OPEN_FORMAT, "Unmatched '%' at end of format string")
        if specifier not in known:
            raise CommandError(_BAD_FORMAT, f"Invalid format character '%{specifier}' in format string")


def show(date: Date, pattern: str, where: dt.tzinfo) -> str:
    """Return a date as text.

    Raises `CommandError` 18535 or 18536 for a bad format, 18537 for a year that has no four digits.
    """
    check_format(pattern, "".join((*_FORMATS, *_YEARS)))
    near, cycles = folded(date)
    shown, ahead = local(near, where), offset(near, where)

    def put(specifier: str) -> str:
        if specifier not in _YEARS:
            return _FORMATS[specifier](shown, ahead)
        year = _YEARS[specifier](shown) + cycles * YEARS_OF_A_CYCLE
        if not 0 <= year <= dt.MAXYEAR:
            raise CommandError(
                _BAD_YEAR,
                "Could not convert date to string: date component was outside the supported range of 0-9999:"
                f" {year}",
            )
        return f"{year:04}"

    # `split` with a group yields text and specifiers in turns: those at odd places are specifiers.
    parts = interruptible(_SPECIFIER.split(pattern))
    return checked_text("".join(put(part) if at % 2 else part for at, part in enumerate(parts)))


# Digits are taken as a server takes them, as many as there may be: none is given back for what follows.
_PARSERS: Final[Mapping[str, str]] = {
    "b": f"(?P<b>{'|'.join(name[:3] for name in _NAMES)})",
    "B": f"(?P<B>{'|'.join(_NAMES)})",
    "d": r"(?P<d>\d{1,2}+)",
    "G": r"(?P<G>\d{1,4}+)",
    "H": r"(?P<H>\d{1,2}+)",
    "j": r"(?P<j>\d{1,3}+)",
    "L": r"(?P<L>\d{1,3}+)",
    "m": r"(?P<m>\d{1,2}+)",
    "M": r"(?P<M>\d{1,2}+)",
    "S": r"(?P<S>\d{1,2}+)",
    "u": r"(?P<u>[1-7])",
    "V": r"(?P<V>\d{1,2}+)",
    "Y": r"(?P<Y>\d{1,4}+)",
    "z": f"(?P<z>{free_dates.ZONE})",
    "Z": r"(?P<Z>[+-]\d{1,4}+)",
    "%": "%",
}


def parse(text: str, pattern: str | None, where: dt.tzinfo | None) -> Date:
    """Return the date that a text shows. Raises `CommandError` 241 if it shows none, 18535 or 18536."""
    if pattern is None:
        free = free_dates.read(text)
        if free.ahead is not None:
            _check_one_zone(text, where)
            return unfolded(free.shown - free.ahead, free.cycles)
        return far_instant(free.shown, free.cycles, where or dt.UTC)
    check_format(pattern, "".join(_PARSERS))
    found = _expression(pattern).fullmatch(text)
    if found is None:
        raise _unreadable(text, "Format literal not found, data missing, or trailing data")
    fields = {name: value for name, value in found.groupdict().items() if value is not None}
    if fields.keys() & {"z", "Z"}:
        _check_one_zone(text, where)
    if fields.keys() & _ISO_FIELDS and fields.keys() & _NATURAL_FIELDS:
        raise _unreadable(text, "Mixing of ISO dates with natural dates is not allowed")
    try:
        return _assemble(fields, where or dt.UTC)
    except (ValueError, OverflowError):
        raise _unreadable(text, "The parsed date was invalid") from None


_ISO_FIELDS: Final = frozenset("GVu")
_NATURAL_FIELDS: Final = frozenset("YmdbBj")


def _check_one_zone(text: str, where: dt.tzinfo | None) -> None:
    # UTC as an argument changes nothing, in whatever form it is given, and a server lets it pass.
    if where is None or str(where) in {"UTC", "GMT"}:
        return
    if not isinstance(where, dt.timezone) or where.utcoffset(None):
        raise CommandError(
            ErrorCode.CONVERSION_FAILURE,
            f"you cannot pass in a date/time string with time zone information ('{text}') together with a"
            " timezone argument",
        )


@lru_cache(maxsize=64)
def _expression(pattern: str) -> re.Pattern[str]:
    """Return a format as a regular expression, in which the last of several equal specifiers has its name."""
    # From the end, because a name may stand only once in an expression of Python's, and the last one counts.
    parts, named = [], set()
    for number, part in reversed(list(enumerate(re.split("%(.)", pattern, flags=re.DOTALL)))):
        parser = _PARSERS[part] if number % 2 else re.escape(part)
        parts.append(parser.replace(f"?P<{part}>", "?:") if number % 2 and part in named else parser)
        if number % 2:
            named.add(part)
    return re.compile("".join(reversed(parts)), re.IGNORECASE)


def _unreadable(text: str, reason: str) -> CommandError:
    return CommandError(ErrorCode.CONVERSION_FAILURE, f"Error parsing date string '{text}'; {reason}")


def _assemble(fields: Mapping[str, str], where: dt.tzinfo) -> dt.datetime:
    if "z" in fields:
        ahead = free_dates.zone(fields["z"])
        if ahead is None:
            raise ValueError("an unknown time zone")
        where = dt.timezone(ahead)
    elif "Z" in fields:
        where = dt.timezone(dt.timedelta(minutes=int(fields["Z"])))
    shown = dt.datetime.combine(
        _day(fields), dt.time(int(fields.get("H", 0)), int(fields.get("M", 0)), int(fields.get("S", 0)))
    )
    milliseconds = int(fields.get("L", "0").ljust(3, "0")[:3])
    return instant(shown + milliseconds * _MILLISECOND, where)


def _day(fields: Mapping[str, str]) -> dt.date:
    if "G" in fields:
        first = dt.date.fromisocalendar(int(fields["G"]), 1, 1)
        return first + dt.timedelta(weeks=int(fields.get("V", 1)) - 1, days=int(fields.get("u", 1)) - 1)
    if "Y" not in fields:
        raise ValueError("a date without a year")
    year = int(fields["Y"])
    if "j" in fields:
        return dt.date(year, 1, 1) + dt.timedelta(
            days=int(fields["j"])
        )  # counted from 0, though it is shown from 1
    name = fields.get("b") or fields.get("B")
    names = [each[:3].lower() for each in _NAMES]
    month = names.index(name[:3].lower()) + 1 if name else int(fields.get("m", 1))
    return dt.date(year, month, int(fields.get("d", 1)))
