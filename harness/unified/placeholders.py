"""Placeholders of values that a file cannot know: credentials, and the rest of the environment's.

Unified Test Format: $$placeholder.

Credentials must never stand in a file that is committed, and a run without them must not send the placeholder
to a server as a document. So there are two doors: `replaced` for the two options of the format that may have
one, and `refuse_placeholders` for all that is sent.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "PUSHBACKD_"
"""What the names of the environment variables begin with from which values come."""

_KEY: Final = "$$placeholder"
# Cuts camel case into words: KMSProvider is KMS and Provider, aws:name1 is aws and name1. A row of capitals
# ends before the capital that begins the next word.
_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")


def replaced(value: Any, *path: str, environment: Mapping[str, str] = os.environ) -> Any:
    """Return a value in which every `$$placeholder` is what the environment gives for its `path`.

    That of `uriOptions.authMechanismProperties.ENVIRONMENT` is the text of the variable
    `PUSHBACKD_URI_OPTIONS_AUTH_MECHANISM_PROPERTIES_ENVIRONMENT`. Raises `ScenarioError` where it is not set.
    """
    if isinstance(value, dict):
        if _KEY in value:
            name = variable(path)
            if name not in environment:
                raise ScenarioError(
                    f"{'.'.join(path)} has a $$placeholder and there is nothing to replace it by",
                    fix=f"set the environment variable {name}",
                )
            return environment[name]
        return {
            name: replaced(member, *path, name, environment=environment) for name, member in value.items()
        }
    if isinstance(value, list):
        return [replaced(element, *path, environment=environment) for element in value]
    return value


def refuse_placeholders(value: Any) -> None:
    """Raise `ScenarioError` for a `$$placeholder` in what is sent to servers: nothing replaces it there."""
    if isinstance(value, dict):
        if _KEY in value:
            raise ScenarioError(
                "$$placeholder stands where nothing replaces it",
                fix="only uriOptions and kmsProviders may have it",
            )
        for member in value.values():
            refuse_placeholders(member)
    elif isinstance(value, list):
        for element in value:
            refuse_placeholders(element)


def variable(path: tuple[str, ...]) -> str:
    """Return the name of the environment variable for a path in a file."""
    words = (word.upper() for step in path for word in _WORD.findall(step))
    return PREFIX + "_".join(words)
