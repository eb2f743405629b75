"""The arguments of commands that read results files: `[NAME=]FILE...`, and the page that they write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.commands.options.types import FilePath
from harness.commands.output.errors import bad_input
from harness.report.results_file import ResultsFileError, ResultsReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from harness.report.results_file import RunHeader
    from harness.running.result import Result

F = TypeVar("F", bound="Callable[..., Any]")

runs_argument = click.argument("runs", nargs=-1, required=True, metavar="[NAME=]FILE...")


def page_option(name: str) -> Callable[[F], F]:
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
        with bad_input(ResultsFileError), ResultsReader(Path(path)) as reader:
            yield reader.run, _refused(reader.results()), name


def _refused(results: Iterator[Result]) -> Iterator[Result]:
    """Turn the error of a line into one for the command line: it is raised where the results are taken."""
    with bad_input(ResultsFileError):
        yield from results
