"""The lab's report: text for people, JSON Lines for programs, and properties in JUnit for CI servers."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from harness.planning.result import ResultStatus
from harness.report import terminal
from harness.report.rerun import rerun_command
from harness.running.flake_lab.cases import PassRate
from harness.world.schedule import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.planning.plan import Settings
    from harness.running.flake_lab.cases import FlakyFailure, RepeatedCase

_COLORS: Final = {ResultStatus.PASSED: "green", ResultStatus.KNOWN_FAILING: "yellow"}
_REASONS_SHOWN: Final = 5


def report_lines(cases: Sequence[RepeatedCase], settings: Settings, style: terminal.Style) -> Iterator[str]:
    """Return the report for people, line by line, without the summary."""
    if style.verbosity >= 0:
        for (adapter, edition, topology), group in groupby(
            cases, key=lambda case: (case.item.adapter, case.item.edition, case.item.topology)
        ):
            yield click.style(f"{terminal.headline(adapter, edition, settings)} on {topology}", bold=True)
            yield from _table(list(group), every=style.verbosity > 0)
            yield ""
    for case in cases:
        if case.result.status is ResultStatus.FAILED:
            yield from _failure(case, settings, whole=style.verbosity > 0)
        elif case.result.status is ResultStatus.UNEXPECTED_PASS:
            yield from terminal.failure(case.result, settings, moments=0)


def document(case: RepeatedCase, settings: Settings) -> dict[str, Any]:
    """Return the document of a case, for programs."""
    result = case.result
    facts: dict[str, Any] = {
        "id": result.id,
        "status": result.status.value,
        "reason": result.reason,
        "topology": result.topology,
        "adapter": result.adapter,
        "driver": settings.driver(result.adapter),
        "edition": result.edition,
    }
    if case.is_skipped:
        return facts
    low, high = case.rate.interval
    facts |= {
        "runs": case.rate.runs,
        "passed": case.rate.passed,
        "rate": case.rate.rate,
        "interval": [low, high],
    }
    if case.first is not None:
        facts |= {
            "reasons": dict(case.reasons.most_common()),
            "first_failing_seed": case.first.item.seed,
            "schedule": case.first.item.schedule,
        }
    if (found := case.smallest) is not None:
        facts["smallest"] = {
            "schedule": found.item.schedule,
            "failed": found.failed,
            "runs": found.runs,
            "command": rerun_command(found.result, settings),
        }
    return facts


def json_line(case: RepeatedCase, settings: Settings) -> str:
    """Return the same as one line of JSON."""
    return json.dumps(document(case, settings), ensure_ascii=False)


def properties(case: RepeatedCase) -> dict[str, str]:
    """Return the properties of a case in a JUnit report: pass rate, seed and schedule."""
    if case.is_skipped:
        return {}
    low, high = case.rate.interval
    rate = {"runs": str(case.rate.runs), "passed": str(case.rate.passed), "rate": f"{case.rate.rate:.4f}"}
    facts = rate | {"interval": f"{low:.4f} to {high:.4f}"}
    shown = case.smallest or case.first
    if shown is not None:
        facts |= {"seed": str(shown.item.seed)}
        facts |= {} if shown.item.schedule is None else {"schedule": shown.item.schedule}
    return facts


def _table(cases: Sequence[RepeatedCase], *, every: bool) -> Iterator[str]:
    """Yield a row for each case that did not always pass, or for every one, and a line on the others."""
    ran = [case for case in cases if not case.is_skipped]
    shown = [case for case in ran if every or case.result.status is not ResultStatus.PASSED]
    if shown:
        width = max(len(case.item.id) for case in shown)
        yield f"  {'case'.ljust(width)}   runs  passed    rate  95% interval"
        for case in shown:
            rate, (low, high), result = case.rate, case.rate.interval, case.result
            numbers = f"{rate.runs:5}  {rate.passed:6}  {rate.rate:6.1%}  {low:.1%} to {high:.1%}"
            known = f"  ({result.reason})" if result.status is ResultStatus.KNOWN_FAILING else ""
            row = f"{case.item.id.ljust(width)}  {numbers}"
            yield f"  {click.style(row, fg=_COLORS.get(result.status, 'red'))}{known}"
    silent = Counter(case.rate.runs for case in ran if case not in shown)
    for runs, count in silent.items():
        least = PassRate(runs, runs).interval[0]
        every_run = f"all of {runs} runs" if runs > 1 else "one run"
        yield f"  {_count(count, 'case')} passed in {every_run}: {least:.1%} or more, with 95% confidence"
    if len(ran) < len(cases):
        yield f"  {_count(len(cases) - len(ran), 'case')} skipped"


def _failure(case: RepeatedCase, settings: Settings, *, whole: bool) -> Iterator[str]:
    """Yield how often a case failed and why, the smallest schedule, and that failure in full."""
    assert case.first is not None, "a case that failed has a first failure"
    result, failed = case.result, case.counts[ResultStatus.FAILED]
    word = click.style(f"FAILED in {failed} of {_count(case.rate.runs, 'run')}", fg="red", bold=True)
    yield f"{word}: {result.id}  [{result.adapter}, {result.topology}]"
    first = f"the first that failed had seed {case.first.item.seed}"
    low, high = case.rate.interval
    yield f"  {case.rate.rate:.1%} passed: {low:.1%} to {high:.1%} with 95% confidence; {first}"
    yield from (f"  {count:5} x {reason}" for reason, count in case.reasons.most_common(_REASONS_SHOWN))
    if len(case.reasons) > _REASONS_SHOWN:
        yield f"        {_count(len(case.reasons) - _REASONS_SHOWN, 'other reason')}"
    if case.smallest is not None:
        yield from _smallest(case.smallest, case.tried)
    elif case.tried:
        yield "  With the first failure's schedule it did not fail again."
    shown = case.smallest or case.first
    moments = len(shown.result.timeline) if whole else 0
    yield from list(terminal.failure(shown.result, settings, moments=moments))[1:]


def _smallest(found: FlakyFailure, tried: int) -> Iterator[str]:
    how_often = f"fails in {found.failed} of {found.runs}" if found.runs > 1 else "fails"
    schedule = parse(found.item.schedule or "")
    if not schedule:
        yield f"  It {how_often} with that seed and without any perturbation."
        return
    yield f"  The smallest schedule of {tried} that were tried {how_often}:"
    met = dict(line.partition("  ")[::2] for line in found.result.disturbed)
    width = max(len(str(each)) for each in schedule.perturbations)
    for each in schedule.perturbations:
        what = f" ({met[str(each)]})" if met.get(str(each)) else ""
        yield f"    {click.style(str(each).ljust(width), bold=True)}  {each.described()}{what}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
