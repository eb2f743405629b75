"""What explains a result: where in the file, expected beside actual, the timeline, the likely causes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.report.journal import since
from harness.report.text import one_line, shortened, told, without_gossip
from harness.result import Row
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from harness.unified.matcher import missing
from harness.unified.model import UNSET, Case, ExpectedLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.formats.reading import AnyCase
    from harness.report.journal import Timeline
    from harness.result import Result
    from harness.unified.account import Account
    from harness.unified.comparison import Comparison, Pair
    from harness.unified.model import ExpectedEvent, Location
    from harness.unified.outcome import Outcome

_VALUE_WIDTH: Final = 2000
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_LISTED: Final = re.compile(r"^(events|messages)\[\d+\]\.?")
"""What stands before the path within an event or a message, whose own place is known."""

_WHOLE: Final = re.compile(r"(events|messages)\[\d+\]")


def explained(
    result: Result,
    outcome: Outcome,
    timeline: Timeline,
    account: Account,
    causes: Sequence[str] = (),
    *,
    origin: float,
) -> Result:
    """Return a result with all that is known of how it came about; `origin` is the instant of `at` 0."""
    began = origin if account.began is None else account.began
    ended = float("inf") if account.ended is None else account.ended
    return replace(
        result,
        comparison=tuple(row for each in outcome.comparisons for row in _rows(each)),
        timeline=timeline.moments(began=since(began, origin), ended=since(ended, origin)),
        causes=tuple(causes),
    )


def place_of(outcome: Outcome, case: AnyCase) -> Location:
    """Return the place in the file that explains an outcome: of the value that differs, if there is one."""
    place, mismatch = outcome.location or case.location, outcome.mismatch
    if mismatch is None or not place.field or not isinstance(case, Case):
        return place
    return _within(place, _steps(_LISTED.sub("", mismatch.path))) or place


def values_of(outcome: Outcome) -> tuple[str | None, str | None]:
    """Return what was expected and what came instead, as text.

    Whole events that are other than expected are shown side by side and not here.
    """
    mismatch = outcome.mismatch
    if mismatch is None or (outcome.comparisons and _WHOLE.fullmatch(mismatch.path)):
        return None, None
    return _said(mismatch.expected), _said(mismatch.actual)


def _said(value: object) -> str | None:
    return None if value is UNSET or value is missing else shortened(one_line(value), _VALUE_WIDTH)


def _within(place: Location, steps: Sequence[str | int]) -> Location | None:
    """Look the end of a mismatch's path up in the file, below the event or operation at `place`.

    An event's fields stand below its kind, the value of a result below `expectResult`.
    """
    try:
        marked = read(place.path)
        for step in _steps(place.field):
            marked = marked[step]
    except (ScenarioError, LookupError, TypeError):
        return None
    below = next((name for name in marked.value if name == "expectResult" or name.endswith("Event")), None)
    marked = marked if below is None else marked[below]
    return marked.locate(_known(marked.value, steps))


def _known(value: Any, steps: Sequence[str | int]) -> Sequence[str | int]:
    """Return the beginning of a path that the expected value has; the rest is only in the actual one."""
    for count, step in enumerate(steps):
        try:
            value = value[step]
        except (LookupError, TypeError):
            return steps[:count]
    return steps


def _steps(path: str) -> list[str | int]:
    return [int(index) if index else name for index, name in _STEP.findall(path)]


def _rows(comparison: Comparison) -> Iterator[Row]:
    for pair in comparison.pairs:
        line = pair.expected.location.line if pair.expected else 0
        expected = _expectation(pair.expected) if pair.expected else None
        yield Row(comparison.client, pair.verdict, expected, _actual(pair), line, pair.why)


def _expectation(expected: ExpectedEvent | ExpectedLog) -> str:
    if isinstance(expected, ExpectedLog):
        return shortened(f"{expected.level} {expected.component} {one_line(expected.data)}")
    return shortened(f"{expected.kind} {told(expected.kind, expected.body)}")


def _actual(pair: Pair) -> str | None:
    if pair.actual is None:
        return None
    if "data" in pair.actual.fields:
        fields = pair.actual.fields
        return shortened(
            f"{fields['level']} {fields['component']} {one_line(without_gossip(fields['data']))}"
        )
    return shortened(f"{pair.actual.kind} {told(pair.actual.kind, pair.actual.fields)}")
