"""`pushbackd mutants`: try wrong drivers and wrong servers, and tell which of them nothing finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from harness.authoring.mutants import html
from harness.authoring.mutants.matrix import KillerSearch, MutantMatrix
from harness.authoring.mutants.mutant import KINDS, load_mutants
from harness.authoring.mutants.page import write_page
from harness.authoring.mutants.record import CORPUS, SCENARIOS, SUITES, SURVIVED, SWARM, TESTS, MutantRecord
from harness.authoring.mutants.suites import corpus_items, corpus_of, scenario_items, swarm_items
from harness.commands.options.types import Count, FilePath, Jobs
from harness.commands.output.errors import bad_input
from harness.explaining import kill_matrix
from harness.report.outputs import writing
from harness.report.progress import is_animated, work
from harness.running import keywords
from harness.running.discovery import BadInputError
from harness.running.processes import processors
from harness.running.result import ExitCode
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.authoring.mutants.mutant import Mutant
    from harness.authoring.mutants.trial import MutantVerdict
    from harness.running.plan import Item

FOLDER: Final = Path("tests/mutants")


@click.command("mutants")
@click.argument("paths", nargs=-1, type=FilePath())
@click.option(
    "--kind", type=click.Choice([f"{kind}s" for kind in KINDS]), help="Wrong drivers or servers only."
)
@click.option(
    "-k", "keyword", metavar="EXPR", help="Only mutants whose names, rules or files match, as in pytest."
)
@click.option(
    "--suite",
    "suites",
    type=click.Choice([*SUITES, SWARM]),
    multiple=True,
    default=(SCENARIOS,),
    show_default=True,
    help="What to try mutants with: our scenarios, the public specification tests where they are present, our"
    " unit tests, or drawn schedules (docs/SWARM.md); repeat the option for more.",
)
@click.option(
    "--schedules",
    type=Count(1),
    default=2000,
    show_default=True,
    help="With the suite swarm: number of schedules.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Run every case, and do not stop at the first that kills."
)
@click.option(
    "--search",
    type=click.Choice([each.value for each in KillerSearch]),
    default=KillerSearch.OWN.value,
    show_default=True,
    help="Where to look for the killer of a mutant: what killed it in the run that was recorded; then the"
    " scenarios of its own specification; then, in a thorough search, all others.",
)
@click.option("--sample", type=Count(1), metavar="N", help="Try N of the mutants, evenly spread.")
@click.option("--least", type=click.IntRange(0, 100), metavar="PERCENT", help="Fail if a suite kills fewer.")
@click.option(
    "--together",
    is_flag=True,
    help="Take all suites as one: what one kills is not tried with the next, and --least is for all of them.",
)
@click.option("--jobs", type=Jobs(), default="auto", show_default=True, help="Number of processes.")
@click.option("--record", is_flag=True, help="Write the killers beside the mutants, for the next run.")
@click.option("--write", type=FilePath(dir_okay=False), metavar="FILE", help="Write the matrix as Markdown.")
@click.option("--html", type=FilePath(dir_okay=False), metavar="FILE", help="Write the matrix as a page.")
@click.option(
    "--kills",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write all scenarios that kill each wrong driver to this file, which keeps the other drivers that it"
    " has: conform compares failures with harness/explaining/kill_matrix.json.",
)
@click.option(
    "--folder",
    type=FilePath(file_okay=False),
    default=FOLDER,
    show_default=True,
    help="Folder of the mutants.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each mutant.")
def command(**options: Any) -> ExitCode:
    """Run scenarios against wrong drivers and servers, each with one rule broken, and list what survives.

    With PATHS, only the scenarios in these files or folders. A checkout is needed: mutants are in
    tests/mutants (docs/MUTANTS.md).

    The exit code is 0, or 1 if a suite kills fewer than --least.
    """
    folder: Path = options["folder"]
    with bad_input(BadInputError):
        every, record = load_mutants(folder), MutantRecord.read(folder)
        mutants = _selected(every, options)
        if options["kills"] is not None:
            _write_kills(options["kills"], every, mutants, record, options)
            return ExitCode.PASSED
        try:
            worst = _tried_with_all(mutants, record, options)
        finally:
            if options["record"]:  # also what an interrupted run has found
                with writing(folder):
                    record.write(folder, [mutant.name for mutant in every])
    if options["write"] is not None:
        with writing(options["write"]):
            write_page(options["write"], every, record)
    if options["html"] is not None:
        with writing(options["html"]):
            write_whole(options["html"], html.page(every, record))
    return ExitCode.FAILED if worst < (options["least"] or 0) else ExitCode.PASSED


def _write_kills(
    path: Path,
    every: Sequence[Mutant],
    mutants: Sequence[Mutant],
    record: MutantRecord,
    options: dict[str, Any],
) -> None:
    """Find all cases that kill each of some wrong drivers, and write them with those of the others."""
    wrong = [mutant for mutant in mutants if mutant.kind == "driver"]
    known = {driver.name: driver for driver in kill_matrix.read(path)} if path.exists() else {}
    with _progress() as advance:
        jobs = options["jobs"] or processors()
        matrix = MutantMatrix(SCENARIOS, scenario_items(options["paths"]), MutantRecord(), jobs, advance)
        kills = matrix.kills(wrong)
    for mutant in wrong:
        # The recorded killer may need another edition or deployment than the case passes first on.
        recorded = (record.killer(mutant.name, SCENARIOS) or "").rpartition(" [")[0]
        fails = frozenset(filter(None, (*kills[mutant.name], recorded)))
        known[mutant.name] = kill_matrix.WrongDriver(mutant.name, mutant.rule, mutant.wrong, fails)
    left = {mutant.name for mutant in every}
    with writing(path):
        kill_matrix.write(path, [driver for name, driver in known.items() if name in left])
    click.echo(f"{path}: {len(wrong)} wrong drivers tried")


def _selected(mutants: Sequence[Mutant], options: dict[str, Any]) -> list[Mutant]:
    try:
        wanted = keywords.parse(options["keyword"]) if options["keyword"] else lambda _: True
    except keywords.KeywordError as error:
        raise click.UsageError(f"-k: {error}") from error
    chosen = [
        mutant
        for mutant in mutants
        if options["kind"] in (None, f"{mutant.kind}s")
        and wanted(" ".join((mutant.name, mutant.rule, *(change.file for change in mutant.changes))))
    ]
    if not chosen:
        raise click.ClickException("no mutant matches")
    if (size := options["sample"]) is None or size >= len(chosen):
        return chosen
    return [chosen[index * len(chosen) // size] for index in range(size)]


def _tried_with_all(mutants: Sequence[Mutant], record: MutantRecord, options: dict[str, Any]) -> float:
    """Try mutants with all suites, and return the smallest percentage that one kills."""
    if not options["together"]:
        return min(_tried(suite, mutants, record, options) for suite in options["suites"])
    left = list(mutants)
    for suite in options["suites"]:
        if left:
            _tried(suite, left, record, options)
        left = [mutant for mutant in left if record.killer(mutant.name, suite) in (None, SURVIVED)]
    killed = len(mutants) - len(left)
    share = 100 * killed / len(mutants)
    click.echo(f"{' and '.join(options['suites'])}: {killed} of {len(mutants)} killed ({share:.1f} %)")
    return share


def _tried(suite: str, mutants: Sequence[Mutant], record: MutantRecord, options: dict[str, Any]) -> float:
    """Try mutants with one suite, print what came of it, and return the percentage that it kills."""
    jobs, search, folder = options["jobs"] or processors(), KillerSearch(options["search"]), options["folder"]
    if suite == CORPUS and corpus_of(folder) is None:
        click.echo("corpus: the public specification tests are not present", err=True)
        return 100.0
    with _progress() as advance, TemporaryDirectory(prefix="swarm-") as drawn:
        if suite == TESTS:
            from harness.authoring.mutants.unit_tests import run_tests  # noqa: PLC0415 - most runs need none

            root = folder.resolve().parents[1]
            for mutant, killer in run_tests(mutants, record, root=root, jobs=jobs, search=search):
                advance("", 1)
                if options["verbose"]:
                    click.echo(f"{suite}: {mutant.name}: {killer or 'survives'}")
            return _report(suite, mutants, record, {})
        items = _items(suite, options, Path(drawn))
        matrix = MutantMatrix(
            suite, items, record, jobs, advance, is_named=bool(options["paths"]), is_drawn=suite == SWARM
        )
        if options["verbose"]:
            matrix.on_verdict = partial(_print_verdict, suite)
        matrix.run(mutants, search=search, everything=options["everything"])
    return _report(suite, mutants, record, matrix.reached)


def _items(suite: str, options: dict[str, Any], drawn: Path) -> Sequence[Item]:
    """Return the items of a suite; drawn schedules are written to a folder."""
    if suite == SWARM:
        return swarm_items(drawn, options["schedules"])
    source = corpus_of(options["folder"]) if suite == CORPUS else None
    return scenario_items(options["paths"]) if source is None else corpus_items(source)


def _print_verdict(suite: str, mutant: Mutant, verdict: MutantVerdict) -> None:
    click.echo(f"{suite}: {mutant.name}: {'killed by' if verdict.killed_by else 'survives'}")
    for key, reason in verdict.killed_by.items():
        click.echo(f"  {key}: {reason}")


def _report(suite: str, mutants: Sequence[Mutant], record: MutantRecord, reached: Mapping[str, int]) -> float:
    killed, total = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    survivors = defaultdict[tuple[str, str], list[str]](list)
    for mutant in mutants:
        area, killer = (mutant.kind, mutant.specification), record.killer(mutant.name, suite)
        total[area] += 1
        killed[area] += bool(killer)
        if not killer:
            known = f", {mutant.verdict}" if mutant.verdict else ""
            cases = f", reached by {reached[mutant.name]} cases" if mutant.name in reached else ""
            survivors[area].append(f"{mutant.name} ({mutant.rule}{known}{cases}): {mutant.wrong}")
    for area in total:
        for line in survivors[area]:
            click.echo(f"{suite}: survives: {line}")
    for kind, specification in total:
        area = kind, specification
        click.echo(f"{suite}: {kind}, {specification}: {killed[area]} of {total[area]} killed")
    share = 100 * killed.total() / total.total()
    click.echo(f"{suite}: {killed.total()} of {total.total()} killed ({share:.1f} %)")
    return share


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None]]:
    """Show how far a run is; call what it gives with a new task and its size, or with '' and steps."""
    if not is_animated():
        with work("mutants"):
            yield lambda _what, _count: None
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
