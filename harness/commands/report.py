"""`pushbackd report`: make one HTML page of several results files."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options.types import FilePath
from harness.commands.output.errors import bad_input
from harness.report.matrix import Matrix
from harness.report.outputs import writing
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
    help="File to write the page to.",
)
def command(runs: tuple[str, ...], output: Path) -> None:
    """Make one HTML page of the results of one or several runs (`pushbackd conform --results FILE`).

    A column is a driver with its edition on a topology, in real or virtual time, against one version of the
    server. Where two runs fill the same cell, the later FILE wins; a run with a NAME has columns of its own.
    """
    matrix = Matrix()
    for run in runs:
        name, equals, path = run.partition("=")
        if not equals or Path(run).exists():  # a path may contain "=" itself
            name, path = "", run
        with bad_input(ResultsFileError), ResultsReader(Path(path)) as reader:
            matrix.add(reader.run, reader.results(), name=name)
    with writing(output):
        write(output, matrix, utc=SystemClock().utc())
    click.echo(f"{output}: {len(matrix.cells)} cases, {len(matrix.columns)} columns")
