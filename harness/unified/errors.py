"""Errors in a scenario, as opposed to errors of a driver.

ScenarioError       the file, or what it asks for, is not a valid scenario
└── EntityError     an entity is missing, taken, or of another kind
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.unified.model import Location


class ScenarioError(Exception):
    """A scenario is wrong: names the file, line, column and field, says what is wrong and how to fix it."""

    def __init__(self, message: str, *, location: Location | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.fix = fix

    def at(self, location: Location) -> ScenarioError:
        """Return this error, placed at `location` if it had no place."""
        self.location = self.location or location
        return self

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        hint = f" ({self.fix})" if self.fix else ""
        return f"{place}{self.message}{hint}"


class EntityError(ScenarioError):
    """A name does not lead to the entity that an operation needs."""
