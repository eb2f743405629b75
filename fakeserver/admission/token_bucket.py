"""The token bucket that nothing refills: its balance is computed at each request (`RateLimiter`)."""

from __future__ import annotations

import math


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
