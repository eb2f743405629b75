"""`pushbackd simulate rate-limiter`: whether a server needs its request rate limiter, and at what rate.

`harness.overload.sizing` has the question as `Deployment`, which refuses numbers that contradict each other,
and the answer as `Sizing`, in every form that is printed or written here. Each limit is tried at the capacity
that the user named and at one that is less by the margin, with several seeds, each run in a process of a
pool.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.cli.values import MOST_COUNT
from harness.commands.options.types import Count, Duration, Rate, Share
from harness.commands.output import bad_input
from harness.commands.simulations.reporting import (
    check_files,
    html_option,
    json_option,
    plot_option,
    write_file,
)
from harness.overload.sizing import CLIENTS_DO, HEADINGS, Deployment, measure, runs
from harness.report.fitting import aligned, columns, echo
from harness.report.progress import work
from harness.world import interruption
from harness.world.processes import processes, processors

if TYPE_CHECKING:
    from pathlib import Path

# Columns of the bars where there is no terminal.
_WIDE: Final = 78
_MOST_SEEDS: Final = 100


@click.command("rate-limiter")
@click.option("--capacity", type=Rate(), required=True, help="Operations that the server can do: 2000/s.")
@click.option(
    "--peak", type=Rate(), required=True, help="Operations that clients ask for at the busiest time: 4500/s."
)
@click.option("--usual", type=Rate(), help="The same at other times.  [default: half of --capacity]")
@click.option(
    "--clients",
    type=Count(1, MOST_COUNT),
    required=True,
    metavar="N",
    help="Operations that clients can have under way at a time: threads or tasks of all processes together.",
)
@click.option(
    "--timeout",
    type=Duration(),
    required=True,
    help="How long a client waits for an answer: timeoutMS, socketTimeoutMS, or the deadline of its caller.",
)
@click.option(
    "--latency",
    type=Duration(),
    default="10ms",
    show_default=True,
    help="How long an operation takes while the server is not busy.",
)
@click.option(
    "--margin",
    type=Share(),
    default="10%",
    show_default=True,
    help="How much less than --capacity the server may be able to do.",
)
@click.option(
    "--clients-do",
    type=click.Choice(list(CLIENTS_DO)),
    default=next(iter(CLIENTS_DO)),
    show_default=True,
    help="What clients do after an error: an edition of Client Backpressure, or nothing.",
)
@click.option(
    "--seeds",
    type=Count(1, _MOST_SEEDS),
    default=3,
    show_default=True,
    metavar="N",
    help="How often each limit is tried at each capacity.",
)
@plot_option
@html_option
@json_option
def command(
    *, seeds: int, plot: Path | None, html: Path | None, as_json: bool, usual: float | None, **numbers: Any
) -> None:
    """Say whether a server needs its request rate limiter, at what rate, and why.

    Clients, load and server are yours: limits from half of the capacity to a tenth above it are tried on a
    simulated fleet, at that capacity and at one that is less by --margin. The end is a line to set on the
    server, with its reasons. Goodput is operations a second that are answered within --timeout.
    """
    check_files(plot, html)
    if usual is None:
        # A deployment that is usually busier than at its peak would be no deployment.
        usual = min(numbers["capacity"] / 2, numbers["peak"])
    with bad_input(ValueError):
        deployment = Deployment(usual=usual, **numbers)
    wanted = len(runs(deployment, seeds))
    with interruption.politely(), ExitStack() as stack:
        executor = stack.enter_context(processes(min(processors(), wanted)))
        advance = stack.enter_context(work("runs", wanted))
        sizing = measure(deployment, seeds, executor, lambda: advance(1))
    write_file(plot, sizing.picture)
    write_file(html, sizing.page)
    if as_json:
        click.echo(json.dumps(sizing.to_document(), indent=2))
        return
    width = columns()
    parts = (
        [sizing.setting()],
        ["Goodput at the peak by the limit, a second: worst run to best", *sizing.bars(width or _WIDE)],
        aligned([HEADINGS, *sizing.rows()], width, words=0),
        [sizing.verdict(), *(f"- {reason}" for reason in sizing.reasons())],
        ["To set it, on a server (mongosh) and on a fake one:", *(f"  {each}" for each in sizing.commands())],
    )
    for number, part in enumerate(parts):
        for line in ([""] if number else []) + part:
            echo(line)
