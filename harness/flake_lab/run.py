"""A run of the flake lab, from its start to its exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from harness.deployments.survey import DeploymentError
from harness.flake_lab.lab import FlakeLab
from harness.flake_lab.page import page
from harness.flake_lab.report import json_line, properties, report_lines
from harness.report import github, junit, terminal
from harness.report.fitting import echo
from harness.report.jsonl import JsonLines
from harness.report.outputs import writing
from harness.report.page import minute_of
from harness.report.progress import progress
from harness.running.immediate_exit import exit_code
from harness.running.interruption import Interrupted
from harness.running.result import ExitCode, Tally
from harness.running.run import jobs_for, run_items
from mongowire.system import SystemClock
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.flake_lab.cases import RepeatedCase
    from harness.report.outputs import ResultFiles
    from harness.running.plan import Item
    from harness.running.result import Result
    from harness.running.run import PreparedRun


class LabRun:
    """A run whose cases are repeated or disturbed."""

    def __init__(self, run: PreparedRun, files: ResultFiles, page: Path | None = None) -> None:
        """Take a run, the files that its results go to, and the file of the lab's own page."""
        self._page = page
        self._run = run
        self._files = files
        self._outputs = run.outputs
        self._settings = run.settings

    def execute(self) -> ExitCode:
        """Run the items, report, and return the exit code of the process.

        Raises `click.ClickException` when servers by URI do not answer any more, and `Interrupted` while
        files are watched: it ends the watching, too.
        """
        clock = SystemClock()
        began = clock.utc()
        lab = FlakeLab(self._run.repeats, self._settings, self._run.expectations, self._run_items)
        end: Interrupted | DeploymentError | None = None
        notes: Sequence[str] = ()
        try:
            lab.run(self._run.items)
        except (Interrupted, DeploymentError) as error:
            end = error
            why = str(end) if isinstance(end, Interrupted) else "the servers do not answer any more"
            notes = (f"{lab.runs_left} runs not made", why)
        cases = [case for case in lab.cases if case.sample is not None]
        self._report(cases, lab.not_run(str(end)), clock.utc() - began, notes)
        if isinstance(end, DeploymentError):
            raise click.ClickException(str(end)) from end
        if end is not None and self._run.is_watched:
            raise end
        if end is not None:
            return ExitCode(exit_code(end.number))
        if self._run.complaints:
            return ExitCode.BAD_INPUT
        return Tally.of(case.result for case in cases).exit_code

    def _run_items(self, items: Mapping[int, Item], on_result: Callable[[int, Result], None]) -> None:
        jobs = self._run.jobs or jobs_for(len(items), self._settings)
        with progress(
            len(items), wanted=self._outputs.style.verbosity == 0, color=self._outputs.color
        ) as advance:

            def advance_and_pass_on(index: int, result: Result) -> None:
                advance(result)
                on_result(index, result)

            run_items(items, self._settings, jobs=jobs, on_result=advance_and_pass_on)

    def _report(
        self, cases: Sequence[RepeatedCase], not_run: Sequence[Result], seconds: float, notes: Sequence[str]
    ) -> None:
        complaints, outputs = self._run.complaints, self._outputs
        results = [*(case.result for case in cases), *not_run]
        for result in results:
            self._files.add(result)
        if outputs.json:
            self._print_json(cases, not_run)
        else:
            for line in report_lines(cases, self._settings, outputs.style):
                self._print(line)
        for complaint in complaints:
            click.secho(complaint, fg="red", err=True, color=outputs.color)
        if not outputs.json:
            unusable = [f"{len(complaints)} unusable file{'s' * (len(complaints) > 1)}"] if complaints else []
            if self._run.note:
                self._print(self._run.note)
            notes = (*unusable, *notes)
            self._print(terminal.summary(Tally.of(results), self._settings, seconds=seconds, notes=notes))
        self._write_junit(cases, not_run)
        self._write_page(cases)
        if outputs.github:
            github.publish(results, self._settings, seconds=seconds, complaints=complaints, err=outputs.json)

    def _print_json(self, cases: Sequence[RepeatedCase], not_run: Sequence[Result]) -> None:
        for case in cases:
            click.echo(json_line(case, self._settings))
        lines = JsonLines(sys.stdout, self._settings)
        for result in not_run:
            lines.result(result)
        tally = Tally.of([*(case.result for case in cases), *not_run])
        lines.summary(tally, unusable_files=len(self._run.complaints))

    def _write_junit(self, cases: Sequence[RepeatedCase], not_run: Sequence[Result]) -> None:
        path = self._outputs.junit
        if path is None:
            return

        def key(result: Result) -> tuple[str, str, str]:
            return result.id, result.adapter, result.topology

        of_case = {key(case.result): properties(case) for case in cases}
        with writing(path):
            junit.write(
                path,
                [*(case.result for case in cases), *not_run],
                settings=self._settings,
                of_case=lambda result: of_case.get(key(result), {}),
            )

    def _write_page(self, cases: Sequence[RepeatedCase]) -> None:
        if self._page is not None:
            with writing(self._page):
                created = minute_of(SystemClock().utc())
                write_whole(self._page, page(cases, self._settings, created=created))

    def _print(self, line: str) -> None:
        echo(line, color=self._outputs.color)
