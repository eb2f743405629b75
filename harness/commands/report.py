"""`pushbackd report`: make one HTML page of several results files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options.results import page_option, runs_argument, runs_of
from harness.report.matrix import Matrix
from harness.report.outputs import writing
from harness.report.page import write
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


@click.command("report")
@runs_argument
@page_option("report.html")
def command(runs: tuple[str, ...], output: Path) -> None:
    """Make one HTML page of the results of one or several runs (`pushbackd conform --results FILE`).

    A column is a driver in one version, with its edition, on a topology, in real or virtual time, against one
    version of the server. Where two runs fill the same cell, the later FILE wins; a run with a NAME has
    columns of its own.
    """
    matrix = Matrix()
    for run, results, name in runs_of(runs):
        matrix.add(run, results, name=name)
    with writing(output):
        write(output, matrix, utc=SystemClock().utc())
    click.echo(f"{output}: {len(matrix.cells)} cases, {len(matrix.columns)} columns")
