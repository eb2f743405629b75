"""How long to wait before a retry of a command that met an overloaded server."""

from __future__ import annotations

from dataclasses import dataclass

BASE_BACKOFF = 0.1
MAX_BACKOFF = 10.0
MAX_EXPONENT = 64
"""Powers above it are never reached by a wait, and would overflow a float one day."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter, in seconds (Client Backpressure: Overload retry policy, rule 3).

    Before retry n (the first is 1) it is `jitter · min(maximum, base · 2^(n - 1 + first_exponent))`.

    Obeys CB-2.
    """

    base: float = BASE_BACKOFF
    maximum: float = MAX_BACKOFF
    first_exponent: int = 0

    def before(self, retry: int, jitter: float, *, base: float | None = None) -> float:
        """Return the seconds before the retry numbered `retry`; `jitter` is a number from 0 to 1.

        A positive `base` from the server takes the place of ours.
        """
        chosen = base if base is not None and base > 0 else self.base
        exponent = retry - 1 + self.first_exponent
        return jitter * min(self.maximum, chosen * 2.0 ** min(exponent, MAX_EXPONENT))
