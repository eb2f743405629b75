"""One run of `pushbackd conform`: items in, results out to everybody who asked for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from harness.expectations import SKIP
from harness.given import ending_cleanly
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
        self._lost: DeploymentError | None = None
        self._flaws: dict[int, str] = {}
        """What makes cases unusable that have failed, by their place in the plan."""

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
        if complaints or self._flaws or interrupted:
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
                if judged.status is ResultStatus.FAILED and items[place].flaw:
                    self._flaws[place] = items[place].flaw

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
        self._keeper.add(result)
        self._results.append(result.without_account() if result.status is ResultStatus.PASSED else result)
        if self._lines is not None:
            self._lines.result(result)
        elif self._options.verbose:
            self._say(terminal.case_line(result))

    def _report(self, seconds: float, complaints: Sequence[str], *, interrupted: bool) -> None:
        tally = Tally.of(self._results)
        if self._lines is not None:
            self._lines.summary(tally, unusable_files=len(complaints))
        else:
            for line in terminal.report(self._results, self._settings, self._options.style):
                self._say(line)
        flaws = dict.fromkeys(flaw for _, flaw in sorted(self._flaws.items()))
        for complaint in (*complaints, *flaws):
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
        with writing(path):
            junit.write(path, self._results, properties=properties)
