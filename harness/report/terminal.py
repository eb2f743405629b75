"""The report of a run for people: tables, reasons of skipped cases, failures, and a last line with totals.

Everything is made of lines with ANSI styles; the caller strips them where they are not wanted.

`report` is the order of the whole: tables, then what did not run and why, then failures, since a terminal
shows the end first. `failure` is one failure, `account` one case in full for `pushbackd explain`. How long
each part may be depends on the verbosity and on constants below, which keep the report of thousands of cases
readable without `-v`.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from harness.deployments.targets import is_by_uri
from harness.explaining.explanation import explanation, side_by_side
from harness.explaining.journal import fits_two_columns, two_columns
from harness.explaining.text import folded, shown, times
from harness.planning.result import Result, ResultStatus, Tally
from harness.report import skips
from harness.report.diagnosis import behaves_like, failure_groups
from harness.report.fitting import columns
from harness.report.rerun import explain_command, rerun_command
from harness.report.rules.rulebook import rules, rules_of_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from harness.planning.plan import Settings
    from harness.report.diagnosis import FailureGroup

_COLORS = {
    ResultStatus.PASSED: "green",
    ResultStatus.FAILED: "red",
    ResultStatus.SKIPPED: "yellow",
    ResultStatus.KNOWN_FAILING: "yellow",
    ResultStatus.UNEXPECTED_PASS: "red",
    ResultStatus.NOT_RUN: "yellow",
}
_COLUMNS = tuple(ResultStatus)
_FILES_SHOWN = 30
"""How many files of a run have a row each; of more, their specifications do, in every table."""

# Lines; each has a fail point, a case and its deployment.
_NEVER_MET_SHOWN = 8
_MOMENTS_SHOWN = 60
_TIMELINES_SHOWN = 5
"""After so many failures, timelines bury the messages; `pushbackd explain` shows any of them."""


class Style(NamedTuple):
    """The amount printed: `verbosity` is -1 (quiet), 0, or 1 (every case); `durations` a number of cases."""

    verbosity: int = 0
    durations: int = 0


def case_line(result: Result) -> str:
    """Return one line on one case."""
    word = click.style(result.status.value.upper().ljust(len("UNEXPECTED-PASS")), fg=_COLORS[result.status])
    why = (
        f"  ({_first_line(result.reason)})"
        if result.reason and result.status is not ResultStatus.PASSED
        else ""
    )
    runs = f"  (run {result.runs})" if result.runs > 1 else ""
    return f"{word} {result.id}  [{result.adapter}, {result.topology}] {result.duration_ms:.0f} ms{runs}{why}"


def report(results: Sequence[Result], settings: Settings, style: Style) -> Iterator[str]:
    """Return the report of a run, line by line, without the summary."""
    if style.verbosity >= 0:
        # Of all tables together, so that all have rows of one kind.
        few = len({result.group for result in results}) <= _FILES_SHOWN
        for (adapter, edition, topology), group in groupby(
            results, key=lambda result: (result.adapter, result.edition, result.topology)
        ):
            yield click.style(f"{headline(adapter, edition, settings)} on {topology}", bold=True)
            yield from _table(list(group), settings.time, few=few, verbosity=style.verbosity)
            yield ""
        whole = style.verbosity > 0
        yield from _skipped(results, whole=whole)
        yield from _late(results)
        yield from _reasons("Known to fail", results, ResultStatus.KNOWN_FAILING, whole=whole)
        yield from _reasons("Not run", results, ResultStatus.NOT_RUN, whole=whole)
    if style.durations:
        yield click.style(f"The longest cases, in {settings.time} time", bold=True)
        longest = sorted(results, key=lambda result: -result.duration_ms)[: style.durations]
        yield from (f"  {result.duration_ms / 1000:8.3f} s  {result.id}" for result in longest)
        yield ""
    failed = [each for each in results if each.status in (ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS)]
    for index, failures in enumerate(failure_groups(failed)):
        yield from _group(failures, settings, style, with_timeline=index < _TIMELINES_SHOWN)
    yield from _likenesses(results)
    yield from _rules_of(failed)


def script_lines(results: Iterable[Result], settings: Settings) -> Iterator[str]:
    """Yield the verdict on what servers were told to do: by a scenario for them, or by the cases themselves.

    Of a scenario it says what happened in the cases, and what in none; of the fail points of cases that
    passed, those that no request met: such a case has not tested what it says.
    """
    cases = [result for result in results if result.script]
    if not settings.server_scenario:
        yield from _fail_point_lines([each for each in cases if each.status is ResultStatus.PASSED])
        return
    counts: Counter[str] = Counter()
    never: dict[str, str] = {}
    for name, hits, what in (each for result in cases for each in result.script):
        counts[name] += hits
        never[name] = what or never.get(name, "")
    steps = [f"{_number_of(counts['steps'], 'step')} performed"] if counts["steps"] else []
    met = [f"{name} {times(count)}" for name, count in counts.items() if count and name != "steps"]
    head = [*steps, *([f"met {', '.join(met)}"] if met else [])]
    missing = [never[name] for name, count in counts.items() if not count]
    if missing:
        head.append(f"{len(missing)} never met")
    where = f"{settings.server_scenario} in {_number_of(len(cases), 'case')}"
    yield f"verdict on {where}: {'; '.join(head) or 'nothing of it happened'}"
    for what in missing:
        yield click.style(f"  never met in any case: {what}", fg="yellow")


def _fail_point_lines(cases: Sequence[Result]) -> Iterator[str]:
    uses = [(hits, what, case) for case in cases for _, hits, what in case.script]
    if not uses:
        return
    never = dict.fromkeys(
        f"{what}, in {case.id}  [{case.adapter}, {case.topology}]" for hits, what, case in uses if not hits
    )
    head = f"{_number_of(sum(hits > 0 for hits, _, _ in uses), 'fail point')} met"
    told = f"; {len(never)} never met" if never else ""
    yield f"verdict on {_number_of(len(cases), 'case')} with fail points that passed: {head}{told}"
    shown = list(never)[:_NEVER_MET_SHOWN]
    yield from (click.style(f"  never met: {what}", fg="yellow") for what in shown)
    if len(never) > len(shown):
        yield click.style(f"  … {len(never) - len(shown)} more never met", fg="yellow")


def _number_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def headline(adapter: str, edition: str, settings: Settings) -> str:
    """Return what a driver is called over its results: `node (nodejs 7.9.0, edition 2026-07-08)`."""
    return f"{adapter} ({', '.join(filter(None, (settings.driver(adapter), f'edition {edition}')))})"


def summary(tally: Tally, settings: Settings, *, seconds: float, notes: Iterable[str] = ()) -> str:
    """Return the last line of a run."""
    counted = (
        click.style(f"{count} {status.value}", fg=_COLORS[status], bold=True)
        for status, count in tally.counts.items()
        if count
    )
    counts = ", ".join(counted) or click.style("no cases", fg="yellow", bold=True)
    text = f"{counts} in {seconds:.2f} s ({settings.time} time, seed {settings.seed})"
    return ", ".join((text, *notes))


def _table(results: Sequence[Result], time: str, *, few: bool, verbosity: int) -> Iterator[str]:
    used = [status for status in _COLUMNS if status is ResultStatus.PASSED or Tally.of(results)[status]]
    rows = list(_rows(results, few=few, verbosity=verbosity))
    width = max(len(name) for name, _ in rows)
    # In virtual time a case may last for an hour while the run takes a second: the column says which it is.
    head = "virtual time" if time == "virtual" else "     time"
    yield "  " + "  ".join(["scenarios".ljust(width), *(status.value for status in used), head])
    for name, group in rows:
        tally = Tally.of(group)
        cells = [
            click.style(str(count).rjust(len(status.value)), fg=_COLORS[status])
            if (count := tally[status])
            else click.style("·".rjust(len(status.value)), dim=True)
            for status in used
        ]
        seconds = sum(result.duration_ms for result in group) / 1000
        yield "  " + "  ".join([name.ljust(width), *cells, f"{seconds:{len(head) - 2}.2f} s"])


def _rows(results: Sequence[Result], *, few: bool, verbosity: int) -> Iterator[tuple[str, Sequence[Result]]]:
    """Yield the rows of a table: a few files, or else specifications, with their files if that is wanted."""
    if few:
        yield from _grouped(results, lambda result: result.group).items()
        return
    for specification, group in by_specification(results).items():
        yield specification, group
        if verbosity > 0:
            yield from (
                (f"  {name.removeprefix(f'{specification}/')}", of_file)
                for name, of_file in _grouped(group, lambda result: result.group).items()
            )


def by_specification(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return results by specification, in their order."""
    return _grouped(results, lambda result: result.specification)


