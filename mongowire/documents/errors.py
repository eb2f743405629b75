"""Errors of documents that people write: where they are wrong, and how that is cured.

DocumentError    in a file: its line and column
ControlError     in a value without a file, of a verb, a rule or a fault: the path of the field
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mongowire.documents.marks import Location


class DocumentError(Exception):
    """A document is wrong: names the file, line, column and field, says what is wrong and how to fix it."""

    def __init__(self, message: str, *, location: Location | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.fix = fix

    def at(self, location: Location) -> Self:
        """Return this error, placed at `location` if it had no place."""
        self.location = self.location or location
        return self

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        hint = f" ({self.fix})" if self.fix else ""
        return f"{place}{self.message}{hint}"


class ControlError(ValueError):
    """A verb, a rule or a fault cannot be performed as asked. Nothing has been done.

    `path` leads to the field in the document of the caller, outermost first; it is empty where the error is
    about all of it. A door that knows a file, a line or an option says that instead.
    """

    def __init__(self, message: str, *, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.message}" if self.path else self.message

    def within(self, *outer: str | int) -> ControlError:
        """Return the same error for the document around the one that it was raised for."""
        return ControlError(self.message, path=(*outer, *self.path))


class UnmetError(ControlError):
    """A check did not find what was expected: nothing was wrong with how it was asked for."""


def dotted(path: Iterable[str | int]) -> str:
    """Return a path as text: `rules[2].when.command`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def unknown(
    kind: str, word: object, known: Iterable[str], *, path: tuple[str | int, ...] = ()
) -> ControlError:
    """Return the error of a name that does not exist: with the one that was meant, else with all that do."""
    names = sorted(known)
    hint = did_you_mean(word, names, f"known are {', '.join(names)}" if names else "there is none")
    return ControlError(f"unknown {kind} {str(word)!r}; {hint}", path=path)


# What an unknown name may have been meant to be.


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
