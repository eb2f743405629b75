"""The notation of the format's table: JSON Schema, and the version that brought a part of it.

The table is written once for the newest version; `schema_of` takes out what an older one did not have. That
makes it impossible for two versions to drift apart, and gives `explanation` the version that a field came
with. Objects refuse unknown fields throughout, as the format's own schema does: a misspelt assertion would
otherwise assert nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema: TypeAlias = Any
"""A JSON Schema: a mapping, or a boolean."""


@dataclass(frozen=True, slots=True)
class Since:
    """A field or a name that the format has from a minor version on."""

    minor: int
    what: Any


def schema_of(part: Schema, minor: int) -> Schema:
    """Return a part of the table as it stood in version 1.`minor`."""
    if isinstance(part, Since):
        return schema_of(part.what, minor)
    if isinstance(part, dict):
        return {name: schema_of(value, minor) for name, value in part.items() if _stood(value, minor)}
    if isinstance(part, (list, tuple)):
        return [schema_of(value, minor) for value in part if _stood(value, minor)]
    return part


def _stood(value: Any, minor: int) -> bool:
    return not isinstance(value, Since) or value.minor <= minor


def record(
    fields: Mapping[str, Schema], required: tuple[str, ...] = (), *, at_least: int = 0, **more: Any
) -> dict[str, Any]:
    """Return an object that has these fields and no others."""
    limits = {"minProperties": at_least} if at_least else {}
    return {
        "type": "object",
        "properties": dict(fields),
        "additionalProperties": False,
        "required": list(required),
        **limits,
        **more,
    }


def choice(fields: Mapping[str, Schema]) -> dict[str, Any]:
    """Return an object that has exactly one of these fields.

    For objects whose single key is their kind: entities, events.
    """
    return record(fields, at_least=1, maxProperties=1)


def array(items: Schema, *, at_least: int = 0) -> dict[str, Any]:
    """Return an array of some length."""
    return {"type": "array", "items": items, **({"minItems": at_least} if at_least else {})}


def word(*names: Any) -> dict[str, Any]:
    """Return a string that is one of these names."""
    return {"type": "string", "enum": list(names)}


def exclusive(*groups: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a condition: where a field is present, these others must not be.

    `dependentSchemas` with `False` and not `not`: the error then stands at the field that is too many.
    """
    return {
        "dependentSchemas": {name: {"properties": dict.fromkeys(others, False)} for name, others in groups}
    }


STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
INTEGER: Final[Schema] = {"type": "integer"}
OBJECT: Final[Schema] = {"type": "object"}
ANYTHING: Final[Schema] = True
NOTHING_INSIDE: Final[Schema] = record({})
VERSION: Final[Schema] = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+){1,2}$"}
