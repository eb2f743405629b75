"""The report of a hunt for a terminal: the bugs in words, and what was tried in short.

Bugs come first and each ends with the line that repeats it; what follows tells how far the hunt came, and
what it did not compare, so that silence about a collection is not taken for approval. `told` is used by
`per_test` as well.
"""

from __future__ import annotations

from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from harness.hunt.hunting import statuses
from harness.hunt.results import repeating
from harness.hunt.wishes import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.hunt.findings import Bug, Trial
    from harness.hunt.hunting import Report
    from harness.hunt.places import Place

_WIDTH: Final = 100
_PLACES_MOST: Final = 12
_DENIED_MOST: Final = 4
_STATUSES: Final = ("failed", "reported", "held", "not reached")


def lines(report: Report, command: str) -> Iterator[str]:
    """Yield the lines of the report; `command` is the user's, for the lines that repeat a trial."""
    for number, bug in enumerate(report.confirmed, 1):
        yield from told(bug, repeating(bug, report, command), f"{number}. ")
        yield ""
    yield from _matrix(report)
    yield from _summary(report)


def told(bug: Bug, again: str, head: str = "") -> Iterator[str]:
    """Yield a bug in words; `again` is the line that repeats it."""
    yield f"{head}{bug.finding.kind.value} ({bug.rate})"
    said = "; ".join(bug.trial.judgement.story)
    for paragraph in (f"{said}.", f"{bug.finding.words}."):
        yield from wrap(paragraph, _WIDTH, initial_indent="   ", subsequent_indent="   ")
    if bug.others:
        yield f"   found by {len(bug.others)} other trials as well"
    yield f"   {again}"


def _matrix(report: Report) -> Iterator[str]:
    """Yield the matrix in short: how the trials of each place ended, and which faults failed there.

    Places with a failure come first; the page has all of them, with a column for each fault.
    """
    tried: dict[Place, list[Trial]] = {}
    for trial in report.trials:
        tried.setdefault(trial.strikes[0].place, []).append(trial)
    rows = [(place, Counter(each.judgement.status for each in trials)) for place, trials in tried.items()]
    rows.sort(key=lambda row: -row[1]["failed"])
    if rows:
        yield "".join(f"{each:>{len(each) + 2}}" for each in _STATUSES) + "  place"
    for place, counts in rows[:_PLACES_MOST]:
        failed = dict.fromkeys(
            " + ".join(strike.fault.name for strike in trial.strikes)
            for trial in tried[place]
            if trial.judgement.findings
        )
        names = f" ({', '.join(failed)})" if failed else ""
        numbers = "".join(f"{counts[each] or '':>{len(each) + 2}}" for each in _STATUSES)
        yield f"{numbers}  {place}{names}"
    if len(rows) > _PLACES_MOST:
        yield f"and {len(rows) - _PLACES_MOST} places more"
    yield ""


def _summary(report: Report) -> Iterator[str]:
    counts = statuses([trial.judgement for trial in report.trials])
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no trial"
    places = {strike.place for trial in report.trials for strike in trial.strikes}
    known = report.baseline.places
    more = f", and {len(places - known.keys())} that a fault brings" if places - known.keys() else ""
    left = max(0.0, report.wishes.budget - report.seconds)
    yield (
        f"hunt: {len(report.trials)} of {report.planned} trials in {report.seconds:.0f} s, {left:.0f} s left,"
        f" seed {report.wishes.seed}: {said}"
    )
    if (waiting := report.waiting) is not None:
        times = f"{waiting.median:.1f} s (median), {waiting.p99:.1f} s (p99)"
        longest = text_of(waiting.longest.strikes)
        yield f"waited longer than without a fault: {times}, most at {longest}"
    confirmed = len(report.confirmed)
    found = f"{confirmed or 'no'} bug{'s' * (confirmed > 1)} found"
    yield f"{len(places & known.keys())} of {len(known)} places tried{more}; {found}"
    yield from _denied(report)
    if mended := len(report.mended):
        yield f"{'1 trial' if mended == 1 else f'{mended} trials'} that failed in an earlier hunt now held"
    once = len(report.bugs) - len(report.confirmed)
    if once:
        yield f"{once} more failed once, and never again"
    notes = sorted({note for trial in report.trials for note in trial.judgement.notes})
    yield from (f"note: {note}" for note in notes)
    if report.baseline.apart:
        names = ", ".join(sorted(report.baseline.apart))
        yield f"compared by single fields, because clean runs combine them in other ways: {names}"
    if loose := [*report.baseline.loose, *report.baseline.loose_fields]:
        yield f"not compared, because clean runs differ: {', '.join(sorted(loose))}"
    if report.interrupted:
        yield "interrupted"


def _denied(report: Report) -> Iterator[str]:
    """Yield the places where an error was reported of what had been done, with the faults that did it."""
    denied: dict[str, list[str]] = {}
    for trial in report.trials:
        if trial.judgement.denied:
            place = " + ".join(str(strike.place) for strike in trial.strikes)
            denied.setdefault(place, []).append(" + ".join(strike.fault.name for strike in trial.strikes))
    if denied:
        count = sum(map(len, denied.values()))
        yield f"reported as an error, and done all the same: {count} trials; doing it again may do it twice:"
    for place, faults in list(denied.items())[:_DENIED_MOST]:
        yield f"  {place} ({', '.join(dict.fromkeys(faults))})"
    if len(denied) > _DENIED_MOST:
        yield f"  and {len(denied) - _DENIED_MOST} places more"
