"""`pushbackd govern`: a policy adjusts the request rate limiter of a running server, until Ctrl-C."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from driver.errors import DriverError
from harness.commands.option_types import Seconds
from harness.overload.policy import POLICIES, Decision, Governor
from harness.overload.policy.readings import CannotGovernError
from harness.running import interruption
from harness.running.result import ExitCode

if TYPE_CHECKING:
    from harness.overload.policy import Policy


@click.command("govern")
@click.argument("uri")
@click.option(
    "--policy",
    type=click.Choice(list(POLICIES)),
    default="aimd",
    show_default=True,
    help="Policy that sets the limit.",
)
@click.option(
    "--interval",
    type=Seconds(),
    default=0.25,
    show_default=True,
    help="Seconds between two readings of the server's status.",
)
@click.option("--seconds", type=Seconds(), help="Seconds after which to stop.  [default: until Ctrl-C]")
def command(uri: str, policy: str, interval: float, seconds: float | None) -> ExitCode:
    """Let a policy set the request rate limiter of the server at URI, by readings of its status.

    A line is printed for each reading. At the end the limiter gets its old settings back.
    """
    try:
        interruption.run(_govern(uri, POLICIES[policy](), interval, seconds))
    except (DriverError, CannotGovernError, ValueError) as error:  # ValueError: no connection string
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("the limiter has its old settings back", err=True)
    return ExitCode.PASSED


async def _govern(uri: str, policy: Policy, interval: float, seconds: float | None) -> None:
    async with Governor(uri, policy, interval=interval, on_decision=_print_decision) as governor:
        try:
            async with asyncio.timeout(seconds):
                await governor.run()
        except TimeoutError:
            return


def _print_decision(decision: Decision) -> None:
    sample = decision.sample
    click.echo(
        f"admitted {sample.admitted:8.1f}/s  rejected {sample.rejected:8.1f}/s  "
        f"finished {sample.finished:8.1f}/s  queued {sample.delay * 1000:8.1f} ms  "
        f"-> {decision.settings.request_rate}/s"
    )
