"""The diagnosis of a run: failures by their cause, and the wrong drivers that fail the same cases.

The terminal's report asks both questions of all failures of a run. The first has no model: failures with the
same cause, or else with the same words, are one block. The second compares the pattern of red and green cases
with the matrix of `harness.explaining.kill_matrix`, in which each wrong driver has the cases that it fails.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.explaining.kill_matrix import wrong_drivers
from harness.planning.result import Result, ResultStatus
from harness.report.rules.rulebook import rules_of_cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.explaining.kill_matrix import WrongDriver

_PARTICULAR: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.,:]*")
"""What differs from case to case in a sentence: names in quotes, numbers, addresses."""

_CONTRADICTION: Final = 2
"""How many red cases one green one outweighs, that a wrong driver would fail."""

_MOST: Final = 3
"""How many wrong drivers are named at most: a pattern of more is none."""


class FailureGroup(NamedTuple):
    """Failures with one cause: what it is, the rules that it breaks, the best example, and the others.

    `rules` are those that forbid what was done, or else those that the cases show.
    """

    cause: str
    rules: tuple[str, ...]
    best: Result
    others: tuple[Result, ...]


def failure_groups(failed: Iterable[Result]) -> tuple[FailureGroup, ...]:
    """Group failures by driver, cause and rules, in the order of their first cases.

    What has no likely cause is grouped by its reason, without what is particular to a case.
    """
    found: dict[tuple[object, ...], list[Result]] = {}
    for result in failed:
        key = (
            result.adapter,
            result.status,
            result.cause or _PARTICULAR.sub("…", result.reason.partition("\n")[0]),
            _rules(result),
        )
        found.setdefault(key, []).append(result)
    return tuple(_group(results) for results in found.values())


def _group(results: Sequence[Result]) -> FailureGroup:
    best = min(results, key=_unclear)
    others = tuple(result for result in results if result is not best)
    return FailureGroup(best.cause, _rules(best), best, others)


def _unclear(result: Result) -> tuple[bool, bool, int]:
    """Return the key by which the best example is the least: with both sides, and a short timeline."""
    return not result.comparison, not result.timeline, len(result.timeline)


def _rules(result: Result) -> tuple[str, ...]:
    return result.rules or rules_of_cases().get(result.id, ())


class Likeness(NamedTuple):
    """A wrong driver that explains red cases, and its twins, which no case of the run tells from it."""

    driver: WrongDriver
    twins: tuple[WrongDriver, ...] = ()


def behaves_like(
    results: Sequence[Result], catalogue: Sequence[WrongDriver] | None = None
) -> tuple[Likeness, ...]:
    """Return the wrong drivers of the catalogue whose failures together are most like those of one driver.

    A wrong driver counts by the red cases that it alone explains, less twice the green ones that it would
    fail; each that is chosen has to explain at least two more, or all that are left. Among equals a cause
    that was found decides, then its rule, then the fewer cases.
    """
    drivers = wrong_drivers() if catalogue is None else catalogue
    telling = frozenset(case for driver in drivers for case in driver.fails)
    red, green = set[str](), set[str]()
    for result in results:
        # Cases whose adapter was lost are neither red nor green: they say nothing of the driver.
        if result.status is ResultStatus.FAILED and not result.is_error:
            red.add(result.id)
        elif result.status in (ResultStatus.PASSED, ResultStatus.UNEXPECTED_PASS):
            green.add(result.id)
    red, green = red & telling, (green - red) & telling
    ran = red | green
    causes = {result.cause for result in results}
    rules = {rule for result in results for rule in result.rules}

    def likeness(driver: WrongDriver) -> tuple[int, bool, bool, int]:
        return _gain(driver, red, green), driver.name in causes, driver.rule in rules, -len(driver.fails)

    chosen: list[Likeness] = []
    while red and len(chosen) < _MOST:
        best = max(drivers, key=likeness)
        explained = best.fails & red
        # One red case alone is explained by too many wrong drivers, unless it is all that is left.
        if _gain(best, red, green) <= 0 or len(explained) < min(2, len(red)):
            break
        same = (driver for driver in drivers if driver.fails & ran == best.fails & ran)
        chosen.append(Likeness(best, tuple(driver for driver in same if driver is not best)))
        # What is explained is taken away: the next one has to explain what this one does not.
        red -= explained
    return tuple(chosen)


def _gain(driver: WrongDriver, red: set[str], green: set[str]) -> int:
    return len(driver.fails & red) - _CONTRADICTION * len(driver.fails & green)
