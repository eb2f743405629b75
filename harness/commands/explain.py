"""`pushbackd explain`: run one case, and show the events of driver and servers in order of time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

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
    versions_of,
)
from harness.commands.options.types import FilePath
from harness.commands.output.errors import bad_input
from harness.deployments import targets
from harness.report import terminal
from harness.report.outputs import result_files
from harness.running import interruption
from harness.running.plan import Settings, left_out, loaded, plan
from harness.running.result import ExitCode, ResultStatus
from harness.unified.deployment import Topology
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from harness.formats.reading import AnyCase

_SEPARATOR = "::"


@click.command("explain")
@click.argument("case", metavar="FILE::CASE")
@click.option("--adapter", type=DriverName(), default="reference", show_default=True, help="Driver to test.")
@click.option(
    "--topology",
    type=TopologyName([name for name in targets.NAMES if name not in targets.GROUPS]),
    metavar="NAME[+auth]",
    default=Topology.REPLICA_SET.value,
    show_default=True,
    help="Topology to run on.",
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
@click.option("-v", "--verbose", count=True, help="With -vv, show every message on the wire.")
def command(
    case: str,
    adapter: str,
    topology: str,
    profiles: tuple[str, ...],
    time: str | None,
    edition: str | None,
    seed: int,
    case_timeout: float,
    svg: Path | None,
    html: Path | None,
    verbose: int,
    *,
    no_color: bool,
) -> ExitCode:
    """Run one case and show its events: expected beside actual, and both sides in order of time.

    CASE is the description of a test in FILE, or a part of it that no other has; FILE alone is enough when it
    has one test. The exit code is that of `pushbackd conform`.
    """
    found = _find(case)
    ((name, info),) = drivers_named([adapter]).items()
    if time == "virtual":
        refuse_virtual_time(name, info)
    settings = Settings(
        time="virtual" if time != "real" and info.virtual_time else "real",
        seed=seed,
        case_timeout=case_timeout,
        commands=commands_of({name: info}),
        drivers=versions_of({name: info}),
        detail="all",
        wire=verbose >= WIRE_VERBOSITY,
    )
    drivers = {name: edition_of(name, info, edition)}
    items = plan([found], drivers=drivers, topologies=targets.targets([topology], profiles=profiles[-1:]))
    if not items:
        raise click.ClickException(left_out([found], drivers))

    from harness.running.executor import ItemExecutor  # noqa: PLC0415 - a help text needs no servers and drivers

    with (
        interruption.politely(),
        result_files(settings, svg=svg, html=html) as files,
        ItemExecutor(settings) as executor,
    ):
        result = executor.run(items[0])
        files.add(result)
    for line in terminal.account(result, settings):
        click.echo(line, color=color_of(no_color=no_color))
    return ExitCode.FAILED if result.status is ResultStatus.FAILED else ExitCode.PASSED


def _find(text: str) -> AnyCase:
    """Return the case that a command line names. Raises `ClickException` for none, or for several."""
    path, _, wanted = text.partition(_SEPARATOR)
    if not Path(path).is_file():
        raise click.ClickException(f"{path}: there is no such file; the case is named FILE::CASE")
    with bad_input(ScenarioError):
        cases = loaded(path).cases
    exact = [case for case in cases if wanted in (case.description, case.id.partition(_SEPARATOR)[2])]
    found = exact or [case for case in cases if wanted.lower() in case.description.lower()]
    if len(found) == 1:
        return found[0]
    several = f"'{wanted}' may mean {len(found)} cases" if wanted else f"it has {len(found)} cases"
    several = several if found else f"no case is called '{wanted}'"
    listed = "\n".join(f"  {path}{_SEPARATOR}{case.description}" for case in found or cases)
    raise click.ClickException(f"{path}: {several}; choose one of\n{listed}")