def _grouped(results: Iterable[Result], name_of: Callable[[Result], str]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(name_of(result), []).append(result)
    return groups


def _skipped(results: Sequence[Result], *, whole: bool) -> Iterator[str]:
    """Yield the table of skips: each reason with the number of its cases, on however many deployments."""
    ids = [result.id for result in results if result.status is ResultStatus.SKIPPED]
    if ids:
        cases = len(set(ids))
        often = f" cases, {len(ids)} times" if len(ids) > cases else ""
        yield click.style(f"Skipped: {cases}{often}", bold=True)
        yield from skips.lines(results, whole=whole)
        yield ""


def _late(results: Sequence[Result]) -> Iterator[str]:
    """Yield the cases that did not pass at once."""
    late = [each for each in results if each.status is ResultStatus.PASSED and each.runs > 1]
    if late:
        yield click.style(f"Passed when they ran again: {len(late)}", bold=True)
        yield from (f"  {each.id}  [{each.adapter}, {each.topology}] at run {each.runs}" for each in late)
        yield ""


def _reasons(title: str, results: Sequence[Result], status: ResultStatus, *, whole: bool) -> Iterator[str]:
    counted = Counter(_first_line(result.reason) for result in results if result.status is status)
    if counted:
        yield click.style(f"{title}: {counted.total()}", bold=True)
        yield from skips.counted_lines(dict(counted.most_common()), whole=whole)
        yield ""


def account(result: Result, settings: Settings) -> Iterator[str]:
    """Yield the full account of one case, passed or not, line by line."""
    yield from _head(result)
    if result.status is ResultStatus.PASSED:
        yield f"  at {shown(result.location)}"
        rows = side_by_side(result.comparison, colored=True, whole=True, cut=not settings.wire)
        yield from _indented(rows)
    else:
        yield from _indented(explanation(result, colored=True, whole=True, cut=not settings.wire))
    yield from _indented(_timeline(result, most=len(result.timeline), whole=settings.wire))
    driver = headline(result.adapter, result.edition, settings)
    yield f"  {result.duration_ms:g} ms of {settings.time} time, seed {settings.seed}; {driver}"


def _head(result: Result) -> Iterator[str]:
    word = click.style(result.status.value.upper(), fg=_COLORS[result.status], bold=True)
    yield f"{word} {result.id}  [{result.adapter}, {result.topology}]"


def failure(result: Result, settings: Settings, *, moments: int) -> Iterator[str]:
    """Yield the report of a failure, line by line, with the last `moments` lines of its timeline."""
    yield from _head(result)
    yield from _indented(explanation(result, colored=True, cut=not settings.wire))
    if shows := rules_of_cases().get(result.id):
        yield f"  shows: {', '.join(shows)}"
    if result.timeline and moments:
        yield from _indented(_timeline(result, most=moments, whole=settings.wire))
    elif result.timeline:
        yield "  timeline: left out; -v shows it"
    elif result.status is ResultStatus.FAILED:
        yield "  timeline: nothing was observed"
    if result.status is ResultStatus.FAILED and (explaining := explain_command(result, settings)):
        yield "  explain: " + click.style(explaining, dim=True)
    yield "  again: " + click.style(rerun_command(result, settings), dim=True)
    yield ""


def _group(group: FailureGroup, settings: Settings, style: Style, *, with_timeline: bool) -> Iterator[str]:
    """Yield one block for failures with one cause: the best example, and the others by name."""
    if style.verbosity > 0:
        for result in (group.best, *group.others):
            yield from failure(result, settings, moments=len(result.timeline))
        return
    moments = _MOMENTS_SHOWN if style.verbosity == 0 and with_timeline else 0
    yield from failure(group.best, settings, moments=moments)
    if group.others:
        cause = f"the same cause, {group.cause}" if group.cause else "the same reason"
        rules = f" [{', '.join(group.rules)}]" if group.rules else ""
        yield click.style(f"  {len(group.others)} more with {cause}{rules}; -v shows them:", bold=True)
        yield from (f"    {each.id}  [{each.adapter}, {each.topology}]" for each in group.others)
        yield ""


def _likenesses(results: Sequence[Result]) -> Iterator[str]:
    """Yield the wrong drivers of the catalogue whose pattern of red cases a driver has."""
    for adapter, of_adapter in _grouped(results, lambda result: result.adapter).items():
        alike = behaves_like(of_adapter)
        if alike:
            names = " and ".join(f'"{each.driver.name}"' for each in alike)
            yield click.style(f"{adapter} behaves like {names} (docs/MUTANTS.md)", bold=True)
            for driver, twins in alike:
                yield f"  {driver.rule}: {driver.wrong}"
                if twins:
                    others = ", ".join(f'"{twin.name}"' for twin in twins)
                    yield f"    no case of this run tells it from {others}"
            yield ""


def _rules_of(failed: Sequence[Result]) -> Iterator[str]:
    """Yield the rules that the failed cases show, those of the most cases first."""
    ids = dict.fromkeys(each.id for each in failed if each.status is ResultStatus.FAILED)
    counted = Counter(rule for case_id in ids for rule in rules_of_cases().get(case_id, ()))
    if counted:
        yield click.style(f"Rules that failed cases show: {len(counted)}", bold=True)
        for number, count in counted.most_common():
            rule = rules()[number]
            yield f"  {count:5} x {number} {', '.join(rule.keywords)}: {rule.text}"
        yield ""


def _timeline(result: Result, *, most: int, whole: bool) -> Iterator[str]:
    moments = result.timeline if whole else folded(result.timeline).moments
    if not moments:
        return
    rest = f" (the last {most} of {len(moments)})" if most < len(moments) else ""
    width = columns()
    room = None if width is None else width - len(_INDENT)
    sides = "clients (left) and servers (right)" if fits_two_columns(room) else "clients (C) and servers (S)"
    heading = (
        "events of clients, in seconds; servers by URI keep no journal"
        if is_by_uri(result.topology)
        else f"events of {sides}, in seconds"
    )
    yield f"{heading}{rest}:"
    # The last ones: what went wrong is nearer to the end.
    yield from two_columns(moments[-most:], whole=whole, width=room)


_INDENT: Final = "  "


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_INDENT}{line}" for line in lines)


def _first_line(reason: str) -> str:
    return reason.partition("\n")[0]
