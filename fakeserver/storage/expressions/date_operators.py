"""Expression operators on dates: their parts, arithmetic in units, to text and from it.

A date is a number of milliseconds since 1970 in 64 bits, so its year may have nine digits. Python's
`datetime` ends with the year 9999: dates beyond are folded by whole cycles of 400 years, in which the
calendar repeats, and the cycles are added to the result again (`values.dates`). `values.calendar` has the
arithmetic; this module has the arguments, their checks and codes.

Where a date is wanted, an ObjectId and a timestamp are dates too. A time zone is an Olson name or an
offset; where none is given it is UTC, and where it is null the result is null.

All operators take named arguments through `_operator`. One that leads nowhere counts as null there, unlike
one that is not given. Where an optimizer runs, what is wrong with a constant argument is refused before the
first document (`_settle`, `_CHECKED`).
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS, Int64, ObjectId, Timestamp

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import VARIES, FunctionTable, NamedArguments, Wording, nullish
from fakeserver.storage.values import calendar
from fakeserver.storage.values.dates import YEARS_OF_A_CYCLE, Date, date_of_id, folded, folded_year
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import INT64_MAX, INT64_MIN, MISSING, type_name, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.expressions.functions import Call

functions = FunctionTable()

_NOT_A_DATE: Final = 16006
_NOT_ONE_ARGUMENT: Final = 40536
_UNKNOWN_ARGUMENT: Final = 40535
_NO_DATE: Final = 40539
_ZONED_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%L"
_SUNDAY: Final = calendar.WEEKDAYS.index("sunday")


def to_date(value: Any, code: int = _NOT_A_DATE) -> Date:
    """Return what stands for an instant as a date. Raises `CommandError` 16006, or an operator's own code."""
    if isinstance(value, dt.datetime | DatetimeMS):
        return value
    if isinstance(value, Timestamp):
        # BSON decodes dates as naive ones in UTC; a timestamp's must compare with these.
        return value.as_datetime().replace(tzinfo=None)
    if isinstance(value, ObjectId):
        return date_of_id(value)
    raise CommandError(code, f"can't convert from BSON type {type_name(value)} to Date")


def _zone(name: str, value: Any) -> dt.tzinfo | None:
    """Return the time zone of an argument, None for null. Raises `CommandError` 40517 or 40485."""
    if value is MISSING:
        return dt.UTC
    if value is None:
        return None
    if type(value) is not str:
        raise CommandError(
            40517, f"{name} requires a string for the timezone argument, but was given a {type_name(value)}"
        )
    return calendar.zone(value)


# The names of arguments.


_WORDING: Final = Wording(
    "{name} only supports an object as its argument, found {found}",
    "Unrecognized argument to {name}: {key}",
    "Missing '{key}' parameter to {name}",
)


def _names(
    required: Mapping[str, int], optional: tuple[str, ...], no_object: int, unknown: int
) -> NamedArguments:
    return NamedArguments(no_object, unknown, required, dict.fromkeys(optional, MISSING), _WORDING)


_ARITHMETIC: Final = _names(
    dict.fromkeys(("startDate", "unit", "amount"), 5166402), ("timezone",), 5166400, 5166401
)
# By operator: the code for each argument that is missing, those that may be missing, the code for an
# argument without names, and the code for an unknown name. `$dateAdd` has one code for all that are
# missing.
_ARGUMENTS: Final[Mapping[str, NamedArguments]] = {
    "$dateAdd": _ARITHMETIC,
    "$dateSubtract": _ARITHMETIC,
    "$dateDiff": _names(
        {"startDate": 5166303, "endDate": 5166304, "unit": 5166305},
        ("timezone", "startOfWeek"),
        5166301,
        5166302,
    ),
    "$dateTrunc": _names(
        {"date": 5439009, "unit": 5439010}, ("binSize", "timezone", "startOfWeek"), 5439007, 5439008
    ),
    "$dateToParts": _names({"date": 40522}, ("timezone", "iso8601"), 40524, 40520),
    "$dateToString": _names({"date": 18628}, ("format", "timezone", "onNull"), 18629, 18534),
    "$dateFromString": _names(
        {"dateString": 40542}, ("format", "timezone", "onError", "onNull"), 40540, 40541
    ),
    "$dateFromParts": _names(
        {},
        (
            *("year", "isoWeekYear", "month", "isoWeek", "day", "isoDayOfWeek"),
            *("hour", "minute", "second", "millisecond", "timezone"),
        ),
        40519,
        40518,
    ),
}
_OF_A_PART: Final = _names({"date": 40539}, ("timezone",), 40535, 40535)


