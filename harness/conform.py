"""`pushbackd conform`: run scenarios against drivers on fake deployments, and report what conforms."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness import expectations, keywords
from harness.adapters.base import AdapterLost
from harness.deployment_options import deployment_options, given_by, targets_of
from harness.discovery import BadInputError, bundled_root, discover
from harness.expectations import SKIP, Expectations, ExpectationsError
from harness.flake_lab.command import LabReport, LabRun, lab_options, repeats_of
from harness.given import ending_cleanly
from harness.plan import Item, Load, Settings, forget, left_out, load_all, plan
from harness.registry import DRIVERS, EDITIONS, is_driver
from harness.registry import drivers as drivers_of
from harness.report import github, junit, terminal
from harness.report.jsonl import JsonLines
from harness.report.progress import progress
from harness.result import ExitCode, Result, ResultStatus, Tally
from harness.run import InOrder, jobs_for, run_patiently
from harness.survey import DeploymentError
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.formats.reading import AnyFile
    from harness.given import Given
    from harness.registry import DriverInfo


_WIRE_LEVEL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line, as click has read it."""

    paths: tuple[Path, ...]
    adapter: tuple[str, ...]
    topology: tuple[str, ...]
    auth: bool
    uri: str | None
    uri_multi: str | None
    time: str
    edition: str | None
    jobs: int | None
    seed: int
    keyword: str | None
    junit: Path | None
    json: bool
    expectations: Path | None
    journal: Path | None
    case_timeout: float
    no_color: bool
    verbose: int
    quiet: bool
    durations: int
    watch: bool
    github: bool
    repeat: int
    perturb: bool
    schedule: str | None
    max_delay: int


class DriverName(click.ParamType[str]):
    """The name of a driver, or the command line of an adapter."""

    name = "NAME|cmd:COMMAND"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_driver(str(value)):
            self.fail(
                f"'{value}' is neither one of {', '.join(DRIVERS)} nor 'cmd:' and a command", param, ctx
            )
        return str(value)


class _Jobs(click.ParamType[int | None]):
    """A number of processes, or `auto`."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "auto":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"'{value}' is neither a number of processes nor 'auto'", param, ctx)
        return int(value)


@click.command("conform")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
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
@click.option(
    "--edition",
    type=click.Choice(EDITIONS),
    help="The edition of the specifications.  [default: the driver's]",
)
@click.option(
    "--jobs", type=_Jobs(), default="auto", show_default=True, help="Worker processes; 1 is this one."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all dice.")
@click.option(
    "-k",
    "keyword",
    metavar="EXPR",
    help="Only the cases whose ids match, as in pytest: 'insert and not bulk'.",
)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write a JUnit report.")
@click.option(
    "--json", is_flag=True, help="Write one JSON object a case to standard output, and one with the totals."
)
@click.option(
    "--expectations",
    type=click.Path(path_type=Path),
    help="What is known to fail.  [default: the bundled files]",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a journal for each case to a folder.",
)
@click.option(
    "--case-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="When a case has hung, on the clock that it runs on.",
)
@click.option("--no-color", is_flag=True, help="No styles, not even on a terminal (as with NO_COLOR).")
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="One line for each case; twice, and failures show every message on the wire.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only what failed, and the totals.")
@click.option(
    "--durations", type=click.IntRange(min=0), default=0, metavar="N", help="Show the N longest cases."
)
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

    The exit code is 0 when all passed, 1 when one failed, 2 for a file that cannot be used or an interrupted
    run, 3 for a defect of this program, 4 for a wrong command line, 5 when nothing ran, 6 when a case passed
    that is known to fail.
    """
    given = Options(**options)
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
    infos = _infos(options.adapter)
    settings, drivers = _settings(options, infos, given), _editions(options, infos)
    wanted = _keyword(options.keyword)
    books = {adapter: _book(adapter, options.expectations) for adapter in drivers}
    scenarios = _without_flawed(load_all(_discovered(options.paths)), books)
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
    return _Conformance(options, settings, books, note).run(items, scenarios.complaints)


def _infos(texts: Sequence[str]) -> dict[str, DriverInfo]:
    try:
        return drivers_of(texts)
    except AdapterLost as lost:
        raise click.ClickException(str(lost)) from lost


def _settings(options: Options, infos: Mapping[str, DriverInfo], given: Given | None) -> Settings:
    return Settings(
        uri=given.uri if given else "",
        uri_multi=given.uri_multi if given else "",
        time="virtual" if options.time == "virtual" else "real",
        seed=options.seed,
        case_timeout=options.case_timeout,
        journal_dir=str(options.journal) if options.journal else "",
        commands=tuple((name, info.command) for name, info in infos.items() if info.command),
        wire=options.verbose >= _WIRE_LEVEL,
    )


def _editions(options: Options, infos: Mapping[str, DriverInfo]) -> dict[str, str]:
    """Return the chosen drivers, each with the edition that it will follow."""
    chosen: dict[str, str] = {}
    for name, info in infos.items():
        if options.time == "virtual" and not info.virtual_time:
            raise click.UsageError(
                f"--time virtual: {name} has no clock but the wall's; run it with --time real"
            )
        if options.edition and options.edition not in info.editions:
            follows = ", ".join(info.editions)
            raise click.UsageError(
                f"--edition {options.edition}: {name} follows {follows}, which nobody can change"
            )
        chosen[name] = options.edition or info.editions[0]
    return chosen


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


