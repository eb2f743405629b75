"""The strings that a regular expression can match, as a range of an index.

`^ab` matches the strings from `ab` to `ac`, and nothing else lies between them. What comes after an anchored
prefix is asked of each key; an expression without an anchor is asked of every string.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_SPECIAL: Final = frozenset("^$.[(){+*?|")
_OPTIONAL: Final = frozenset("*?{")
"""Signs after which the character before them may be missing."""
_LAST_CHARACTER: Final = "\U0010ffff"
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = "\ud7ff", "\ue000"
_ANCHORED_FLAGS: Final = re.UNICODE | re.DOTALL


class Prefix(NamedTuple):
    """The characters with which each match begins; `alone` says that all strings with them match."""

    text: str
    alone: bool

    @property
    def end(self) -> str:
        """The first string behind all that begin with the prefix, empty where there is none."""
        last = self.text[-1:]
        if not last or last == _LAST_CHARACTER:
            return ""
        following = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1)
        return self.text[:-1] + following


def prefix_of(regex: Any) -> Prefix:
    """Return with what each match of an expression begins."""
    pattern: str = regex.pattern
    anchor = next((each for each in ("^", r"\A") if pattern.startswith(each)), None)
    if anchor is None or regex.flags & ~_ANCHORED_FLAGS or "|" in pattern:
        return Prefix("", alone=False)
    rest, text = pattern[len(anchor) :], ""
    while rest and rest != ".*":
        literal = _literal(rest)
        if literal is None:
            return Prefix(text[:-1] if rest[0] in _OPTIONAL else text, alone=False)
        text += literal[-1]
        rest = rest[len(literal) :]
    return Prefix(text, alone=bool(text) and (not rest or bool(regex.flags & re.DOTALL)))


def _literal(pattern: str) -> str | None:
    """Return the sign, escaped or not, with which a pattern begins and which stands for itself."""
    first = pattern[0]
    if first == "\\":
        return pattern[:2] if len(pattern) > 1 and not pattern[1].isalnum() else None
    return None if first in _SPECIAL else first
