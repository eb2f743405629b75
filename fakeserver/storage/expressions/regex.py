r"""Regular expressions as BSON carries them: a pattern of PCRE and the options `i`, `m`, `s`, `x`.

A server compiles patterns with PCRE2, as UTF and without Unicode properties: `\d`, `\s`, `\w` and `\b` are
about ASCII. What is spelled otherwise here is translated; what is lacking (recursion, branch reset,
verbs) is refused like a pattern that does not compile.

Matching is by the library `regex`, whose only door this is. It backtracks as PCRE does, and takes a time
limit. PCRE counts its steps; here CPU time is counted, so much that a pattern of no malice never meets the
limit whatever else the machine does, and a run in virtual time stays the same.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final, NamedTuple, TypeAlias

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.pcre import translate
from fakeserver.waiting.beside import beside, library_beside
from mongowire.codes import ErrorCode

_INVALID: Final = 51091
_BAD_OPTION: Final = 51108
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_OF_SIGNS: Final = re.MULTILINE | re.DOTALL
"""The options that are about signs alone."""
_HARMLESS: Final = "u"
"""Accepted without effect: patterns are of Unicode anyway."""
_MEANT: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE
_LONGEST: Final = 32_764
"""Bytes of the longest pattern."""
_MATCH_SECONDS: Final = 0.025
_SECONDS_PER_CHARACTER: Final = 30e-9
"""The CPU time of one search: one without backtracking takes time for each character of its text, too."""
_BACKTRACKING: Final = frozenset("*+?{(|")
"""The signs without which a pattern tries each position of a text in one way only."""
_WITH_DOT, _DOTLESS = "\u0130", "\u0131"
"""The Turkish letters that the library takes for an `i` of another case, and PCRE does not."""
_SHORT: Final = 64
"""Signs of a pattern that takes no time to speak of at one position, unless it backtracks."""
_SIGNS: Final = frozenset("\\^$.|?*+()[]{}")
"""The characters without which a pattern stands for itself."""
_LONG_PATTERN: Final = 512
"""Signs of a pattern whose compilation may take more than a few milliseconds."""
_LONG_TEXT: Final = 250_000
"""Characters of a text that may be searched for more than a few milliseconds."""


class MatchLimitError(Exception):
    """A search was abandoned, since its pattern can match the text in too many ways."""


class Pattern(NamedTuple):
    """A compiled expression; `apart` says that the Turkish letters are no `i`, whatever their case."""

    compiled: Any
    limited: bool
    apart: bool = False

    def search(self, text: str, start: int = 0) -> Any:
        """Return the first match from a position on, as those of `re` are, or None.

        Raises `MatchLimitError` where finding out takes too long.
        """
        # Rare letters, so the text is looked at first and only then copied.
        if self.apart and (_WITH_DOT in text or _DOTLESS in text):
            match = self._replace(apart=False).search(_without_turkish(text), start)
            return None if match is None else Original(match, text)
        if len(text) > _LONG_TEXT:
            return beside(lambda: self._search(text, start, concurrent=True))
        return self._search(text, start)

    def _search(self, text: str, start: int, *, concurrent: bool | None = None) -> Any:
        if not self.limited:
            return self.compiled.search(text, start, concurrent=concurrent)
        limit = _MATCH_SECONDS + len(text) * _SECONDS_PER_CHARACTER
        try:
            return self.compiled.search(text, start, timeout=limit, concurrent=concurrent)
        except TimeoutError:
            raise MatchLimitError from None

    def matches(self, text: str) -> bool:
        """Return whether a text matches, as a query asks: a search that is abandoned is no match there."""
        try:
            return self.search(text) is not None
        except MatchLimitError:
            return False


@functools.lru_cache(maxsize=2)
def _without_turkish(text: str) -> str:
    """Return a text with letters of their kinds for the Turkish ones, such as have no other case."""
    return text.replace(_WITH_DOT, "\u03d2").replace(_DOTLESS, "\u0138")


class Original(NamedTuple):
    """A match in a text some of whose letters were replaced, told of the text itself."""

    match: Any
    text: str

    def group(self) -> str:
        """Return what matched."""
        return self.text[self.match.start() : self.match.end()]

    def start(self) -> int:
        """Return where it begins."""
        return int(self.match.start())

    def end(self) -> int:
        """Return the position behind it."""
        return int(self.match.end())

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return both, of a group too."""
        begin, end = self.match.span(group)
        return begin, end

    def groups(self) -> tuple[str | None, ...]:
        """Return the groups, None for each that took no part."""
        spans = (self.match.span(number) for number in range(1, len(self.match.groups()) + 1))
        return tuple(None if begin < 0 else self.text[begin:end] for begin, end in spans)


