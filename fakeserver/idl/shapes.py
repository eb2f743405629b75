"""The checks that are left of a command whose shape is known: names of fields and their types.

A server's parser is generated from the declaration of a command. Here it is worked out for each shape that
clients send: names and required fields are the shape's own, and most values pass by their type alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fakeserver.idl.fields import GENERIC_FIELDS, Field, Fields, are_documents, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Glance: TypeAlias = "Callable[[Any], bool]"


class Checks(NamedTuple):
    """The checks of commands of one shape."""

    names_target: bool = False
    """The first value is a string that has to name a collection."""
    patterns: tuple[bytes, ...] = ()
    """The declared names as they stand in BSON, of which a body may hold each once."""
    values: tuple[tuple[str, Field, str, Glance | None], ...] = ()
    """Fields whose values are looked at, by their names: each with its path, and with what says at a glance
    that a value passes as it is."""


def _glance(field: Field, kind: type) -> Glance | None:
    if field.kind == "array" and field.of == "object":
        return are_documents if kind is list else None
    least = field.minimum
    if least is None or field.maximum is not None or field.choices:
        return None
    return least.__le__ if kind is int and field.convert is whole else None


def checks_of(fields: Fields, names: Sequence[str], types: Sequence[type]) -> Checks | None:
    """Return what `Fields.check_command` comes to for a shape, None where it has to be asked itself."""
    # Releases with words of their own quote the command, and a field that is null is taken out of it.
    if fields.words is not None or not names:
        return None
    first, values = names[0], []
    if fields.target is not None:
        if types[0] is not str:
            return None
    elif first in fields.by_name:
        values.append((first, fields.by_name[first], types[0]))
    for name, kind in zip(names[1:], types[1:], strict=True):
        each = fields.by_name.get(name)
        if each is None and name in fields.generic:
            each = GENERIC_FIELDS.get(name)
        elif each is None and fields.strict:
            return None
        if each is not None:
            values.append((name, each, kind))
    if type(None) in (kind for _, _, kind in values) or not set(fields.required) <= set(names[1:]):
        return None
    looked_at = [(name, each, kind) for name, each, kind in values if kind not in each.plain]
    return Checks(
        fields.target is not None,
        tuple(fields.patterns[name] for name in names if name in fields.patterns),
        tuple((name, each, f"{first}.{name}", _glance(each, kind)) for name, each, kind in looked_at),
    )
