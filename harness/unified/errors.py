"""Errors in a scenario, as opposed to errors of a driver.

ScenarioError       the file, or what it asks for, is not a valid scenario
└── EntityError     an entity is missing, taken, or of another kind
"""

from __future__ import annotations

from mongowire.documents.errors import DocumentError


class ScenarioError(DocumentError):
    """A scenario is wrong: names the file, line, column and field, says what is wrong and how to fix it."""


class EntityError(ScenarioError):
    """A name does not lead to the entity that an operation needs."""
