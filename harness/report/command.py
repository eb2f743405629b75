"""`pushbackd report`: several files of results as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from harness.option_types import FilePath
from harness.report.keeping import writing
from harness.report.matrix import Matrix
from harness.report.page import write
from harness.report.results_file import ResultsFileError, ResultsReader
from mongowire.system import SystemClock


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option(
    "-o",
    "--output",
    type=FilePath(dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
def command(runs: tuple[str, ...], output: Path) -> None:
    """Make one HTML page of the results of one or several runs (`pushbackd conform --results FILE`).

    A column is a driver with its edition on a deployment, in real or virtual time, against one version of the
    server. Where two runs fill the same cell, the later FILE wins; a run with a NAME has columns of its own.
    """
    matrix = Matrix()
    for run in runs:
        name, path = _named(run)
        try:
            with ResultsReader(path) as reader:
                matrix.add(reader.run, reader.results(), name=name)
        except ResultsFileError as error:
            raise click.ClickException(str(error)) from error
    with writing(output):
        write(output, matrix, utc=SystemClock().utc())
    click.echo(f"{output}: {len(matrix.cells)} cases, {len(matrix.columns)} columns")


def _named(run: str) -> tuple[str, Path]:
    """Return the name and the path of a run; a path that exists is no name, whatever is in it."""
    name, mark, path = run.partition("=")
    return (name, Path(path)) if mark and not Path(run).exists() else ("", Path(run))
