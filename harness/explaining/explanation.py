"""The explanation of a result: line of the file, expected and actual values, timeline, likely causes.

The first part makes texts of values while the case is still there (`explained`, called by the executor),
because a `Result` crosses processes and files and holds nothing but texts. The second part makes lines of a
result (`explanation`), for the terminal, JUnit, GitHub and pytest, which cut and colour them differently.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from harness.explaining.journal import since
from harness.explaining.text import describe, one_line, shortened, shown, without_gossip
from harness.planning.result import ATTEMPTS, Row
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from harness.unified.matching.matcher import missing
from harness.unified.model import UNSET, Case, ExpectedLog
from harness.unified.server_side.comparison import AttemptComparison, SectionComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.explaining.journal import CaseTimeline
    from harness.explaining.seen_case import Cause
    from harness.formats.case import AnyCase
    from harness.planning.result import Result
    from harness.unified.account import Account
    from harness.unified.matching.comparison import Comparison
    from harness.unified.outcome import CaseOutcome
    from mongowire.documents.marks import Location


# The steps of a mismatch's path: `events[2].command.filter`.
_KEY: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_LISTED: Final = re.compile(r"^(events|messages)\[\d+\]\.?")
"""The part of a path before an event or a message, whose own location is known."""

_WHOLE: Final = re.compile(r"(events|messages)\[\d+\]")


def explained(
    result: Result,
    outcome: CaseOutcome,
    timeline: CaseTimeline,
    account: Account,
    causes: Sequence[Cause] = (),
    *,
    origin: float,
) -> Result:
    """Return a result with comparison, timeline and causes; `origin` is the instant of `at` 0."""
    began = origin if account.began is None else account.began
    ended = float("inf") if account.ended is None else account.ended
    return replace(
        result,
        comparison=tuple(row for each in outcome.comparisons for row in _rows(each)),
        timeline=timeline.moments(began=since(began, origin), ended=since(ended, origin)),
        causes=tuple(map(str, causes)),
        cause=causes[0].name if causes else "",
        rules=causes[0].rules if causes else (),
    )


def location_of(outcome: CaseOutcome, case: AnyCase) -> Location:
    """Return the line of the file that explains an outcome: that of the value that differs, if any."""
    location, mismatch = outcome.location or case.location, outcome.mismatch
    if mismatch is None or not location.field or not isinstance(case, Case):
        return location
    return _within(location, _keys(_LISTED.sub("", mismatch.path))) or location


def values_of(outcome: CaseOutcome) -> tuple[str | None, str | None]:
    """Return what was expected and what came instead, as text.

    Whole events that are other than expected are shown side by side and not here.
    """
    mismatch = outcome.mismatch
    if mismatch is None or (outcome.comparisons and _WHOLE.fullmatch(mismatch.path)):
        return None, None
    return _text(mismatch.expected), _text(mismatch.actual)


def _text(value: object) -> str | None:
    return None if value is UNSET or value is missing else one_line(value)


def _within(location: Location, keys: Sequence[str | int]) -> Location | None:
    """Look the end of a mismatch's path up in the file, below the event or operation at `location`.

    An event's fields stand below its kind, the value of a result below `expectResult`.
    """
    try:
        # Read from the file again, since cases keep no marks; only failures come here.
        marked = read(location.path)
        for key in _keys(location.field):
            marked = marked[key]
    except (ScenarioError, LookupError, TypeError):
        return None
    below = next((name for name in marked.value if name == "expectResult" or name.endswith("Event")), None)
    marked = marked if below is None else marked[below]
    return marked.locate(_known(marked.value, keys))


def _known(value: Any, keys: Sequence[str | int]) -> Sequence[str | int]:
    """Return the beginning of a path that the expected value has; the rest is in the actual one only."""
    for count, key in enumerate(keys):
        try:
            value = value[key]
        except (LookupError, TypeError):
            return keys[:count]
    return keys


def _keys(path: str) -> list[str | int]:
    return [int(index) if index else name for index, name in _KEY.findall(path)]


def _rows(comparison: Comparison | AttemptComparison | SectionComparison) -> Iterator[Row]:
    if isinstance(comparison, AttemptComparison):
        for attempt in comparison.rows():
            name = f"{comparison.commands}, operation {attempt.operation + 1}"
            yield Row(
                name,
                attempt.verdict,
                attempt.expected,
                attempt.actual,
                attempt.line,
                attempt.why,
                ATTEMPTS,
            )
        return
    if isinstance(comparison, SectionComparison):
        for row in comparison.rows():
            name, section = comparison.name, comparison.section
            yield Row(name, row.verdict, row.expected, row.actual, row.line, row.why, section)
        return
    for pair in comparison.pairs:
        expected = actual = None
        line = pair.expected.location.line if pair.expected else 0
        if isinstance(pair.expected, ExpectedLog):
            expected = f"{pair.expected.level} {pair.expected.component} {one_line(pair.expected.data)}"
        elif pair.expected is not None:
            expected = f"{pair.expected.kind} {describe(pair.expected.kind, pair.expected.body)}"
        if pair.actual is not None and "data" in (fields := pair.actual.fields):
            actual = f"{fields['level']} {fields['component']} {one_line(without_gossip(fields['data']))}"
        elif pair.actual is not None:
            actual = f"{pair.actual.kind} {describe(pair.actual.kind, pair.actual.fields)}"
        yield Row(comparison.client, pair.verdict, expected, actual, line, pair.why)


# The explanation of a failure in lines for people: location, mismatch, events side by side, causes.


_MARKS: Final = {"same": "=", "differs": "≠", "missing": "-", "extra": "+"}
_COLORS: Final = {"same": "green", "differs": "red", "missing": "red", "extra": "yellow"}
_AGREED_SHOWN: Final = 3
"""How many events that are as expected are shown before the first divergence."""

_ROWS_SHOWN: Final = 20
_VALUE_WIDTH: Final = 2000
_ROW_WIDTH: Final = 240


def explanation(
    result: Result, *, colored: bool = False, whole: bool = False, cut: bool = True
) -> Iterator[str]:
    """Yield the explanation of a failed result; with `whole`, also all events that are as expected.

    Without `cut`, long values and events are shown to their ends.
    """
    first, *others = result.reason.splitlines() or [""]
    location = shown(result.location)
    yield f"{click.style(location, bold=True) if colored else location}: {first}"
    yield from others
    if result.mismatch and result.mismatch not in result.reason:
        yield result.mismatch
    if result.expected is not None:
        expected = shortened(result.expected, _VALUE_WIDTH) if cut else result.expected
        yield f"  expected: {_in_color(expected, 'green', colored=colored)}"
    if result.actual is not None:
        actual = shortened(result.actual, _VALUE_WIDTH) if cut else result.actual
        yield f"  actual:   {_in_color(actual, 'red', colored=colored)}"
    yield from side_by_side(result.comparison, colored=colored, whole=whole, cut=cut)
    if result.causes:
        yield f"likely {'causes' if len(result.causes) > 1 else 'cause'}:"
        yield from (f"  {cause}" for cause in result.causes)
    if result.blame:
        yield result.blame


def side_by_side(
    rows: Sequence[Row], *, colored: bool = False, whole: bool = False, cut: bool = True
) -> Iterator[str]:
    """Yield expected and actual events, client by client, the first divergence marked."""
    for client, group in groupby(rows, key=lambda row: row.client):
        of_client = list(group)
        first = next((index for index, row in enumerate(of_client) if row.verdict != "same"), None)
        yield f"{of_client[0].about} of {client}, expected and actual:"
        # Some agreement before the first divergence shows where in the case it is.
        start = 0 if whole or first is None else max(0, first - _AGREED_SHOWN)
        if start:
            yield f"  … {start} as expected"
        end = None if whole else start + _ROWS_SHOWN
        for index, row in enumerate(of_client[start:end], start):
            yield from _row(_short(row) if cut else row, is_first=index == first, colored=colored)
        if end is not None and len(of_client) > end:
            yield f"  … {len(of_client) - end} more"


def _short(row: Row) -> Row:
    expected, actual = (text and shortened(text, _ROW_WIDTH) for text in (row.expected, row.actual))
    return row._replace(expected=expected, actual=actual)


def _row(row: Row, *, is_first: bool, colored: bool) -> Iterator[str]:
    color = _COLORS[row.verdict]
    arrow = "→" if is_first else " "
    line = f"  (line {row.line})" if row.line else ""
    head = f"{arrow} {_MARKS[row.verdict]} "
    if row.verdict == "same":
        yield _in_color(f"{head}{row.actual}", color, colored=colored)
        return
    if row.expected is not None:
        yield _in_color(f"{head}expected {row.expected}{line}", color, colored=colored)
        head = "    "
    if row.actual is not None:
        words = {"extra": "extra    ", "differs": "actual   "}
        yield _in_color(f"{head}{words[row.verdict]}{row.actual}", color, colored=colored)
    if row.why:
        yield _in_color(f"    {row.why}", color, colored=colored)


def _in_color(text: str, color: str, *, colored: bool) -> str:
    return click.style(text, fg=color) if colored else text
