"""`pushbackd govern`: a policy adjusts the request rate limiter of a running server, until Ctrl-C.

At the end it says what to set for good, and why.

`harness.overload.policy` has the policies, which are pure, and the `Governor`, which reads the server's
status and sets its parameters. This module only chooses: the policy by name, the operator's numbers, and the
printing of each decision. The settings that the server had are put back by the governor's own end, whatever
ends it, so a policy that is tried on a deployment leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

import click

from driver.errors import DriverError
from harness.commands.options.types import Duration, Rate, Seconds
from harness.commands.simulations.reporting import (
    check_files,
    html_option,
    json_option,
    plot_option,
    write_file,
)
from harness.overload.policy import Aimd, Decision, FollowThroughput, Governor, Policy
from harness.overload.policy.advice import GovernorAdvice
from harness.overload.policy.policies import POLICIES, CannotGovernError
from harness.planning.result import ExitCode
from harness.report.fitting import columns, echo
from harness.report.progress import work
from harness.world import cancelling

if TYPE_CHECKING:
    from pathlib import Path

_OBSERVE: Final = "observe"
_OF_TIMEOUT: Final = 0.1
"""How long requests may queue before AIMD steps in, as a part of the time that clients wait."""
# Columns where there is no terminal: lines of the summary are drawn to a width.
_WIDE: Final = 100


@click.command("govern")
@click.argument("uri")
@click.option(
    "--policy",
    type=click.Choice([*POLICIES, _OBSERVE]),
    default="aimd",
    show_default=True,
    help="Policy that sets the limit; observe sets nothing, and only looks.",
)
@click.option(
    "--capacity",
    type=Rate(),
    help="What the server can do, where it is known: aimd begins at nine tenths of it.",
)
@click.option(
    "--timeout",
    type=Duration(),
    help="How long the clients wait for an answer: aimd steps in when requests queue for a tenth of it."
    "  [default: unknown, and 100ms]",
)
@click.option(
    "--connections",
    is_flag=True,
    help="Let the policy limit the establishment of connections as well, to the rate of requests.",
)
@click.option(
    "--interval",
    type=Duration(),
    default="250ms",
    show_default=True,
    help="Time between two readings of the server's status.",
)
@click.option("--seconds", type=Seconds(), help="Seconds after which to stop.  [default: until Ctrl-C]")
@plot_option
@html_option
@json_option
def command(
    *,
    uri: str,
    policy: str,
    capacity: float | None,
    timeout: float | None,
    connections: bool,
    interval: float,
    seconds: float | None,
    plot: Path | None,
    html: Path | None,
    as_json: bool,
) -> ExitCode:
    """Let a policy set the rate limiters of the server at URI, by readings of its status.

    A line is printed for each reading. At the end the limiters get their old settings back, and the readings
    are summed up: what to set for good, and why. With --policy observe nothing is set, as is right for a
    first look at a deployment that serves people.
    """
    check_files(plot, html)
    advice = GovernorAdvice(timeout)

    def heard(decision: Decision) -> None:
        advice.add(decision)
        if not as_json:
            _print_decision(decision)

    try:
        chosen = _policy(policy, capacity, timeout, limits_connections=connections)
        # Made inside of the block: a connection string that is none raises here already.
        governor = Governor(uri, chosen, interval=interval, on_decision=heard)
        cancelling.run(_govern(governor, seconds))
    except (DriverError, CannotGovernError, ValueError) as error:  # ValueError: no connection string
        raise click.ClickException(str(error)) from error
    # Ctrl-C is the usual end, and the summary follows all the same.
    except KeyboardInterrupt:
        told = "the limiters have their old settings back" if governor.has_restored else "nothing was changed"
        click.echo(told, err=True)
    if as_json:
        click.echo(json.dumps(advice.to_document(), indent=2))
    else:
        click.echo()
        for line in advice.lines(columns() or _WIDE):
            echo(line)
    write_file(plot, advice.picture)
    write_file(html, lambda: advice.page(f"{uri.rpartition('@')[2]}, policy {policy}"))
    return ExitCode.PASSED


def _policy(
    name: str, capacity: float | None, timeout: float | None, *, limits_connections: bool
) -> Policy | None:
    """Return the policy by its name, with the operator's numbers. Raises `click.UsageError`."""
    if name == "aimd":
        target = {} if timeout is None else {"target_delay": timeout * _OF_TIMEOUT}
        return Aimd(limits_connections=limits_connections, capacity=capacity, **target)
    if capacity is not None:
        raise click.UsageError(f"--capacity is where aimd begins, and --policy is {name}")
    if name == _OBSERVE:
        if limits_connections:
            raise click.UsageError("--connections has the policy set a limit, and --policy observe sets none")
        return None
    return FollowThroughput(limits_connections=limits_connections)


async def _govern(governor: Governor, seconds: float | None) -> None:
    async with AsyncExitStack() as stack:
        # Entering connects, and selection waits for a server that may be starting.
        with work("waiting for the server"):
            await stack.enter_async_context(governor)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await governor.run()


def _print_decision(decision: Decision) -> None:
    sample, settings = decision.sample, decision.settings
    end = ""
    if settings is not None:
        end = f"  -> {settings.request_rate}/s"
        if settings.connection_rate is not None:
            end += f", {settings.connection_rate} connections/s"
    echo(
        f"admitted {sample.admitted:8.1f}/s  rejected {sample.rejected:8.1f}/s  "
        f"finished {sample.finished:8.1f}/s  queued {sample.delay * 1000:8.1f} ms{end}"
    )
