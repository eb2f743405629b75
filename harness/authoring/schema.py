"""`pushbackd schema`: the JSON Schema of scenarios, for editors."""

from __future__ import annotations

import copy
import json
from typing import Any

import click

from harness.result import ExitCode
from harness.unified.operations import OPERATIONS
from harness.unified.schema.grammar import MINOR_MAX, file_schema


def editor_schema(minor: int = MINOR_MAX) -> dict[str, Any]:
    """Return the schema of version 1.`minor` with the names of all operations, which editors can offer."""
    schema = copy.deepcopy(file_schema(minor))
    operation = schema["properties"]["tests"]["items"]["properties"]["operations"]["items"]
    operation["properties"]["name"] = {"type": "string", "enum": sorted({name for _, name in OPERATIONS})}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Unified test format, version 1.{minor}",
        **schema,
    }


def schema_text(minor: int = MINOR_MAX) -> str:
    """Return the schema as the text of a JSON file."""
    return json.dumps(editor_schema(minor), indent=1) + "\n"


@click.command("schema")
@click.option(
    "--minor",
    type=click.IntRange(0, MINOR_MAX),
    default=MINOR_MAX,
    show_default=True,
    help="Of which version 1.N.",
)
def command(minor: int) -> ExitCode:
    """Print the JSON Schema of scenario files, with the names of the operations, for editors."""
    click.echo(schema_text(minor), nl=False)
    return ExitCode.PASSED
