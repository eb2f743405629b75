"""String expression operators.

Operators whose name ends in `CP` count code points, those in `Bytes` the bytes of UTF-8. Python's strings
are code points, so the latter encode first.

There are two ways to treat what is no string. `$toLower`, `$toUpper`, `$strcasecmp` and those of `$substr`
make a string of numbers, dates and null (`_plain`: null is empty). The others refuse it. Null and missing
make these null, but `$regexMatch` false and `$regexFindAll` empty; `$strLenCP` and `$strLenBytes` refuse
them too.

Case is that of ASCII alone, and comparison by bytes: collations do not reach these operators. Strings of 16
MB or more are refused (16493), where possible before they are made.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any, Final

from bson import Code, Decimal128, Regex, Timestamp

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.array_operators import search_index
from fakeserver.storage.expressions.conversions import text_of
from fakeserver.storage.expressions.functions import (
    VARIES,
    FunctionTable,
    NamedArguments,
    Wording,
    all_there,
    null_in,
    nullish,
)
from fakeserver.storage.expressions.regex import MatchLimitError, compile_regex
from fakeserver.storage.values.limits import MAX_BUFFER_BYTES, check_length, check_text, checked_text, weight
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    MISSING,
    is_number,
    type_name,
    whole,
)
from fakeserver.waiting.interrupts import check_for_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.expressions.regex import Searching


functions = FunctionTable()
function = functions.function


def _text(name: str, code: int, value: Any) -> str:
    if type(value) is not str:
        raise CommandError(code, f"{name} requires a string argument, found: {type_name(value)}")
    return value


_WITH_TEXT: Final = frozenset({"string", "int", "long", "double", "decimal", "date", "timestamp"})


def _plain(value: Any) -> str:
    """Return a value as text where an operator asks for text: null is none, and not every type has one."""
    if nullish(value):
        return ""
    # A script without a scope is text to a server, one with a scope is refused below.
    if isinstance(value, Code) and value.scope is None:
        return str(value)
    if type_name(value) not in _WITH_TEXT:
        raise CommandError(16007, f"can't convert from BSON type {type_name(value)} to String")
    if isinstance(value, Timestamp):
        date = value.as_datetime()
        return f"{_MONTH_NAMES[date.month - 1]} {date.day:2} {date:%H:%M:%S}:{value.inc}"
    # As C prints a double, with six digits: `$toString` shows all of them.
    return f"{value:g}" if isinstance(value, float) else text_of(value)


_MONTH_NAMES: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def _check_part(value: Any) -> None:
    if type(value) is not str:
        raise CommandError(16702, f"$concat only supports strings, not {type_name(value)}")


@function("$concat", 0, None)
def _concat(*values: Any) -> str | None:
    if not all_there(values, _check_part):
        return None
    # Characters, which are never more than bytes: what is too long by them is not even joined.
    check_text(sum(map(len, values)))
    return checked_text("".join(values))


def upper_case(text: str) -> str:
    """Return a text with the letters of ASCII in upper case; a server changes no other."""
    return text.translate(_TO_UPPER)


# `str.upper` would change letters of all alphabets, and the length of some texts.
_TO_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


@function("$toLower")
def _lower(value: Any) -> str:
    return _plain(value).translate(_TO_LOWER)


@function("$toUpper")
def _upper(value: Any) -> str:
    return upper_case(_plain(value))


@function("$strLenCP")
def _length(value: Any) -> int:
    return len(_text("$strLenCP", 34471, value))


@function("$strLenBytes")
def _length_bytes(value: Any) -> int:
    return len(_text("$strLenBytes", 34473, value).encode())


@function("$substrCP", 3)
def _substring(value: Any, start: Any, length: Any) -> str:
    text = _plain(value)
    first = _index(start, (34450, 34451), "$substrCP: starting index")
    count = _index(length, (34452, 34453), "$substrCP: length")
    if count < 0:
        raise CommandError(34454, "$substrCP: length must be a nonnegative integer.")
    if first < 0:
        raise CommandError(34455, "$substrCP: the starting index must be nonnegative integer.")
    return text[first : first + count]


def _index(value: Any, codes: tuple[int, int], what: str) -> int:
    if not is_number(value):
        raise CommandError(codes[0], f"{what} must be a numeric type (is BSON type {type_name(value)})")
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        raise CommandError(
            codes[1], f"{what} cannot be represented as a 32-bit integral value: {show(value)}"
        )
    return number


def _substring_bytes(name: str) -> None:
    """Enter `$substrBytes` by one of its names.

    A negative length reaches to the end of the text, unlike that of `$substrCP`. A part may not begin or
    end within a character: 28656, 28657.
    """

    @function(name, 3)
    def _call(value: Any, start: Any, length: Any) -> str:
        data = _plain(value).encode()
        for code, what, bound in ((16034, "starting index", start), (16035, "length", length)):
            if not is_number(bound):
                raise CommandError(
                    code, f"{name}:  {what} must be a numeric type (is BSON type {type_name(bound)})"
                )
        first, count = _long(start), _long(length)
        if first < 0:
            raise CommandError(50752, f"{name}:  starting index must be non-negative (got: {first})")
        end = len(data) if count < 0 else first + count
        if _continues_character(data, first):
            raise CommandError(28656, f"{name}:  Invalid range, starting index is a UTF-8 continuation byte.")
        if _continues_character(data, end):
            raise CommandError(
                28657, f"{name}:  Invalid range, ending index is in the middle of a UTF-8 character."
            )
        return data[first:end].decode()


def _long(number: Any) -> int:
    """Return a number as a long: a double cut off, a decimal rounded. Raises `CommandError` 31109."""
    if isinstance(number, Decimal128):
        decimal = number.to_decimal()
        if (
            not decimal.is_finite()
            or not INT64_MIN <= decimal.to_integral_value(ROUND_HALF_EVEN) <= INT64_MAX
        ):
            return INT64_MIN  # what a server makes of each of them
        return int(decimal.to_integral_value(ROUND_HALF_EVEN))
    if not INT64_MIN <= number <= INT64_MAX:
        raise CommandError(31109, f"Can't coerce out of range value {show(number)} to long")
    return int(number)


def _continues_character(data: bytes, index: int) -> bool:
    """Return whether a byte is not the first of its character; an index behind the text has no byte."""
    return index < len(data) and data[index] & 0xC0 == 0x80  # noqa: PLR2004 -- UTF-8's bits


_substring_bytes("$substr")
_substring_bytes("$substrBytes")


@function("$split", 2)
@null_in
def _split(value: Any, separator: Any) -> list[str]:
    for code, which, text in ((40085, "first", value), (10503900, "second", separator)):
        if type(text) is not str:
            raise CommandError(
                code,
                f"$split requires an expression that evaluates to a string as a {which} argument, found: "
                f"{type_name(text)}",
            )
    if not separator:
        raise CommandError(40087, "$split requires a non-empty separator")
    # Its separators are counted first: an array of many empty texts is larger than the text.
    check_length("$split", value.count(separator))
    return list(value.split(separator))


@function("$strcasecmp", 2)
def _compare(left: Any, right: Any) -> int:
    # By bytes, which UTF-8 has in the order of code points.
    first, second = upper_case(_plain(left)).encode(), upper_case(_plain(right)).encode()
    return (first > second) - (first < second)


def _finding(name: str, codes: tuple[int, int], unit: Callable[[str], Any]) -> None:
    """Enter an operator that finds a part of a text, counting in characters or bytes."""

    @function(name, 2, 4)
    def _find(value: Any, part: Any, start: Any = 0, end: Any = INT32_MAX) -> Any:
        if nullish(value):
            return None
        for code, which, text in ((codes[0], "first", value), (codes[1], "second", part)):
            if type(text) is not str:
                raise CommandError(
                    code, f"{name} requires a string as the {which} argument, found: {type_name(text)}"
                )
        # Offsets, the text and the part are in the same unit from here on.
        data = unit(value)
        first = search_index(name, "starting index", start)
        last = min(search_index(name, "ending index", end), len(data))
        sought = unit(part)
        if name == "$indexOfBytes":
            return data.find(sought, first, last) if first <= last else -1
        # Counted in characters, a part must begin before the end, and may reach beyond it; only an empty text
        # that is searched to its end has an empty part in it.
        found = data.find(sought, first)
        return found if found < last or (found == last == 0 and end == INT32_MAX) else -1


_finding("$indexOfBytes", (40091, 40092), str.encode)
_finding("$indexOfCP", (40093, 40094), str)


_TRIMMED: Final = NamedArguments(
    50696,
    50694,
    {"input": 50695},
    {"chars": MISSING},
    Wording(
        "{name} only supports an object as an argument, found {found}",
        missing="{name} requires an '{key}' field",
    ),
)


def _trimming(name: str, trim: Callable[[str, str | None], str]) -> None:
    @function(name, arguments=_TRIMMED)
    def _trim(parts: dict[str, Any]) -> Any:
        text = parts.get("input")
        if nullish(text):
            return None
        if type(text) is not str:
            raise _not_text(50699, f"{name} requires its input to be a string", text)
        if "chars" not in parts:
            return trim(text, _WHITE_SPACE)
        chars = parts["chars"]
        if nullish(chars):
            return None
        if type(chars) is not str:
            raise _not_text(50700, f"{name} requires 'chars' to be a string", chars)
        return trim(text, chars) if chars else text


def _not_text(code: int, what: str, value: Any) -> CommandError:
    return CommandError(code, f"{what}, got {show(value)} (of type {type_name(value)}) instead.")


_WHITE_SPACE = "\0\t\n\v\f\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters that `$trim` removes by default."""

