"""The lab's part of `pushbackd conform`: its options, and a run from its start to its exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.deployment import servers
from harness.flake_lab.lab import FlakeLab, Repeats
from harness.flake_lab.report import json_line, lines, properties
from harness.flake_lab.schedule import ScheduleError, parse
from harness.interruption import Interrupted
from harness.leaving import exit_code
from harness.option_types import Count
from harness.report import github, junit, terminal
from harness.report.jsonl import JsonLines
from harness.report.keeping import writing
from harness.report.progress import progress
from harness.result import ExitCode, Tally
from harness.run import jobs_for, run_items
from harness.survey import DeploymentError
from harness.targets import is_by_uri, topology_of
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.expectations import Expectations
    from harness.flake_lab.cases import Repeated
    from harness.plan import Item, Settings
    from harness.result import Result

F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS: Final = (
    click.option(
        "--repeat",
        type=Count(1),
        default=1,
        metavar="N",
        help="Run each case N times, with one seed after the other, and tell how often it passes.",
    ),
    click.option(
        "--perturb",
        is_flag=True,
        help="Disturb each run in another way (latency, the order in which servers are discovered, when tasks"
        " start), and look for the least that makes a case fail (docs/FLAKES.md).",
    ),
    click.option("--schedule", metavar="TEXT", help="Disturb each run in one way, which --perturb has told."),
    click.option(
        "--max-delay",
        type=Count(1),
        default=50,
        show_default=True,
        metavar="MS",
        help="The longest delay of --perturb.",
    ),
)


def lab_options(command: F) -> F:
    """Give a click command the lab's options."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)


def repeats_of(context: click.Context, topologies: Sequence[str]) -> Repeats:
    """Return what a command line asks of the lab. Raises `click.UsageError` for what cannot be done."""
    given = context.params
    repeats = Repeats(given["repeat"], given["perturb"], given["schedule"], given["max_delay"])
    if repeats.perturb and repeats.schedule is not None:
        raise click.UsageError("--schedule is one way to disturb a run and --perturb many: give one of them")
    if repeats.disturbs and any(map(is_by_uri, topologies)):
        raise click.UsageError("--uri: those servers cannot be disturbed; use --repeat alone")
    if repeats.schedule is not None:
        for topology in topologies:
            _check(repeats.schedule, topology)
    return repeats


def _check(schedule: str, topology: str) -> None:
    try:
        parse(schedule).check(servers(topology_of(topology)))
    except ScheduleError as error:
        raise click.UsageError(f"--schedule, on {topology}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LabReport:
    """How to tell: in which style, as JSON or not, to GitHub or not, and where a JUnit report goes.

    `note` is a sentence on what the run leaves out, or empty; `watch` says that this run is one of several,
    which an interruption ends all.
    """

    style: terminal.Style
    color: bool | None
    json: bool
    github: bool
    junit: Path | None
    note: str
    watch: bool


@dataclass(frozen=True, slots=True)
class LabRun:
    """A run of the lab. `jobs` is None for as many processes as are worth it."""

    repeats: Repeats
    settings: Settings
    books: Mapping[str, Expectations]
    jobs: int | None
    report: LabReport

    def run(self, items: Sequence[Item], complaints: Sequence[str]) -> ExitCode:
        """Run the items, report, and return the exit code of the process.

        Raises `click.ClickException` when servers that the user has given do not answer any more, and
        `Interrupted` for a user who wants no other run either.
        """
        clock = SystemClock()
        began = clock.utc()
        lab = FlakeLab(self.repeats, self.settings, self.books, self._run_items)
        end: Interrupted | DeploymentError | None = None
        try:
            lab.run(items)
        except (Interrupted, DeploymentError) as error:
            end = error
        told = [case for case in lab.cases if case.sample is not None]
        self._tell(told, lab.not_run(str(end)), complaints, clock.utc() - began, notes=_notes(end, lab))
        if isinstance(end, DeploymentError):
            raise click.ClickException(str(end)) from end
        if end is not None and self.report.watch:
            raise end
        if end is not None:
            return ExitCode(exit_code(end.number))
        if complaints:
            return ExitCode.BAD_INPUT
        return Tally.of(case.result for case in told).exit_code

    def _run_items(self, items: Mapping[int, Item], on_result: Callable[[int, Result], None]) -> None:
        jobs = self.jobs or jobs_for(len(items), self.settings)
        bar = self.report.style.verbosity == 0
        with progress(len(items), wanted=bar, color=self.report.color) as advance:

            def take(place: int, result: Result) -> None:
                advance(result)
                on_result(place, result)

            run_items(items, self.settings, jobs=jobs, on_result=take)

    def _tell(
        self,
        cases: Sequence[Repeated],
        not_run: Sequence[Result],
        complaints: Sequence[str],
        seconds: float,
        *,
        notes: Sequence[str],
    ) -> None:
        report, results = self.report, [*(case.result for case in cases), *not_run]
        tally = Tally.of(results)
        if report.json:
            self._tell_programs(cases, not_run, tally, complaints)
        else:
            for line in lines(cases, self.settings, report.style):
                self._say(line)
        for complaint in complaints:
            click.secho(complaint, fg="red", err=True, color=report.color)
        if not report.json:
            unusable = [f"{len(complaints)} unusable file{'s' * (len(complaints) > 1)}"] if complaints else []
            if report.note:
                self._say(report.note)
            self._say(terminal.summary(tally, self.settings, seconds=seconds, notes=[*unusable, *notes]))
        self._write_junit(cases, not_run)
        if report.github:
            github.tell(results, self.settings, seconds=seconds, complaints=complaints, err=report.json)

    def _tell_programs(
        self, cases: Sequence[Repeated], not_run: Sequence[Result], tally: Tally, complaints: Sequence[str]
    ) -> None:
        for case in cases:
            click.echo(json_line(case, self.settings))
        lines = JsonLines(sys.stdout)
        for result in not_run:
            lines.result(result)
        lines.summary(tally, unusable_files=len(complaints))

    def _write_junit(self, cases: Sequence[Repeated], not_run: Sequence[Result]) -> None:
        if self.report.junit is None:
            return
        of_run = {"seed": str(self.settings.seed), "time": self.settings.time}
        of_case = {_key(case.result): properties(case) for case in cases}
        with writing(self.report.junit):
            junit.write(
                self.report.junit,
                [*(case.result for case in cases), *not_run],
                properties=of_run,
                of_case=lambda result: of_case.get(_key(result), {}),
            )

    def _say(self, line: str) -> None:
        click.echo(line, color=self.report.color)


def _notes(end: Exception | Interrupted | None, lab: FlakeLab) -> Sequence[str]:
    """Return what the last line of a run says of its end before the last case."""
    if end is None:
        return ()
    why = str(end) if isinstance(end, Interrupted) else "the servers do not answer any more"
    return (f"{lab.runs_left} runs not made", why)


def _key(result: Result) -> tuple[str, str, str]:
    return result.id, result.adapter, result.topology
