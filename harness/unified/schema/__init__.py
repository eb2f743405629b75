"""Validity of a document as a scenario: our own schema's answer, and the public one's where it is at hand.

Unified Test Format: Test Runner Support, Test Format. The files of this room:

- `notation` is the language of the tables: JSON Schema with `Since`, the minor version that brought a part.
- `grammar` is the table of the whole format, `events` and `server_side` are parts of it with their own files.
  A new field of the format is one line there, with its `Since`.
- `explanation` turns what the validator found into messages with a place and a fix.
- `arguments`, `fail_points` and `descriptions` are not asked here. The format leaves arguments open, so lint
  and the schema for editors use these: types, and a sentence for each field.

`loader` and lint call `check` or `mistakes` with a `Marked` document, `build` calls `check_part` for parts of
a scenario inside arguments. From here on a file is known to have the shape that its version allows.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from harness.unified.errors import ScenarioError
from harness.unified.schema.explanation import article, beyond_64_bits, explain, in_order
from harness.unified.schema.grammar import MINOR_MAX, file_schema, part_schema
from harness.unified.schema.notation import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from mongowire.documents.marks import Marked

_NEWEST: Final = f"1.{MINOR_MAX}"
_VERSION = re.compile(VERSION["pattern"])


def check(document: Marked) -> None:
    """Raise `ScenarioError` for the first thing in a file that the format does not allow."""
    found = mistakes(document)
    if found:
        raise found[0]


def mistakes(document: Marked) -> list[ScenarioError]:
    """Return all that the format does not allow in a file, in its order."""
    try:
        minor = _declared_minor(document)
    except ScenarioError as error:
        return [error]
    found = explain(document, _validator(minor).iter_errors(document.value), file_schema)
    if found:
        # A field that is newer than the declared version is told as that and not as an unknown one, so that
        # it is mended in one step.
        later = range(minor + 1, MINOR_MAX + 1)
        valid_from = next((each for each in later if _validator(each).is_valid(document.value)), None)
        if valid_from is not None:
            for each in found:
                each.fix = f'declare schemaVersion "1.{valid_from}", which has it'
    found += beyond_64_bits(document)
    # The public schema is asked last. Its messages name no fix, and what both refuse is told once, in our
    # words.
    return in_order(found) or _public_mistakes(document, minor)


def check_part(name: str, item: Marked) -> None:
    """Raise `ScenarioError` unless a part of an operation's arguments is what the format asks for."""
    found = explain(item, _part_validator(name).iter_errors(item.value), partial(part_schema, name))
    if found:
        raise found[0]


def _declared_minor(document: Marked) -> int:
    """Unified Test Format: Test Runner Support. Return the minor version that a file asks for.

    Raises `ScenarioError` for what is no mapping and for a version that is not supported: nothing else in
    such a file could be judged.
    """
    if not isinstance(document.value, dict):
        raise ScenarioError(
            "is empty" if document.value is None else f"is {article(document.value)}, not a mapping",
            location=document.location,
            fix="a scenario has description, schemaVersion and tests",
        )
    version = document.value.get("schemaVersion")
    if not isinstance(version, str) or not _VERSION.match(version):
        # A version that is malformed is told by the schema itself, together with the rest of the file.
        return MINOR_MAX
    major, minor, patch = (*(int(part) for part in version.split(".")), 0)[:3]
    if major != 1 or (minor, patch) > (MINOR_MAX, 0):
        place = document["schemaVersion"].location
        raise ScenarioError(
            f"schemaVersion {version} is not supported", location=place, fix=f"1.0 to {_NEWEST} are"
        )
    return minor


# Compiling takes longer than checking a file, and a run checks hundreds of them.
@cache
def _validator(minor: int) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(file_schema(minor))


@cache
def _part_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(part_schema(name))


def lowest_minor(value: Any) -> int:
    """Return the first minor version of the format in which a valid file would be valid.

    Versions only add, so validity changes once from no to yes, and the place of the change is found by
    bisection.
    """
    return bisect_left(range(MINOR_MAX), 1, key=lambda minor: int(_validator(minor).is_valid(value)))


def _public_mistakes(document: Marked, minor: int) -> list[ScenarioError]:
    """In a checkout of the public specifications, also ask the schema that stands there."""
    validator = _public_validator(document.path.resolve().parent, minor)
    problem = next(iter(validator.iter_errors(document.value)), None) if validator else None
    if problem is None:
        return []
    location = document.locate(problem.instance_path)
    return [
        ScenarioError(
            f"does not follow schema-1.{minor}.json beside it: {problem.message}", location=location
        )
    ]


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
