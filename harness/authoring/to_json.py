"""`pushbackd to-json`: the JSON twins of YAML scenarios, written or checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.discovery import BadInputError, discover
from harness.formats.reading import cases_of
from harness.lint.twin import to_json
from harness.option_types import FilePath
from harness.report.keeping import writing
from harness.result import ExitCode
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path


@click.command("to-json")
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 when a twin would change."
)
def command(paths: tuple[Path, ...], *, only_check: bool) -> ExitCode:
    """Write the JSON twin beside each YAML scenario in PATHS (files or folders).

    The names of files that changed are printed. A file that cannot be used ends it with exit code 2, before
    anything is written.
    """
    try:
        twins = {path.with_suffix(".json"): _twin(path) for path in discover(paths) if path.suffix != ".json"}
    except (BadInputError, ScenarioError) as error:
        raise click.ClickException(str(error)) from error
    stale = {path: text for path, text in twins.items() if not path.exists() or _text(path) != text}
    for path, text in stale.items():
        if not only_check:
            with writing(path):
                write_whole(path, text)
        click.echo(path)
    return ExitCode.FAILED if stale and only_check else ExitCode.PASSED


def _twin(path: Path) -> str:
    document = read(path)
    cases_of(document)  # which refuses what is not valid
    return to_json(document)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
