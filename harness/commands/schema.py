"""`pushbackd schema`: print the JSON Schema of scenarios, for editors."""

from __future__ import annotations

import json

import click

from harness.adapters.message_schema import schema as adapter_schema
from harness.authoring.editor_schema import editor_schema
from harness.formats.grammar import SCHEMAS
from harness.running.result import ExitCode
from harness.unified.schema.grammar import MINOR_MAX


def schema_text(minor: int = MINOR_MAX) -> str:
    """Return the schema as the text of a JSON file."""
    return json.dumps(editor_schema(minor), indent=1) + "\n"


def server_schema_text() -> str:
    """Return the schema of scenarios for servers as the text of a JSON file."""
    from fakeserver.control.scenario.schema import schema  # noqa: PLC0415 - a help text needs no server

    return json.dumps(schema(), indent=1) + "\n"


def format_schema_text(name: str) -> str:
    """Return the schema of one of the older formats as the text of a JSON file."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{name} test"}
    return json.dumps({**head, **SCHEMAS[name]}, indent=1) + "\n"


@click.command("schema")
@click.option(
    "--minor",
    type=click.IntRange(0, MINOR_MAX),
    default=MINOR_MAX,
    show_default=True,
    metavar="N",
    help="Minor version of the unified test format: the schema is of 1.N.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(tuple(SCHEMAS)),
    help="Print the schema of an older format (docs/FORMATS.md) instead: pools, discovery, server selection.",
)
@click.option(
    "--server",
    is_flag=True,
    help="Print the schema of scenarios for servers (docs/SERVER-SCENARIOS.md) instead.",
)
@click.option(
    "--adapter",
    is_flag=True,
    help="Print the schema of the lines that an adapter writes (docs/WRITING-ADAPTERS.md) instead.",
)
def command(minor: int, *, format_name: str | None, server: bool, adapter: bool) -> ExitCode:
    """Print the JSON Schema of scenario files, for editors.

    Besides the format it has a description of every field, the operations with their arguments, and the
    contents of fail points.
    """
    if (format_name is not None) + server + adapter > 1:
        raise click.UsageError("--format, --server and --adapter exclude each other")
    if format_name is not None:
        click.echo(format_schema_text(format_name), nl=False)
        return ExitCode.PASSED
    if adapter:
        click.echo(json.dumps(adapter_schema(), indent=1))
        return ExitCode.PASSED
    if server:
        click.echo(server_schema_text(), nl=False)
        return ExitCode.PASSED
    click.echo(schema_text(minor), nl=False)
    return ExitCode.PASSED
