"""Dates in Python's own type, and in BSON's where Python's years (1 to 9999) do not reach.

The calendar repeats itself every 400 years, to the day of the week. A date beyond Python's years is computed
with in a year within them, whole cycles away; clocks know no other rules there. Dates are naive and in UTC.

    shown, cycles = folded(date)       a year from 401 to 9599, and how many times 400 years away
    shown = ...                        arithmetic with `datetime`, up to a cycle either way
    return unfolded(shown, cycles)     the date again, a `DatetimeMS` where Python has none

A margin of a cycle on either side is what time zones, months and bins need without an OverflowError of
Python's; those that are raised here mean that a date does not fit into BSON's 64 bits of milliseconds.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, TypeAlias

from bson import DatetimeMS, ObjectId

from fakeserver.storage.values.types import INT64_MAX, INT64_MIN, milliseconds

Date: TypeAlias = dt.datetime | DatetimeMS

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
YEARS_OF_A_CYCLE: Final = 400
CYCLE: Final = dt.timedelta(days=146_097)
MILLIS_OF_A_CYCLE: Final = CYCLE // _MILLISECOND
_FIRST_YEAR: Final = 1 + YEARS_OF_A_CYCLE
_LAST_YEAR: Final = dt.MAXYEAR - YEARS_OF_A_CYCLE
_FIRST: Final = milliseconds(dt.datetime(_FIRST_YEAR, 1, 1))  # noqa: DTZ001 -- naive UTC
_END: Final = milliseconds(dt.datetime(_LAST_YEAR + 1, 1, 1))  # noqa: DTZ001 -- naive UTC


def is_date(value: Any) -> bool:
    """Return whether a value is a date, of whatever year."""
    return isinstance(value, dt.datetime | DatetimeMS)


def date_of(total: int) -> Date:
    """Return a date by its milliseconds since the Unix epoch. Raises OverflowError beyond 64 bits."""
    if not INT64_MIN <= total <= INT64_MAX:
        raise OverflowError(total)
    try:
        return _EPOCH + total * _MILLISECOND
    except OverflowError:
        return DatetimeMS(total)


def date_of_id(value: ObjectId) -> Date:
    """Return when an ObjectId was made, by its first four bytes as a signed number of seconds.

    `ObjectId.generation_time` takes them as unsigned: ids from 2038 on are of another century to a server.
    """
    return date_of(int.from_bytes(value.binary[:4], "big", signed=True) * 1000)


def folded(date: Date) -> tuple[dt.datetime, int]:
    """Return a date in a year that leaves room for a cycle on either side, and how many cycles away it is."""
    if isinstance(date, dt.datetime) and _FIRST_YEAR <= date.year <= _LAST_YEAR:
        return date, 0
    return folded_milliseconds(milliseconds(date))


def folded_milliseconds(total: int) -> tuple[dt.datetime, int]:
    """Do as `folded` does for a date by its milliseconds, which may be more than BSON holds."""
    cycles = 0
    if total >= _END:
        cycles = (total - _END) // MILLIS_OF_A_CYCLE + 1
    elif total < _FIRST:
        cycles = (total - _FIRST) // MILLIS_OF_A_CYCLE
    return _EPOCH + (total - cycles * MILLIS_OF_A_CYCLE) * _MILLISECOND, cycles


def folded_year(year: int) -> tuple[int, int]:
    """Return a year with room for a cycle on either side, and how many cycles away it is."""
    if _FIRST_YEAR <= year <= _LAST_YEAR:
        return year, 0
    cycles = (year - _FIRST_YEAR) // YEARS_OF_A_CYCLE
    return year - cycles * YEARS_OF_A_CYCLE, cycles


def unfolded(date: dt.datetime, cycles: int) -> Date:
    """Return the date so many cycles away. Raises OverflowError beyond 64 bits."""
    return date if cycles == 0 else date_of(milliseconds(date) + cycles * MILLIS_OF_A_CYCLE)
