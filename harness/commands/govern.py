"""`pushbackd govern`: a policy adjusts the request rate limiter of a running server, until Ctrl-C."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import click

from driver.errors import DriverError
from harness.commands.options.types import Duration, Seconds
from harness.overload.policy import POLICIES, Decision, Governor
from harness.overload.policy.policies import CannotGovernError
from harness.report.progress import work
from harness.running import cancelling
from harness.running.result import ExitCode


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
def command(*, uri: str, policy: str, connections: bool, interval: float, seconds: float | None) -> ExitCode:
    """Let a policy set the rate limiters of the server at URI, by readings of its status.

    A line is printed for each reading. At the end the limiters get their old settings back.
    """
    try:
        chosen = POLICIES[policy](limits_connections=connections)
        governor = Governor(uri, chosen, interval=interval, on_decision=_print_decision)
        cancelling.run(_govern(governor, seconds))
    except (DriverError, CannotGovernError, ValueError) as error:  # ValueError: no connection string
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        told = "the limiters have their old settings back" if governor.has_restored else "nothing was changed"
        click.echo(told, err=True)
    return ExitCode.PASSED


async def _govern(governor: Governor, seconds: float | None) -> None:
    async with AsyncExitStack() as stack:
        with work("waiting for the server"):
            await stack.enter_async_context(governor)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await governor.run()


def _print_decision(decision: Decision) -> None:
    sample, settings = decision.sample, decision.settings
    connections = "" if settings.connection_rate is None else f", {settings.connection_rate} connections/s"
    click.echo(
        f"admitted {sample.admitted:8.1f}/s  rejected {sample.rejected:8.1f}/s  "
        f"finished {sample.finished:8.1f}/s  queued {sample.delay * 1000:8.1f} ms  "
        f"-> {settings.request_rate}/s{connections}"
    )
