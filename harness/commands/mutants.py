"""`pushbackd mutants`: try wrong drivers and wrong servers, and tell which of them no scenario finds.

A mutant is a wrong driver or a wrong server: a change of source text that breaks one rule (docs/MUTANTS.md).
`harness.authoring.mutants` applies them, runs cases against them and keeps the verdicts; here they are chosen
and the survivors listed. The percentage is over all that were chosen, those included of which the catalogue
says why scenarios do not find them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from harness.authoring.mutants import page
from harness.authoring.mutants.matrix import KillerSearch, MutantMatrix, scenario_items
from harness.authoring.mutants.mutant import CATALOGUE, KINDS, load_mutants
from harness.commands.options.types import Count, FilePath, Jobs
from harness.commands.output import bad_input
from harness.planning import keywords
from harness.planning.discovery import BadInputError
from harness.planning.result import ExitCode
from harness.report.outputs import writing
from harness.report.progress import is_animated, work
from harness.world.processes import processors
from mongowire.whole_file import check_writable, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.authoring.mutants.mutant import Mutant
    from harness.authoring.mutants.trial import MutantVerdict


@click.command("mutants")
@click.argument("paths", nargs=-1, type=FilePath())
@click.option(
    "--kind", type=click.Choice([f"{kind}s" for kind in KINDS]), help="Wrong drivers or servers only."
)
@click.option(
    "-k", "keyword", metavar="EXPR", help="Only mutants whose names, rules or files match, as in pytest."
)
@click.option(
    "--all", "everything", is_flag=True, help="Run every case, and do not stop at the first that kills."
)
@click.option(
    "--search",
    type=click.Choice([each.value for each in KillerSearch]),
    default=KillerSearch.OWN.value,
    show_default=True,
    help="Where to look for the killer of a mutant: in the scenarios of its own specification; then, in a"
    " thorough search, in all others.",
)
@click.option("--sample", type=Count(1), metavar="N", help="Try N of the mutants, evenly spread.")
@click.option("--least", type=click.IntRange(0, 100), metavar="PERCENT", help="Fail if fewer are killed.")
@click.option("--jobs", type=Jobs(), default="auto", show_default=True, help="Number of processes.")
@click.option("--html", type=FilePath(dir_okay=False), metavar="FILE", help="Write the matrix as a page.")
@click.option(
    "--folder", type=FilePath(file_okay=False), help="Folder of other mutants than those of pushbackd."
)
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each mutant.")
def command(**options: Any) -> ExitCode:
    """Run scenarios against wrong drivers and servers, each with one rule broken, and list what survives.

    With PATHS, only the scenarios in these files or folders: what they kill is what they find in a driver
    (docs/MUTANTS.md).

    The exit code is 0, or 1 if fewer than --least are killed.
    """
    html: Path | None = options["html"]
    if html is not None:
        with writing(html):  # before the long work
            check_writable(html)
    with bad_input(BadInputError):
        every = load_mutants(options["folder"] or CATALOGUE)
        mutants = selected(every, options["kind"], options["keyword"], options["sample"])
        with progress() as advance:
            matrix = MutantMatrix(
                "scenarios",
                scenario_items(options["paths"]),
                options["jobs"] or processors(),
                advance,
                is_named=bool(options["paths"]),
            )
            if options["verbose"]:
                matrix.on_verdict = print_verdict
            search = KillerSearch(options["search"])
            matrix.run(mutants, search=search, everything=options["everything"])
    killers = {name: next(iter(each.killed_by)) for name, each in matrix.verdicts.items() if each.killed_by}
    share = report(mutants, killers, matrix.reached)
    if html is not None:
        with writing(html):
            write_whole(html, page.page(mutants, killers))
    return ExitCode.FAILED if share < (options["least"] or 0) else ExitCode.PASSED


def selected(
    mutants: Sequence[Mutant], kind: str | None, keyword: str | None, size: int | None
) -> list[Mutant]:
    """Return the mutants of a kind (`drivers`) that match a keyword, or so many of them, evenly spread."""
    try:
        wanted = keywords.parse(keyword) if keyword else lambda _: True
    except keywords.KeywordError as error:
        raise click.UsageError(f"-k: {error}") from error
    chosen = [
        mutant
        for mutant in mutants
        if kind in (None, f"{mutant.kind}s")
        and wanted(" ".join((mutant.name, mutant.rule, *(change.file for change in mutant.changes))))
    ]
    if not chosen:
        raise click.ClickException("no mutant matches")
    if size is None or size >= len(chosen):
        return chosen
    # Evenly over the catalogue, in the order of its files: a sample has mutants of each area.
    return [chosen[index * len(chosen) // size] for index in range(size)]


def print_verdict(mutant: Mutant, verdict: MutantVerdict) -> None:
    """Print whether a mutant was killed, and by what."""
    click.echo(f"{mutant.name}: {'killed by' if verdict.killed_by else 'survives'}")
    for key, reason in verdict.killed_by.items():
        click.echo(f"  {key}: {reason}")


def report(mutants: Sequence[Mutant], killers: Mapping[str, str], reached: Mapping[str, int]) -> float:
    """Print the survivors and how many of each area were killed; return the percentage that was."""
    killed, total = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    survivors = defaultdict[tuple[str, str], list[str]](list)
    for mutant in mutants:
        area, killer = (mutant.kind, mutant.specification), killers.get(mutant.name)
        total[area] += 1
        killed[area] += bool(killer)
        if not killer:
            known = f", {mutant.verdict}" if mutant.verdict else ""
            cases = f", reached by {reached[mutant.name]} cases" if mutant.name in reached else ""
            survivors[area].append(f"{mutant.name} ({mutant.rule}{known}{cases}): {mutant.wrong}")
    for area in total:
        for line in survivors[area]:
            click.echo(f"survives: {line}")
    for kind, specification in total:
        area = kind, specification
        click.echo(f"{kind}, {specification}: {killed[area]} of {total[area]} killed")
    share = 100 * killed.total() / total.total()
    click.echo(f"{killed.total()} of {total.total()} killed ({share:.1f} %)")
    return share


@contextmanager
def progress() -> Iterator[Callable[[str, int], None]]:
    """Show how far a run is; call what it gives with a new task and its size, or with '' and steps."""
    # A line names one task at a time, and a bar may show several, one below the other.
    if not is_animated():
        with ExitStack() as stack:
            step: Callable[[float], None] = stack.enter_context(work("mutants"))

            def count(what: str, size: int) -> None:
                nonlocal step
                if what:
                    stack.close()
                    step = stack.enter_context(work(what, size))
                else:
                    step(size)

            yield count
        return
    from rich.console import Console  # noqa: PLC0415 - rich is worth its import on a terminal only
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=Console(stderr=True), transient=True) as bar:

        def advance(what: str, count: int) -> None:
            if what:
                bar.add_task(what, total=count)
            else:
                bar.advance(bar.task_ids[-1], count)

        yield advance
