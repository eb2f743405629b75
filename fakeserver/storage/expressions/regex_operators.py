"""The operators `$regexMatch`, `$regexFind` and `$regexFindAll`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import FunctionTable, NamedArguments, Wording, nullish
from fakeserver.storage.expressions.regex import MatchLimitError, compile_regex
from fakeserver.storage.values.memory import MAX_BUFFER_BYTES, weight
from fakeserver.storage.values.types import MISSING
from fakeserver.waiting.interrupts import check_for_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.expressions.regex import Searching

functions = FunctionTable()

_INVALID: Final = 51111
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

    def parse(parts: dict[str, Any]) -> dict[str, Any]:
        if all(map(_is_constant, (parts["regex"], parts.get("options")))):
            _pattern(name, parts["regex"], parts.get("options"))
        return parts

    @functions.function(name, parse=parse, arguments=_ARGUMENTS)
    def _call(parts: dict[str, Any]) -> Any:
        pattern = _pattern(name, parts["regex"], parts.get("options"))
        text = parts["input"]
        if not nullish(text) and type(text) is not str:
            raise CommandError(51104, f"{name} needs 'input' to be of type string")
        if pattern is None or nullish(text):
            return nothing()
        try:
            return search(pattern, text)
        except MatchLimitError:
            message = f"Error occurred while executing the regular expression in {name}. Result code: "
            raise CommandError(_FAILED, f"{message}match limit exceeded") from None


def _is_constant(argument: Any) -> bool:
    """Return whether an argument means itself, so that a server looks at it before there is a document."""
    return not isinstance(argument, dict | list) and not (type(argument) is str and argument.startswith("$"))


def _pattern(name: str, regex: Any, options: Any) -> Searching | None:
    """Return the expression, None where it is null or missing. Raises `CommandError` for what is none."""
    if not nullish(regex) and type(regex) is not str and not isinstance(regex, Regex | re.Pattern):
        raise CommandError(51105, f"{name} needs 'regex' to be of type string or regex")
    if not nullish(options) and type(options) is not str:
        raise CommandError(51106, f"{name} needs 'options' to be of type string")
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
        start = match.end() + (match.end() == match.start())
        if start >= len(text):
            break
        check_for_interrupt()
    return found


_searching("$regexMatch", lambda: False, lambda pattern, text: pattern.search(text) is not None)
_searching("$regexFind", lambda: None, _first)
_searching("$regexFindAll", list, _all)
