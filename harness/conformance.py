"""One run of `pushbackd conform`: items in, results out to everybody who asked for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from harness import interruption
from harness.expectations import SKIP
from harness.leaving import exit_code
from harness.report import github, junit, terminal
from harness.report.jsonl import JsonLines
from harness.report.keeping import writing
from harness.report.progress import progress
from harness.result import ExitCode, Result, ResultStatus, Tally
from harness.run import InOrder, jobs_for, run_patiently
from harness.survey import DeploymentError
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.expectations import Expectations
    from harness.interruption import Interrupted
    from harness.options import Options
    from harness.plan import Item, Settings
    from harness.report.keeping import Keeper


class Conformance:
    """One run on its way: what has come in, and who is told."""

    def __init__(
        self,
        options: Options,
        settings: Settings,
        books: Mapping[str, Expectations],
        keeper: Keeper,
        note: str,
    ) -> None:
        self._options = options
        self._note = note
        self._settings = settings
        self._books = books
        self._keeper = keeper
        self._results: list[Result] = []
        self._color = options.color
        self._lines = JsonLines(sys.stdout) if options.json else None
        self._end: Interrupted | BrokenPipeError | DeploymentError | None = None
        """What has ended the run before its last case."""
        self._flaws: dict[int, str] = {}
        """What makes cases unusable that have failed, by their place in the plan."""

    def run(self, items: Sequence[Item], complaints: Sequence[str]) -> ExitCode:
        """Run the items, report, and return the exit code of the process.

        Raises `click.ClickException` when servers that the user has given do not answer any more, and
        `Interrupted` for a user who watches: there will be no other run either.
        """
        clock = SystemClock()
        began = clock.utc()
        self._run_items(items)
        self._report(clock.utc() - began, complaints)
        end = self._end
        if isinstance(end, DeploymentError):
            raise click.ClickException(str(end)) from end
        if isinstance(end, BrokenPipeError):
            return ExitCode.NOBODY_READS
        if end is not None and self._options.watch:
            raise end
        if end is not None:
            return ExitCode(exit_code(end.number))
        if complaints or self._flaws:
            return ExitCode.BAD_INPUT
        return Tally.of(self._results).exit_code

    def _run_items(self, items: Sequence[Item]) -> None:
        """Run to the last case, or until the user, the end of a pipe or the loss of the servers ends it."""
        bar = not self._options.quiet and not self._options.verbose
        done: set[int] = set()
        with progress(len(items), wanted=bar, color=self._color) as advance:
            in_order = InOrder(self._deliver)

            def on_result(place: int, result: Result) -> None:
                judged = self._books[result.adapter].judge(result)
                advance(judged)
                done.add(place)
                if judged.status is ResultStatus.FAILED and items[place].flaw:
                    self._flaws[place] = items[place].flaw
                in_order.add(place, judged)

            def is_flaky(result: Result) -> bool:
                return self._books[result.adapter].is_flaky(result)

            try:
                left = self._without_skipped(items, on_result)
                jobs = self._options.jobs or jobs_for(len(left), self._settings)
                run_patiently(left, self._settings, jobs=jobs, on_result=on_result, is_flaky=is_flaky)
            except (interruption.Interrupted, DeploymentError, BrokenPipeError) as end:
                self._end = end
        for place in sorted({*range(len(items))} - done):
            in_order.hold(place, items[place].result(ResultStatus.NOT_RUN, self._why_it_ended))
        in_order.flush()

    @property
    def _why_it_ended(self) -> str:
        """What has ended the run, as a note in its reports."""
        if isinstance(self._end, BrokenPipeError):
            return "nobody reads the output"
        if isinstance(self._end, DeploymentError):
            return "the servers do not answer any more"
        return str(self._end) if self._end else ""

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
        self._keeper.add(result)
        self._results.append(result.without_account() if result.status is ResultStatus.PASSED else result)
        if isinstance(self._end, BrokenPipeError):
            return
        if self._lines is not None:
            self._lines.result(result)
        elif self._options.verbose and result.status is not ResultStatus.NOT_RUN:
            self._say(terminal.case_line(result))

    def _report(self, seconds: float, complaints: Sequence[str]) -> None:
        tally = Tally.of(self._results)
        if isinstance(self._end, BrokenPipeError):
            pass  # files are written all the same
        elif self._lines is not None:
            self._lines.summary(tally, unusable_files=len(complaints))
        else:
            for line in terminal.report(self._results, self._settings, self._options.style):
                self._say(line)
        flaws = dict.fromkeys(flaw for _, flaw in sorted(self._flaws.items()))
        for complaint in (*complaints, *flaws):
            click.secho(complaint, fg="red", err=True, color=self._color)
        if self._lines is None:
            notes = [f"{len(complaints)} unusable file{'s' * (len(complaints) > 1)}"] if complaints else []
            notes += [self._why_it_ended] if self._end else []
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
        if not isinstance(self._end, BrokenPipeError):
            click.echo(line, color=self._color)

    def _write_junit(self, path: Path) -> None:
        properties = {"seed": str(self._settings.seed), "time": self._settings.time}
        with writing(path):
            junit.write(path, self._results, properties=properties)
