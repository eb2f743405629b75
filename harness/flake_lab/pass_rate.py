"""The pass rate of a case, and the bounds between which its true rate lies."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_Z: Final = 1.959963984540054
"""How many standard deviations of a normal distribution hold 95 % of it."""


class PassRate(NamedTuple):
    """So many passes in so many runs. `runs` is at least 1."""

    passed: int
    runs: int

    @property
    def rate(self) -> float:
        """The part that passed, from 0 to 1."""
        return self.passed / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the true rate with 95 % confidence (Wilson's score interval).

        It stays within 0 and 1, and is of use for few runs and for none that failed, where the usual
        interval around the mean has no width.
        """
        share = _Z * _Z / self.runs
        middle = (self.rate + share / 2) / (1 + share)
        half = math.sqrt(share * (self.rate * (1 - self.rate) + share / 4)) / (1 + share)
        # The rate is always within; at 0 and 1 it is a bound, which rounding may miss.
        return max(0.0, min(self.rate, middle - half)), min(1.0, max(self.rate, middle + half))
