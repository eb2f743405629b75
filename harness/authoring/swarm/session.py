"""A swarm under way: draws, runs, shrinks, and prints what it finds.

Schedules are drawn and run in chunks, so that `--budget` can end a run between two of them and thousands of
scenarios are never in memory at once. Only the first failure of each rule is kept to be shrunk; the summary
counts all. With `--json` standard output has one document a line (`line_of`, then the summary), and what is
for people goes to standard error.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from harness.adapters.registry import PREFIX
from harness.authoring.swarm.drawing import RELEASED, TARGETS, draw
from harness.authoring.swarm.running import SwarmRunner
from harness.authoring.swarm.scenario import text_of
from harness.authoring.swarm.schedule import SwarmSchedule
from harness.deployments.targets import profile_of, without_profile
from harness.deployments.targets import targets as named_targets
from harness.planning.result import ExitCode, ResultStatus
from harness.report.outputs import writing
from harness.report.progress import progress
from harness.running.flake_lab.shrink import search_among
from harness.running.run import jobs_for
from harness.unified.server_side.oracles import ORACLES, off
from harness.world import interruption
from mongowire.system import SystemClock
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from harness.authoring.swarm.work import SwarmDriver
    from harness.planning.plan import Settings
    from harness.planning.result import Result


# The smallest schedule that still breaks a rule: fewer steps, then fewer options, then less of each.


MOST: Final = 120
"""How many schedules are tried at most; they run one after the other, in real time for drivers of others."""


def shrink(
    runner: SwarmRunner, schedule: SwarmSchedule, rule: str, *, most: int = MOST
) -> tuple[SwarmSchedule, Result | None]:
    """Return the smallest schedule found that breaks a rule, an oracle as in `expectRules`, with its result.

    None is the result of a schedule that does not break it again. Raises `Interrupted` between two runs.
    """
    oracle = rule.partition(":")[0]
    smallest: tuple[SwarmSchedule, Result | None] = (schedule, None)
    search = search_among(schedule, SwarmSchedule.smaller, most=most)
    candidate = next(search, None)
    while candidate is not None:
        interruption.check()
        result = runner.failure(candidate, [rule])
        if result is not None and broken_by(result) != oracle:
            result = None  # it fails for another reason: what was left out was needed by the rest
        if result is not None:
            smallest = candidate, result
        try:
            candidate = search.send(result is not None)
        except StopIteration:
            break
    return smallest


def broken_by(result: Result) -> str:
    """Return the name of the oracle whose rule a result breaks, empty for a failure of another kind."""
    path, _, _ = result.mismatch.partition(":")
    return path.removeprefix("expectRules.") if path.startswith("expectRules.") else ""


# What a swarm has found: how many schedules ran, and which rules were broken by which seeds.


@dataclass(slots=True)
class Findings:
    """The schedules that have run, by their end, and the seeds that broke each rule.

    What failed without breaking a rule, an adapter that was lost or a case that never ended, has the empty
    name.
    """

    counts: Counter[ResultStatus] = field(default_factory=Counter)
    seeds: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    sentences: dict[str, str] = field(default_factory=dict)

    def add(self, schedule: SwarmSchedule, result: Result) -> None:
        """Take the result of a schedule."""
        self.counts[result.status] += 1
        if result.status is ResultStatus.FAILED:
            oracle = broken_by(result)
            self.seeds[oracle].append(schedule.seed)
            self.sentences.setdefault(oracle, sentence_of(result))

    @property
    def failed(self) -> int:
        """The number of schedules that failed."""
        return self.counts[ResultStatus.FAILED]

    def summary(self) -> Iterator[str]:
        """Yield a line on the run, then one for each rule that was broken."""
        ended = ", ".join(f"{count} {status.value}" for status, count in sorted(self.counts.items()))
        yield f"{self.counts.total()} schedules: {ended or 'none'}"
        for name in sorted(self.seeds, key=lambda each: (-len(self.seeds[each]), each)):
            seeds = self.seeds[name]
            what = str(ORACLES[name]) if name else "not judged"
            shown = ", ".join(map(str, sorted(seeds)[:SHOWN]))
            more = f" and {len(seeds) - SHOWN} more" if len(seeds) > SHOWN else ""
            yield f"{what}: {len(seeds)} (seeds {shown}{more}): {self.sentences[name]}"

    def document(self) -> dict[str, Any]:
        """Return the summary as a document."""
        return {
            "schedules": self.counts.total(),
            **{status.value: count for status, count in sorted(self.counts.items())},
            "broken": {name or "not judged": sorted(seeds) for name, seeds in sorted(self.seeds.items())},
        }


SHOWN = 5
"""Seeds of one rule that a line names."""


def sentence_of(result: Result) -> str:
    """Return what was found, in one line."""
    return result.reason.partition(" is broken: ")[2] or result.reason.partition("\n")[0]


def line_of(schedule: SwarmSchedule, result: Result) -> dict[str, Any]:
    """Return a schedule and its result as a document, for a line of JSON."""
    oracle = broken_by(result)
    found: dict[str, Any] = {
        "seed": schedule.seed,
        "topology": schedule.target,
        "edition": schedule.edition,
        "status": result.status.value,
    }
    if result.status is not ResultStatus.PASSED:
        found["reason"] = sentence_of(result)
    if oracle:
        found |= {"oracle": oracle, "rules": list(ORACLES[oracle].rules)}
    return found


_CHUNK: Final = 50
_CHUNK_OF_A_JOB: Final = 4
"""Schedules that are drawn and run at a time: all in all, and for each job where a budget may end the run."""

_SHRUNK: Final = 3
"""Rules whose first failure is shrunk; of the others there is the command that repeats them."""


class Swarming:
    """A swarm under way: what it has found, and what it prints of that."""

    def __init__(
        self, driver: SwarmDriver, edition: str, settings: Settings, options: dict[str, Any]
    ) -> None:
        self._driver = driver
        self._edition = edition
        self._settings = settings
        self._options = options
        self._findings = Findings()
        self._rules = rules_without(options["without"])

    def run(self) -> ExitCode:
        """Run the schedules, report, and return the exit code. Raises `Interrupted`."""
        oracles = off(self._driver.features)
        if oracles:
            names = ", ".join(oracle.name for oracle in oracles)
            click.echo(f"off, because the adapter lacks what they need: {names}", err=True)
        seed, first = self._options["seed"], self._options["first"]
        seeds = range(first, first + self._options["seeds"]) if seed is None else range(seed, seed + 1)
        jobs = self._options["jobs"] or jobs_for(len(seeds), self._settings)
        failures: dict[str, SwarmSchedule] = {}
        try:
            with interruption.politely(), SwarmRunner(self._driver, self._settings, jobs) as runner:
                has_lines = sys.stdout.isatty() and not self._options["quiet"]
                with progress(len(seeds), wanted=not has_lines, color=None) as advance:
                    for schedules in self._drawn(seeds, jobs):
                        self._run_some(runner, schedules, failures, advance)
                self._explain(runner, failures)
        finally:
            if self._options["as_json"]:
                click.echo(json.dumps({"summary": self._findings.document()}))
            else:
                for line in self._findings.summary():
                    click.echo(line)
        return ExitCode.FAILED if self._findings.failed else ExitCode.PASSED

    def _drawn(self, seeds: range, jobs: int) -> Iterator[list[SwarmSchedule]]:
        """Yield schedules, some at a time, until there are no more or the budget is spent."""
        clock, budget = SystemClock(), self._options["budget"]
        began = clock.utc()
        targets = named_targets(self._options["topologies"]) or (
            tuple(TARGETS) if self._driver.virtual_time else RELEASED
        )
        size = _CHUNK if budget is None else _CHUNK_OF_A_JOB * jobs
        for start in range(0, len(seeds), size):
            if budget is not None and clock.utc() - began > budget:
                return
            yield [draw(seed, edition=self._edition, targets=targets) for seed in seeds[start : start + size]]

    def _run_some(
        self,
        runner: SwarmRunner,
        schedules: list[SwarmSchedule],
        failures: dict[str, SwarmSchedule],
        advance: Callable[[Result], None],
    ) -> None:

        def on_result(schedule: SwarmSchedule, result: Result) -> None:
            advance(result)
            self._findings.add(schedule, result)
            self._print(schedule, result)
            if result.status is ResultStatus.FAILED and broken_by(result):
                failures.setdefault(broken_by(result), schedule)

        runner.run(schedules, on_result, self._rules)

    def _explain(self, runner: SwarmRunner, failures: dict[str, SwarmSchedule]) -> None:
        """Shrink the first failures, print the scenarios that are left, and write the first of them."""
        path: Path | None = self._options["write"]
        for number, (oracle, schedule) in enumerate(failures.items()):
            if number == _SHRUNK or (self._options["as_json"] and path is None):
                break
            smallest, result = shrink(runner, schedule, self._rule(oracle))
            if result is None:
                self._echo(f"{oracle}: seed {schedule.seed} did not break it again")
                continue
            topologies = "".join(f" --topology {name}" for name in self._options["topologies"])
            without = "".join(f" --without {shlex.quote(name)}" for name in self._options["without"])
            command = f"pushbackd swarm --seed {schedule.seed}{topologies}{without}{self._with()}"
            why = f"{oracle}: {sentence_of(result)}\nDrawn by {command}"
            text = text_of(smallest, self._driver.features, [self._rule(oracle)], why)
            if path is not None:
                with writing(path):
                    write_whole(path, text)
                where = f"{without_profile(smallest.target)} --profile {profile_of(smallest.target)}"
                self._echo(f"{path}: written; pushbackd conform {path} --topology {where}{self._with()}")
                path = None
            self._echo(f"\n{text}")

    def _rule(self, oracle: str) -> str:
        """Return an oracle as `expectRules` names it, with what is known of it."""
        return next(rule for rule in self._rules if rule.partition(":")[0] == oracle)

    def _with(self) -> str:
        """Return the options that name the driver."""
        name = f"{PREFIX}…" if self._driver.command else self._driver.name
        edition = f" --edition {self._edition}" if len(self._driver.editions) > 1 else ""
        return f" --adapter {name}{edition}"

    def _print(self, schedule: SwarmSchedule, result: Result) -> None:
        if self._options["as_json"]:
            click.echo(json.dumps(line_of(schedule, result)))
            return
        passed = result.status is ResultStatus.PASSED
        if passed and self._options["quiet"]:
            return
        steps = f"{schedule.seed:>6}  {schedule.target:15}  {len(schedule.steps):>2} steps"
        if passed:
            click.echo(f"{steps}  passed")
            return
        what = f"{result.status.value} {broken_by(result)}".strip()
        click.secho(
            f"{steps}  {what}: {sentence_of(result)}",
            fg="red" if result.status is ResultStatus.FAILED else None,
        )

    def _echo(self, line: str) -> None:
        """Print what is for people: beside lines of JSON, to standard error."""
        click.echo(line, err=self._options["as_json"])


def rules_without(known: Sequence[str]) -> list[str]:
    """Return the rules that are left: `known` has oracles, or `ORACLE:PATTERN` for some of their findings."""
    left: list[str] = []
    for oracle in ORACLES:
        patterns = [pattern for name, _, pattern in (each.partition(":") for each in known) if name == oracle]
        if not patterns:
            left.append(oracle)
        elif all(patterns):
            left.append(f"{oracle}:{'|'.join(patterns)}")
    return left