_trimming("$trim", str.strip)
_trimming("$ltrim", str.lstrip)
_trimming("$rtrim", str.rstrip)


_REPLACED: Final = NamedArguments(51751, 51750, {"input": 51749, "find": 51748, "replacement": 51747})


def _replacing(name: str, count: int) -> None:
    @function(name, arguments=_REPLACED)
    def _replace(parts: dict[str, Any]) -> Any:
        values = {key: parts.get(key) for key in _REPLACE_CODES}
        for key, value in values.items():
            if not nullish(value) and type(value) is not str:
                raise CommandError(
                    _REPLACE_CODES[key], f"{name} requires that '{key}' be a string, found: {show(value)}"
                )
        if any(map(nullish, values.values())):
            return None
        text, find, replacement = map(str, values.values())
        # Many replacements may grow the text beyond all bounds, so its length is reckoned first.
        if count != 1:
            check_text(len(text) + text.count(find) * (len(replacement) - len(find)))
        return checked_text(text.replace(find, replacement, count))


_REPLACE_CODES = {"input": 10503904, "find": 10503901, "replacement": 10503902}


# The counts of `str.replace`: -1 is all.
_replacing("$replaceOne", 1)
_replacing("$replaceAll", -1)


# The operators `$regexMatch`, `$regexFind` and `$regexFindAll`.


