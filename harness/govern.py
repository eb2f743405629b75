"""`pushbackd govern`: a policy sets the limiters of a running server, until it is interrupted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from driver.errors import DriverError
from harness import interruption
from harness.option_types import Seconds
from harness.policy_engine import POLICIES, Decision, Governor
from harness.policy_engine.readings import CannotGovernError
from harness.result import ExitCode

if TYPE_CHECKING:
    from harness.policy_engine import Policy


@click.command("govern")
@click.argument("uri")
@click.option("--policy", type=click.Choice(list(POLICIES)), default="aimd", show_default=True)
@click.option(
    "--interval", type=Seconds(), default=0.25, show_default=True, help="Seconds between two looks."
)
@click.option("--seconds", type=Seconds(), help="Stop after so many seconds.")
def command(uri: str, policy: str, interval: float, seconds: float | None) -> ExitCode:
    """Have a policy set the request rate limiter of the server at URI, by what its status tells.

    Prints a line for each look. The limiters are put back to what they were at the end.
    """
    try:
        interruption.run(_govern(uri, POLICIES[policy](), interval, seconds))
    except (DriverError, CannotGovernError, ValueError) as error:  # of a connection string that is none
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("the limiters are as they were", err=True)
    return ExitCode.PASSED


async def _govern(uri: str, policy: Policy, interval: float, seconds: float | None) -> None:
    async with Governor(uri, policy, interval=interval, on_decision=_tell) as governor:
        try:
            async with asyncio.timeout(seconds):
                await governor.run()
        except TimeoutError:
            return


def _tell(decision: Decision) -> None:
    sample = decision.sample
    click.echo(
        f"admitted {sample.admitted:8.1f}/s  rejected {sample.rejected:8.1f}/s  "
        f"finished {sample.finished:8.1f}/s  queued {sample.delay * 1000:8.1f} ms  "
        f"-> {decision.settings.request_rate}/s"
    )
