"""The flake lab: repeats each case with one seed after the other, then shrinks what failed.

Theory of operation. A flaky case depends on an order of events that is usually one and sometimes another.
Waiting for the rare order on an idle machine takes thousands of runs; the lab makes it likely instead. A
schedule (`schedule`) is a short text that says which packets and tasks are late, and by how much. It is drawn
from the seed of the run, so that seed and case are all it takes to repeat a failure.

1. Every case runs with the first seed. A case that is skipped does not apply here, and is not repeated.
2. The others run with the next seeds, each with a schedule of its own (`--perturb`), with one that the user
   chose (`--schedule`), or with none (`--repeat` alone).
3. The first failure of each case is shrunk (`shrink`): of some twenty perturbations one or two usually
   matter, and these tell a reader which race it is. The search starts from those that met a packet or a task
   at all, as a schedule is drawn without knowing what the case will do.

Items are handed over in large batches, since worker processes are not worth their start for small ones.
The search of one case is strictly sequential (each candidate depends on the last answer), so the batch is
made of one candidate of every case.

In virtual time a run with the same seed and schedule is the same run, so a candidate is tried once. In real
time the machine adds its own disturbances: a candidate is tried several times and counts as failing if one
run fails. It may therefore miss a smaller schedule, but never reports one that did not fail.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from harness.deployments.embedded import servers
from harness.deployments.external import DeploymentError
from harness.deployments.targets import NO_SERVER, topology_of
from harness.planning.expectations import SKIP
from harness.planning.result import ExitCode, ResultStatus, Tally
from harness.report import github, junit, terminal
from harness.report.fitting import echo
from harness.report.outputs import writing
from harness.report.page import minute_of
from harness.report.progress import progress
from harness.report.results_file import JsonLines
from harness.running.flake_lab.cases import RepeatedCase, Shrinking
from harness.running.flake_lab.page import page
from harness.running.flake_lab.report import json_line, properties, report_lines
from harness.running.run import jobs_for, run_items
from harness.world.immediate_exit import exit_code
from harness.world.interruption import Interrupted
from harness.world.schedule import draw
from mongowire.system import SeededRng, SystemClock
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.planning.expectations import Expectations
    from harness.planning.plan import Item, Settings
    from harness.planning.result import Result
    from harness.report.outputs import ResultFiles
    from harness.running.run import PreparedRun


TRIES: Final = {"virtual": 1, "real": 5}
"""How often a schedule is tried; in virtual time all tries are the same."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repetitions of each case, and how it is disturbed.

    With `perturb` each run has a schedule of its own, drawn from its seed; `schedule` is one for all.
    """

    count: int = 1
    perturb: bool = False
    schedule: str | None = None
    max_delay_ms: int = 50

    @property
    def disturbs(self) -> bool:
        """Whether runs are disturbed."""
        return self.perturb or self.schedule is not None

    @property
    def wanted(self) -> bool:
        """Whether the run needs the lab."""
        return self.count > 1 or self.disturbs


class FlakeLab:
    """Runs items many times. `run_items` runs items by their index, and hands on each result as it ends."""

    def __init__(
        self,
        repeats: Repeats,
        settings: Settings,
        expectations: Mapping[str, Expectations],
        run_items: Callable[[Mapping[int, Item], Callable[[int, Result], None]], None],
    ) -> None:
        self._repeats = repeats
        self._settings = settings
        self._expectations = expectations
        self._run_items = run_items
        self.runs_left = 0
        """The number of runs that have not ended."""
        self.cases: list[RepeatedCase] = []
        """The runs so far, also after an interruption."""

    def run(self, items: Sequence[Item]) -> None:
        """Run everything. Raises `Interrupted`, and `DeploymentError` when servers by URI are lost."""
        for item in items:
            entry = self._expectations[item.adapter].find(item.id, item.topology, item.edition)
            self.cases.append(RepeatedCase(item, entry))
        for case in self.cases:
            if case.entry is not None and case.entry.kind == SKIP:
                case.add(case.item, case.item.result(ResultStatus.SKIPPED, case.entry.reason))
        self.runs_left = self._repeats.count * sum(not case.is_skipped for case in self.cases)
        self._repeat(range(1))  # finds out which cases do not apply here
        self.runs_left = (self._repeats.count - 1) * sum(not case.is_skipped for case in self.cases)
        self._repeat(range(1, self._repeats.count))
        if not self._repeats.perturb:
            return
        searches = [Shrinking(case) for case in self.cases if case.first is not None and not case.is_flaky]
        while searches:
            self._try_candidates([(each, each.items(TRIES[self._settings.time])) for each in searches])
            searches = [each for each in searches if each.items(1)]

    def not_run(self, reason: str) -> list[Result]:
        """Return a result for each case without one, because of what has ended the run."""
        left = (case.item for case in self.cases if case.sample is None)
        return [item.result(ResultStatus.NOT_RUN, reason) for item in left]

    def _repeat(self, repetitions: Sequence[int]) -> None:
        left = [case for case in self.cases if not case.is_skipped]
        runs = [(case, self._repetition(case.item, number)) for number in repetitions for case in left]

        def on_result(index: int, result: Result) -> None:
            case, item = runs[index]
            self.runs_left -= 1
            case.add(item, self._expectations[item.adapter].judge(result))

        self._run_items({index: item for index, (_, item) in enumerate(runs)}, on_result)

    def _repetition(self, item: Item, number: int) -> Item:
        """Return the item of a repetition, which count from 0: with its seed and its schedule."""
        seed, schedule = self._settings.seed + number, self._repeats.schedule
        if item.topology == NO_SERVER:
            return replace(item, seed=seed)
        if self._repeats.perturb:
            rng = SeededRng(f"{seed}/{item.topology}/{item.id}", "schedule")
            names = servers(topology_of(item.topology))
            schedule = str(draw(rng, names, max_delay_ms=self._repeats.max_delay_ms))
        return replace(item, seed=seed, schedule=schedule)

    def _try_candidates(self, candidates: Sequence[tuple[Shrinking, Sequence[Item]]]) -> None:
        """Run a candidate of each search, as many times as it has items, and give each search its answer."""
        runs = [(search, item) for search, items in candidates for item in items]
        results: dict[Shrinking, list[Result]] = {search: [] for search, _ in candidates}
        self._run_items(
            {index: item for index, (_, item) in enumerate(runs)},
            lambda index, result: results[runs[index][0]].append(result),
        )
        for search, items in candidates:
            search.hear(items[0], results[search])


# A run of the flake lab, from its start to its exit code.


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
            for case in cases:
                click.echo(json_line(case, self._settings))
            lines = JsonLines(sys.stdout, self._settings)
            for result in not_run:
                lines.result(result)
            tally = Tally.of([*(case.result for case in cases), *not_run])
            lines.summary(tally, unusable_files=len(self._run.complaints))
        else:
            for line in report_lines(cases, self._settings, outputs.style):
                self._print(line)
        for complaint in complaints:
            click.secho(complaint, fg="red", err=True, color=outputs.color)
        if not outputs.json:
            unusable = [f"{len(complaints)} unusable file{'s' * (len(complaints) > 1)}"] if complaints else []
            for line in terminal.script_lines(results, self._settings):
                self._print(line)
            if self._run.note:
                self._print(self._run.note)
            notes = (*unusable, *notes)
            self._print(terminal.summary(Tally.of(results), self._settings, seconds=seconds, notes=notes))
        self._write_junit(cases, not_run)
        if self._page is not None:
            with writing(self._page):
                created = minute_of(SystemClock().utc())
                write_whole(self._page, page(cases, self._settings, created=created))
        if outputs.github:
            github.publish(results, self._settings, seconds=seconds, complaints=complaints, err=outputs.json)

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

    def _print(self, line: str) -> None:
        echo(line, color=self._outputs.color)
