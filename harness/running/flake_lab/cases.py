"""The runs of one case: how often it passed, its failures, and the search for the smallest schedule."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.planning.expectations import FLAKY
from harness.planning.result import Result, ResultStatus
from harness.running.flake_lab.shrink import search
from harness.world.schedule import FlakeSchedule, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.planning.expectations import Entry
    from harness.planning.plan import Item


_Z: Final = 1.959963984540054
"""How many standard deviations of a normal distribution hold 95 % of it."""


class PassRate(NamedTuple):
    """So many passes in so many runs. `runs` is at least 1."""

    passed: int
    runs: int

    @property
    def rate(self) -> float:
        """The part that passed, from 0 to 1."""
        return self.passed / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the true rate with 95 % confidence (Wilson's score interval).

        It stays within 0 and 1, and is of use for few runs and for none that failed, where the usual
        interval around the mean has no width.
        """
        share = _Z * _Z / self.runs
        middle = (self.rate + share / 2) / (1 + share)
        half = math.sqrt(share * (self.rate * (1 - self.rate) + share / 4)) / (1 + share)
        # The rate is always within; at 0 and 1 it is a bound, which rounding may miss.
        return max(0.0, min(self.rate, middle - half)), min(1.0, max(self.rate, middle + half))


_PASSED = (ResultStatus.PASSED, ResultStatus.UNEXPECTED_PASS)


@dataclass(frozen=True, slots=True)
class FlakyFailure:
    """An item that failed in `failed` of `runs` runs, and the result of one of them.

    With none that failed it is a run that passed.
    """

    item: Item
    result: Result
    failed: int = 1
    runs: int = 1


@dataclass(slots=True)
class RepeatedCase:
    """The runs of one case so far. `entry` is its entry in the expectations file."""

    item: Item
    entry: Entry | None = None
    counts: Counter[ResultStatus] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    sample: Result | None = None
    """A result that stands for the case: the first failure, if there is one."""
    first: FlakyFailure | None = None
    """The failure with the lowest seed."""
    passing: FlakyFailure | None = None
    """The run with the lowest seed that passed: what the failures can be held against."""
    smallest: FlakyFailure | None = None
    """The failure with the smallest schedule, if the search found one."""
    tried: int = 0
    """How many schedules the search tried."""

    def add(self, item: Item, result: Result) -> None:
        """Count a run, in whichever order they end; `result` has been judged by the expectations."""
        self.counts[result.status] += 1
        if result.status is ResultStatus.FAILED:
            self.reasons[result.reason.partition("\n")[0]] += 1
            if self.first is None or (item.seed or 0) < (self.first.item.seed or 0):
                self.first, self.sample = FlakyFailure(item, result), result
        elif result.status is ResultStatus.PASSED and (
            self.passing is None or (item.seed or 0) < (self.passing.item.seed or 0)
        ):
            self.passing = FlakyFailure(item, result, failed=0)
        self.sample = self.sample or result

    @property
    def is_skipped(self) -> bool:
        """Whether the case does not apply here."""
        return self.counts[ResultStatus.SKIPPED] > 0

    @property
    def rate(self) -> PassRate:
        """The share of runs in which the driver passed, expected or not. Needs a run that was not skipped."""
        return PassRate(sum(self.counts[each] for each in _PASSED), self.counts.total())

    @property
    def result(self) -> Result:
        """Return one result for all runs. A failure counts unless the case is marked as flaky."""
        assert self.sample is not None, "a case has been run at least once"
        if self.counts[ResultStatus.FAILED]:
            if self.is_flaky:
                return self.sample.becomes(ResultStatus.KNOWN_FAILING, self._entry.reason)
            return self.sample
        if self.counts[ResultStatus.UNEXPECTED_PASS] and self.counts[ResultStatus.KNOWN_FAILING]:
            passed = (
                f"passed in {self.rate.passed} of {self.rate.runs} runs, but {self._entry.location} says that"
            )
            return self.sample.becomes(
                ResultStatus.UNEXPECTED_PASS, f"it {passed} it fails ({self._entry.reason}): it is flaky"
            )
        return self.sample

    @property
    def is_flaky(self) -> bool:
        """Whether the expectations allow it to fail."""
        return self.entry is not None and self.entry.kind == FLAKY

    @property
    def _entry(self) -> Entry:
        assert self.entry is not None, "the case has an entry"
        return self.entry


class Shrinking:
    """The search for the smallest schedule with which a case fails."""

    def __init__(self, case: RepeatedCase) -> None:
        assert case.first is not None, "only what has failed can be shrunk"
        self._case = case
        met = {line.partition("  ")[0] for line in case.first.result.disturbed}
        self._search = search(parse(case.first.item.schedule or "").only(met))
        self._candidate: FlakeSchedule | None = next(self._search)

    def items(self, times: int) -> list[Item]:
        """Return `times` items of the next candidate; none when the search is over."""
        if self._candidate is None or self._case.first is None:
            return []
        return [replace(self._case.first.item, schedule=str(self._candidate))] * times

    def hear(self, item: Item, results: Sequence[Result]) -> None:
        """Take the results of the candidate: it fails if one run of it failed."""
        failures = [result for result in results if result.status is ResultStatus.FAILED]
        self._case.tried += 1
        if failures:
            self._case.smallest = FlakyFailure(item, failures[0], len(failures), len(results))
        try:
            self._candidate = self._search.send(bool(failures))
        except StopIteration:
            self._candidate = None
