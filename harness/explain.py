"""`pushbackd explain`: run one case, and show what the driver and the servers did, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness import interruption, targets
from harness.option_types import FilePath
from harness.options import (
    DriverName,
    case_timeout_option,
    color_of,
    drivers_named,
    edition_of,
    edition_option,
    no_color_option,
    profile_option,
    refuse_virtual_time,
    seed_option,
)
from harness.plan import Settings, left_out, loaded, plan
from harness.report import terminal
from harness.report.keeping import keeping
from harness.result import ExitCode, ResultStatus
from harness.unified.deployment import Topology
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from harness.formats.reading import AnyCase
    from harness.plan import Time
    from harness.registry import DriverInfo

_WIRE_LEVEL = 2
_SEPARATOR = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line, as click has read it."""

    case: str
    adapter: str
    topology: str
    profiles: tuple[str, ...]
    time: str | None
    edition: str | None
    seed: int
    case_timeout: float
    no_color: bool
    verbose: int
    svg: Path | None
    html: Path | None


@click.command("explain")
@click.argument("case", metavar="FILE::CASE")
@click.option(
    "--adapter", type=DriverName(), default="reference", show_default=True, help="The driver to run."
)
@click.option(
    "--topology",
    type=click.Choice([name for name in targets.NAMES if name not in targets.GROUPS]),
    metavar="NAME[+auth]",
    default=Topology.REPLICA_SET.value,
    show_default=True,
    help="The deployment to run on.",
)
@profile_option
@click.option(
    "--time",
    type=click.Choice(["real", "virtual"]),
    help="[default: virtual for drivers that can run in it, else real]",
)
@edition_option
@seed_option
@case_timeout_option
@no_color_option
@click.option(
    "--svg",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Draw it: a sequence diagram of the test, the clients and the servers.",
)
@click.option(
    "--html",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write all of it as one HTML page, with the picture.",
)
@click.option("-v", "--verbose", count=True, help="Twice, and every message on the wire is shown.")
def command(**options: Any) -> ExitCode:
    """Run one case and show all of it: expected beside actual events, and what both sides did when.

    CASE is the description of a test in FILE, or a part of it that no other has; FILE alone will do when it
    has one test. The exit code is that of `pushbackd conform`.
    """
    return _explain(Options(**options))


def _explain(options: Options) -> ExitCode:
    case = _find(options.case)
    ((name, info),) = drivers_named([options.adapter]).items()
    settings, edition = _settings(options, name, info), edition_of(name, info, options.edition)
    items = plan(
        [case],
        drivers={name: edition},
        topologies=targets.targets([options.topology], profiles=options.profiles[-1:]),
    )
    if not items:
        raise click.ClickException(left_out([case], [name]))
    item = items[0]

    from harness.bench import Bench  # noqa: PLC0415 - a help text needs no servers and drivers

    with (
        interruption.politely(),
        keeping(settings, svg=options.svg, html=options.html) as keeper,
        Bench(settings) as bench,
    ):
        result = bench.run(item)
        keeper.add(result)
    for line in terminal.account(result, settings):
        click.echo(line, color=color_of(no_color=options.no_color))
    return ExitCode.FAILED if result.status is ResultStatus.FAILED else ExitCode.PASSED


def _find(text: str) -> AnyCase:
    """Return the case that a command line names. Raises `ClickException` when it is none, or several."""
    path, _, wanted = text.partition(_SEPARATOR)
    if not Path(path).is_file():
        raise click.ClickException(f"{path}: there is no such file; the case is named FILE::CASE")
    try:
        cases = loaded(path).cases
    except ScenarioError as error:
        raise click.ClickException(str(error)) from error
    exact = [case for case in cases if wanted in (case.description, case.id.partition(_SEPARATOR)[2])]
    found = exact or [case for case in cases if wanted.lower() in case.description.lower()]
    if len(found) == 1:
        return found[0]
    several = f"'{wanted}' may mean {len(found)} cases" if wanted else f"it has {len(found)} cases"
    several = several if found else f"no case is called '{wanted}'"
    listed = "\n".join(f"  {path}{_SEPARATOR}{case.description}" for case in found or cases)
    raise click.ClickException(f"{path}: {several}; choose one of\n{listed}")


def _settings(options: Options, name: str, info: DriverInfo) -> Settings:
    if options.time == "virtual":
        refuse_virtual_time(name, info)
    time: Time = "virtual" if (options.time or "virtual") == "virtual" and info.virtual_time else "real"
    return Settings(
        time=time,
        seed=options.seed,
        case_timeout=options.case_timeout,
        commands=((name, info.command),) if info.command else (),
        detail="all",
        wire=options.verbose >= _WIRE_LEVEL,
    )
