"""The fields in which a client declares the API version (`Versioned API`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.idl.fields import Field

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: Final = (
    Field("apiVersion", "string"),
    Field("apiStrict", "bool"),
    Field("apiDeprecationErrors", "bool"),
)


def declared(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command declares of the API version."""
    return {field.name: command[field.name] for field in FIELDS if field.name in command}
