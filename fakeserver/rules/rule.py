"""A rule: conditions, effects, and how often and how long it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.rules.effects import Effects
from mongowire.documents.occurrence import Occurrence

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from fakeserver.rules.asked import Asked
    from fakeserver.rules.conditions import Conditions

PER: Final = ("operation", "connection", "application", "rule")
"""What a sequence counts by."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Effects of which each match takes the next; `per` says what has a count of its own."""

    steps: tuple[Effects, ...]
    per: str = "rule"

    def key(self, asked: Asked) -> Hashable:
        """Return what a request is counted by."""
        if self.per == "operation":
            return asked.operation.number
        if self.per == "connection":
            return asked.node, asked.connection
        return asked.app_name if self.per == "application" else None


@dataclass(frozen=True, slots=True)
class Expectation:
    """The number of matches that a rule expects; `most` is None for no upper bound."""

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {times(self.least)}"
        if self.least == self.most:
            return times(self.least)
        return f"{self.least} to {times(self.most)}" if self.least else f"at most {times(self.most)}"

    def met_by(self, count: int) -> bool:
        """Return whether so many matches are as expected."""
        return count >= self.least and (self.most is None or count <= self.most)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as it was added."""

    when: Conditions
    then: Effects = field(default_factory=Effects)
    sequence: Sequence | None = None
    name: str | None = None
    occurrence: Occurrence = field(default_factory=Occurrence)
    expect: Expectation | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    """The document that it was made of."""

    @property
    def only_watches(self) -> bool:
        """Whether it has no effect: such a rule sees requests that another one answers."""
        return self.sequence is None and self.then.is_nothing


def times(count: int) -> str:
    """Return a count of times in words."""
    return "once" if count == 1 else f"{count} times"
