"""What the limiters of connections and of requests are built on (`RateLimiter`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Int64

from fakeserver.admission.moving_average import MovingAverage
from fakeserver.admission.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_TOKENS: Final = float(2**63 - 1)
"""What is shown of a bucket without bounds."""
_HANG_SECONDS: Final = 3600.0
_MILLISECOND: Final = 1000
_ROUNDING: Final = 1e-6


class Immediate(Enum):
    """A verdict that holds at once."""

    ADMITTED = "admitted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Reserved:
    """Admitted on credit: the token has accrued at `ready_at`. A reservation is settled exactly once."""

    since: float
    ready_at: float


Verdict: TypeAlias = Immediate | Reserved
ADMITTED: Final = Immediate.ADMITTED
REJECTED: Final = Immediate.REJECTED


class RateLimiter:
    """A token bucket with a queue and with counters. It decides; whoever waits tells it how that ended.

    `rate` is tokens a second, `burst_seconds` how many seconds' worth of them may be saved up,
    `max_queue_depth` how many may wait for a token that has not accrued yet.
    """

    def __init__(
        self, name: str, *, rate: float, burst_seconds: float, max_queue_depth: int = 0, now: float
    ) -> None:
        self.name = name
        self.max_queue_depth = max_queue_depth
        self.hangs = False
        """While set, everybody who may queue has an hour to wait (fail point `hangInRateLimiter`)."""
        self.attempted = 0
        self.successful = 0
        self.rejected = 0
        self.exempted = 0
        self.added_to_queue = 0
        self.removed_from_queue = 0
        self.interrupted_in_queue = 0
        self.average_time_queued = MovingAverage()
        """In seconds."""
        self._bucket = TokenBucket(rate=rate, burst=rate * burst_seconds, now=now)

    def __repr__(self) -> str:
        return f"<RateLimiter {self.name}: {self._bucket!r}, {self.queued} queued>"

    @property
    def queued(self) -> int:
        """How many wait for their token."""
        return self.added_to_queue - self.removed_from_queue

    def reconfigure(self, now: float, *, rate: float, burst_seconds: float) -> None:
        """Change the rate or the burst. Those who wait keep the instants that they were told."""
        self._bucket.reconfigure(now, rate=rate, burst=rate * burst_seconds)

    def admit_freely(self) -> None:
        """Admit somebody where there is nothing to decide: the bucket is without bounds."""
        self.attempted += 1
        self._succeed(0.0)

    @property
    def is_unbounded(self) -> bool:
        """Whether there is always a token."""
        return self._bucket.is_unbounded

    def exempt(self) -> None:
        """Count one who need not ask."""
        self.exempted += 1

    def try_acquire(self, now: float) -> Immediate:
        """Admit or reject, at once."""
        self.attempted += 1
        if not self.hangs and self._bucket.try_acquire(now):
            self._succeed(0.0)
            return ADMITTED
        self.rejected += 1
        return REJECTED

    def acquire(self, now: float) -> Verdict:
        """Admit, at once or on credit; reject where as many wait already as may."""
        if self.queued >= self.max_queue_depth:
            return self.try_acquire(now)
        self.attempted += 1
        ready_at = self._borrow(now)
        if ready_at <= now:
            self._succeed(0.0)
            return ADMITTED
        self.added_to_queue += 1
        return Reserved(now, ready_at)

    def _borrow(self, now: float) -> float:
        """Return when the token is there, in whole milliseconds from now.

        A bucket that never holds a whole token lets everybody through here, and that at once: what a server
        does, which reads the missing answer as no wait.
        """
        if self.hangs:
            return now + _HANG_SECONDS
        matures = self._bucket.borrow(now)
        if matures is None:
            return now
        return now + int((matures - now) * _MILLISECOND + _ROUNDING) / _MILLISECOND

    def mature(self, reservation: Reserved) -> None:
        """End a wait that came to its end: the request is admitted."""
        self.removed_from_queue += 1
        self._succeed(reservation.ready_at - reservation.since)

    def interrupt(self) -> None:
        """End a wait that was interrupted, by whatever: the token goes back."""
        self.removed_from_queue += 1
        self.interrupted_in_queue += 1
        self._bucket.give_back()

    def drop(self) -> None:
        """End a wait that never began: the request failed on its way to it. The token goes back."""
        self.removed_from_queue += 1
        self._bucket.give_back()

    def release(self) -> None:
        """End a wait because the limiter was switched off: it counts as an exemption."""
        self.removed_from_queue += 1
        self.exempted += 1
        self._bucket.give_back()

    def _succeed(self, waited: float) -> None:
        self.successful += 1
        if waited or self.average_time_queued.value != 0.0:
            self.average_time_queued.add(waited)

    def available(self, now: float) -> float:
        """Return how many tokens there are, as it is shown: finite."""
        return min(self._bucket.available(now), MOST_TOKENS)

    def stats(self, now: float) -> Mapping[str, Any]:
        """Return its section of `serverStatus`."""
        shown: dict[str, Any] = {
            "addedToQueue": Int64(self.added_to_queue),
            "removedFromQueue": Int64(self.removed_from_queue),
            "interruptedInQueue": Int64(self.interrupted_in_queue),
            "rejectedAdmissions": Int64(self.rejected),
            "exemptedAdmissions": Int64(self.exempted),
            "successfulAdmissions": Int64(self.successful),
            "attemptedAdmissions": Int64(self.attempted),
        }
        if self.average_time_queued.value is not None:
            shown["averageTimeQueuedMicros"] = self.average_time_queued.value * 1e6
        shown["totalAvailableTokens"] = float(self.available(now))
        return shown
