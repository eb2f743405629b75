"""`pushbackd to-json`: write or check the JSON copies of YAML scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options.types import FilePath
from harness.commands.output.errors import bad_input
from harness.formats.reading import cases_of
from harness.lint.json_copy import to_json
from harness.report.outputs import writing
from harness.running.discovery import BadInputError, discover
from harness.running.result import ExitCode
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path


@click.command("to-json")
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 when a JSON file is out of date."
)
def command(paths: tuple[Path, ...], *, only_check: bool) -> ExitCode:
    """Write each YAML scenario in PATHS (files or folders) as JSON, too, beside it.

    The names of files that changed are printed. A file that cannot be used ends the command with exit code 2,
    before anything is written.
    """
    copies: dict[Path, str] = {}
    with bad_input(BadInputError, ScenarioError):
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