_INVALID: Final = 51111
_LONGEST_PATTERN: Final = 16 * 1024
"""Bytes of the longest pattern of an expression; a query's may be twice as long."""
_FAILED: Final = 51156
_TOO_MANY: Final = 51151
_ARGUMENTS: Final = NamedArguments(
    51103,
    31024,
    {"input": 31022, "regex": 31023},
    {"options": MISSING},
    Wording(
        "{name} expects an object of named arguments but found: {found}",
        missing="{name} requires '{key}' parameter",
    ),
)


def _searching(name: str, nothing: Callable[[], Any], search: Callable[[Searching, str], Any]) -> None:
    """Enter an operator; it answers `nothing` where the text or the expression is null or missing."""

    def settle(operands: Mapping[str, Any]) -> bool:
        """Refuse a constant pattern that does not compile; it never makes the result null."""
        if operands["regex"] is not VARIES and operands.get("options") is not VARIES:
            _pattern(name, operands["regex"], operands.get("options"))
        return False

    @functions.function(name, settle=settle, arguments=_ARGUMENTS)
    def _call(parts: dict[str, Any]) -> Any:
        pattern = _pattern(name, parts["regex"], parts.get("options"))
        text = parts["input"]
        if not nullish(text) and type(text) is not str:
            raise CommandError(51104, f"{name} needs 'input' to be of type string")
        if pattern is None or nullish(text):
            # The pattern is checked before this: a malformed one is an error even without a text.
            return nothing()
        try:
            return search(pattern, text)
        # An expression fails where a filter says that nothing matched: a server does both.
        except MatchLimitError:
            message = f"Error occurred while executing the regular expression in {name}. Result code: "
            raise CommandError(_FAILED, f"{message}match limit exceeded") from None


