"""Expected and actual, side by side: what a reader of a failed assertion on events needs.

The matchers stop at the first divergence, as the format asks. Here what follows is aligned too, so that one
event too many does not make all that come after it look wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from harness.unified.matching.event_matcher import match_event, match_log
from harness.unified.model import ExpectedLog
from harness.unified.observation import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.adapters.base import Event
    from harness.unified.matching.matcher import Entities, Mismatch
    from harness.unified.model import ExpectedEvent, ExpectedEvents, ExpectedLogs

    Expected: TypeAlias = ExpectedEvent | ExpectedLog
    Differ: TypeAlias = Callable[[Expected, Event], Mismatch | None]

Verdict: TypeAlias = Literal["same", "differs", "missing", "extra"]

_COSTS = {"same": 0, "differs": 3, "missing": 2, "extra": 2}
"""An event that differs is likelier than one that is missing and another that is extra."""

_MOST = 200
"""How many events are aligned after the first divergence; more are no help to a reader."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An expected event, the actual one in its place, or both; `why` says how they differ."""

    verdict: Verdict
    expected: Expected | None
    actual: Event | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All events of one client that one list of expectations is about. What is ignored is left out."""

    client: str
    about: str
    pairs: tuple[Pair, ...]

    @property
    def diverges(self) -> bool:
        """Whether anything is other than expected."""
        return any(pair.verdict != "same" for pair in self.pairs)


def compare_events(expected: ExpectedEvents, events: Sequence[Event], entities: Entities) -> Comparison:
    """Align what a client observed with what was expected of it."""
    actual = [event for event in events if event.kind in KINDS[expected.event_type]]

    def differ(want: Expected, got: Event) -> Mismatch | None:
        return match_event(want, got, entities=entities)  # type: ignore[arg-type]  # the lists are of one kind

    pairs = align(expected.events, actual, differ, ignore_extra=expected.ignore_extra)
    return Comparison(expected.client, expected.event_type, pairs)


def compare_logs(expected: ExpectedLogs, messages: Sequence[Event], entities: Entities) -> Comparison:
    """Align what a client logged with what was expected of it."""

    def differ(want: Expected, got: Event) -> Mismatch | None:
        return match_log(want, got, entities=entities)  # type: ignore[arg-type]  # the lists are of one kind

    actual = [
        message
        for message in messages
        if all(differ(ignored, message) is not None for ignored in expected.ignored)
    ]
    pairs = align(expected.messages, actual, differ, ignore_extra=expected.ignore_extra)
    return Comparison(expected.client, "log", pairs)


def align(
    expected: Sequence[Expected],
    actual: Sequence[Event],
    differ: Differ,
    *,
    ignore_extra: bool,
) -> tuple[Pair, ...]:
    """Pair in order up to the first divergence, as the matchers do, and then as cheaply as possible.

    `differ` says how two events differ, with an empty path where they are of different kinds.
    """
    pairs: list[Pair] = []
    for want, got in zip(expected, actual, strict=False):
        if differ(want, got) is not None:
            break
        pairs.append(Pair("same", want, got))
    done = len(pairs)
    # From the first divergence on alone: the table grows with the product of both lengths, and what matched
    # needs none.
    rest = _cheapest(expected[done : done + _MOST], actual[done : done + _MOST], differ)
    # Extra ones at the end are allowed, so they would be shown as a difference that is none.
    if ignore_extra:
        while rest and rest[-1].verdict == "extra":
            rest.pop()
    return (*pairs, *rest)


def _cheapest(
    expected: Sequence[Expected],
    actual: Sequence[Event],
    differ: Differ,
) -> list[Pair]:
    """Return the alignment of least cost: the edit distance, walked back from its table."""
    table = [[Pair("same", None, None)] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    costs = [[0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    for row in range(len(expected), -1, -1):
        for column in range(len(actual), -1, -1):
            choices: list[tuple[int, Pair]] = []
            if row < len(expected) and column < len(actual):
                pair = _pair(expected[row], actual[column], differ)
                if pair is not None:
                    choices.append((_COSTS[pair.verdict] + costs[row + 1][column + 1], pair))
            if row < len(expected):
                lost = Pair("missing", expected[row], None)
                choices.append((_COSTS["missing"] + costs[row + 1][column], lost))
            if column < len(actual):
                added = Pair("extra", None, actual[column])
                choices.append((_COSTS["extra"] + costs[row][column + 1], added))
            if choices:
                costs[row][column], table[row][column] = min(choices, key=lambda choice: choice[0])
    row = column = 0
    pairs: list[Pair] = []
    # Forward through the table: it was filled from its end, so each cell already holds the best first step.
    while row < len(table) - 1 or column < len(table[0]) - 1:
        pair = table[row][column]
        pairs.append(pair)
        row += pair.expected is not None
        column += pair.actual is not None
    return pairs


def _pair(want: Expected, got: Event, differ: Differ) -> Pair | None:
    """Return how two events go together; None when they are of different kinds and so do not."""
    mismatch = differ(want, got)
    if mismatch is None:
        return Pair("same", want, got)
    name = got.fields.get("commandName") or got.fields.get("data", {}).get("message")
    # Two events of different commands are not one that differs, even where their kind is the same: one is
    # missing and the other extra.
    if _name_of_expected(want) not in (None, name) or not mismatch.path:
        return None
    return Pair("differs", want, got, str(mismatch))


def _name_of_expected(want: Expected) -> object:
    """Return what tells events of one kind apart: a command's name, a log's message; None if not asserted."""
    if isinstance(want, ExpectedLog):
        return want.data.get("message")
    return want.body.get("commandName") or next(iter(want.body.get("command", ())), None)
