"""The error of a document: its place, what is wrong and how it is cured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
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
