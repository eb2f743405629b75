"""`pushbackd simulate claim`: what the specifications claim of overload, on a simulated fleet.

`harness.overload.claims` has the claims and measures them on the fleet's model. A claim has a few sides,
scenarios that differ in one thing, and what is printed is the comparison. Pictures and sections of the page
are made while claims are measured, one after the other, so that `--all` needs the memory of one claim.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.commands.options.common import seed_option
from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.types import Count, FilePath
from harness.commands.simulations.reporting import check_files, html_option, json_option, write_file
from harness.overload.claims import CLAIMS, CLIENTS, measure, picture, report, section, table
from harness.report.fitting import columns, echo
from harness.report.pages import frame
from harness.report.progress import work
from harness.world import interruption

if TYPE_CHECKING:
    from pathlib import Path

    from harness.overload.claims import Claim

# With few clients chance decides; the greatest number is the most that the model is made for.
_MOST_CLIENTS = 10_000_000
_LEAST_CLIENTS = 100


@click.command("claim")
@click.argument("name", required=False, type=click.Choice(list(CLAIMS)))
@click.option("--all", "everything", is_flag=True, help="Measure all claims.")
@click.option(
    "--clients",
    type=Count(_LEAST_CLIENTS, _MOST_CLIENTS),
    default=CLIENTS,
    show_default=True,
    metavar="N",
    help="Number of clients; the capacity of the servers grows with it.",
)
@seed_option
@click.option(
    "--plot",
    type=FilePath(),
    metavar="FILE|FOLDER",
    help="Draw the claim into this SVG file; with --all, each into claim-NAME.svg of this folder.",
)
@html_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    name: str | None,
    everything: bool,
    clients: int,
    seed: int,
    plot: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Measure the claim NAME on a simulated fleet; without a name, list the claims.

    Each is a few scenarios that differ in one thing. The table has the goodput of their phases, the share of
    operations that failed, attempts per success and the latency that 99 of 100 successes did not exceed.
    """
    refuse_excluded(ctx, "simulate claim")
    if name is None and not everything:
        # Without a name the claims are listed, and an option for a measurement would be dropped without a
        # word.
        given = [each for each in ctx.params if ctx.get_parameter_source(each) is ParameterSource.COMMANDLINE]
        for option in ctx.command.params:
            if option.name in given:
                raise click.UsageError(f"{option.opts[0]} needs a claim to measure: give NAME or --all", ctx)
        for each, make in CLAIMS.items():
            echo(f"{each:16}{make(CLIENTS, 0).title}")
        return
    claims = [CLAIMS[each](clients, seed) for each in ([name] if name else CLAIMS)]
    if plot is None:
        files = {}
    # With --all the path is a folder, which may have to be made; with one claim it is a file.
    elif not everything and plot.is_dir():
        raise click.UsageError(f"--plot {plot}: is a folder; name a file, or use --all")
    else:
        files = {claim.name: plot / f"claim-{claim.name}.svg" if everything else plot for claim in claims}
    check_files(*files.values(), html)
    sections: list[str] = []
    with interruption.politely():
        reports = [_measure(claim, files.get(claim.name), sections, quiet=as_json) for claim in claims]
    write_file(html, lambda: frame.page(claims[0].title if name else "What is claimed of overload", sections))
    if as_json:
        click.echo(json.dumps(reports if everything else reports[0], indent=2))


def _measure(claim: Claim, path: Path | None, sections: list[str], *, quiet: bool) -> dict[str, Any]:
    """Measure a claim, print and draw it, and add its part of the page to the sections."""
    with work(f"claim {claim.name}", len(claim.sides)) as advance:
        outcomes = measure(claim, on_side=lambda: advance(1))
    numbers = report(claim, outcomes)
    if not quiet:
        for line in table(claim, numbers, columns()).splitlines():
            echo(line)
        click.echo()
    write_file(path, lambda: picture(claim, outcomes))
    sections.append(section(claim, numbers, outcomes))
    return numbers
