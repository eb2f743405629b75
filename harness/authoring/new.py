"""`pushbackd new`: a commented scenario to start from, and the schema that editors check it by."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from harness.authoring.schema import schema_text
from harness.authoring.template import starting_text
from harness.result import ExitCode

SCHEMA_FILE: Final = "scenario.schema.json"


@click.command("new")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
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
    if file.exists() and not force:
        raise click.ClickException(f"{file} is there already; --force overwrites it")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if schema is None and not (beside := file.with_name(SCHEMA_FILE)).exists():
            beside.write_text(schema_text(), encoding="utf-8")
        file.write_text(starting_text(file.name, schema=schema or SCHEMA_FILE), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    click.echo(file)
    return ExitCode.PASSED
