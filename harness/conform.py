"""`pushbackd conform`: run scenarios against drivers on fake deployments, and report what conforms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from harness import expectations, interruption, keywords
from harness.conformance import Conformance
from harness.deployment_options import deployment_options, given_by, targets_of
from harness.discovery import BadInputError, bundled_root, discover
from harness.expectations import Expectations, ExpectationsError
from harness.flake_lab.command import LabReport, LabRun, lab_options, repeats_of
from harness.option_types import MOST_WHOLE, Count, FilePath, Seconds
from harness.options import (
    DriverName,
    Jobs,
    Options,
    case_timeout_option,
    drivers_named,
    edition_of,
    edition_option,
    no_color_option,
    refuse_virtual_time,
    seed_option,
)
from harness.plan import Load, Settings, forget, left_out, load_all, plan
from harness.registry import DRIVERS
from harness.report.keeping import keeping, writing
from harness.unified import loops
from mongowire.whole_file import check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.given import Given
    from harness.registry import DriverInfo
    from harness.result import ExitCode


_WIRE_LEVEL = 2


@click.command("conform")
@click.argument("paths", nargs=-1, type=FilePath())
@click.option(
    "--adapter",
    type=DriverName(),
    multiple=True,
    default=("reference",),
    show_default=True,
    help=f"The driver to run: {', '.join(DRIVERS)}, or 'cmd:' and the command line of an adapter"
    " (docs/WRITING-ADAPTERS.md); give it again for another one.",
)
@deployment_options
@click.option(
    "--time",
    type=click.Choice(["real", "virtual"]),
    default="real",
    show_default=True,
    help="Virtual time needs a driver that runs on a given clock: nobody waits, and a seed repeats all.",
)
@edition_option
@click.option(
    "--jobs", type=Jobs(), default="auto", show_default=True, help="Worker processes; 1 is this one."
)
@seed_option
@click.option(
    "-k",
    "keyword",
    metavar="EXPR",
    help="Only the cases whose ids match, as in pytest: 'insert and not bulk'.",
)
@click.option("--junit", type=FilePath(dir_okay=False), help="Write a JUnit report.")
@click.option(
    "--results",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write all results with their timelines, for `pushbackd report`; compressed if it ends in .gz.",
)
@click.option(
    "--html",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write the results as one HTML page, with a picture of each case.",
)
@click.option(
    "--json", is_flag=True, help="Write one JSON object a case to standard output, and one with the totals."
)
@click.option(
    "--expectations",
    type=FilePath(),
    help="What is known to fail.  [default: the bundled files]",
)
@click.option(
    "--journal",
    type=FilePath(file_okay=False),
    help="Write a journal for each case to a folder.",
)
@case_timeout_option
@click.option(
    "--loop-iterations",
    type=Count(1, MOST_WHOLE),
    default=loops.ITERATIONS,
    show_default=True,
    metavar="N",
    help="When loops end, which by themselves have no end.",
)
@click.option(
    "--loop-seconds",
    type=Seconds(),
    metavar="SECONDS",
    help="When they end at the latest, on the clock of their case."
    f"  [default: {loops.SECONDS:g}, or half of --case-timeout]",
)
@click.option(
    "--interrupt-ends-loops",
    is_flag=True,
    help="Have the first Ctrl-C (SIGINT) end loops, and the second one the run.",
)
@no_color_option
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="One line for each case; twice, and failures show every message on the wire.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only what failed, and the totals.")
@click.option("--durations", type=Count(0), default=0, metavar="N", help="Show the N longest cases.")
@click.option(
    "--github/--no-github",
    envvar="GITHUB_ACTIONS",
    show_envvar=True,
    help="Annotations and a step summary for GitHub.",
)
@click.option("--watch", is_flag=True, help="Then run what is saved, until Ctrl-C.")
@lab_options
def command(**options: Any) -> ExitCode:
    """Run the scenarios in PATHS (files or folders) against a driver; without PATHS, the bundled ones.

    Scenarios are in the unified test format, or in one of those that look at parts of the reference driver
    (docs/FORMATS.md).

    The first Ctrl-C ends the run, and so does a SIGTERM: reports say which cases were not run.

    The exit code is 0 when all passed, 1 when one failed, 2 for a file or a case that cannot be used, 3 for a
    defect of this program, 4 for a wrong command line, 5 when nothing ran, 6 when a case passed that is known
    to fail, 130 after Ctrl-C, 143 after SIGTERM, 141 when nobody reads the output any more.
    """
    given = Options(**options)
    if given.interrupt_ends_loops:
        click.echo("the first Ctrl-C ends loops, the second one ends the run", err=True)
    with interruption.politely():
        return _watch(given) if given.watch else _run(given)


def _watch(options: Options) -> ExitCode:
    from harness.watch import watch  # noqa: PLC0415 - most runs run once

    def run(paths: Sequence[Path]) -> ExitCode:
        forget()
        return _run(replace(options, paths=tuple(paths)))

    return watch(options.paths, run)


def _run(options: Options) -> ExitCode:
    context = click.get_current_context()
    given = given_by(context)
    infos = drivers_named(options.adapter)
    settings, drivers = _settings(options, infos, given), _editions(options, infos)
    wanted = _keyword(options.keyword)
    books = {adapter: _book(adapter, options.expectations) for adapter in drivers}
    scenarios = load_all(_discovered(options.paths))
    if not scenarios.files:
        raise click.ClickException("\n".join(scenarios.complaints))
    _refuse_unmatched(books, scenarios, everywhere=options.expectations is not None)
    on = targets_of(context, given)
    repeats = repeats_of(context, on)
    items = plan(scenarios.cases, drivers=drivers, topologies=on, wanted=wanted)
    note = left_out(scenarios.cases, drivers, wanted)
    if repeats.wanted:
        lab = LabRun(repeats, settings, books, options.jobs, _lab_report(options, note))
        return lab.run(items, scenarios.complaints)
    if options.junit:
        with writing(options.junit):
            check_writable(options.junit)
    if options.journal:
        with writing(options.journal):
            options.journal.mkdir(parents=True, exist_ok=True)
    with keeping(settings, results=options.results, html=options.html) as keeper:
        return Conformance(options, settings, books, keeper, note).run(items, scenarios.complaints)


def _settings(options: Options, infos: Mapping[str, DriverInfo], given: Given | None) -> Settings:
    return Settings(
        uri=given.uri if given else "",
        uri_multi=given.uri_multi if given else "",
        time="virtual" if options.time == "virtual" else "real",
        seed=options.seed,
        case_timeout=options.case_timeout,
        loop_iterations=options.loop_iterations,
        loop_seconds=_loop_seconds(options.loop_seconds, options.case_timeout),
        interrupt_ends_loops=options.interrupt_ends_loops,
        journal_dir=str(options.journal) if options.journal else "",
        commands=tuple((name, info.command) for name, info in infos.items() if info.command),
        wire=options.verbose >= _WIRE_LEVEL,
        detail="all" if options.results or options.html else "failures",
    )


def _loop_seconds(given: float | None, case_timeout: float) -> float:
    if given is None:
        return min(loops.SECONDS, case_timeout / 2)
    if given >= case_timeout:
        raise click.UsageError(
            f"--loop-seconds {given:g}: a case has hung after --case-timeout {case_timeout:g} seconds,"
            " which must be more"
        )
    return given


def _editions(options: Options, infos: Mapping[str, DriverInfo]) -> dict[str, str]:
    """Return the chosen drivers, each with the edition that it will follow."""
    if options.time == "virtual":
        for name, info in infos.items():
            refuse_virtual_time(name, info)
    return {name: edition_of(name, info, options.edition) for name, info in infos.items()}


def _keyword(expression: str | None) -> Callable[[str], bool]:
    if expression is None:
        return lambda _: True
    try:
        return keywords.parse(expression)
    except keywords.KeywordError as error:
        raise click.UsageError(f"-k: {error}") from error


def _discovered(paths: Sequence[Path]) -> tuple[Path, ...]:
    try:
        return discover(paths)
    except BadInputError as error:
        raise click.ClickException(str(error)) from error


def _book(adapter: str, given: Path | None) -> Expectations:
    try:
        return expectations.of_adapter(adapter, given)
    except ExpectationsError as error:
        raise click.ClickException(str(error)) from error


def _refuse_unmatched(books: Mapping[str, Expectations], scenarios: Load, *, everywhere: bool) -> None:
    """Refuse entries that speak of no case.

    The bundled files are held to the bundled scenarios only: a file of the user's may have the same name.
    """
    ours = bundled_root()
    ids = [case.id for case in scenarios.cases if everywhere or case.path.is_relative_to(ours)]
    complaints = [complaint for book in books.values() for complaint in book.unmatched(ids)]
    if complaints:
        raise click.ClickException("\n".join(dict.fromkeys(complaints)))


def _lab_report(options: Options, note: str) -> LabReport:
    return LabReport(
        style=options.style,
        color=options.color,
        json=options.json,
        github=options.github,
        junit=options.junit,
        note=note,
        watch=options.watch,
    )
