"""A hunt: clean runs, then trials by their promise until the budget is used up, then every bug once more.

Trials run side by side, each with a deployment and a process of its own. They may do so only if clean runs
may: a program that wants a port for itself fails beside another one, and is then run alone.

The budget has three parts. Clean runs take what they need, and must leave the fifth that is kept for
confirmation; trials begin until that fifth is left; then bugs are repeated to the end. Each bug is repeated
once even where the time is over, for a bug that was seen once is no more than a suspicion. Before that the
clean runs are repeated too (`_learn`): what varies by itself must not be held against the program.
"""

from __future__ import annotations

import math
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.hunt.baseline import Baseline, BaselineError
from harness.hunt.findings import Bug, Kind, Trial, grouped, percentile
from harness.hunt.judging import judge
from harness.hunt.places import Numbers
from harness.hunt.planning import pairs, singles
from harness.hunt.program import now
from harness.hunt.wishes import failed_pairs, has_failed, has_held, is_tried, ordered
from harness.world import interruption
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.hunt.findings import Judgement
    from harness.hunt.places import Place
    from harness.hunt.planning import Facts
    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike
    from harness.hunt.wishes import Wishes

_FIRST_LIMIT: Final = 300.0
"""Seconds that a clean run may take."""
_CLEAN_MORE: Final = 2
_ENDLESS: Final = 2
_LEARNED: Final = 3
"""So many more clean runs, at least, before a finding is repeated."""
_LEARNED_MOST: Final = 12
_LOOK: Final = 0.25
"""Seconds between two looks at the trials, in which a signal can be heard."""
_KEPT_FOR_CONFIRMATION: Final = 0.2
"""The share of the budget that is kept for repeating what was found."""


class Waiting(NamedTuple):
    """Seconds by which the trials that ended took longer than the slowest clean run."""

    trials: int
    median: float
    p99: float
    longest: Trial


