r"""Regular expressions as BSON carries them: a pattern of PCRE and the options `i`, `m`, `s`, `x`.

A server compiles patterns with PCRE2, as UTF and without Unicode properties: `\d`, `\s`, `\w` and `\b` are
about ASCII. What Python spells otherwise is translated; what it lacks (recursion, branch reset, `\K`, verbs)
is refused like a pattern that does not compile.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

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


def compile_regex(
    regex: Any, options: str = "", *, invalid: int = _INVALID, what: str = ""
) -> re.Pattern[str]:
    """Return a pattern to search with.

    Raises `CommandError`, with code `invalid` and a message that begins with `what`, if it does not compile.
    """
    pattern, flags = source_of(regex, options)
    if "\0" in pattern:
        raise CommandError(ErrorCode.BAD_VALUE, "Regular expression cannot contain an embedded null byte")
    try:
        return _compiled(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        reason = getattr(error, "msg", "pattern is too large")
        raise CommandError(invalid, f"{what or 'Regular expression is invalid'}: {reason}") from None


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


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(translate(pattern, verbose=bool(flags & re.VERBOSE)), flags)
