"""`pushbackd new`: a commented scenario to start from, and the schema that editors check it by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from harness.authoring.schema import schema_text
from harness.authoring.template import starting_text
from harness.option_types import FilePath
from harness.report.keeping import writing
from harness.result import ExitCode
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_FILE: Final = "scenario.schema.json"


@click.command("new")
@click.argument("file", type=FilePath(dir_okay=False))
@click.option(
    "--schema", metavar="URL", help=f"The schema for editors.  [default: {SCHEMA_FILE} beside FILE]"
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def command(file: Path, schema: str | None, *, force: bool) -> ExitCode:
    """Write a commented scenario to FILE (.yml), which passes lint and conform as it is.

    Its first line names a JSON Schema, which the YAML plugins of editors take up; the schema is written
    beside FILE unless there is one.
    """
    if file.suffix not in (".yml", ".yaml"):
        raise click.UsageError(f"{file} does not end in .yml: a scenario is YAML, and to-json makes its twin")
    with writing(file):
        exists = file.exists()
    if exists and not force:
        raise click.ClickException(f"{file} is there already; --force overwrites it")
    if schema is None and not (schema_file := file.with_name(SCHEMA_FILE)).exists():
        with writing(schema_file):
            write_whole(schema_file, schema_text())
    with writing(file):
        write_whole(file, starting_text(file.name, schema=schema or SCHEMA_FILE))
    click.echo(file)
    return ExitCode.PASSED
