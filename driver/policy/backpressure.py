"""Client Backpressure of a retry: the wait before it, and the token that pays for it.

The wait helps in a short overload, as it spreads retries out over time. It does not in a long one: there each
operation still ends up with all its retries, and the offered load stays a multiple of what programs ask for.
That is what the tokens are for. Ten successes pay for one retry, so that in the long run retries are at most
a tenth of the load on top, and a server that refuses everything is asked once per operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

BASE_BACKOFF = 0.1
MAX_BACKOFF = 10.0
"""Seconds; five retries never reach it, the retries of an edition that lets users ask for more do."""

MAX_EXPONENT = 64
"""Powers above it are never reached by a wait, and would overflow a float one day."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter, in seconds (Client Backpressure: Overload retry policy, rule 3).

    Before retry n (the first is 1) it is `jitter · min(maximum, base · 2^(n - 1 + first_exponent))`.
    """

    base: float = BASE_BACKOFF
    maximum: float = MAX_BACKOFF
    first_exponent: int = 0

    def before(self, retry: int, jitter: float, *, base: float | None = None) -> float:
        """Return the seconds before the retry numbered `retry`; `jitter` is a number from 0 to 1.

        A positive `base` from the server replaces ours.
        """
        chosen = base if base is not None and base > 0 else self.base
        exponent = retry - 1 + self.first_exponent
        # Full jitter: clients that were refused together come back spread over the whole interval.
        return jitter * min(self.maximum, chosen * 2.0 ** min(exponent, MAX_EXPONENT))


RETRY_TOKEN_CAPACITY = 1000.0
"""What a short overload may spend at once, before successes have to pay for retries."""

RETRY_TOKEN_RETURN_RATE = 0.1
"""Tokens for a command that succeeds."""


class TokenBucket:
    """A counter with a ceiling; it starts full (Client Backpressure: Token Bucket).

    Time does not refill it: only commands that succeed do. Threads may share it.
    """

    def __init__(self, capacity: float = RETRY_TOKEN_CAPACITY) -> None:
        self.capacity = capacity
        self.tokens = capacity
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<TokenBucket {self.tokens:g} of {self.capacity:g}>"

    def consume(self, n: float) -> bool:
        """Take `n` tokens if there are so many, and say whether there were."""
        # A lock for three lines, so that clients of several threads may share one budget.
        with self._lock:
            if self.tokens < n:
                return False
            self.tokens -= n
            return True

    def deposit(self, n: float) -> None:
        """Put `n` tokens back; what exceeds the capacity is lost."""
        with self._lock:
            self.tokens = min(self.capacity, self.tokens + n)


class NoBudget:
    """Adaptive retries are disabled: every retry may be paid for."""

    def consume(self, _n: float) -> bool:
        """Say yes."""
        return True

    def deposit(self, _n: float) -> None:
        """Keep nothing."""
