"""The component that limits connections and requests a second (`RateLimiter`).

The model: a token bucket, a bounded queue in front of it, and counters.

* `try_acquire` admits or rejects at once. `acquire` may also admit on credit: it borrows a token that has
  not accrued yet and returns the instant at which it will have (`Reserved`). Nobody refills anything and
  nobody is woken: the shell sleeps until that instant, and then calls `mature`.
* Waiters are served in the order of arrival without a list of them: each loan moves the bucket's zero time,
  so the next loan matures later. The queue is a number, `added_to_queue - removed_from_queue`.
* A reservation is settled exactly once, by `mature` (admitted), `interrupt` (killed, timed out, client
  gone), `drop` (the request failed before its wait began) or `release` (the limiter was switched off). All
  but `mature` give the token back, so that those behind are not charged for somebody who left; their own
  instants stay, as on a server, whose sleepers are not woken to sleep less.

The accounting: `attempted = successful + rejected + queued + interrupted + dropped + released`, so
while nobody waits or has left early `attempted = successful + rejected`, which the server's own tests rely
on. Exempt requests are counted apart and never attempted.

Bounds and peculiarities of a real server that are kept:

* A queue depth of 0 is no queue: `acquire` decides as `try_acquire` does. A full queue does so, too, which
  nearly always means a rejection, but can admit in the instant in which a token accrues.
* Waits are cut to whole milliseconds, and one that is cut to 0 is none.
* A burst below one token never admits at once. With a queue, the server's borrowing call reports "cannot be
  satisfied", which its caller reads as a wait of 0: everybody is admitted and nothing is charged. Rate 1,
  burst 0.000005 and depth 0 is therefore the recipe to reject everything.
* Changing the rate or the burst forgives debts (`TokenBucket.reconfigure`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Int64

if TYPE_CHECKING:
    from collections.abc import Mapping


class TokenBucket:
    """Tokens that accrue at `rate` a second, up to `burst`; a bucket begins full.

    Its whole state is one instant, the zero time: when it held nothing, as if it had only filled since. A
    zero time in the future is a debt. Any numbers will do (fractions too, for exact arithmetic), infinity
    as a burst among them.
    """

    __slots__ = ("_burst", "_rate", "_zero")

    def __init__(self, *, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._zero = now - burst / rate

    def __repr__(self) -> str:
        return f"<TokenBucket {self._rate}/s, {self._burst} at most, empty at {self._zero}>"

    @property
    def is_unbounded(self) -> bool:
        """Whether its burst is infinite."""
        return self._burst == math.inf

    def balance(self, now: float) -> float:
        """Return how many tokens it holds, or, below zero, owes."""
        return min((now - self._zero) * self._rate, self._burst)

    def available(self, now: float) -> float:
        """Return how many tokens could be taken."""
        return max(self.balance(now), 0)

    def try_acquire(self, now: float, tokens: float = 1) -> bool:
        """Take a token, or several, if there are as many. A burst below that never yields any."""
        if self._burst < tokens or (now - self._zero) * self._rate < tokens:
            return False
        # The zero time is set anew and not moved on: what accrued beyond the burst is lost.
        self._zero = now - (self.balance(now) - tokens) / self._rate
        return True

    def borrow(self, now: float, tokens: float = 1) -> float | None:
        """Take a token, or several, on credit where there is none; return when they have accrued.

        Returns None, and takes nothing, where a whole token never accrues: the burst is below one.
        """
        if self._burst < 1:
            return None
        self._zero = now - (self.balance(now) - tokens) / self._rate
        return max(self._zero, now)

    def fill(self, now: float) -> None:
        """Hold as many tokens as it may."""
        self._zero = now - self._burst / self._rate

    def give_back(self, tokens: float = 1) -> None:
        """Put back a token, or several, taken or borrowed; below zero, take those that were used too much."""
        self._zero -= tokens / self._rate

    def reconfigure(self, now: float, *, rate: float, burst: float) -> None:
        """Change rate and burst. What it held stays, up to the new burst; a debt is forgiven."""
        # A server computes the new zero time from the tokens available, which are never below zero.
        kept = min(self.available(now), burst)
        self._rate = rate
        self._burst = burst
        self._zero = now - kept / rate


MOST_TOKENS: Final = float(2**63 - 1)
"""The balance that `serverStatus` shows for a bucket without bounds."""
NEWEST_STATS: Final = frozenset({"totalTimeQueuedMicros", "tokensAcquired", "currentQueueDepth"})
_HANG_SECONDS: Final = 3600.0
_MILLISECOND: Final = 1000
_ROUNDING: Final = 1e-6
"""Added before a wait is cut to milliseconds: 0.25 s computed as 0.2499999 is 250 ms."""


class Immediate(Enum):
    """A verdict that holds at once."""

    ADMITTED = "admitted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Reserved:
    """Admitted on credit: the token has accrued at `ready_at`. A reservation is settled exactly once."""

    since: float
    ready_at: float
    tokens: float = 1


Verdict: TypeAlias = Immediate | Reserved
ADMITTED: Final = Immediate.ADMITTED
REJECTED: Final = Immediate.REJECTED


class RateLimiter:
    """A token bucket with a queue and with counters. It decides; the shell waits and settles.

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
        """Everybody who asked, counted on arrival: a waiter is attempted and not yet successful."""
        self.successful = 0
        """Admitted at once, or at the end of a wait."""
        self.rejected = 0
        self.exempted = 0
        """Admitted without asking, and those whose wait ended because the limiter was switched off."""
        self.added_to_queue = 0
        self.removed_from_queue = 0
        """Waits that ended, however they did."""
        self.interrupted_in_queue = 0
        """Waits that ended early, and after they had begun."""
        self.time_queued = 0.0
        """Seconds of all waits that ended with an admission."""
        self._more_tokens = 0.0
        """Tokens of those admitted, beyond one each."""
        self.average_time_queued = MovingAverage()
        """Seconds from reservation to admission; an immediate admission counts as 0 once somebody waited."""
        self._bucket = TokenBucket(rate=rate, burst=rate * burst_seconds, now=now)

    def __repr__(self) -> str:
        return f"<RateLimiter {self.name}: {self._bucket!r}, {self.queued} queued>"

    @property
    def queued(self) -> int:
        """Reservations that nobody has settled."""
        return self.added_to_queue - self.removed_from_queue

    def reconfigure(self, now: float, *, rate: float, burst_seconds: float) -> None:
        """Change the rate or the burst. Those who wait keep the instants of their reservations."""
        self._bucket.reconfigure(now, rate=rate, burst=rate * burst_seconds)

    def fill(self, now: float) -> None:
        """Have every token at hand, as at the start; counters go on."""
        self._bucket.fill(now)

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

    def try_acquire(self, now: float, tokens: float = 1) -> Immediate:
        """Admit or reject, at once."""
        self.attempted += 1
        if not self.hangs and self._bucket.try_acquire(now, tokens):
            self._succeed(0.0)
            self._more_tokens += tokens - 1
            return ADMITTED
        self.rejected += 1
        return REJECTED

    def acquire(self, now: float, tokens: float = 1) -> Verdict:
        """Admit, at once or on credit; reject where as many wait already as may."""
        if self.queued >= self.max_queue_depth:
            return self.try_acquire(now, tokens)
        self.attempted += 1
        ready_at = self._borrow(now, tokens)
        if ready_at <= now:
            self._succeed(0.0)
            self._more_tokens += tokens - 1
            return ADMITTED
        self.added_to_queue += 1
        return Reserved(now, ready_at, tokens)

    def _borrow(self, now: float, tokens: float) -> float:
        """Return the instant at which the token has accrued, whole milliseconds from now."""
        if self.hangs:
            return now + _HANG_SECONDS
        matures = self._bucket.borrow(now, tokens)
        if matures is None:
            # The burst is below one token. A server reads "cannot be satisfied" as a wait of 0.
            return now
        return now + int((matures - now) * _MILLISECOND + _ROUNDING) / _MILLISECOND

    def mature(self, reservation: Reserved) -> None:
        """End a wait that came to its end: the request is admitted."""
        self.removed_from_queue += 1
        self._more_tokens += reservation.tokens - 1
        self._succeed(reservation.ready_at - reservation.since)

    def interrupt(self, tokens: float = 1) -> None:
        """End a wait early, for whatever reason: the token goes back."""
        self.removed_from_queue += 1
        self.interrupted_in_queue += 1
        self._bucket.give_back(tokens)

    def settle(self, unused: float) -> None:
        """Take back tokens that were not used in the end; below zero, take those that were used beyond."""
        self._bucket.give_back(unused)

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
        self.time_queued += waited
        # Until somebody waits the average stays absent from `serverStatus`, or at 0, which more zeros leave.
        if waited or self.average_time_queued.value != 0.0:
            self.average_time_queued.add(waited)

    def available(self, now: float) -> float:
        """Return how many tokens there are, as it is shown: finite."""
        return min(self._bucket.available(now), MOST_TOKENS)

    def stats(self, now: float) -> Mapping[str, Any]:
        """Return its section of `serverStatus`; before 9.0 without `NEWEST_STATS`."""
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
        shown["totalTimeQueuedMicros"] = Int64(round(self.time_queued * 1e6))
        shown["tokensAcquired"] = float(self.successful + self._more_tokens)
        shown["currentQueueDepth"] = Int64(self.queued)
        shown["totalAvailableTokens"] = float(self.available(now))
        return shown


# The moving averages of `serverStatus`: recent samples weigh more.


class MovingAverage:
    """An exponential moving average, in which a new sample has the weight `weight`.

    `value` is None until there is a sample.
    """

    __slots__ = ("_weight", "value")

    def __init__(self, weight: float = 0.2) -> None:
        self._weight = weight
        self.value: float | None = None

    def add(self, sample: float) -> None:
        """Take a sample into account; the first one is the average."""
        if self.value is None:
            self.value = sample
        else:
            self.value = weighted(self.value, sample, self._weight)


def weighted(average: float, sample: float, weight: float) -> float:
    """Return the average after a sample that has the weight `weight`, from 0 to 1."""
    return sample * weight + average * (1 - weight)
