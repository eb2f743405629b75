"""`pushbackd new`: write a commented scenario, or an adapter, to start from."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import click

from harness.adapters.registry import PREFIX
from harness.authoring.skeletons import PROGRAMS, SKELETONS, files_of
from harness.authoring.template import starting_text
from harness.commands.options.types import FilePath
from harness.commands.schema import schema_text
from harness.report.outputs import writing
from harness.running.result import ExitCode
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SCHEMA_FILE: Final = "scenario.schema.json"


@click.command("new")
@click.argument("path", type=FilePath())
@click.option(
    "--adapter",
    type=click.Choice(list(SKELETONS)),
    help="Write an adapter into the folder PATH: a skeleton in Python, in Node, or of the bare protocol.",
)
@click.option(
    "--schema",
    metavar="URL",
    help=f"JSON Schema that editors check PATH against.  [default: {SCHEMA_FILE} beside PATH]",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def command(path: Path, adapter: str | None, schema: str | None, *, force: bool) -> ExitCode:
    """Write a commented scenario to PATH (.yml), which passes lint and conform as it is.

    Its first line names a JSON Schema, which the YAML plugins of editors use; the schema is written beside
    PATH unless there is one.

    With --adapter, PATH is a folder: the skeleton of an adapter is written into it, which keeps the protocol
    as it is (pushbackd check-adapter).
    """
    if adapter is not None:
        if schema is not None:
            raise click.UsageError("--schema is for scenarios, and an adapter has none")
        return _write_adapter(path, adapter, force=force)
    if path.suffix not in (".yml", ".yaml"):
        raise click.UsageError(
            f"{path} does not end in .yml: a scenario is written in YAML, and to-json converts it"
        )
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder")
    _refuse_to_overwrite([path], force=force)
    if schema is None and not (schema_file := path.with_name(SCHEMA_FILE)).exists():
        with writing(schema_file):
            write_whole(schema_file, schema_text())
    with writing(path):
        write_whole(path, starting_text(path.name, schema=schema or SCHEMA_FILE))
    click.echo(path)
    return ExitCode.PASSED


def _write_adapter(folder: Path, kind: str, *, force: bool) -> ExitCode:
    """Write the files of a skeleton, and say how it is checked."""
    texts = files_of(kind)
    if folder.exists() and not folder.is_dir():
        raise click.ClickException(f"{folder} is no folder: an adapter is written into one")
    _refuse_to_overwrite([folder / name for name in texts], force=force)
    for name, text in texts.items():
        with writing(folder / name):
            write_whole(folder / name, text)
        click.echo(folder / name)
    interpreter, program = PROGRAMS[kind]
    line = shlex.join([interpreter, str(folder / program)])
    click.echo(f'pushbackd check-adapter "{PREFIX}{line}" says what of the protocol it keeps', err=True)
    return ExitCode.PASSED


def _refuse_to_overwrite(paths: Iterable[Path], *, force: bool) -> None:
    for path in paths:
        with writing(path):
            exists = path.exists()
        if exists and not force:
            raise click.ClickException(f"{path} exists; --force overwrites it")
