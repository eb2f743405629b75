"""`pushbackd drivers`: which rules each driver keeps and which it breaks, as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options.results import page_option, runs_argument, runs_of
from harness.report.outputs import writing
from harness.report.progress import work
from harness.report.rules.page import write
from harness.report.rules.rulebook import rules
from harness.report.rules.table import RuleTable, RuleVerdict
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


@click.command("drivers")
@runs_argument
@page_option("drivers.html")
def command(runs: tuple[str, ...], output: Path) -> None:
    """Set drivers against the rules: which each keeps, which it breaks, and the evidence.

    The FILEs are results of the bundled scenarios (`pushbackd conform --topology matrix --adapter DRIVER
    --results FILE`). A row is a rule of a specification, a column a driver in one edition; a NAME stands for
    the driver of its FILE.
    """
    table = RuleTable()
    with work(f"{output}", len(runs) + 1) as advance, writing(output):
        for run, results, name in runs_of(runs):
            table.add(run, results, name=name)
            advance(1)
        write(output, table, utc=SystemClock().utc())
    for driver in table.drivers:
        counts = table.counts(rules().values(), driver)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in RuleVerdict if counts[verdict])
        click.echo(f"{driver.name} ({driver.facts}): {told}")
    click.echo(f"{output}: {len(rules())} rules, {len(table.drivers)} drivers")
