"""One run of `pushbackd conform`: items in, results out to every report."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from harness.deployments.external import DeploymentError
from harness.planning.expectations import SKIP, ExpectationsError, write_draft
from harness.planning.last_failed import remember
from harness.planning.result import ExitCode, Result, ResultStatus, Tally
from harness.report import github, junit, terminal
from harness.report.fitting import echo
from harness.report.outputs import writing
from harness.report.progress import progress
from harness.report.results_file import JsonLines
from harness.running.cluster import ClusterError
from harness.running.run import InOrder, Patience, jobs_for, run_patiently
from harness.world import interruption
from harness.world.immediate_exit import exit_code
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.planning.plan import Item
    from harness.report.outputs import ResultFiles
    from harness.running.run import PreparedRun
    from harness.world.interruption import Interrupted


class EnoughFailed(Exception):  # noqa: N818  # an end that was asked for
    """As many cases have failed as the run was to bear."""


class Conformance:
    """A run in progress: the results so far, and the reports that take them."""

    def __init__(self, run: PreparedRun, files: ResultFiles) -> None:
        self._run = run
        self._files = files
        self._outputs = run.outputs
        self._settings = run.settings
        self._results: list[Result] = []
        self._json_lines = JsonLines(sys.stdout, self._settings) if run.outputs.json else None
        self._end: Interrupted | BrokenPipeError | DeploymentError | ClusterError | EnoughFailed | None = None
        """The exception that ended the run before its last case."""
        self._failed = 0
        self._flaws: dict[int, str] = {}
        """A complaint for each case that failed because it cannot be used, by its index in the plan."""

    def execute(self) -> ExitCode:
        """Run the items, report, and return the exit code of the process.

        Raises `click.ClickException` when servers by URI do not answer any more, or the cluster is lost, and
        `Interrupted` while files are watched: it ends the watching, too.
        """
        clock = SystemClock()
        began = clock.utc()
        self._run_items()
        remember(zip(self._run.items, self._results, strict=True))
        self._report(clock.utc() - began)
        self._write_draft()
        end = self._end
        if isinstance(end, DeploymentError | ClusterError):
            raise click.ClickException(str(end)) from end
        if isinstance(end, BrokenPipeError):
            return ExitCode.NOBODY_READS
        if isinstance(end, interruption.Interrupted) and self._run.is_watched:
            raise end
        if isinstance(end, interruption.Interrupted):
            return ExitCode(exit_code(end.number))
        if self._run.complaints or self._flaws:
            return ExitCode.BAD_INPUT
        return Tally.of(self._results).exit_code

    def _run_items(self) -> None:
        """Run to the last case, or until the user, a closed pipe or the loss of the servers ends the run."""
        items, expectations, verbosity = (
            self._run.items,
            self._run.expectations,
            self._outputs.style.verbosity,
        )
        done: set[int] = set()
        with progress(len(items), wanted=verbosity == 0, color=self._outputs.color) as advance:
            in_order = InOrder(self._deliver)

            def on_result(index: int, result: Result) -> None:
                judged = expectations[result.adapter].judge(result)
                advance(judged)
                done.add(index)
                if judged.status is ResultStatus.FAILED and items[index].flaw:
                    self._flaws[index] = items[index].flaw
                in_order.add(index, judged)
                self._failed += judged.status is ResultStatus.FAILED
                if self._run.failures is not None and self._failed >= self._run.failures:
                    raise EnoughFailed

            def is_flaky(result: Result) -> bool:
                return expectations[result.adapter].is_flaky(result)

            def is_late(result: Result) -> bool:
                if self._run.failures is not None:  # the end at a failure waits for no second look at it
                    return False
                judged = expectations[result.adapter].judge(result)
                is_real = self._settings.time == "real" and not result.is_error
                return is_real and judged.status is ResultStatus.FAILED

            try:
                left = self._without_skipped(on_result)
                jobs = self._run.jobs or jobs_for(len(left), self._settings)
                patience = Patience(is_flaky, is_late, self._run.reruns)
                run_patiently(
                    left,
                    self._settings,
                    jobs=jobs,
                    on_result=on_result,
                    patience=patience,
                    scheduler=self._run.scheduler,
                )
            except (
                *(interruption.Interrupted, EnoughFailed),
                *(DeploymentError, ClusterError, BrokenPipeError),
            ) as end:
                self._end = end
        for index in sorted({*range(len(items))} - done):
            in_order.hold(index, items[index].result(ResultStatus.NOT_RUN, self._why_it_ended))
        in_order.flush()

    @property
    def _why_it_ended(self) -> str:
        """A note on the premature end of the run, for its reports; empty if there was none."""
        if isinstance(self._end, BrokenPipeError):
            return "nobody reads the output"
        if isinstance(self._end, DeploymentError):
            return "the servers do not answer any more"
        if isinstance(self._end, ClusterError):
            return "the cluster was lost"
        if isinstance(self._end, EnoughFailed):
            return f"ended by {self._failed} failure{'s' * (self._failed > 1)}"
        return str(self._end) if self._end else ""

    def _without_skipped(self, on_result: Callable[[int, Result], None]) -> dict[int, Item]:
        """Return the items to run by their index; those that an expectations file skips are done already."""
        left: dict[int, Item] = {}
        for index, item in enumerate(self._run.items):
            entry = self._run.expectations[item.adapter].find(item.id, item.topology, item.edition)
            if entry is not None and entry.kind == SKIP:
                on_result(index, item.result(ResultStatus.SKIPPED, entry.reason))
            else:
                left[index] = item
        return left

    def _deliver(self, result: Result) -> None:
        """Hand a result to the files, and print it where each case has a line."""
        self._files.add(result)
        # The account of a case that passed is in no report but the files, and takes most of the memory.
        self._results.append(result.without_account() if result.status is ResultStatus.PASSED else result)
        if isinstance(self._end, BrokenPipeError):
            return
        if self._json_lines is not None:
            self._json_lines.result(result)
        elif self._outputs.style.verbosity > 0 and result.status is not ResultStatus.NOT_RUN:
            self._print(terminal.case_line(result))

    def _report(self, seconds: float) -> None:
        complaints, outputs = self._run.complaints, self._outputs
        tally = Tally.of(self._results)
        if isinstance(self._end, BrokenPipeError):
            pass  # files are written all the same
        elif self._json_lines is not None:
            self._json_lines.summary(tally, unusable_files=len(complaints))
        else:
            for line in terminal.report(self._results, self._settings, outputs.style):
                self._print(line)
        flaws = dict.fromkeys(flaw for _, flaw in sorted(self._flaws.items()))
        for complaint in (*complaints, *flaws):
            click.secho(complaint, fg="red", err=True, color=outputs.color)
        if self._json_lines is None:
            notes = [f"{len(complaints)} unusable file{'s' * (len(complaints) > 1)}"] if complaints else []
            notes += [self._why_it_ended] if self._end else []
            for line in terminal.script_lines(self._results, self._settings):
                self._print(line)
            if self._run.note:
                self._print(self._run.note)
            self._print(terminal.summary(tally, self._settings, seconds=seconds, notes=notes))
        if (path := outputs.junit) is not None:
            with writing(path):
                junit.write(path, self._results, settings=self._settings)
        if outputs.github:
            github.publish(
                self._results, self._settings, seconds=seconds, complaints=complaints, err=outputs.json
            )

    def _write_draft(self) -> None:
        """Add what failed to the expectations file that takes it, unless the run ended early."""
        path = self._run.draft
        if path is None:
            return
        if self._end is not None:
            click.echo(f"{path}: not written, because the run did not come to its end", err=True)
            return
        flawed = {self._run.items[index].id for index in self._flaws}
        results = [result for result in self._results if result.id not in flawed]
        try:
            with writing(path):
                draft = write_draft(path, results)
        except ExpectationsError as error:
            raise click.ClickException(str(error)) from error
        click.echo(f"{path}: {draft}", err=True)

    def _print(self, line: str) -> None:
        if not isinstance(self._end, BrokenPipeError):
            echo(line, color=self._outputs.color)
