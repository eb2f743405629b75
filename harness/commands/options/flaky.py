"""The options of `pushbackd conform` that repeat and disturb cases, for the flake lab.

`harness.running.flake_lab` does the work. These options only make its `Repeats`: how often each case runs,
and whether a schedule is drawn for each run or given for all. A schedule is checked against the servers of
every deployment before anything runs, since a name that no server has would disturb nothing.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.commands.options.types import Count, Filled, Milliseconds
from harness.deployments.embedded import servers
from harness.deployments.targets import topology_of
from harness.running.flake_lab.lab import Repeats
from harness.world.schedule import FlakeScheduleError, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.commands.options.common import Options

F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS: Final = (
    click.option(
        "--repeat",
        type=Count(1),
        default=1,
        show_default=True,
        metavar="N",
        help="Run each case N times, with consecutive seeds, and report its pass rate.",
    ),
    click.option(
        "--perturb",
        is_flag=True,
        help="Disturb each run differently (latency, order of server discovery, start of tasks), and search"
        " for the smallest disturbance that makes a case fail (docs/FLAKES.md).",
    ),
    click.option(
        "--schedule",
        type=Filled(),
        metavar="TEXT",
        help="Disturb every run by this schedule, which a report of --perturb printed.",
    ),
    click.option(
        "--max-delay",
        type=Milliseconds(),
        default="50ms",
        show_default=True,
        help="Longest delay that --perturb uses.",
    ),
)


def lab_options(command: F) -> F:
    """Give a click command the lab's options."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)


def repeats_of(options: Options, deployments: Sequence[str]) -> Repeats:
    """Return how often each case runs, and how it is disturbed. Raises `click.UsageError`."""
    repeats = Repeats(options.repeat, options.perturb, options.schedule, options.max_delay)
    if repeats.schedule is not None:
        for deployment in deployments:
            try:
                parse(repeats.schedule).check(servers(topology_of(deployment)))
            except FlakeScheduleError as error:
                raise click.UsageError(f"--schedule, on {deployment}: {error}") from error
    return repeats
