"""`pushbackd swarm`: drawn cases for any driver, judged by rules and not by expectations.

`harness.authoring.swarm` draws schedules, runs them and shrinks what fails; rules are the oracles of
`harness.unified.server_side`. This module reads the command line. `pushbackd simulate swarm` is another one:
it knows the reference driver alone, disturbs bytes and processes as well, and judges by what clients were
promised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from harness.adapters.base import AdapterLost
from harness.authoring.swarm.session import Swarming
from harness.authoring.swarm.work import driver_of
from harness.commands.options.common import DriverName, TopologyName, edition_option
from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.types import Count, Duration, FilePath, Jobs
from harness.commands.output import bad_input
from harness.deployments.targets import NAMES
from harness.planning.plan import Settings
from harness.report.outputs import writing
from harness.unified.server_side.oracles import ORACLES
from mongowire.documents.errors import did_you_mean
from mongowire.whole_file import check_writable

if TYPE_CHECKING:
    from harness.planning.plan import Time
    from harness.planning.result import ExitCode

# A seed stands in JSON, where greater numbers are not exact for every reader.
_MOST_SEED: Final = 2**53

_CASE_SECONDS: Final = {"real": 60.0, "virtual": 3600.0}
"""Seconds of its own clock that a case may take: in virtual time they cost nothing."""


class KnownFinding(click.ParamType[str]):
    """An oracle, or `ORACLE:PATTERN` for those of its findings in which a regular expression occurs."""

    name = "oracle"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        oracle, colon, pattern = str(value).partition(":")
        # Before the pattern: a name with a typing error would be taken for a pattern that matches nothing.
        if oracle not in ORACLES:
            fix = did_you_mean(oracle, ORACLES) or f"one of {', '.join(ORACLES)}"
            self.fail(f"there is no oracle {oracle!r}: {fix}", param, ctx)
        try:
            re.compile(pattern)
        except re.error as error:
            self.fail(f"{pattern!r} is no regular expression: {error}", param, ctx)
        if colon and not pattern:
            self.fail(f"write {oracle}, or a regular expression behind {oracle}:", param, ctx)
        return str(value)


@click.command("swarm")
@click.option(
    "--adapter", type=DriverName(), default="reference", show_default=True, help="The driver to judge."
)
@click.option("--seeds", type=Count(1), default=200, show_default=True, help="Number of schedules.")
@click.option("--from", "first", type=Count(0, _MOST_SEED), default=0, show_default=True, help="First seed.")
@click.option(
    "--seed", type=Count(0, _MOST_SEED), metavar="SEED", help="Run and shrink the schedule of one seed."
)
@click.option(
    "--topology",
    "topologies",
    type=TopologyName(NAMES),
    multiple=True,
    help="Deployments to draw from; repeat the option for more.  [default: all kinds]",
)
@click.option(
    "--without",
    type=KnownFinding(),
    metavar="ORACLE[:PATTERN]",
    multiple=True,
    help="Do not ask this oracle, or pass over the sentences of its findings in which a regular expression"
    " occurs: a driver is known to break its rule; repeat the option for more.",
)
@edition_option
@click.option(
    "--time",
    type=click.Choice(["auto", "real", "virtual"]),
    default="auto",
    show_default=True,
    help="Clock of the run; auto is virtual time where the driver has it.",
)
@click.option("--jobs", type=Jobs(), default="auto", show_default=True, help="Deployments at a time.")
@click.option("--budget", type=Duration(), help="Draw no more after this time, such as 5m.")
@click.option(
    "--write",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write the first failure, shrunk, as a scenario.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a line of JSON for each schedule, and one at the end."
)
@click.option("--quiet", "-q", is_flag=True, help="Print no lines about schedules that pass.")
def command(**options: Any) -> ExitCode:
    """Run a driver through drawn cases, and hold what servers saw against the rules of the specifications.

    Each seed draws a deployment, options of a client, operations and faults (docs/SWARM.md). The first
    failure of a rule is shrunk to the fewest steps. In real time only what fails three times counts. Rules
    that the adapter gives no events for are said to be off.

    The exit code is 1 if a schedule failed, 2 if the adapter cannot be started.
    """
    refuse_excluded(click.get_current_context(), "swarm")
    if options["write"] is not None:
        with writing(options["write"]):
            check_writable(options["write"])
    with bad_input(AdapterLost):
        # An adapter in another process is started here once, for its name, features and editions.
        driver = driver_of(options["adapter"], options["edition"] or "")
    named = options["edition"]
    if named and named not in driver.editions:
        follows = ", ".join(driver.editions)
        raise click.UsageError(f"--edition {named}: {driver.name} follows {follows}, which cannot be changed")
    edition = named or driver.editions[0]
    wanted = options["time"]
    if wanted == "virtual" and not driver.virtual_time:
        raise click.UsageError(f"--time virtual: {driver.name} runs in real time only")
    time: Time = "virtual" if driver.virtual_time and wanted != "real" else "real"
    return Swarming(
        driver,
        edition,
        Settings(time=time, case_timeout=_CASE_SECONDS[time], commands=driver.commands),
        options,
    ).run()