class Literal(NamedTuple):
    """An expression that stands for itself. No table is made of it, so its length does not matter."""

    wanted: str

    def search(self, text: str, start: int = 0) -> Any:
        """Return the first match from a position on, or None."""
        at = text.find(self.wanted, start)
        return None if at < 0 else Found(self.wanted, at)

    def matches(self, text: str) -> bool:
        """Return whether a text matches."""
        return self.wanted in text


class Found(NamedTuple):
    """Where a literal stands, as a match of `re` says it."""

    wanted: str
    at: int

    def group(self) -> str:
        """Return what matched."""
        return self.wanted

    def start(self) -> int:
        """Return where it begins."""
        return self.at

    def end(self) -> int:
        """Return the position behind it."""
        return self.at + len(self.wanted)

    def span(self, _group: int = 0) -> tuple[int, int]:
        """Return both."""
        return self.start(), self.end()

    def groups(self) -> tuple[str, ...]:
        """Return the groups: there are none."""
        return ()


Searching: TypeAlias = Pattern | Literal
"""What searches for a regular expression."""


def compile_regex(regex: Any, options: str = "", *, invalid: int = _INVALID, what: str = "") -> Searching:
    """Return a pattern to search with.

    Raises `CommandError`, with code `invalid` and a message that begins with `what`, if it does not compile.
    """
    pattern, flags = source_of(regex, options)
    if "\0" in pattern:
        raise CommandError(ErrorCode.BAD_VALUE, "Regular expression cannot contain an embedded null byte")
    if len(pattern) > _LONGEST or len(pattern.encode()) > _LONGEST:
        raise CommandError(invalid, f"{what or _WHAT}: regular expression is too large")
    if flags & ~_OF_SIGNS == 0 and _SIGNS.isdisjoint(pattern):
        # Plain text needs neither a limit nor the library, which then is not even loaded.
        return Literal(pattern)
    engine = _engine()
    try:
        return _compiled(pattern, flags)
    except (re.error, engine.error, OverflowError, RecursionError) as error:
        # The words are the library's own; a server's are PCRE's.
        reason = getattr(error, "msg", "regular expression is too large")
        raise CommandError(invalid, f"{what or _WHAT}: {reason}") from None


_WHAT: Final = "Regular expression is invalid"


def source_of(regex: Any, options: str = "") -> tuple[str, int]:
    """Return a regular expression's pattern as it was written, and its options as flags.

    Flags are those of `re`. Raises `CommandError` 51108 for an unknown option.
    """
    flags = 0
    for option in options:
        if option not in _FLAGS and option not in _HARMLESS:
            raise CommandError(_BAD_OPTION, f"invalid flag in regex options: {option}")
        flags |= _FLAGS.get(option, 0)
    if isinstance(regex, Regex | re.Pattern):
        # Python sets `re.UNICODE` by itself, which is no option of BSON.
        flags |= regex.flags & _MEANT
        regex = regex.pattern
    return (regex.decode() if isinstance(regex, bytes) else regex), flags


@functools.cache
def _engine() -> Any:
    """Return the library; it is loaded by the first pattern."""
    return library_beside("regex")


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> Pattern:
    engine = _engine()
    spelled = translate(pattern, verbose=bool(flags & re.VERBOSE))
    named = {re.IGNORECASE: engine.I, re.MULTILINE: engine.M, re.DOTALL: engine.S, re.VERBOSE: engine.X}
    # Version 0 of the library's syntax, that of `re`: version 1 has nested sets.
    meant = engine.V0
    for flag, its in named.items():
        meant |= its if flags & flag else 0

    def compiled() -> Any:
        return engine.compile(spelled, meant, cache_pattern=False)

    # A time limit costs at each search, so only what may take long has one.
    limited = len(pattern) > _SHORT or not _BACKTRACKING.isdisjoint(pattern)
    # A pattern that has these letters itself means them, and is left alone.
    apart = bool(flags & re.IGNORECASE) and _WITH_DOT not in pattern and _DOTLESS not in pattern
    return Pattern(beside(compiled) if len(pattern) > _LONG_PATTERN else compiled(), limited, apart)
