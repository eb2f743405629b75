"""`pushbackd simulate probing`: whether throughput probing finds the best concurrency.

The algorithm in question is the fake server's own throughput probing, which sets its number of tickets.
`harness.overload.probing` puts it on a server whose best number is known, begins far from that, and tells
where it settles. Its trials of a load that never lets up stand apart, in a table of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options.types import Count, Seconds
from harness.commands.simulations.reporting import (
    check_files,
    html_option,
    json_option,
    plot_option,
    show,
    write_file,
)
from harness.overload import probing
from harness.report.progress import work

if TYPE_CHECKING:
    from pathlib import Path


@click.command("probing")
@click.option(
    "--start",
    "starts",
    type=Count(1),
    multiple=True,
    default=probing.STARTS,
    show_default=True,
    metavar="N",
    help="Tickets to begin with; repeat the option for more trials.",
)
@click.option(
    "--seconds",
    type=Seconds(),
    default="40s",
    show_default=True,
    help="Virtual time of each trial, in seconds.",
)
@plot_option
@html_option
@json_option
def command(
    *, starts: tuple[int, ...], seconds: float, plot: Path | None, html: Path | None, as_json: bool
) -> None:
    """Measure where throughput probing settles, on a server whose best concurrency is known.

    The second table is of a load that never lets up: far more clients than tickets.
    """
    check_files(plot, html)
    trials = probing.trials(starts, seconds)
    with work("trials", len(trials) + len(probing.pressed_trials(seconds))) as advance:
        runs = probing.run(trials, on_trial=lambda: advance(1))
        numbers = probing.report(trials, runs, seconds=seconds, on_trial=lambda: advance(1))
    show(numbers, probing.table, as_json=as_json)
    write_file(plot, lambda: probing.picture(trials, runs))
    write_file(html, lambda: probing.page(numbers, trials, runs))
