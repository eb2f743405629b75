"""`pushbackd check-adapter`: say which parts of the adapter protocol a program keeps, without a scenario.

Two sets of checks run one after the other. Those of `harness.testing.adapter_protocol` speak to the program
line by line, as a runner never would, to see what it does with nonsense. Those of `harness.testing.adapter`
use it as the runner does, one check for each promise of its declared features, on new servers each time. A
verdict is printed as soon as it is known: a program that hangs is waited for in every check.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from harness.adapters.base import AdapterLost, Feature, OperationFailed, UnsupportedOperation
from harness.adapters.deployment import Topology
from harness.adapters.registry import PREFIX
from harness.deployments.embedded import embedded
from harness.planning.result import ExitCode
from harness.testing.adapter import AdapterChecks, checks_of
from harness.testing.adapter_protocol import check_protocol, introduction
from harness.testing.program import CannotStartError
from harness.testing.verdict import Holds, Verdict, expected_and_got
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.adapters.lines import Hello
    from harness.testing.adapter_basics import Check


_NONSENSE: Final = (LookupError, TypeError, ValueError, AttributeError)
"""What comes of an answer that has another form than the check reads."""


@click.command("check-adapter")
@click.argument("adapter", metavar="CMD:COMMAND")
def command(adapter: str) -> ExitCode:
    """Start an adapter (cmd: and its command line), and say line by line what of the protocol holds.

    First comes the protocol: start, hello, entities, calls, events, errors, refusals, bad input, and the end.
    Then come the checks that the declared features call for. A line is `ok`, `FAILED` with what was expected
    and what came, or `not declared` for what the adapter says that it lacks. The servers are fake ones.

    The exit code is 1 when a line failed, 2 when the program cannot be started.
    """
    program = adapter.removeprefix(PREFIX).strip()
    if not adapter.startswith(PREFIX) or not program:
        raise click.UsageError(f"{adapter!r} is no adapter: write {PREFIX} and the command line of a program")
    counted: Counter[Holds] = Counter()

    def report(verdict: Verdict) -> None:
        counted[verdict.holds] += 1
        click.echo(verdict)

    try:
        said = asyncio.run(_protocol(program, report))
    except CannotStartError as error:
        raise click.ClickException(f"the adapter {error}") from error
    # A program that did not introduce itself has declared nothing, and the protocol's lines say why.
    if said is not None:
        with AdapterChecks(adapter) as running:
            # An adapter without any feature has just begun: operations are checked from COMMAND_EVENTS on.
            for check in checks_of(said.features) if said.features else ():
                report(verdict_of(running, check))
        # Virtual time is no feature that a process of its own could have.
        for feature in Feature:
            if feature not in said.features and feature is not Feature.VIRTUAL_TIME:
                report(Verdict(feature.name, Holds.NOT_DECLARED, feature.value))
    click.echo(", ".join(f"{counted[holds]} {holds}" for holds in Holds))
    return ExitCode.FAILED if counted[Holds.FAILED] else ExitCode.PASSED


async def _protocol(program: str, report: Callable[[Verdict], None]) -> Hello | None:
    # Real time and TCP, since the program is a process: it connects to these servers by their addresses.
    async with embedded(
        Topology.REPLICA_SET, clock=SystemClock(), network=TcpNetwork(), rng=SeededRng(0), virtual=False
    ) as deployment:
        async for verdict in check_protocol(program, deployment):
            report(verdict)
        return await introduction(program, deployment)


def verdict_of(running: AdapterChecks, check: Check) -> Verdict:
    """Return whether an adapter passes a check; what its answers make of the check itself is its failure."""
    part = check.__name__.replace("_", " ")
    try:
        running.run(check)
    # The order counts: an assertion is the check's own verdict, a refusal is honest, and all else is a
    # program that answered in a form that the check could not even read.
    except AssertionError as broken:
        expected, got = expected_and_got(broken)
        return Verdict(part, Holds.FAILED, expected=expected or str(check.__doc__), got=got)
    except UnsupportedOperation as refused:
        return Verdict(part, Holds.NOT_DECLARED, str(refused))
    except (AdapterLost, OperationFailed, *_NONSENSE) as error:
        return Verdict(
            part, Holds.FAILED, expected=str(check.__doc__), got=f"{type(error).__name__}: {error}"
        )
    return Verdict(part, Holds.OK)
