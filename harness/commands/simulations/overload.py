"""`pushbackd simulate overload`: goodput under ten times the load, with four defences.

`harness.overload.defences` runs one trial for each defence, on fake servers and not on a model. In virtual
time a trial of twenty seconds takes as long as its work, and always gives the same numbers; with `--live` it
takes its time over TCP, at half the load, because clients and server then share one machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options.types import Seconds
from harness.commands.simulations.reporting import (
    check_files,
    html_option,
    json_option,
    live_option,
    plot_option,
    show,
    write_file,
)
from harness.overload import defences
from harness.report.progress import work

if TYPE_CHECKING:
    from pathlib import Path


@click.command("overload")
@click.option(
    "--seconds",
    type=Seconds(),
    default="20s",
    show_default=True,
    help="How long each trial lasts, in seconds.",
)
@live_option
@plot_option
@html_option
@json_option
def command(*, seconds: float, live: bool, plot: Path | None, html: Path | None, as_json: bool) -> None:
    """Measure goodput under ten times the load that a server can take.

    The server of the trials stands alone, has a fixed limit of requests, or is governed by each policy of
    `pushbackd govern`. Goodput is answers a second within the clients' patience of a second. The picture, in
    virtual time, is of a step of the load to three times the capacity.
    """
    check_files(plot, html)
    with work("defences", len(defences.DEFENCES)) as advance:
        numbers = defences.report(seconds=seconds, live=live, on_trial=lambda: advance(1))
    show(numbers, defences.table, as_json=as_json)
    write_file(plot, lambda: defences.picture(seconds))
    write_file(html, lambda: defences.page(numbers, seconds))
