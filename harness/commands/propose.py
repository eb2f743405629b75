"""`pushbackd propose`: prove a rule before it is proposed, and write what a pull request needs.

The steps are those of `harness.authoring.proposals`: `rule` reads both files, `proving` runs the scenario
with the patch, without it and with each wrong neighbour, `obedience` asks drivers whether they obey already,
`folder` writes what a pull request needs. Trials of the reference driver run in virtual time and in processes
of their own, because each has another source; drivers that are asked run in real time, as nothing about them
can be patched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from harness.adapters.registry import DRIVERS
from harness.authoring.proposals import folder, obedience, proving
from harness.authoring.proposals.rule import read_patch, read_rule
from harness.commands.options.common import (
    DriverName,
    TopologyName,
    case_timeout_option,
    commands_of,
    drivers_named,
    edition_of,
    profile_option,
    seed_option,
    versions_of,
)
from harness.commands.options.types import FilePath, Jobs
from harness.commands.output import bad_input
from harness.deployments import targets
from harness.planning.discovery import BadInputError
from harness.planning.plan import Settings
from harness.planning.result import ExitCode
from harness.report.outputs import writing
from harness.report.page import minute_of
from harness.report.progress import work
from harness.unified.errors import ScenarioError
from harness.world import interruption
from harness.world.processes import processors
from mongowire.system import SystemClock
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.authoring.proposals.obedience import ObedienceTable
    from harness.authoring.proposals.proving import Proof


@click.command("propose")
@click.argument("rule", type=FilePath(dir_okay=False), metavar="RULE.yml")
@click.option(
    "--patch",
    type=FilePath(dir_okay=False),
    required=True,
    metavar="FILE",
    help="Patch of the reference driver, with which it obeys the rule; in the notation of the mutants.",
)
@click.option(
    "--adapter",
    type=DriverName(),
    multiple=True,
    help=f"Driver to ask whether it obeys today: {', '.join(list(DRIVERS)[1:])}, or 'cmd:' and the command"
    " line of an adapter (docs/WRITING-ADAPTERS.md); repeat the option for more drivers.",
)
@click.option(
    "--topology",
    type=TopologyName(targets.NAMES),
    metavar="NAME[+auth]",
    multiple=True,
    help="Topology to ask drivers on, besides those that RULE.yml names; repeat the option for more.",
)
@profile_option
@click.option(
    "--specification",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="The specification as Markdown: the rule's place is looked up in it, and the folder gets a diff.",
)
@click.option(
    "--out", type=FilePath(file_okay=False), metavar="FOLDER", help="Folder to write for a pull request."
)
@click.option(
    "--results",
    "--json",
    "json_file",
    type=FilePath(dir_okay=False),
    help="Write the outcome as JSON to this file.",
)
@click.option("--jobs", type=Jobs(), default="auto", show_default=True, help="Number of processes.")
@seed_option
@case_timeout_option
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each wrong neighbour.")
def command(rule: Path, patch: Path, **given: Any) -> ExitCode:
    """Prove a rule that does not exist yet, by a right patch of the reference driver.

    Its scenario is green with the patch, red without it, and red with each wrong neighbour of the patch.
    RULE.yml says the rule, its place in a specification, and its scenarios; the neighbours are made of the
    patch's own lines (docs/PROPOSE.md). A checkout is needed, as the source of the driver is patched.

    The exit code is 0 when the rule is proved, 1 when it is not: a neighbour survives that no case tells from
    the rule, a case fails with the patch, or none fails without it; 2 for a file that cannot be used.
    """
    # Before anything is proved: an adapter that cannot be started would be found out after minutes.
    infos = drivers_named(given["adapter"])
    settings = Settings(time="virtual", seed=given["seed"], case_timeout=given["case_timeout"])
    with interruption.politely(), bad_input(BadInputError, ScenarioError):
        wanted, right = read_rule(rule), read_patch(patch)
        if given["specification"] is not None:
            # Only to find out before the proof whether the place is there.
            folder.placed(wanted, given["specification"])
        # Where drivers are asked: where the rule is proved, and where the command line says besides.
        named = targets.targets((*wanted.deployments, *given["topology"]), profiles=given["profiles"])
        deployments = tuple(dict.fromkeys((*wanted.deployments, *named)))
        with work("trials") as advance:
            proof = proving.prove(
                wanted,
                right,
                deployments=deployments,
                jobs=given["jobs"] or processors(),
                settings=settings,
                advance=advance,
            )
        known = drivers_named([proving.REFERENCE])[proving.REFERENCE]
        table = obedience.table_of(proof, deployments, known.version)
        asked = {
            name: edition_of(name, info, None) for name, info in infos.items() if name != proving.REFERENCE
        }
        if asked:
            real = Settings(
                time="real",
                seed=given["seed"],
                case_timeout=given["case_timeout"],
                commands=commands_of(infos),
                drivers=versions_of(infos),
            )
            with work("drivers") as advance:
                obedience.ask_drivers(table, wanted, asked, real, advance)
        for line in _lines(proof, table, verbose=given["verbose"]):
            click.echo(line)
        _write(proof, table, given)
    return ExitCode.PASSED if proof.holds else ExitCode.FAILED


def _lines(proof: Proof, table: ObedienceTable, *, verbose: bool) -> Iterator[str]:
    """Yield what a terminal shows: what is not as it should be, the drivers, and the verdict."""
    for result in proof.red_with:
        where = f"{result.topology}, {result.edition}"
        yield f"fails with the patch: {result.id} [{where}]: {_first(result.reason)}"
    if not proof.passed and not proof.red_with:
        yield f"no case ran: {'; '.join({_first(each.reason) for each in proof.wanted.values()})}"
    if not proof.red_without:
        yield "no case fails without the patch: the reference driver obeys today, or no case asks"
    for each in proof.tried if verbose else ():
        told = f"found by {each.killer}" if each.killer else f"{each.fate}: {each.because}"
        yield f"{each.neighbour.name}: {told.rstrip(': ')}"
    for each in proof.survivors:
        yield f"no case of the scenario tells '{each.neighbour.name}' from the rule: {each.neighbour.advice}"
        yield from (f"  {line}" for line in each.neighbour.diff(proof.patch).splitlines())
    yield from proof.stale
    for row in table.rows:
        cells = ", ".join(f"{row.cell(each)} on {each}" for each in table.deployments)
        yield f"{row.driver} ({row.facts}): {cells}"
    yield f"{proof.rule.name}: {proof.verdict()}"


def _first(text: str) -> str:
    return text.partition("\n")[0]


def _write(proof: Proof, table: ObedienceTable, given: Mapping[str, Any]) -> None:
    """Write what the options ask for."""
    if (path := given["json_file"]) is not None:
        with writing(path):
            write_whole(path, json.dumps(folder.summary(proof, table), indent=2, ensure_ascii=False) + "\n")
    if (out := given["out"]) is not None:
        created = minute_of(SystemClock().utc())
        with writing(out):
            files = folder.write(out, proof, table, specification=given["specification"], created=created)
        click.echo(f"{out}: {', '.join(files)}", err=True)