@dataclass(slots=True)
class Report:
    """The findings of a hunt, as far as it came."""

    baseline: Baseline
    wishes: Wishes
    planned: int = 0
    trials: list[Trial] = field(default_factory=list)
    bugs: list[Bug] = field(default_factory=list)
    seconds: float = 0.0
    jobs: int = 1
    interrupted: bool = False

    @property
    def confirmed(self) -> list[Bug]:
        """The bugs that came again."""
        return [bug for bug in self.bugs if bug.is_confirmed]

    @property
    def mended(self) -> list[Trial]:
        """The trials that failed in an earlier hunt, and do so no more."""
        met = [each for each in self.trials if each.judgement.reached and not each.judgement.findings]
        return [each for each in met if has_failed(each.strikes, self.wishes.of_this_command)]

    @property
    def waiting(self) -> Waiting | None:
        """The time that faults cost the user; None if no trial has met its fault and ended."""
        return self._waiting(self.trials)

    @property
    def waiting_at(self) -> dict[Place, Waiting]:
        """The time that faults at each place cost the user."""
        tried: dict[Place, list[Trial]] = {}
        for trial in self.trials:
            tried.setdefault(trial.strikes[0].place, []).append(trial)
        found = {place: self._waiting(trials) for place, trials in tried.items()}
        return {place: waiting for place, waiting in found.items() if waiting is not None}

    def _waiting(self, trials: Sequence[Trial]) -> Waiting | None:
        ended = [each for each in trials if each.judgement.reached and each.outcome.code is not None]
        if not ended:
            return None
        ended.sort(key=lambda trial: trial.outcome.waited)
        waits = [max(0.0, each.outcome.waited - self.baseline.seconds) for each in ended]
        return Waiting(len(ended), waits[len(waits) // 2], percentile(waits, 0.99), ended[-1])


class Hunt:
    """One hunt. `progress` is called after each trial, with the report so far.

    `run` makes a trial of strikes, of a limit in seconds, of its number, and of the numbers that clean runs
    give to requests. Several threads call it if there is more than one job. `stop` makes it return early.
    """

    def __init__(
        self,
        run: Callable[[tuple[Strike, ...], float, int, Numbers], Outcome],
        facts: Facts,
        wishes: Wishes,
        progress: Callable[[Report], None],
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._run = run
        self._stop = stop
        self._facts = facts
        self._wishes = wishes
        self._progress = progress
        self._end = now() + wishes.budget
        self._began = now()
        self._enough = False
        """The first bug was found, and no more are asked for."""
        self._numbers: dict[tuple[Strike, ...], int] = {}
        self._runs: list[Outcome] = []
        """The clean runs."""
        self.report: Report
        """The findings so far; there once the clean runs are over."""

    def run(self) -> Report:
        """Hunt until every trial is over, or the budget. Raises `BaselineError`, and `OSError`."""
        try:
            baseline, jobs = self._clean()
            if now() > self._end - self._wishes.budget * _KEPT_FOR_CONFIRMATION:
                raise BaselineError("the clean runs took all of the budget; give a longer --budget")
            self.report = Report(baseline, self._wishes, jobs=jobs)
            try:
                self._try(self._plan(baseline), jobs)
                self.report.bugs = self._grouped()
                self._confirm(jobs)
            except KeyboardInterrupt:
                self.report.interrupted = True
                self.report.bugs = self._grouped()
                interruption.forget()
            self.report.trials.sort(key=lambda trial: trial.number)
            self.report.seconds = now() - self._began
            return self.report
        finally:
            self._stop()

    def _clean(self) -> tuple[Baseline, int]:
        """Return the baseline, and how many trials may run at a time."""
        # Alone first: a command that fails by itself is told so before the machine is full of it.
        first = self._run((), _FIRST_LIMIT, 0, Numbers())
        self._baseline([first])
        limit = first.ended.seconds * 10 + _FIRST_LIMIT / 10
        jobs, together = self._wishes.jobs, None
        if jobs > 1:
            with ThreadPoolExecutor(jobs) as pool:
                beside = list(pool.map(lambda number: self._run((), limit, number, Numbers()), range(jobs)))
            if all(each.code == 0 for each in beside):
                together = self._baseline([first, *beside])
                if not together.uneven:
                    return together, jobs
        more = [self._run((), limit, 0, Numbers()) for _ in range(_CLEAN_MORE)]
        try:
            alone = self._baseline([first, *more])
        except BaselineError as error:
            raise BaselineError(f"of three clean runs one fails: {error}") from None
        # Programs that share a port, or a file, mix up their documents only where they run side by side.
        if together is not None and together.uneven == alone.uneven:
            return together, jobs
        return alone, 1

    def _learn(self, jobs: int) -> None:
        """Look once more at what varies without a fault, before a trial is held against a program.

        Threads that overtake one another once in ten runs have not done so in the first few.
        """
        if len(self._runs) > _LEARNED_MOST:
            return
        limit = self.report.baseline.limit
        if jobs == 1:  # the tests of pytest run in this thread
            more = [self._run((), limit, 0, Numbers()) for _ in range(_LEARNED)]
        else:
            numbers = range(max(jobs, _LEARNED))
            with ThreadPoolExecutor(jobs) as pool:
                try:
                    more = list(pool.map(lambda number: self._run((), limit, number, Numbers()), numbers))
                except BaseException:
                    self._stop()
                    raise
        self._runs += [each for each in more if each.code == 0]
        self.report.baseline = self._baseline(self._runs)

    def _baseline(self, runs: Sequence[Outcome]) -> Baseline:
        self._runs = list(runs)
        invariants = self._wishes.invariants
        return Baseline.of(runs, () if invariants is None else invariants.ignore)

    def _plan(self, baseline: Baseline) -> Iterator[tuple[Strike, ...]]:
        """Yield the trials: those that were asked for, or single faults and then pairs of them."""
        wishes = self._wishes
        if wishes.only:
            self.report.planned = len(wishes.only)
            yield from wishes.only
            return
        facts = self._facts._replace(
            reads_secondaries=any(each.may_read_secondaries for each in baseline.places.values())
        )
        strikes = singles(baseline, facts, SeededRng(wishes.seed, "hunt"), wishes.faults)
        self.report.planned = len(strikes)
        ones = ordered([(strike,) for strike in strikes], wishes.remembered)
        if not wishes.pairs:
            yield from ones
            return
        # A hunt that goes on comes to the pairs that are left before it repeats what has held.
        remembered = wishes.of_this_command
        tried = [each for each in ones if is_tried(each, remembered)]
        known = [strike for strike in strikes if has_held((strike,), remembered)]
        given = dict.fromkeys(failed_pairs(remembered))
        self.report.planned += len(given)
        yield from [*given, *ones[: len(ones) - len(tried)]]
        yield from self._pairs(baseline, facts, known, given, remembered)
        yield from tried
        yield from self._pairs(baseline, facts, known, given, {})

    def _pairs(
        self,
        baseline: Baseline,
        facts: Facts,
        known: Sequence[Strike],
        given: dict[tuple[Strike, ...], None],
        remembered: Mapping[str, str],
    ) -> Iterator[tuple[Strike, ...]]:
        """Yield the pairs that were not given yet, without those that an earlier hunt has tried."""
        for both in pairs(baseline, tuple(self.report.trials), facts, self._wishes.faults, known):
            if both not in given and not is_tried(both, remembered):
                given[both] = None
                self.report.planned += 1
                yield both

    def _try(self, plan: Iterator[tuple[Strike, ...]], jobs: int) -> None:
        reserve = self._wishes.budget * _KEPT_FOR_CONFIRMATION
        for strikes, outcome in self._side_by_side(self._numbered(plan), jobs, self._end - reserve):
            judgement = judge(self.report.baseline, outcome, self._wishes.invariants)
            outcome.forget(self.report.baseline.places)
            self.report.trials.append(Trial(self._numbers[strikes], outcome, judgement))
            self.report.seconds = now() - self._began
            self._progress(self.report)
            if self._wishes.first and judgement.findings and not self._enough:
                self._learn(self.report.jobs)
                again = self._trial(strikes)
                self._enough = bool(judge(self.report.baseline, again, self._wishes.invariants).findings)

    def _grouped(self) -> list[Bug]:
        bugs = grouped([each for each in self.report.trials if each.judgement.findings])
        for bug in bugs:
            known = [
                has_failed(each.strikes, self._wishes.of_this_command) for each in [bug.trial, *bug.others]
            ]
            bug.is_known = any(known)
        return bugs

    def _numbered(self, plan: Iterator[tuple[Strike, ...]]) -> Iterator[tuple[Strike, ...]]:
        """Yield the trials of a plan, each with its number in it, by which reports are sorted."""
        for number, strikes in enumerate(plan, 1):
            if self._enough:
                return
            self._numbers[strikes] = number
            yield strikes

    def _confirm(self, jobs: int) -> None:
        """Repeat each bug: once in any case, and then as often as the budget allows."""
        if self.report.bugs and self._wishes.confirmations and not self._enough:
            self._learn(jobs)
        for turn in range(self._wishes.confirmations):
            bugs = {bug.trial.strikes: bug for bug in self.report.bugs}
            end = self._end if turn else math.inf
            for strikes, outcome in self._side_by_side(iter(bugs), jobs, end):
                bug = bugs[strikes]
                judgement = judge(self.report.baseline, outcome, self._wishes.invariants)
                bug.repeated += 1
                bug.again += any(each.kind is bug.cause.kind for each in judgement.findings)
                bug.seconds.append(outcome.waited)
                if bug.cause.kind is Kind.WAITS and now() < end:
                    # What the machine does beside a hunt is no fault's doing: clean runs tell it.
                    bug.beside.append(self._run((), self.report.baseline.limit, 0, Numbers()).waited)

    def _side_by_side(
        self, plan: Iterator[tuple[Strike, ...]], jobs: int, end: float
    ) -> Iterator[tuple[tuple[Strike, ...], Outcome]]:
        """Yield outcomes as they come; begin no trial after `end`. One at a time runs in this thread."""
        if jobs == 1:
            while now() < end and (strikes := next(plan, None)) is not None:
                yield strikes, self._trial(strikes)
            return
        running: dict[Future[Outcome], tuple[Strike, ...]] = {}
        pool = ThreadPoolExecutor(jobs)
        try:
            while True:
                while len(running) < jobs and now() < end and (strikes := next(plan, None)) is not None:
                    running[pool.submit(self._trial, strikes)] = strikes
                if not running:
                    return
                for future in wait(running, _LOOK, FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _trial(self, strikes: tuple[Strike, ...]) -> Outcome:
        invariants = self._wishes.invariants
        limit = self.report.baseline.limit
        if any(strike.fault.endless for strike in strikes):
            limit *= _ENDLESS  # whoever tries twenty times has ended by then
        if invariants is not None and invariants.within is not None:
            limit = invariants.within
        return self._run(strikes, limit, self._numbers[strikes], self.report.baseline.numbers)


def statuses(judgements: Sequence[Judgement]) -> dict[str, int]:
    """Return how many trials ended in each way."""
    found: dict[str, int] = {}
    for each in judgements:
        found[each.status] = found.get(each.status, 0) + 1
    return found
