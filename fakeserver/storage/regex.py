"""Regular expressions as BSON carries them: a pattern and the options `i`, `l`, `m`, `s`, `u`, `x`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from bson import Regex

from fakeserver.errors import CommandError

_INVALID: Final = 51091
_BAD_OPTION: Final = 51108
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_HARMLESS: Final = "lu"


def compile_regex(regex: Any, options: str = "") -> re.Pattern[str]:
    """Return a pattern to search with. Raises `CommandError` for one that does not compile."""
    if isinstance(regex, re.Pattern):
        return regex
    flags = 0
    if isinstance(regex, Regex):
        regex, flags = regex.pattern, regex.flags
        regex = regex.decode() if isinstance(regex, bytes) else regex
    for option in options:
        if option not in _FLAGS and option not in _HARMLESS:
            raise CommandError(_BAD_OPTION, f"invalid flag in regex options: {option}")
        flags |= _FLAGS.get(option, 0)
    return _compiled(regex, flags & ~re.LOCALE)


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise CommandError(_INVALID, f"Regular expression is invalid: {error.msg}") from None
