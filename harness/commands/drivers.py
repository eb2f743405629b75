"""`pushbackd drivers`: which rules each driver keeps and which it breaks, as one HTML page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from harness.commands.options.types import FilePath
from harness.commands.output.errors import bad_input
from harness.report.outputs import writing
from harness.report.results_file import ResultsFileError, ResultsReader
from harness.report.rules.page import write
from harness.report.rules.rulebook import specifications
from harness.report.rules.table import RuleTable, RuleVerdict
from mongowire.system import SystemClock


@click.command("drivers")
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option(
    "-o",
    "--output",
    type=FilePath(dir_okay=False),
    default=Path("drivers.html"),
    show_default=True,
    help="File to write the page to.",
)
def command(runs: tuple[str, ...], output: Path) -> None:
    """Set drivers against the rules: which each keeps, which it breaks, and the evidence.

    The FILEs are results of the bundled scenarios (`pushbackd conform --topology matrix --adapter DRIVER
    --results FILE`). A row is a rule of a specification, a column a driver in one edition; a NAME stands for
    the driver of its FILE.
    """
    table = RuleTable()
    for run in runs:
        name, equals, path = run.partition("=")
        if not equals or Path(run).exists():  # a path may contain "=" itself
            name, path = "", run
        with bad_input(ResultsFileError), ResultsReader(Path(path)) as reader:
            table.add(reader.run, reader.results(), name=name)
    created = f"{datetime.fromtimestamp(SystemClock().utc(), UTC):%Y-%m-%d %H:%M} UTC"
    with writing(output):
        write(output, table, created=created)
    rules = [rule for specification in specifications() for rule in specification.rules]
    for driver in table.drivers:
        counts = table.counts(rules, driver)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in RuleVerdict if counts[verdict])
        click.echo(f"{driver.name} ({driver.edition}): {told}")
    click.echo(f"{output}: {len(rules)} rules, {len(table.drivers)} drivers")
