"""Is a document a valid scenario? Two answers: our own schema's, and the public one's where it is at hand."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from harness.unified.errors import ScenarioError
from harness.unified.schema.grammar import MINOR_MAX, file_schema, part_schema
from harness.unified.schema.notation import VERSION
from mongowire.documents.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from mongowire.documents.marks import Marked

    SchemaAt: TypeAlias = Callable[[int], Mapping[str, Any]]
    """The schema as it stood in a minor version."""

_NEWEST: Final = f"1.{MINOR_MAX}"
_VERSION = re.compile(VERSION["pattern"])


def check(document: Marked) -> None:
    """Raise `ScenarioError` for the first thing in a file that the format does not allow."""
    minor = _declared_minor(document)
    problems = list(_validator(minor).iter_errors(document.value))
    if problems:
        error = explain(document, problems, file_schema)
        later = range(minor + 1, MINOR_MAX + 1)
        valid_from = next((each for each in later if _validator(each).is_valid(document.value)), None)
        if valid_from is not None:
            error.fix = f'declare schemaVersion "1.{valid_from}", which has it'
        raise error
    _check_public(document, minor)


def check_part(name: str, item: Marked) -> None:
    """Raise `ScenarioError` unless a part of an operation's arguments is what the format asks for."""
    problems = list(_part_validator(name).iter_errors(item.value))
    if problems:
        raise explain(item, problems, partial(part_schema, name))


def _declared_minor(document: Marked) -> int:
    """Unified Test Format: Test Runner Support. Return the minor version that a file asks for."""
    if not isinstance(document.value, dict):
        raise ScenarioError(
            "is empty" if document.value is None else f"is {_article(document.value)}, not a mapping",
            location=document.location,
            fix="a scenario has description, schemaVersion and tests",
        )
    version = document.value.get("schemaVersion")
    if not isinstance(version, str) or not _VERSION.match(version):
        return MINOR_MAX
    major, minor, patch = (*(int(part) for part in version.split(".")), 0)[:3]
    if major != 1 or (minor, patch) > (MINOR_MAX, 0):
        place = document["schemaVersion"].location
        raise ScenarioError(
            f"schemaVersion {version} is not supported", location=place, fix=f"1.0 to {_NEWEST} are"
        )
    return minor


@cache
def _validator(minor: int) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(file_schema(minor))


@cache
def _part_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(part_schema(name))


def lowest_minor(value: Any) -> int:
    """Return the first minor version of the format in which a valid file would be valid."""
    return bisect_left(range(MINOR_MAX), 1, key=lambda minor: int(_validator(minor).is_valid(value)))


def explain(
    document: Marked, problems: Iterable[jsonschema_rs.ValidationError], schema_at: SchemaAt
) -> ScenarioError:
    """Return the error for the problem that stands first in the file. There has to be one."""
    placed = ((document.locate(_steps(problem)), problem) for problem in problems)
    location, problem = min(placed, key=lambda pair: (pair[0].line, pair[0].column))
    message, fix = _describe(problem, schema_at)
    return ScenarioError(message, location=location, fix=fix)


def _steps(problem: jsonschema_rs.ValidationError) -> Sequence[str | int]:
    """Return the path of the value to blame: of an unknown field, that field's."""
    kind: Any = problem.kind
    if kind.name == "additionalProperties":
        return [*problem.instance_path, kind.unexpected[0]]
    return problem.instance_path


def _describe(problem: jsonschema_rs.ValidationError, schema_at: SchemaAt) -> tuple[str, str]:
    """Return what is wrong in our words, and what to do about it."""
    kind: Any = problem.kind
    match kind.name:
        case "additionalProperties":
            return "unknown field", _known_as(kind.unexpected[0], problem, schema_at)
        case "required":
            return f"field {kind.property!r} is missing", f"add {kind.property}"
        case "type":
            types = kind.types if isinstance(kind.types, (list, tuple)) else [kind.types]
            return (
                f"must be {' or '.join(_ARTICLES[name] for name in types)}, is {_article(problem.instance)}",
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


def _article(value: Any) -> str:
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


def _check_public(document: Marked, minor: int) -> None:
    """In a checkout of the public specifications, also ask the schema that stands there."""
    validator = _public_validator(document.path.resolve().parent, minor)
    problem = next(iter(validator.iter_errors(document.value)), None) if validator else None
    if problem is not None:
        location = document.locate(problem.instance_path)
        raise ScenarioError(
            f"does not follow schema-1.{minor}.json beside it: {problem.message}", location=location
        )


@cache
def _public_validator(folder: Path, minor: int) -> jsonschema_rs.Validator | None:
    for parent in (folder, *folder.parents):
        path = parent / "unified-test-format" / f"schema-1.{minor}.json"
        if path.is_file():
            return _compiled(path)
    return None


@cache  # of the file: many folders of a checkout have the same schema above them
def _compiled(path: Path) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads(path.read_bytes()))
