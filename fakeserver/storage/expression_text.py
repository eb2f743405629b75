"""String expression operators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.functions import FunctionTable, null_in, nullish
from fakeserver.storage.regex import compile_regex
from fakeserver.storage.values import type_name

if TYPE_CHECKING:
    from collections.abc import Callable

functions = FunctionTable()
function = functions.function


def _text(name: str, code: int, value: Any) -> str:
    if not isinstance(value, str):
        raise CommandError(code, f"{name} requires a string argument, found: {type_name(value)}")
    return value


def _plain(value: Any) -> str:
    return "" if nullish(value) else str(value)


@function("$concat", 0, None)
@null_in
def _concat(*values: Any) -> str:
    for value in values:
        if not isinstance(value, str):
            raise CommandError(16702, f"$concat only supports strings, not {type_name(value)}")
    return "".join(values)


@function("$toLower")
def _lower(value: Any) -> str:
    return _plain(value).lower()


@function("$toUpper")
def _upper(value: Any) -> str:
    return _plain(value).upper()


@function("$strLenCP")
def _length(value: Any) -> int:
    return len(_text("$strLenCP", 34471, value))


@function("$strLenBytes")
def _length_bytes(value: Any) -> int:
    return len(_text("$strLenBytes", 34473, value).encode())


@function("$substrCP", 3)
def _substring(value: Any, start: Any, length: Any) -> str:
    return _plain(value)[int(start) : int(start) + int(length)]


def _substring_bytes(value: Any, start: Any, length: Any) -> str:
    data = _plain(value).encode()
    if start < 0:
        return ""
    end = len(data) if length < 0 else int(start) + int(length)
    return data[int(start) : end].decode(errors="ignore")


function("$substr", 3)(_substring_bytes)
function("$substrBytes", 3)(_substring_bytes)


@function("$split", 2)
@null_in
def _split(value: Any, separator: Any) -> list[str]:
    if not separator:
        raise CommandError(40087, "$split requires a non-empty separator")
    return _text("$split", 40085, value).split(separator)


@function("$strcasecmp", 2)
def _compare(left: Any, right: Any) -> int:
    first, second = _plain(left).upper(), _plain(right).upper()
    return (first > second) - (first < second)


@function("$indexOfCP", 2, 4)
def _index_of(value: Any, part: Any, start: int = 0, end: int | None = None) -> Any:
    return None if nullish(value) else value.find(part, start, end)


@function("$indexOfBytes", 2, 4)
def _index_of_bytes(value: Any, part: Any, start: int = 0, end: int | None = None) -> Any:
    return None if nullish(value) else value.encode().find(part.encode(), start, end)


def _trimming(name: str, trim: Callable[[str, str | None], str]) -> None:
    @function(name, named=True)
    def _trim(parts: dict[str, Any]) -> Any:
        if nullish(parts.get("input")):
            return None
        return trim(_text(name, 50699, parts["input"]), parts.get("chars"))


_trimming("$trim", str.strip)
_trimming("$ltrim", str.lstrip)
_trimming("$rtrim", str.rstrip)


def _replacing(name: str, count: int) -> None:
    @function(name, named=True)
    def _replace(parts: dict[str, Any]) -> Any:
        values = [parts.get(key) for key in ("input", "find", "replacement")]
        if any(map(nullish, values)):
            return None
        text, find, replacement = (_text(name, 51746, value) for value in values)
        return text.replace(find, replacement, count)


_replacing("$replaceOne", 1)
_replacing("$replaceAll", -1)


def _pattern(name: str, parts: dict[str, Any]) -> re.Pattern[str]:
    regex, options = parts.get("regex"), parts.get("options") or ""
    if isinstance(regex, Regex | re.Pattern):
        return compile_regex(regex)
    if not isinstance(regex, str):
        raise CommandError(51105, f"{name} needs 'regex' to be of type string or regex")
    return compile_regex(regex, options)


def _found(match: re.Match[str]) -> dict[str, Any]:
    return {"match": match[0], "idx": match.start(), "captures": list(match.groups())}


@function("$regexMatch", named=True)
def _regex_match(parts: dict[str, Any]) -> bool:
    if nullish(parts.get("input")):
        return False
    return _pattern("$regexMatch", parts).search(parts["input"]) is not None


@function("$regexFind", named=True)
def _regex_find(parts: dict[str, Any]) -> Any:
    match = None if nullish(parts.get("input")) else _pattern("$regexFind", parts).search(parts["input"])
    return None if match is None else _found(match)


@function("$regexFindAll", named=True)
def _regex_find_all(parts: dict[str, Any]) -> list[dict[str, Any]]:
    if nullish(parts.get("input")):
        return []
    return [_found(match) for match in _pattern("$regexFindAll", parts).finditer(parts["input"])]