def _without_flawed(scenarios: Load, books: Mapping[str, Expectations]) -> Load:
    """Refuse files that can only fail, unless each of their cases is expected to do just that."""
    kept: list[AnyFile] = []
    refused: list[str] = []
    for file in scenarios.files:
        if file.path in scenarios.flaws and not _is_expected(file, books):
            refused.append(scenarios.flaws[file.path])
        else:
            kept.append(file)
    return Load(tuple(kept), (*scenarios.complaints, *refused))


def _is_expected(file: AnyFile, books: Mapping[str, Expectations]) -> bool:
    return all(book.speaks_of(case.id) for book in books.values() for case in file.cases)


def _refuse_unmatched(books: Mapping[str, Expectations], scenarios: Load, *, everywhere: bool) -> None:
    """Refuse entries that speak of no case.

    The bundled files are held to the bundled scenarios only: a file of the user's may have the same name.
    """
    ours = bundled_root()
    ids = [case.id for case in scenarios.cases if everywhere or case.path.is_relative_to(ours)]
    complaints = [complaint for book in books.values() for complaint in book.unmatched(ids)]
    if complaints:
        raise click.ClickException("\n".join(dict.fromkeys(complaints)))


def _style(options: Options) -> terminal.Style:
    return terminal.Style(-1 if options.quiet else options.verbose, options.durations)


def _lab_report(options: Options, note: str) -> LabReport:
    return LabReport(
        style=_style(options),
        color=_color(options),
        json=options.json,
        github=options.github,
        junit=options.junit,
        note=note,
        watch=options.watch,
    )


def _color(options: Options) -> bool | None:
    """Return False where styles are unwanted; None leaves it to click, which looks at the terminal."""
    return False if options.no_color or os.environ.get("NO_COLOR") else None


class _Conformance:
    """One run on its way: what has come in, and who is told."""

    def __init__(
        self, options: Options, settings: Settings, books: Mapping[str, Expectations], note: str
    ) -> None:
        self._options = options
        self._note = note
        self._settings = settings
        self._books = books
        self._results: list[Result] = []
        self._color = _color(options)
        self._lines = JsonLines(sys.stdout) if options.json else None
        self._lost: DeploymentError | None = None

    def run(self, items: Sequence[Item], complaints: Sequence[str]) -> ExitCode:
        """Run the items, report, and return the exit code of the process."""
        clock = SystemClock()
        began = clock.utc()
        interrupted = self._run_items(items)
        self._report(clock.utc() - began, complaints, interrupted=interrupted)
        if self._lost is not None:
            raise click.ClickException(str(self._lost)) from self._lost
        if interrupted and self._options.watch:
            raise KeyboardInterrupt
        if complaints or interrupted:
            return ExitCode.BAD_INPUT
        return Tally.of(self._results).exit_code

    def _run_items(self, items: Sequence[Item]) -> bool:
        """Return whether the user interrupted the run, or the loss of the servers that the user has given."""
        bar = not self._options.quiet and not self._options.verbose
        with progress(len(items), wanted=bar, color=self._color) as advance:
            in_order = InOrder(self._deliver)

            def on_result(place: int, result: Result) -> None:
                judged = self._books[result.adapter].judge(result)
                advance(judged)
                in_order.add(place, judged)

            def is_flaky(result: Result) -> bool:
                return self._books[result.adapter].is_flaky(result)

            try:
                left = self._without_skipped(items, on_result)
                jobs = self._options.jobs or jobs_for(len(left), self._settings)
                with ending_cleanly():
                    run_patiently(left, self._settings, jobs=jobs, on_result=on_result, is_flaky=is_flaky)
            except (KeyboardInterrupt, DeploymentError) as end:
                in_order.flush()
                self._lost = end if isinstance(end, DeploymentError) else None
                return True
        return False

    def _without_skipped(
        self, items: Sequence[Item], on_result: Callable[[int, Result], None]
    ) -> dict[int, Item]:
        """Return the items to run by their places; those that an expectations file skips are done already."""
        left: dict[int, Item] = {}
        for place, item in enumerate(items):
            entry = self._books[item.adapter].find(item.id, item.topology, item.edition)
            if entry is not None and entry.kind == SKIP:
                on_result(place, item.result(ResultStatus.SKIPPED, entry.reason))
            else:
                left[place] = item
        return left

    def _deliver(self, result: Result) -> None:
        self._results.append(result)
        if self._lines is not None:
            self._lines.result(result)
        elif self._options.verbose:
            self._say(terminal.case_line(result))

    def _report(self, seconds: float, complaints: Sequence[str], *, interrupted: bool) -> None:
        tally = Tally.of(self._results)
        if self._lines is not None:
            self._lines.summary(tally, unusable_files=len(complaints))
        else:
            for line in terminal.report(self._results, self._settings, _style(self._options)):
                self._say(line)
        for complaint in complaints:
            click.secho(complaint, fg="red", err=True, color=self._color)
        if self._lines is None:
            notes = [f"{len(complaints)} unusable file{'s' * (len(complaints) > 1)}"] if complaints else []
            notes += ["interrupted"] if interrupted else []
            if self._note:
                self._say(self._note)
            self._say(terminal.summary(tally, self._settings, seconds=seconds, notes=notes))
        if self._options.junit:
            self._write_junit(self._options.junit)
        if self._options.github:
            github.tell(
                self._results, self._settings, seconds=seconds, complaints=complaints, err=self._options.json
            )

    def _say(self, line: str) -> None:
        click.echo(line, color=self._color)

    def _write_junit(self, path: Path) -> None:
        properties = {"seed": str(self._settings.seed), "time": self._settings.time}
        try:
            junit.write(path, self._results, properties=properties)
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror}") from error
