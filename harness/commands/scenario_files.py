"""`pushbackd new`, `schema` and `to-json`: files to start from, their schema, and copies as JSON.

`new` writes what passes `lint` and `conform` as it is; its texts are those of `harness.authoring`. `schema`
prints one of several schemas, each made of the code that checks such files, so none can be behind it.
`to-json` makes the copies that other runners read; YAML stays the source. Files are written whole or not at
all.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

import click

from harness.adapters.message_schema import schema as adapter_schema
from harness.adapters.registry import PREFIX
from harness.authoring.editor_schema import editor_schema
from harness.authoring.skeletons import PROGRAMS, SKELETONS, files_of
from harness.authoring.template import starting_text
from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.types import FilePath
from harness.commands.output import bad_input
from harness.formats.case import cases_of
from harness.formats.grammar import SCHEMAS
from harness.lint.json_copy import to_json
from harness.planning.discovery import BadInputError, discover
from harness.planning.result import ExitCode
from harness.report.outputs import writing
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from harness.unified.schema.grammar import MINOR_MAX
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
def new(path: Path, adapter: str | None, schema: str | None, *, force: bool) -> ExitCode:
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
    # A schema that is there already is the user's, and may be of another version; `pushbackd schema` makes a
    # new one.
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
    # All of them before the first is written: a skeleton is whole, or what was there stays.
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
def schema(minor: int, *, format_name: str | None, server: bool, adapter: bool) -> ExitCode:
    """Print the JSON Schema of scenario files, for editors.

    Besides the format it has a description of every field, the operations with their arguments, and the
    contents of fail points.
    """
    refuse_excluded(click.get_current_context(), "schema")
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


@click.command("to-json")
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 when a JSON file is out of date."
)
def convert(paths: tuple[Path, ...], *, only_check: bool) -> ExitCode:
    """Write each YAML scenario in PATHS (files or folders) as JSON, too, beside it.

    The names of files that changed are printed. A file that cannot be used ends the command with exit code 2,
    before anything is written.
    """
    copies: dict[Path, str] = {}
    with bad_input(BadInputError, ScenarioError):
        # Everything is read and checked before the first copy is written.
        for path in discover(paths):
            if path.suffix != ".json":
                document = read(path)
                cases_of(document)  # refuses a scenario that is not valid
                copies[path.with_suffix(".json")] = to_json(document)
    stale = {
        path: text
        for path, text in copies.items()
        if not path.exists() or path.read_bytes().decode("utf-8", "replace") != text
    }
    for path, text in stale.items():
        if not only_check:
            with writing(path):
                write_whole(path, text)
        click.echo(path)
    return ExitCode.FAILED if stale and only_check else ExitCode.PASSED


commands: Final = {each.name: each for each in (new, schema, convert)}