def _pattern(name: str, regex: Any, options: Any) -> Searching | None:
    """Return the expression, None where it is null or missing. Raises `CommandError` for what is none."""
    if not nullish(regex) and type(regex) is not str and not isinstance(regex, Regex | re.Pattern):
        raise CommandError(51105, f"{name} needs 'regex' to be of type string or regex")
    if not nullish(options) and type(options) is not str:
        raise CommandError(51106, f"{name} needs 'options' to be of type string")
    # Flags of the two are not merged, not even where they are the same.
    if isinstance(regex, Regex) and regex.flags and not nullish(options):
        raise CommandError(
            51107, f"{name}: found regex option(s) specified in both 'regex' and 'option' fields"
        )
    if type(regex) is str and "\0" in regex:
        raise CommandError(51109, f"{name}: regular expression cannot contain an embedded null byte")
    if type(options) is str and "\0" in options:
        raise CommandError(51110, f"{name}: regular expression options cannot contain an embedded null byte")
    if nullish(regex):
        return None
    pattern = regex if isinstance(regex, str) else regex.pattern
    # The first test is cheap and decides for most long patterns: bytes are never fewer than characters.
    if len(pattern) > _LONGEST_PATTERN or len(pattern.encode()) > _LONGEST_PATTERN:
        raise CommandError(_INVALID, f"Invalid Regex in {name}: regular expression is too large")
    return compile_regex(regex, options or "", invalid=_INVALID, what=f"Invalid Regex in {name}")


def _found(match: Any) -> dict[str, Any]:
    return {"match": match.group(), "idx": match.start(), "captures": list(match.groups())}


def _first(pattern: Searching, text: str) -> Any:
    match = pattern.search(text)
    return None if match is None else _found(match)


def _all(pattern: Searching, text: str) -> list[dict[str, Any]]:
    """Return every match, as a server looks for them.

    It goes on behind a match, behind an empty one a character further; and it looks for none at the end of a
    text, unless the text is empty.
    """
    found: list[dict[str, Any]] = []
    size = start = 0
    while start < len(text) or not found:
        match = pattern.search(text, start)
        if match is None or (text and match.start() == len(text)):
            break
        found.append(_found(match))
        size += weight(found[-1])
        if size > MAX_BUFFER_BYTES:
            raise CommandError(
                _TOO_MANY, "$regexFindAll: the size of buffer to store output exceeded the 64MB limit"
            )
        # An empty match would be found again at the same place for ever.
        start = match.end() + (match.end() == match.start())
        if start >= len(text):
            break
        check_for_interrupt()
    return found


_searching("$regexMatch", lambda: False, lambda pattern, text: pattern.search(text) is not None)
_searching("$regexFind", lambda: None, _first)
_searching("$regexFindAll", list, _all)