def _operator(
    name: str, parse: Callable[[dict[str, Any]], dict[str, Any]] | None = None
) -> Callable[[Call], Call]:
    """Enter an operator of named arguments; those that lead nowhere are null."""

    def enter(call: Call) -> Call:
        def with_nulls(arguments: dict[str, Any]) -> Any:
            try:
                return call({key: None if value is MISSING else value for key, value in arguments.items()})
            except OverflowError:  # beyond 64 bits of milliseconds
                raise CommandError(ErrorCode.OVERFLOW, f"date overflow in {name}") from None

        functions.function(
            name, parse=parse, settle=partial(_settle, name), arguments=_ARGUMENTS.get(name, _OF_A_PART)
        )(with_nulls)
        return call

    return enter


_NULL_WITHOUT_ZONE: Final = frozenset({
    "$dateAdd", "$dateDiff", "$dateFromParts", "$dateSubtract", "$dateToParts", "$dateTrunc"
})  # fmt: skip
"""Operators of which an optimizer knows that they are null without a time zone."""


def _settle(name: str, operands: Mapping[str, Any]) -> bool:
    """Check what is the same for all documents; return whether it makes the operator null.

    The first argument in a server's order decides: null ends the checks of those behind it.
    """
    for argument, check in _CHECKED.items():
        value = operands.get(argument, VARIES)
        if value is VARIES:
            continue
        if not nullish(value):
            check(name, value)
        elif argument != "timezone" or name in _NULL_WITHOUT_ZONE:
            return True
    return False


# Parts.

_PARTS: Final[Mapping[str, Callable[[dt.datetime], Any]]] = {
    "$year": lambda shown: shown.year,  # counted on by whole cycles, as "$isoWeekYear" is
    "$month": lambda shown: shown.month,
    "$dayOfMonth": lambda shown: shown.day,
    "$hour": lambda shown: shown.hour,
    "$minute": lambda shown: shown.minute,
    "$second": lambda shown: shown.second,
    "$millisecond": lambda shown: shown.microsecond // 1000,
    "$dayOfYear": lambda shown: shown.timetuple().tm_yday,
    # 1 is Sunday here and Monday in ISO weeks.
    "$dayOfWeek": lambda shown: shown.isoweekday() % 7 + 1,
    "$week": calendar.week,
    "$isoDayOfWeek": lambda shown: shown.isoweekday(),
    "$isoWeek": lambda shown: shown.isocalendar().week,
    # The one part that a server makes a long.
    "$isoWeekYear": lambda shown: Int64(shown.isocalendar().year),
}


def part_arguments(name: str, argument: Any) -> dict[str, Any]:
    """Return the arguments of an operator that takes a date, or a date with a time zone.

    An object whose first field is an operator is a date that is computed; any other one has the names
    `date` and `timezone`. Codes: 40536 for an array of none or several, 40535 for an unknown name, 40539
    without a date.
    """
    if isinstance(argument, list):
        if len(argument) != 1:
            raise CommandError(
                _NOT_ONE_ARGUMENT, f"{name} accepts exactly one argument if given an array, but was given"
                f" {len(argument)}"
            )  # fmt: skip
        argument = argument[0]
    if not isinstance(argument, dict) or next(iter(argument), "").startswith("$"):
        return {"date": argument}
    for key in argument:
        if key not in {"date", "timezone"}:
            raise CommandError(_UNKNOWN_ARGUMENT, f'unrecognized option to {name}: "{key}"')
    if "date" not in argument:
        raise CommandError(_NO_DATE, f"missing 'date' argument to {name}, provided: {argument}")
    return argument


