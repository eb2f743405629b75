"""Errors in a scenario, as opposed to errors of a driver.

ScenarioError             the file, or what it asks for, is not a valid scenario
├── EntityError           an entity is missing, taken, or of another kind
└── SeveralMistakesError  the first of several mistakes of a file

The two kinds must never be mixed: a driver that does wrong makes a case FAILED, a scenario that is wrong
makes it an ERROR, which says nothing about the driver. `location` and `fix` travel with an error from the
place that knows them; who catches one on the way adds a location only where there is none
(`DocumentError.at`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mongowire.documents.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence


class ScenarioError(DocumentError):
    """A scenario is wrong: names the file, line, column and field, says what is wrong and how to fix it."""


class EntityError(ScenarioError):
    """A name does not lead to the entity that an operation needs."""


class SeveralMistakesError(ScenarioError):
    """The first mistake of a file, which a run tells, and the `others`, which a lint tells with it.

    It is an error like any other for whoever shows only the first, so that no caller has to know of the rest.
    """

    others: tuple[ScenarioError, ...] = ()

    @classmethod
    def of(cls, errors: Sequence[ScenarioError]) -> SeveralMistakesError:
        """Return the error of one mistake or more."""
        first, *others = errors
        error = cls(first.message, location=first.location, fix=first.fix)
        error.others = tuple(others)
        return error
