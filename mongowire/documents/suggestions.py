"""What an unknown name may have been meant to be."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: object, known: Iterable[str]) -> str:
    """Return the known name that is most like a word, in upper or lower case, or nothing."""
    names = list(known)
    close = get_close_matches(str(word), names, n=1)
    if close:
        return close[0]
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[each] for each in get_close_matches(str(word).lower(), by_lower, n=1)), "")


_QUESTION: Final = re.compile(r"did you mean '([^']+)'\?")
_LETTERS_OF_A_SLIP: Final = 4
"""Shorter words that differ by a letter are other words."""


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """Return the question after the name that was meant, or what to say where none is like the word."""
    meant = nearest(word, known)
    return f"did you mean {meant!r}?" if meant else otherwise


def meant_by(hint: str) -> str:
    """Return the name that the question in a hint is about; nothing where it asks none."""
    found = _QUESTION.search(hint)
    return found[1] if found else ""


def is_slip(word: str, meant: str) -> bool:
    """Return whether a word is a name with one letter too many, too few, changed, or two in wrong order.

    Upper and lower case, and the marks between words, make no other name.
    """
    if _plain(word) == _plain(meant):
        return True
    if len(word) < _LETTERS_OF_A_SLIP or abs(len(word) - len(meant)) > 1:
        return False
    head = _common(word, meant)
    rest, other = word[head:], meant[head:]
    swapped = rest[:2] == other[1::-1] and rest[2:] == other[2:]
    return swapped or rest[1:] == other[1:] or rest[1:] == other or rest == other[1:]


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def _common(word: str, other: str) -> int:
    """Return how many letters two words have in common at their beginning."""
    pairs = zip(word, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(word), len(other)))
