"""Errors of documents that people write: where they are wrong, and how that is cured.

DocumentError    in a file: its line and column
ControlError     in a value without a file, of a verb, a rule or a fault: the path of the field
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mongowire.documents.suggestions import did_you_mean

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
