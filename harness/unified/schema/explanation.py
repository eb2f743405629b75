"""Findings of a validator in a reader's words: every mistake of a document, at its place.

One mistake is told once: a key that is a typo of one that the schema requires is both unknown and missing,
and its message says what it was meant to be.

Validators report by rule and not by place, several times for one mistake, and in words about schemas. Here
each report becomes a `ScenarioError` at its line with, where there is one, the fix; the order is that of the
file, since an author mends from the top.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError
from harness.unified.schema.grammar import MINOR_MAX
from mongowire.documents.errors import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    import jsonschema_rs

    from mongowire.documents.marks import Marked

    SchemaAt: TypeAlias = Callable[[int], Mapping[str, Any]]
    """The schema as it stood in a minor version."""

    _Path: TypeAlias = tuple[str | int, ...]

INTEGERS: Final = range(-(1 << 63), 1 << 63)
"""What a server can store as an integer."""


def explain(
    document: Marked, problems: Iterable[jsonschema_rs.ValidationError], schema_at: SchemaAt
) -> list[ScenarioError]:
    """Return an error for each mistake, in the order of the file."""
    found = list(problems)
    missing: defaultdict[_Path, set[str]] = defaultdict(set)
    for problem in found:
        kind: Any = problem.kind
        if kind.name == "required":
            missing[tuple(problem.instance_path)].add(kind.property)
    errors: list[ScenarioError] = []
    for problem in found:
        kind = problem.kind
        path = tuple(problem.instance_path)
        if kind.name == "additionalProperties":
            for name in kind.unexpected:
                meant = nearest(name, missing[path])
                # The typo has been told, so the field that it stood for is not missing as well.
                missing[path].discard(meant)
                hint = f"did you mean {meant!r}?" if meant else _known_as(name, problem, schema_at)
                place = document.locate_key((*path, name))
                errors.append(ScenarioError("unknown field", location=place, fix=hint))
        elif kind.name != "required":
            message, fix = _describe(problem)
            errors.append(ScenarioError(message, location=document.locate(path), fix=fix))
    for path, names in missing.items():
        errors += [
            ScenarioError(f"field {name!r} is missing", location=document.locate(path), fix=f"add {name}")
            for name in sorted(names)
        ]
    return in_order(errors)


def beyond_64_bits(document: Marked) -> Iterator[ScenarioError]:
    """Yield an error for each integer that BSON has no room for."""
    for steps, number in _integers(document.value, ()):
        if number not in INTEGERS:
            yield ScenarioError(
                f"{number} does not fit into the 64 bits of an integer",
                location=document.locate(steps),
                fix=f"integers go from {INTEGERS.start} to {INTEGERS.stop - 1}",
            )


def in_order(errors: Iterable[ScenarioError]) -> list[ScenarioError]:
    """Return errors in the order of the file, each once.

    Two branches of a condition may report one mistake; the place and the message tell that they are the same.
    """
    unique = {(error.message, error.location): error for error in errors}
    return sorted(unique.values(), key=_position)


def _position(error: ScenarioError) -> tuple[int, int]:
    return (error.location.line, error.location.column) if error.location else (0, 0)


def _integers(value: Any, steps: _Path) -> Iterator[tuple[_Path, int]]:
    # True is an instance of int, and no number.
    if type(value) is int:
        yield steps, value
    elif isinstance(value, (dict, list)):
        members: Iterable[tuple[str | int, Any]] = (
            value.items() if isinstance(value, dict) else enumerate(value)
        )
        for step, member in members:
            if isinstance(member, (int, dict, list)):
                yield from _integers(member, (*steps, step))


def _describe(problem: jsonschema_rs.ValidationError) -> tuple[str, str]:
    """Return what is wrong in our words, and what to do about it."""
    kind: Any = problem.kind
    match kind.name:
        case "type":
            types = kind.types if isinstance(kind.types, (list, tuple)) else [kind.types]
            return (
                f"must be {' or '.join(_ARTICLES[name] for name in types)}, is {article(problem.instance)}",
                "",
            )
        case "enum":
            allowed = [name for name in kind.options if isinstance(name, str)]
            return f"{problem.instance!r} is not one of {', '.join(allowed)}", did_you_mean(
                problem.instance, allowed
            )
        case "const":
            return f"{problem.instance!r} is not supported", f"{kind.expected_value!r} is"
        case "minItems" | "minProperties" if not problem.instance:
            return "is empty", "leave it out, or give at least one"
        case "maxProperties":
            return "has more than one field", "make each an element of its own"
        case "pattern":
            return f"{problem.instance!r} is not a version", 'write it like "1.0"'
        case "falseSchema":
            return "is not allowed beside the other fields here", "remove one of them"
        case _:
            # A rule that the table does not use, or hardly: the validator's own words will do.
            return problem.message, ""


def _known_as(name: str, problem: jsonschema_rs.ValidationError, schema_at: SchemaAt) -> str:
    """Return since when a field exists, or what it may have been meant to be."""
    for minor in range(MINOR_MAX + 1):
        if name in _siblings(problem, schema_at(minor)):
            return f'schemaVersion "1.{minor}" has it'
    return did_you_mean(name, _siblings(problem, schema_at(MINOR_MAX)))


def _siblings(problem: jsonschema_rs.ValidationError, schema: Mapping[str, Any]) -> list[str]:
    """Return the names that a schema allows where an unknown field was found."""
    part: Any = schema
    for step in problem.schema_path[:-1]:
        if isinstance(part, list):
            # An older version of the table may have fewer alternatives in a list than the one that found the
            # mistake.
            part = part[int(step)] if int(step) < len(part) else {}
        else:
            part = part.get(step, {})
    return list(part.get("properties", ()))


_ARTICLES: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def article(value: Any) -> str:
    """Return the kind of a value in a reader's words."""
    if isinstance(value, bool):
        return "a boolean"
    kinds = {
        dict: "object",
        list: "array",
        str: "string",
        int: "integer",
        float: "number",
        type(None): "null",
    }
    return _ARTICLES[kinds[type(value)]]
