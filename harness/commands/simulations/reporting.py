"""Options and reports that the simulations of `pushbackd simulate` share.

`check_files` and `write_file` are two halves: the first finds out before a simulation of minutes whether its
files can be written, the second makes text and file only if there is one to write, as drawing takes time too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.options.types import FilePath
from harness.report.fitting import columns, echo
from harness.report.outputs import writing
from harness.report.progress import work
from mongowire.whole_file import check_writable, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
live_option: Final = click.option(
    "--live", is_flag=True, help="Run over TCP on the wall clock, with half the load."
)
plot_option: Final = click.option(
    "--plot", type=FilePath(dir_okay=False), metavar="FILE", help="Draw into this SVG file as well."
)


html_option: Final = click.option(
    "--html",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write one page with the tables and the pictures.",
)


def check_files(*paths: Path | None) -> None:
    """Raise `click.ClickException` if a file cannot be written, before long work begins."""
    for path in filter(None, paths):
        with writing(path):
            check_writable(path)


def write_file(path: Path | None, text: Callable[[], str]) -> None:
    """Write a picture or a page where a path is given. Raises `click.ClickException`."""
    if path is not None:
        with work("drawing"):
            made = text()
        with writing(path):
            write_whole(path, made)


def show(
    report: Mapping[str, Any], table: Callable[[Mapping[str, Any], int | None], str], *, as_json: bool
) -> None:
    """Print a report as JSON or as text."""
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    for line in table(report, columns()).splitlines():
        echo(line)
