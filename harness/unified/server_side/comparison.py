"""Expected attempts beside those that servers saw, operation by operation, for a reader of a failure.

Rows are computed by the judge's own functions (`expected_of`, `differs`), so that what is marked is what
failed the case. Of many operations only the one that differs is shown, or the first few: a loop of a hundred
would hide it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bson import json_util

from harness.unified.matching.matcher import missing
from harness.unified.server_side.attempts import differs, expected_of, in_ms, milliseconds
from harness.unified.server_side.model import GapRule
from harness.unified.server_side.rules import attempts_expected, gap_expected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.attempts import Divergence, Facts, SeenOperation
    from harness.unified.server_side.model import ExpectedAttempt, ExpectedAttempts


_SHOWN = 5
"""How many operations are shown where none is the one that differs."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An expected attempt beside the one that was seen; None where there is no such attempt."""

    operation: int
    verdict: Literal["same", "differs", "missing", "extra"]
    expected: str | None
    actual: str | None
    line: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class AttemptComparison:
    """One element of `expectAttempts` beside the operations that it is about.

    `sent` is how many commands of these names clients sent, whether or not the element selects them.
    """

    expected: ExpectedAttempts
    operations: tuple[SeenOperation, ...]
    facts: Facts
    divergence: Divergence | None
    sent: int = 0

    @property
    def client(self) -> str:
        """No client's events are compared here."""
        return ""

    @property
    def diverges(self) -> bool:
        """Whether anything is other than expected."""
        return self.divergence is not None

    @property
    def commands(self) -> str:
        """The commands in words."""
        return " or ".join(self.expected.commands)

    def rows(self) -> Iterator[AttemptRow]:
        """Yield a row for each attempt: of the operation that differs, or of the first ones."""
        chosen = None if self.divergence is None else self.divergence.operation
        for index, operation in enumerate(self.operations):
            if index == chosen or (chosen is None and index < _SHOWN):
                yield from self._rows(index, operation.attempts)

    def _rows(self, index: int, attempts: Sequence[JudgedAttempt]) -> Iterator[AttemptRow]:
        least, most = _number(self.expected, attempts, self.facts)
        # Rows for attempts that did not come, up to the least number that would do.
        total = max(len(attempts), least)
        for number in range(total):
            listed = expected_of(self.expected, number, total)
            line = listed[0].location.line if listed else 0
            if number >= len(attempts):
                text = described(listed, self.facts) or "another attempt"
                yield AttemptRow(index, "missing", text, None, line)
            elif number >= most:
                yield AttemptRow(index, "extra", None, seen(attempts[number]))
            else:
                yield self._row(index, attempts, number, listed)

    def _row(
        self, index: int, attempts: Sequence[JudgedAttempt], number: int, listed: Sequence[ExpectedAttempt]
    ) -> AttemptRow:
        text = described(listed, self.facts, attempts, number)
        for wanted in listed:
            found = differs(wanted, attempts, number, self.facts)
            if found is not None:
                why, line = str(found), wanted.location.line
                return AttemptRow(index, "differs", text, seen(attempts[number]), line, why)
        line = listed[0].location.line if listed else 0
        return AttemptRow(index, "same", text, seen(attempts[number]), line)


def _number(expected: ExpectedAttempts, attempts: Sequence[JudgedAttempt], facts: Facts) -> tuple[int, int]:
    """Return the least and the greatest number of attempts; what was seen, where nothing is expected."""
    here = len(attempts)
    if expected.count is not None:
        options = facts.uri_options(attempts[0].request.app_name)
        count = attempts_expected(expected.count, facts.edition, options)
        return (int(count.least) if isfinite(count.least) else 0), (
            int(count.most) if isfinite(count.most) else here
        )
    number = here if expected.attempts is None else len(expected.attempts)
    return number, number


def seen(attempt: JudgedAttempt) -> str:
    """Return an attempt as servers saw it: gap, command, how it ended, and where."""
    request = attempt.request
    gap = "" if attempt.gap is None else f"+{milliseconds(attempt.gap.least)}  "
    place = f"{request.server} ({request.role}), connection {request.connection}"
    return f"{gap}{request.name} → {attempt.met}  on {place}"


def described(
    listed: Sequence[ExpectedAttempt],
    facts: Facts,
    attempts: Sequence[JudgedAttempt] = (),
    number: int = 0,
) -> str:
    """Return what is expected of an attempt; for a gap by a rule, its bounds where they are known."""
    parts: dict[str, str] = {}
    for wanted in listed:
        for name, value in wanted.body.items():
            text = value if isinstance(value, str) else json_util.dumps(value)
            if name == "gap" and number:
                text = _gap(wanted, facts, attempts, number) or text
            # The first expectation of a field is shown; `attempts` stand before `each`, being about fewer.
            parts.setdefault(name, text)
    return ", ".join(f"{name} {text}" for name, text in parts.items())


def _gap(wanted: ExpectedAttempt, facts: Facts, attempts: Sequence[JudgedAttempt], number: int) -> str:
    gap, attempt = wanted.gap, attempts[number]
    assert gap is not None
    reply = attempts[number - 1].request.reply or {}
    bounds = gap_expected(
        gap, facts.edition, retry=attempt.retry, transaction=attempt.transaction, reply=reply
    )
    return f"{in_ms(bounds)} ({gap})" if isinstance(gap, GapRule) else in_ms(bounds)


# Rows in which a reader of a failure finds what is expected of servers beside what they saw.


@dataclass(frozen=True, slots=True)
class SectionRow:
    """An expectation beside what was seen; None where one of the two is not there."""

    verdict: Literal["same", "differs", "missing", "extra"]
    expected: str | None
    actual: str | None
    line: int = 0
    why: str = ""


class SectionComparison:
    """A section of the key `pushbackd` whose expectation does not hold, as rows for a reader."""

    section: ClassVar[str]
    """The rows are about this: connections or metrics."""
    client: ClassVar[str] = ""
    """No client's events are compared here."""
    diverges: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the client or of the metric, for a heading."""
        raise NotImplementedError

    def rows(self) -> Iterator[SectionRow]:
        """Yield what is expected, then what was seen."""
        raise NotImplementedError


def as_text(value: Any) -> str:
    """Return a value as one line."""
    if value is missing:
        return "missing"
    return value if isinstance(value, str) else json_util.dumps(value, default=repr)


def whole_ms(seconds: float) -> str:
    """Return a duration in milliseconds."""
    return f"{seconds * 1000:.0f} ms"
