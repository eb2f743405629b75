"""`pushbackd explain`: run one case, and show the events of driver and servers in order of time.

It is a run of one item: planned as `conform` plans (`harness.planning.plan`), run by an `ItemExecutor` in
this process, with every detail, and reported by `terminal.account`. No worker process, no expectations and no
repetition stand in between. What a failure of `conform` prints behind `explain:` is a command line of this
command, written by `harness.report.rerun`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click
from click.core import ParameterSource

from harness.adapters.deployment import Topology
from harness.adapters.registry import DRIVERS
from harness.commands.options.common import (
    WIRE_VERBOSITY,
    DriverName,
    TopologyName,
    case_timeout_option,
    color_of,
    commands_of,
    drivers_named,
    edition_of,
    edition_option,
    no_color_option,
    profile_option,
    refuse_virtual_time,
    seed_option,
    trace_of,
    trace_option,
    versions_of,
)
from harness.commands.options.naming import ScenarioName, case_named
from harness.commands.options.types import FilePath
from harness.commands.output import bad_input
from harness.deployments import targets
from harness.planning.last_failed import failed_cases
from harness.planning.plan import Settings, left_out, loaded, plan
from harness.planning.result import ExitCode, ResultStatus
from harness.report import terminal
from harness.report.fitting import echo
from harness.report.outputs import result_files
from harness.report.progress import work
from harness.unified.errors import ScenarioError
from harness.world import interruption

if TYPE_CHECKING:
    from pathlib import Path

    from harness.formats.case import AnyCase

_LISTED: Final = 9
"""How many other cases that failed are listed."""


@click.command("explain")
@click.argument("case", type=ScenarioName(), required=False, metavar="[FILE::CASE]")
@click.option(
    "--last-failed",
    "--lf",
    is_flag=True,
    help="Explain the first case that failed the last time that it ran, and list the others.",
)
@click.option("--adapter", type=DriverName(), default="reference", show_default=True, help="Driver to test.")
@click.option(
    "--topology",
    type=TopologyName([name for name in targets.NAMES if name not in targets.GROUPS]),
    metavar="NAME[+auth]",
    default=Topology.REPLICA_SET.value,
    show_default=True,
    help="Topology to run on: single, replicaset, sharded or load-balanced, each also with access control.",
)
@profile_option
@click.option(
    "--time",
    type=click.Choice(["real", "virtual"]),
    help="Clock of the run.  [default: virtual if the driver can take its clock from the harness, else real]",
)
@edition_option
@seed_option
@case_timeout_option
@no_color_option
@click.option(
    "--svg",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write a sequence diagram of test, clients and servers to this file.",
)
@click.option(
    "--html",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write the account as one HTML page with the picture.",
)
@trace_option
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="With -vv, show every message on the wire, and every line to an adapter in a process of its own and"
    " from it.",
)
def command(
    case: str | None,
    adapter: str,
    topology: str,
    profiles: tuple[str, ...],
    time: str | None,
    edition: str | None,
    seed: int,
    case_timeout: float,
    svg: Path | None,
    html: Path | None,
    trace_adapter: Path | None,
    verbose: int,
    *,
    last_failed: bool,
    no_color: bool,
) -> ExitCode:
    """Run one case and show its events: expected beside actual, and both sides in order of time.

    FILE may be a short name as reports print it (retryable-writes/batches), also of a bundled scenario. CASE
    is the description of a test in it, or a part of it that no other has; FILE alone is enough when it has
    one test. The exit code is that of `pushbackd conform`.
    """
    # Both, or neither.
    if last_failed == (case is not None):
        raise click.UsageError("name the case, or leave it to --last-failed")
    # The last of several profiles: the option may be repeated elsewhere, and one case has one release.
    (target,) = targets.targets([topology], profiles=profiles[-1:])
    asked = (
        _last_failed(adapter, edition, target)
        if case is None
        else _Asked(case_named(case), adapter, edition, target)
    )
    ((name, info),) = drivers_named([asked.adapter]).items()
    if time == "virtual":
        refuse_virtual_time(name, info)
    settings = Settings(
        # As in `conform` without --time: the driver's own kind of time, so that the case fails as it did
        # there.
        time="virtual" if time != "real" and info.virtual_time else "real",
        seed=seed,
        case_timeout=case_timeout,
        commands=commands_of({name: info}),
        drivers=versions_of({name: info}),
        detail="all",
        wire=verbose >= WIRE_VERBOSITY,
        trace=trace_of(trace_adapter, {name: info}),
    )
    drivers = {name: edition_of(name, info, asked.edition)}
    items = plan([asked.case], drivers=drivers, topologies=[asked.target])
    if not items:
        raise click.ClickException(left_out([asked.case], drivers))

    from harness.running.executor import ItemExecutor  # noqa: PLC0415 - a help text needs no servers and drivers

    with (
        interruption.politely(),
        result_files(settings, svg=svg, html=html) as files,
        ItemExecutor(settings) as executor,
    ):
        with work(items[0].id):
            result = executor.run(items[0])
        files.add(result)
    for line in terminal.account(result, settings):
        echo(line, color=color_of(no_color=no_color))
    return ExitCode.FAILED if result.status is ResultStatus.FAILED else ExitCode.PASSED


class _Asked(NamedTuple):
    """A case to explain: the case, its driver as `--adapter` takes it, its edition, and its deployment."""

    case: AnyCase
    adapter: str
    edition: str | None
    target: str


def _last_failed(adapter: str, edition: str | None, target: str) -> _Asked:
    """Return the first case that failed the last time, with what the command line says besides.

    The others are listed to standard error. Without `--adapter` it is one of a driver that needs no command
    line.
    """
    given = click.get_current_context().get_parameter_source
    is_chosen = {
        name: given(name) is ParameterSource.COMMANDLINE for name in ("adapter", "topology", "profiles")
    }
    known = failed_cases()
    # Failures are remembered under the name by which an adapter introduced itself, not under its command
    # line.
    names = list(drivers_named([adapter])) if is_chosen["adapter"] else DRIVERS
    mine = [case for case in known if case.adapter in names]
    if not mine:
        drivers = ", ".join(dict.fromkeys(case.adapter for case in known))
        why = f"those that failed are of {drivers}: name its --adapter" if drivers else "no case failed"
        raise click.ClickException(f"--last-failed: {why}")
    others = mine[1:]
    if others:
        click.echo(f"--last-failed: the first of {len(others) + 1} cases; the others are", err=True)
    for each in others[:_LISTED]:
        click.echo(f"  {each.id}  [{each.adapter}, {each.topology}]", err=True)
    if len(others) > _LISTED:
        click.echo(f"  and {len(others) - _LISTED} more", err=True)
    first = mine[0]
    with bad_input(ScenarioError):
        case = next((each for each in loaded(str(first.path)).cases if each.id == first.id), None)
    if case is None:
        raise click.ClickException(f"{first.path}: {first.id} failed the last time, and is not there now")
    # What the command line says goes before what is remembered of the failure.
    return _Asked(
        case,
        adapter if is_chosen["adapter"] else first.adapter,
        edition or first.edition,
        target if is_chosen["topology"] or is_chosen["profiles"] else first.topology,
    )
