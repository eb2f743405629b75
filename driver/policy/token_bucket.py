"""The retry budget of a client: what keeps a long overload from being fed by its own retries."""

from __future__ import annotations

from threading import Lock

RETRY_TOKEN_CAPACITY = 1000.0
RETRY_TOKEN_RETURN_RATE = 0.1


class TokenBucket:
    """A counter with a ceiling; it starts full (Client Backpressure: Token Bucket).

    Time does not refill it: only commands that succeed do. Threads may share it.

    Obeys CB-17, CB-37.
    """

    def __init__(self, capacity: float = RETRY_TOKEN_CAPACITY) -> None:
        self.capacity = capacity
        self.tokens = capacity
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<TokenBucket {self.tokens:g} of {self.capacity:g}>"

    def consume(self, n: float) -> bool:
        """Take `n` tokens if there are so many, and say whether there were."""
        with self._lock:
            if self.tokens < n:
                return False
            self.tokens -= n
            return True

    def deposit(self, n: float) -> None:
        """Put `n` tokens back; what exceeds the capacity is lost. Obeys CB-38."""
        with self._lock:
            self.tokens = min(self.capacity, self.tokens + n)


class NoBudget:
    """Adaptive retries are disabled: every retry may be paid for."""

    def consume(self, _n: float) -> bool:
        """Say yes."""
        return True

    def deposit(self, _n: float) -> None:
        """Keep nothing."""
