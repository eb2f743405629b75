"""Options and reports that the simulations of `pushbackd simulate` share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.options.types import FilePath
from harness.commands.output.errors import bad_input
from harness.report.outputs import writing
from harness.report.plots import MissingPlotsError
from harness.report.plots import check as check_plots
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


def check_picture(path: Path | None) -> None:
    """Raise `click.ClickException` if a picture cannot be drawn, or not written, before long work begins."""
    if path is None:
        return
    with writing(path), bad_input(MissingPlotsError):
        check_plots()
        check_writable(path)


def write_picture(path: Path | None, picture: Callable[[], str]) -> None:
    """Draw a picture where a path is given. Raises `click.ClickException`."""
    if path is not None:
        drawn = picture()
        with writing(path):
            write_whole(path, drawn)


def show(report: Mapping[str, Any], table: Callable[[Mapping[str, Any]], str], *, as_json: bool) -> None:
    """Print a report as JSON or as text."""
    click.echo(json.dumps(report, indent=2) if as_json else table(report))
