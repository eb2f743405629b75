"""The timeline of a scenario: due items by time and readings, without a clock or a deployment.

Each entry goes its own way:

    waits for its start -> performed -> (undone, when `for` or `until` ends) -> performed again, after `every`
                                     -> over

Instants are seconds from the start of the scenario. Those of a period are counted from the instant that was
planned, so that a late performance does not delay the next one; a period that has passed is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fakeserver.control.scenario.triggers import POLLED, AnsweredRequests, Condition, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.control.scenario.model import TimelineEntry
    from fakeserver.control.scenario.triggers import Readings, Trigger

POLL_SECONDS: Final = 0.05
"""The period in which conditions are looked at that nothing announces: rates and queues."""


@dataclass(frozen=True, slots=True)
class Act:
    """A performance of an entry that is due, or, with `undo`, the end of its effect."""

    number: int
    undo: bool = False


class Timeline:
    """The entries of a timeline, and how far each has come."""

    def __init__(self, entries: Sequence[TimelineEntry], draws: Sequence[Callable[[], float]]) -> None:
        """`draws` are the random numbers of each entry, for its jitter."""
        self.progress = tuple(map(EntryProgress, entries, draws))

    def due(self, now: float, readings: Readings) -> list[Act]:
        """Return what is due: first the ends of effects, then performances, each in the order of the file."""
        ends = [
            Act(number, undo=True) for number, each in enumerate(self.progress) if each.ends(now, readings)
        ]
        begun = [Act(number) for number, each in enumerate(self.progress) if each.begins(now, readings)]
        return ends + begun

    def next_at(self, now: float) -> float:
        """Return the next instant at which something may be due without any event; infinity if none is."""
        soonest = min((each.next_at() for each in self.progress), default=math.inf)
        if any(each.is_polled for each in self.progress):
            soonest = min(soonest, (math.floor(now / POLL_SECONDS + 1e-6) + 1) * POLL_SECONDS)
        return soonest

    @property
    def heeds_events(self) -> bool:
        """Whether some entry waits for requests or for a condition."""
        return any(
            isinstance(trigger, AnsweredRequests | Condition)
            for each in self.progress
            for trigger in each.awaited()
        )

    @property
    def needs_readings(self) -> bool:
        """Whether some entry depends on requests or on a condition, now or later."""
        return any(
            isinstance(trigger, AnsweredRequests | Condition)
            for each in self.progress
            for trigger in (each.entry.start, each.entry.every, each.entry.lasting, each.entry.until)
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing will ever be due again."""
        return all(each.is_over for each in self.progress)

    def fail(self, number: int, *, undo: bool = False) -> bool:
        """Take note that what was due failed; return whether the entry goes on, as a repeating one does.

        `undo` tells that the end of an effect failed, not a performance.
        """
        return self.progress[number].fail(undo=undo)


class EntryProgress:
    """How far one entry has come."""

    def __init__(self, entry: TimelineEntry, draw: Callable[[], float]) -> None:
        self.entry = entry
        self.performed = 0
        self.skipped = 0
        """The performances of a repeating entry that failed; they count among its `times`."""
        self._draw = draw
        self._next: Instant | AnsweredRequests | Condition | None = entry.start or entry.every or Instant(0.0)
        """The trigger of the next performance; None when there will be none."""
        self._since = 0.0
        """The instant from which a period that is waited for is counted."""
        self._answered = 0
        """The requests answered when a period began, of the command that it counts."""
        self._planned: float | None = None
        """The instant of the next performance, once its trigger was met: later by the jitter."""
        self._effect: Effect | None = None

    @property
    def is_over(self) -> bool:
        """Whether neither a performance nor an end is to come."""
        return self._next is None and self._planned is None and self._effect is None

    @property
    def is_in_effect(self) -> bool:
        """Whether its verb was performed and is to be undone."""
        return self._effect is not None

    def fail(self, *, undo: bool) -> bool:
        """Leave out the performance that failed, and return True; one that does not repeat is over."""
        self._effect = None
        if self.entry.every is None:
            self._next = self._planned = None
            return False
        if not undo:
            self.skipped += 1
            self.performed -= 1
        return True

    def awaited(self) -> Iterator[Trigger]:
        """Yield the triggers that it waits for."""
        if self._next is not None and self._planned is None:
            yield self._next
            if self.entry.until is not None:
                yield self.entry.until
        if self._effect is not None:
            yield self._effect.end

    @property
    def is_polled(self) -> bool:
        """Whether it waits for a condition that nothing announces."""
        return any(isinstance(each, Condition) and each.quantities & POLLED for each in self.awaited())

    def next_at(self) -> float:
        """Return the next instant at which something may be due."""
        instants = [self._planned] if self._planned is not None else []
        if isinstance(self._next, Instant) and self._planned is None:
            instants.append(self._since + self._next.seconds)
        if self._effect is not None and isinstance(self._effect.end, Instant):
            instants.append(self._effect.since + self._effect.end.seconds)
        until = self.entry.until
        if isinstance(until, Instant) and self._next is not None:
            instants.append(until.seconds)
        return min(instants, default=math.inf)

    def ends(self, now: float, readings: Readings) -> bool:
        """Return whether its effect ends now."""
        effect = self._effect
        if effect is None or not _is_met(effect.end, now, readings, effect.since, effect.answered):
            return False
        self._effect = None
        return True

    def begins(self, now: float, readings: Readings) -> bool:
        """Return whether it is performed now."""
        entry = self.entry
        if self._next is not None and self._has_ended(now, readings):
            self._next = self._planned = None
        if self._next is None or self._effect is not None:
            return False
        if self._planned is None:
            if not _is_met(self._next, now, readings, self._since, self._answered):
                return False
            due = self._since + self._next.seconds if isinstance(self._next, Instant) else now
            self._since = due
            self._planned = due + (entry.jitter * self._draw() if entry.jitter else 0.0)
        if self._planned > now:
            return False
        self._perform(now, readings)
        return True

    def _has_ended(self, now: float, readings: Readings) -> bool:
        """Return whether `until` is met. A condition counts from the first performance on."""
        until = self.entry.until
        if until is None or self._effect is not None or (isinstance(until, Condition) and not self.performed):
            return False
        return _is_met(until, now, readings, 0.0, 0)

    def _perform(self, now: float, readings: Readings) -> None:
        entry, planned = self.entry, self._planned
        assert planned is not None
        self.performed += 1
        self._planned = None
        end = entry.lasting or (entry.until if entry.every is None else None)
        if entry.lasting is not None:
            self._effect = Effect(entry.lasting, planned, _answered(entry.lasting, readings))
        elif end is not None:
            self._effect = Effect(end, 0.0, 0)
        self._next = entry.every
        if entry.times is not None and self.performed + self.skipped >= entry.times:
            self._next = None
        if isinstance(self._next, Instant):
            late = now - self._since
            self._since += math.floor(late / self._next.seconds + 1e-9) * self._next.seconds
        self._answered = _answered(self._next, readings)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a performance: its `end`, counted from an instant and a number of requests."""

    end: Trigger
    since: float
    answered: int


def _is_met(trigger: Trigger, now: float, readings: Readings, since: float, answered: int) -> bool:
    if isinstance(trigger, Instant):
        return now >= since + trigger.seconds
    if isinstance(trigger, AnsweredRequests):
        return readings.answered(trigger.command) - answered >= trigger.count
    return trigger.holds(readings)


def _answered(trigger: Trigger | None, readings: Readings) -> int:
    return readings.answered(trigger.command) if isinstance(trigger, AnsweredRequests) else 0
