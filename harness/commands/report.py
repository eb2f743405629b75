"""`pushbackd report` and `pushbackd drivers`: pages of results files, of cases and of rules.

Both read files of `pushbackd conform --results` line by line (`harness.report.results_file`), so that a run
of many thousand cases is never in memory as a whole; what is kept is the page's own form. `report` fills a
`Matrix`, `drivers` a `RuleTable`. Two runs with names are compared on the way: `RunOutcomes.noting` passes
results on and remembers how each ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.commands.options.types import FilePath
from harness.commands.output import bad_input
from harness.planning.result import ExitCode
from harness.report.fitting import echo
from harness.report.matrix import Matrix, RunOutcomes, change_lines, changes_between, is_worse
from harness.report.outputs import writing
from harness.report.page import write as write_page
from harness.report.progress import work
from harness.report.results_file import ResultsFileError, ResultsReader
from harness.report.rules.page import write as write_rules
from harness.report.rules.rulebook import rules
from harness.report.rules.table import RuleTable, RuleVerdict
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from harness.planning.result import Result
    from harness.report.results_file import RunHeader


_F = TypeVar("_F", bound="Callable[..., Any]")

runs_argument = click.argument("runs", nargs=-1, required=True, metavar="[NAME=]FILE...")


def page_option(name: str) -> Callable[[_F], _F]:
    """Return the option for the page, which is called `name` by default."""
    return click.option(
        "-o",
        "--output",
        type=FilePath(dir_okay=False),
        default=Path(name),
        show_default=True,
        help="File to write the page to.",
    )


def runs_of(arguments: Iterable[str]) -> Iterator[tuple[RunHeader, Iterator[Result], str]]:
    """Open each run in turn, and yield its header, its results and its NAME or "".

    Raises `click.ClickException` for what is no results file, also while its results are taken.
    """
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():  # a path may contain "=" itself
            name, path = "", argument
        # The header is read at once, the results when the caller takes them; both may find a mistake.
        with bad_input(ResultsFileError), ResultsReader(Path(path)) as reader:
            yield reader.run, _refused(reader.results()), name


def _refused(results: Iterator[Result]) -> Iterator[Result]:
    """Turn the error of a line into one for the command line: it is raised where the results are taken."""
    with bad_input(ResultsFileError):
        yield from results


@click.command("report")
@runs_argument
@page_option("report.html")
def report(runs: tuple[str, ...], output: Path) -> ExitCode:
    """Make one HTML page of the results of one or several runs (`pushbackd conform --results FILE`).

    A column is a driver in one version, with its edition, on a topology, in real or virtual time, against one
    version of the server. Where two runs fill the same cell, the later FILE wins; a run with a NAME has
    columns of its own.

    Two runs with names (before=FILE after=FILE) are compared: which cases are broken, which fail that did not
    run before, which are fixed, and which still fail. The exit code is 1 when a case fails that did not fail
    before, unless expectations know of it, and 2 when a FILE cannot be used or no case is in both. The page
    begins with the same list.
    """
    matrix = Matrix()
    named: list[RunOutcomes] = []
    # One step more than there are runs: the page itself.
    with work(f"{output}", len(runs) + 1) as advance, writing(output):
        for run, results, name in runs_of(runs):
            outcomes = RunOutcomes(name, run)
            matrix.add(run, outcomes.noting(results), name=name)
            named += [outcomes] if name else []
            advance(1)
        # Three runs with names are three groups of columns, and no comparison.
        both = (named[0], named[1]) if len(named) == len(runs) == 2 else None  # noqa: PLR2004 - before, after
        if both and not both[0].is_comparable(both[1]):
            raise click.ClickException(
                f"{both[0].title} and {both[1].title} have no case in common: name runs of one adapter on one"
                " deployment, or leave the names out"
            )
        write_page(output, matrix, utc=SystemClock().utc(), compared=both)
    echo(f"{output}: {len(matrix.cells)} cases, {len(matrix.columns)} columns")
    if both is None:
        return ExitCode.PASSED
    found = changes_between(*both)
    for line in change_lines(*both, found):
        echo(line)
    return ExitCode.FAILED if is_worse(found) else ExitCode.PASSED


@click.command("drivers")
@runs_argument
@page_option("drivers.html")
def drivers(runs: tuple[str, ...], output: Path) -> None:
    """Set drivers against the rules: which each keeps, which it breaks, and the evidence.

    The FILEs are results of the bundled scenarios (`pushbackd conform --topology matrix --adapter DRIVER
    --results FILE`). A row is a rule of a specification, a column a driver in one edition; a NAME stands for
    the driver of its FILE.
    """
    table = RuleTable()
    with work(f"{output}", len(runs) + 1) as advance, writing(output):
        for run, results, name in runs_of(runs):
            table.add(run, results, name=name)
            advance(1)
        write_rules(output, table, utc=SystemClock().utc())
    for driver in table.drivers:
        counts = table.counts(rules().values(), driver)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in RuleVerdict if counts[verdict])
        click.echo(f"{driver.name} ({driver.facts}): {told}")
    click.echo(f"{output}: {len(rules())} rules, {len(table.drivers)} drivers")


commands: Final = {each.name: each for each in (report, drivers)}
