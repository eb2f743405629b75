r"""Regular expressions as BSON carries them: a pattern of PCRE and the options `i`, `m`, `s`, `x`.

A server compiles patterns with PCRE2, as UTF and without Unicode properties: `\d`, `\s`, `\w` and `\b` are
about ASCII. What is spelled otherwise here is translated; what is lacking (recursion, branch reset, `\K`,
verbs) is refused like a pattern that does not compile.

Matching is by the library `regex`, whose only door this is. It backtracks as PCRE does, and takes a time
limit. PCRE counts its steps; here CPU time is counted, so much that a pattern of no malice never meets the
limit whatever else the machine does, and a run in virtual time stays the same.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.pcre import translate
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

_INVALID: Final = 51091
_BAD_OPTION: Final = 51108
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_HARMLESS: Final = "u"
_MEANT: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE
_LONGEST: Final = 32_764
"""Bytes of the longest pattern."""
_MATCH_SECONDS: Final = 0.025
_SECONDS_PER_CHARACTER: Final = 30e-9
"""The CPU time of one search: one without backtracking takes time for each character of its text, too."""
_BACKTRACKING: Final = frozenset("*+?{(")
"""The signs without which a pattern tries each position of a text in one way only."""


class MatchLimitError(Exception):
    """A search was abandoned, since its pattern can match the text in too many ways."""


class Pattern(NamedTuple):
    """A compiled expression; `groups` is the number of its groups."""

    compiled: Any
    limited: bool

    def search(self, text: str, start: int = 0) -> Any:
        """Return the first match from a position on, as those of `re` are, or None.

        Raises `MatchLimitError` where finding out takes too long.
        """
        if not self.limited:
            return self.compiled.search(text, start)
        try:
            return self.compiled.search(
                text, start, timeout=_MATCH_SECONDS + len(text) * _SECONDS_PER_CHARACTER
            )
        except TimeoutError:
            raise MatchLimitError from None

    def matches(self, text: str) -> bool:
        """Return whether a text matches, as a query asks: a search that is abandoned is no match there."""
        try:
            return self.search(text) is not None
        except MatchLimitError:
            return False


def compile_regex(regex: Any, options: str = "", *, invalid: int = _INVALID, what: str = "") -> Pattern:
    """Return a pattern to search with.

    Raises `CommandError`, with code `invalid` and a message that begins with `what`, if it does not compile.
    """
    pattern, flags = source_of(regex, options)
    if "\0" in pattern:
        raise CommandError(ErrorCode.BAD_VALUE, "Regular expression cannot contain an embedded null byte")
    if len(pattern) > _LONGEST or len(pattern.encode()) > _LONGEST:
        raise CommandError(invalid, f"{what or _WHAT}: regular expression is too large")
    try:
        return _compiled(pattern, flags)
    except (re.error, _engine().error, OverflowError, RecursionError) as error:
        reason = getattr(error, "msg", "regular expression is too large")
        raise CommandError(invalid, f"{what or _WHAT}: {reason}") from None


_WHAT: Final = "Regular expression is invalid"


def source_of(regex: Any, options: str = "") -> tuple[str, int]:
    """Return a regular expression's pattern as it was written, and its options as flags."""
    flags = _flags_of(options)
    if isinstance(regex, Regex | re.Pattern):
        flags |= regex.flags & _MEANT
        regex = regex.pattern
    return (regex.decode() if isinstance(regex, bytes) else regex), flags


def _flags_of(options: Iterable[str]) -> int:
    flags = 0
    for option in options:
        if option not in _FLAGS and option not in _HARMLESS:
            raise CommandError(_BAD_OPTION, f"invalid flag in regex options: {option}")
        flags |= _FLAGS.get(option, 0)
    return flags


@functools.cache
def _engine() -> Any:
    """Return the library; it is loaded by the first pattern."""
    return importlib.import_module("regex")


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> Pattern:
    engine = _engine()
    spelled = translate(pattern, verbose=bool(flags & re.VERBOSE))
    named = {re.IGNORECASE: engine.I, re.MULTILINE: engine.M, re.DOTALL: engine.S, re.VERBOSE: engine.X}
    meant = engine.V0
    for flag, its in named.items():
        meant |= its if flags & flag else 0
    compiled = engine.compile(spelled, meant, cache_pattern=False)
    return Pattern(compiled, limited=not _BACKTRACKING.isdisjoint(pattern))
