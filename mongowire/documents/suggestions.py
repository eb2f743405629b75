"""What an unknown name may have been meant to be."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

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


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """Return the question after the name that was meant, or what to say where none is like the word."""
    meant = nearest(word, known)
    return f"did you mean {meant!r}?" if meant else otherwise
