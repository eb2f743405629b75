"""`pushbackd report`: make one HTML page of several results files, and say what two of them differ in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options.results import page_option, runs_argument, runs_of
from harness.report.changes import RunOutcomes, change_lines, changes_between, is_worse
from harness.report.matrix import Matrix
from harness.report.outputs import writing
from harness.report.page import write
from harness.report.progress import work
from harness.running.result import ExitCode
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


@click.command("report")
@runs_argument
@page_option("report.html")
def command(runs: tuple[str, ...], output: Path) -> ExitCode:
    """Make one HTML page of the results of one or several runs (`pushbackd conform --results FILE`).

    A column is a driver in one version, with its edition, on a topology, in real or virtual time, against one
    version of the server. Where two runs fill the same cell, the later FILE wins; a run with a NAME has
    columns of its own.

    Two runs with names (before=FILE after=FILE) are compared: which cases are broken, which fail that did not
    run before, which are fixed, and which still fail. The exit code is 1 when a case fails that did not fail
    before, unless expectations know of it, and 2 when a FILE cannot be used or no case is in both.
    """
    matrix = Matrix()
    named: list[RunOutcomes] = []
    with work(f"{output}", len(runs) + 1) as advance, writing(output):
        for run, results, name in runs_of(runs):
            outcomes = RunOutcomes(name, run)
            matrix.add(run, outcomes.noting(results), name=name)
            named += [outcomes] if name else []
            advance(1)
        write(output, matrix, utc=SystemClock().utc())
    click.echo(f"{output}: {len(matrix.cells)} cases, {len(matrix.columns)} columns")
    return _compared(*named) if len(named) == len(runs) == 2 else ExitCode.PASSED  # noqa: PLR2004 - before, after


def _compared(before: RunOutcomes, after: RunOutcomes) -> ExitCode:
    if before.ended and after.ended and not before.ended.keys() & after.ended.keys():
        raise click.ClickException(
            f"{before.title} and {after.title} have no case in common: name runs of one adapter on one"
            " deployment, or leave the names out"
        )
    found = changes_between(before, after)
    for line in change_lines(before, after, found):
        click.echo(line)
    return ExitCode.FAILED if is_worse(found) else ExitCode.PASSED
