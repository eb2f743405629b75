"""Drivers and rules: what the scenarios that show a rule came to, driver by driver.

A verdict is what all cases of a rule on all deployments come to: one failure breaks it, one pass keeps it,
and only if all were skipped is the part absent. A case whose adapter was lost counts as skipped, since it
says nothing of the driver. Known failures count as broken: an expectation explains them, and does not undo
them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.explaining.journal import two_columns
from harness.planning.result import ResultStatus
from harness.report.rerun import rerun_command
from harness.report.rules.rulebook import rules_of_cases, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.planning.plan import Settings
    from harness.planning.result import Result
    from harness.report.results_file import RunHeader
    from harness.report.rules.rulebook import Rule

_PASSED: Final = frozenset({ResultStatus.PASSED, ResultStatus.UNEXPECTED_PASS})
_FAILED: Final = frozenset({ResultStatus.FAILED, ResultStatus.KNOWN_FAILING})


class RuleVerdict(StrEnum):
    """The verdict on a rule and a driver."""

    KEPT = "kept"
    """Scenarios that a breach would have failed passed."""
    BROKEN = "broken"
    """A scenario that shows the rule failed."""
    ABSENT = "absent"
    """All scenarios that show it were skipped: the driver, its edition or its adapter has no such part."""
    NOT_SHOWN = "not shown"
    """No scenario can lose here."""
    NOT_RUN = "not run"
    """The results have no scenario of the rule."""


@dataclass(frozen=True)
class Driver:
    """A column: a driver in one edition of the specifications, by the name of its run or its own.

    `version` is the driver's own name and version, empty where its adapter does not tell.
    """

    name: str
    edition: str
    version: str = ""

    @property
    def facts(self) -> str:
        """Return what is known of it besides its name."""
        return ", ".join(filter(None, (self.version, self.edition)))


@dataclass(frozen=True)
class Evidence:
    """A case that failed: where, why, and how to see it again."""

    case_id: str
    topology: str
    reason: str
    causes: tuple[str, ...]
    again: str
    timeline: tuple[str, ...]

    @classmethod
    def of(cls, result: Result, settings: Settings) -> Evidence:
        """Return what a result shows."""
        again = rerun_command(result, settings)
        lines = tuple(two_columns(result.timeline))
        return cls(result.id, result.topology, result.reason, tuple(result.causes), again, lines)


@dataclass
class RuleCell:
    """The cases of one rule with one driver, on all deployments."""

    passed: Counter[str] = field(default_factory=Counter)
    """How often each case passed."""
    failed: list[Evidence] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How often cases said nothing of the driver, for each reason: it was skipped, or could not be judged."""

    @property
    def verdict(self) -> RuleVerdict:
        """The verdict that the cases come to."""
        if self.failed:
            return RuleVerdict.BROKEN
        if self.passed:
            return RuleVerdict.KEPT
        return RuleVerdict.ABSENT if self.skipped else RuleVerdict.NOT_RUN

    @property
    def broken_cases(self) -> int:
        """The number of cases that failed on any deployment."""
        return len({each.case_id for each in self.failed})

    @property
    def cases(self) -> int:
        """The number of cases that ran on any deployment."""
        return len(self.passed.keys() | {each.case_id for each in self.failed})


@dataclass
class RuleTable:
    """The cells of several runs."""

    cells: dict[Driver, dict[str, RuleCell]] = field(default_factory=dict)

    @property
    def drivers(self) -> tuple[Driver, ...]:
        """The columns, in the order of the runs."""
        return tuple(self.cells)

    def add(self, run: RunHeader, results: Iterable[Result], *, name: str = "") -> None:
        """Add the results of a run; `name` stands for its driver."""
        rules = rules_of_cases()
        for result in results:
            numbers = rules.get(result.id, ())
            is_breach = result.status in _FAILED and not result.is_error
            evidence = Evidence.of(result, run.settings) if numbers and is_breach else None
            version = run.settings.driver(result.adapter)
            # Made for every result, so that a driver all of whose cases were skipped has its column too.
            cells = self.cells.setdefault(Driver(name or result.adapter, result.edition, version), {})
            for number in numbers:
                cell = cells.setdefault(number, RuleCell())
                if evidence is not None:
                    cell.failed.append(evidence)
                elif result.status in _PASSED:
                    cell.passed[result.id] += 1
                elif result.status is not ResultStatus.NOT_RUN:
                    cell.skipped[result.reason] += 1

    def cell(self, rule: Rule, driver: Driver) -> RuleCell:
        """Return what is known of a rule and a driver."""
        return self.cells[driver].get(rule.id) or RuleCell()

    def verdict(self, rule: Rule, driver: Driver) -> RuleVerdict:
        """Return what the results come to."""
        if rule.reason is not None or rule.id not in shown():
            return RuleVerdict.NOT_SHOWN
        return self.cell(rule, driver).verdict

    def differs(self, rule: Rule) -> bool:
        """Return whether some drivers keep the rule, and others break it."""
        verdicts = {self.verdict(rule, driver) for driver in self.drivers}
        return {RuleVerdict.KEPT, RuleVerdict.BROKEN} <= verdicts

    def counts(self, rules: Iterable[Rule], driver: Driver) -> Counter[RuleVerdict]:
        """Count the verdicts on a driver."""
        return Counter(self.verdict(rule, driver) for rule in rules)