def _part(name: str, part: Callable[[dt.datetime], Any]) -> None:
    def call(arguments: dict[str, Any]) -> Any:
        date, where = arguments["date"], _zone(name, arguments.get("timezone", MISSING))
        if nullish(date) or where is None:
            return None
        shown, cycles = _shown(date, where)
        found = part(shown)
        # A year far away keeps its type: an int, or the long of `$isoWeekYear`.
        return type(found)(found + cycles * YEARS_OF_A_CYCLE) if cycles and name in _YEARS else found

    _operator(name)(call)


_YEARS: Final = frozenset({"$year", "$isoWeekYear"})


def _shown(date: Any, where: dt.tzinfo) -> tuple[dt.datetime, int]:
    """Return what clocks show at an instant in a year that Python reaches, and how many cycles away it is."""
    near, cycles = folded(to_date(date))
    return calendar.local(near, where), cycles


for _name, _of in _PARTS.items():
    _part(_name, _of)
PARTS: Final = frozenset(_PARTS)


@_operator("$dateToParts")
def _date_to_parts(arguments: dict[str, Any]) -> Any:
    where, iso8601 = (
        _zone("$dateToParts", arguments.get("timezone", MISSING)),
        arguments.get("iso8601", False),
    )
    if where is None or iso8601 is None:
        return None
    if not isinstance(iso8601, bool):
        raise CommandError(40521, f"iso8601 must evaluate to a bool, found {type_name(iso8601)}")
    if nullish(arguments["date"]):
        return None
    shown, cycles = _shown(arguments["date"], where)
    ahead = cycles * YEARS_OF_A_CYCLE
    if iso8601:
        iso = shown.isocalendar()
        day = {"isoWeekYear": iso.year + ahead, "isoWeek": iso.week, "isoDayOfWeek": iso.weekday}
    else:
        day = {"year": shown.year + ahead, "month": shown.month, "day": shown.day}
    time = {"hour": shown.hour, "minute": shown.minute, "second": shown.second}
    return {**day, **time, "millisecond": shown.microsecond // 1000}


_ISO_DATE: Final = ("isoWeekYear", "isoWeek", "isoDayOfWeek")
_DATE: Final = ("year", "month", "day")
_TIME: Final = ("hour", "minute", "second", "millisecond")


def _of_one_calendar(argument: dict[str, Any]) -> dict[str, Any]:
    """Refuse parts of two calendars. Raises `CommandError`."""
    natural, iso = (argument.keys() & names for names in (_DATE, _ISO_DATE))
    if "year" not in natural and "isoWeekYear" not in iso:
        raise CommandError(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present")
    if natural and iso:
        code = 40489 if "year" in natural else 40525
        raise CommandError(code, "$dateFromParts does not allow mixing natural dates with ISO dates")
    return argument


@_operator("$dateFromParts", _of_one_calendar)
def _date_from_parts(arguments: dict[str, Any]) -> Any:
    """Return `$dateFromParts`: parts beyond their range carry over, month 14 into the next year's February.

    The year alone is bounded, by 1 and 9999; other parts by 16 bits, seconds and milliseconds by 64.
    """
    names = _ISO_DATE if "isoWeekYear" in arguments else _DATE
    where = _zone("$dateFromParts", arguments.get("timezone", MISSING))
    if where is None or any(nullish(value) for name, value in arguments.items() if name != "timezone"):
        return None
    first = _whole("$dateFromParts", names[0], arguments[names[0]])
    if not 1 <= first <= dt.MAXYEAR:
        message = f"'{names[0]}' must evaluate to an integer in the range 1 to 9999, found {first}"
        raise CommandError(40523 if names is _DATE else 31095, message)
    second, third = (_short(name, arguments.get(name, 1)) for name in names[1:])
    if names is _ISO_DATE:
        year, cycles = folded_year(first)
        # The first day of the first week; weeks and days from there, so that both may carry over.
        day = dt.datetime.fromisocalendar(year, 1, 1) + dt.timedelta(weeks=second - 1, days=third - 1)
    else:
        # Months from 0, so that month 0 is December of the year before, and 13 January of the next.
        year, month = divmod(first * 12 + second - 1, 12)
        year, cycles = folded_year(year)
        day = dt.datetime(year, month + 1, 1) + dt.timedelta(days=third - 1)  # noqa: DTZ001 -- what clocks show
    # Seconds and milliseconds are added in the end and in universal time: they are up to 64 bits, and pass
    # over changes of the clock.
    hours, minutes = (_short(name, arguments.get(name, 0)) for name in _TIME[:2])
    seconds, millis = (_whole("$dateFromParts", name, arguments.get(name, 0)) for name in _TIME[2:])
    shown = day + dt.timedelta(hours=hours, minutes=minutes)
    passed = seconds * 1000 + millis
    return calendar.add(calendar.far_instant(shown, cycles, where), "millisecond", passed, dt.UTC)


def _short(name: str, value: Any) -> int:
    number = _whole("$dateFromParts", name, value)
    if not _LEAST <= number <= _MOST:
        raise CommandError(
            31034,
            f"'{name}' must evaluate to a value in the range [{_LEAST}, {_MOST}]; value {number} is not in"
            " range",
        )
    return number


_LEAST: Final = -(2**15)
_MOST: Final = 2**15 - 1


def _whole(operator: str, name: str, value: Any) -> int:
    number = whole(value)
    if number is None:
        raise CommandError(
            40515, f"'{name}' must evaluate to an integer, found {type_name(value)} with value {value}"
            f" in {operator}"
        )  # fmt: skip
    return number


# Text.


@_operator("$dateToString")
def _date_to_string(arguments: dict[str, Any]) -> Any:
    # The default format ends with a Z where it shows UTC; in another zone it would be wrong.
    zoned = "timezone" in arguments and arguments["timezone"] not in ("UTC", "GMT", "Z")
    where = _zone("$dateToString", arguments.get("timezone", MISSING))
    pattern = arguments.get("format", _ZONED_FORMAT if zoned else calendar.ISO_FORMAT)
    if nullish(arguments["date"]):
        return arguments.get("onNull")
    if where is None or nullish(pattern):
        return None
    if type(pattern) is not str:
        raise CommandError(
            18533, "$dateToString requires that 'format' be a string, found: " + type_name(pattern)
        )
    return calendar.show(to_date(arguments["date"]), pattern, where)


@_operator("$dateFromString")
def _date_from_string(arguments: dict[str, Any]) -> Any:
    text = arguments["dateString"]
    where = _zone("$dateFromString", arguments.get("timezone", MISSING))
    pattern = arguments.get("format", MISSING)
    if nullish(text):
        return arguments.get("onNull")
    if where is None or pattern is None:
        return None
    if pattern is MISSING:
        pattern = None
    elif type(pattern) is not str:
        found = f"{type_name(pattern)} with value {show(pattern)}"
        raise CommandError(40684, f"$dateFromString requires that 'format' be a string, found: {found}")
    # None where no zone was asked for: a text may then name one itself.
    given_zone = where if "timezone" in arguments else None
    try:
        return calendar.parse(_text(text), pattern, given_zone)
    except CommandError as error:
        # It is for texts that show no date (241); a malformed format is an error all the same.
        if "onError" in arguments and error.code == ErrorCode.CONVERSION_FAILURE:
            return arguments["onError"]
        raise


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    raise CommandError(
        ErrorCode.CONVERSION_FAILURE,
        f"$dateFromString requires that 'dateString' be a string, found: {type_name(value)} with value"
        f" {value}",
    )


# Arithmetic.


@_operator("$dateAdd")
def _date_add(arguments: dict[str, Any]) -> Any:
    return _shifted("$dateAdd", arguments, 1)


@_operator("$dateSubtract")
def _date_subtract(arguments: dict[str, Any]) -> Any:
    return _shifted("$dateSubtract", arguments, -1)


def _shifted(name: str, arguments: dict[str, Any], sign: int) -> Any:
    if None in arguments.values():
        return None
    unit, amount = _unit(name, arguments["unit"]), arguments["amount"]
    where = _given_zone(name, arguments)
    date = to_date(arguments["startDate"], 5166403)
    number = whole(amount)
    if number is None:
        raise CommandError(5166405, f"{name} expects integer amount of time units")
    # What has no opposite in 64 bits cannot be subtracted by adding it.
    if sign < 0 and number == INT64_MIN:
        raise CommandError(6045000, f"invalid $dateSubtract 'amount' parameter value: {number}")
    # Refused by its size, before it is reckoned whether the date has room for it.
    if abs(number) >= calendar.most(unit):
        message = f"invalid dateAdd 'amount' parameter value: {sign * number} {unit}"
        raise CommandError(5976500, message)
    try:
        return calendar.add(date, unit, sign * number, where)
    except OverflowError:
        raise CommandError(5166406, "dateAdd overflowed") from None


@_operator("$dateDiff")
def _date_diff(arguments: dict[str, Any]) -> Any:
    if _is_null(arguments):
        return None
    unit = _unit("$dateDiff", arguments["unit"])
    week_start, where = _week_start("$dateDiff", arguments), _given_zone("$dateDiff", arguments)
    start, end = (to_date(arguments[key], 5166307) for key in ("startDate", "endDate"))
    found = calendar.difference(start, end, unit, where, week_start)
    if not INT64_MIN <= found <= INT64_MAX:
        raise OverflowError(found)
    return Int64(found)


@_operator("$dateTrunc")
def _date_trunc(arguments: dict[str, Any]) -> Any:
    if _is_null(arguments):
        return None
    unit, count = _unit("$dateTrunc", arguments["unit"]), _bin_size("$dateTrunc", arguments.get("binSize", 1))
    week_start, where = _week_start("$dateTrunc", arguments), _given_zone("$dateTrunc", arguments)
    return calendar.truncate(to_date(arguments["date"], 5166307), unit, count, where, week_start)


def _bin_size(_name: str, size: Any) -> int:
    count = whole(size)
    if count is None:
        raise CommandError(
            5439017, f"$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{size}'"
        )
    if count <= 0:
        raise CommandError(
            5439018, f"$dateTrunc requires 'binSize' to be greater than 0, but got value {size}"
        )
    return count


def _is_null(arguments: Mapping[str, Any]) -> bool:
    """Return whether an argument is null that matters; the first day of weeks matters to weeks alone."""
    unit = arguments["unit"]
    return any(value is None for key, value in arguments.items() if key != "startOfWeek" or unit == "week")


def _given_zone(name: str, arguments: Mapping[str, Any]) -> dt.tzinfo:
    """Return the time zone of arguments of which none is null. Raises `CommandError` 40517 or 40485."""
    return _zone(name, arguments.get("timezone", MISSING)) or dt.UTC


def _unit(name: str, value: Any) -> str:
    if type(value) is not str:
        raise CommandError(5439013, f"{name} requires 'unit' to be a string, but got {type_name(value)}")
    if value not in calendar.UNITS:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"{name} parameter 'unit' value parsing failed :: caused by :: unknown time unit value: {value}",
        )
    return value


def _week_start(name: str, arguments: Mapping[str, Any]) -> int:
    """Return the first day of weeks. Raises `CommandError` where the unit is a week."""
    value = arguments.get("startOfWeek", MISSING)
    if value is MISSING or arguments["unit"] != "week":
        return _SUNDAY
    if type(value) is not str:
        message = f"{name} requires 'startOfWeek' to be a string, but got {type_name(value)}"
        raise CommandError(5439015, message)
    for number, day in enumerate(calendar.WEEKDAYS):
        if value.lower() in {day, day[:3]}:
            return number
    raise CommandError(
        5439016, f"{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {value}"
    )


_CHECKED: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "unit": _unit,
    "startOfWeek": lambda name, value: _week_start(name, {"startOfWeek": value, "unit": "week"}),
    "timezone": _zone,
    "binSize": _bin_size,
}
"""The arguments that an optimizer reads on its own, in its order, where the others depend on documents."""
