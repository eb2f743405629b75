"""How often and for how long a rule or a fault acts, and the count of one that does.

Fail points have the modes of a server instead (`fakeserver/settings/failpoints.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Container


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Which of the matches count, and how many; None for what is not stated."""

    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    times: int | None = None
    """The number of hits after which it is over."""
    seconds: float | None = None
    """The time after which it is over, from when it was added (`for`)."""
    until: float | None = None
    """The time at which it is over, in seconds from the start of the deployment."""

    def ends(self, added: float, began: float) -> float:
        """Return the instant of its end, for one that was added to a deployment that `began` earlier."""
        span = inf if self.seconds is None else added + self.seconds
        return span if self.until is None else min(span, began + self.until)


@dataclass(slots=True)
class OccurrenceCount:
    """The matches and the hits of one that acts until the instant `ends`."""

    occurrence: Occurrence
    ends: float
    seen: int = 0
    """How often its conditions were met."""
    hits: int = 0
    """How often it acted."""

    def is_over(self, now: float) -> bool:
        """Return whether it acts no more."""
        times = self.occurrence.times
        return now >= self.ends or (times is not None and self.hits >= times)

    def chooses(self, draw: Callable[[], float]) -> bool:
        """Count a match; return whether it is one of those that it acts on."""
        self.seen += 1
        stated = self.occurrence
        if stated.nth is not None and self.seen != stated.nth:
            return False
        if stated.every is not None and self.seen % stated.every:
            return False
        return stated.probability is None or draw() < stated.probability


def check_exclusive(document: Container[Any]) -> None:
    """Refuse `nth` beside `every`. Raises `ControlError`."""
    if "nth" in document and "every" in document:
        raise ControlError("nth and every exclude each other", path=("every",))
