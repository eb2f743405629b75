"""The clock of another process, mapped on the deployment's.

Nobody can read two clocks at one instant, but every exchange gives bounds: what a process reads between a
request and its answer, it reads between the two instants at which this side wrote and read them. The
narrowest pair of bounds counts. Two clocks may drift apart, or one of them may be set: then a reading
contradicts the bounds, and measuring begins anew.

A process reads its clock as it answers. It may have been busy before that, above all with its own start, but
after it only the line is on its way: the truth is close to the upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

TRANSIT_SECONDS: Final = 0.0005
"""How long a line may take from one process to the other, as far as no exchange shows that it takes less."""


@dataclass(slots=True)
class ClockOffset:
    """How many seconds the deployment's clock is ahead of another one: between `least` and `most`."""

    least: float = -inf
    most: float = inf

    @property
    def is_known(self) -> bool:
        """Whether an exchange has been measured."""
        return self.most < inf

    def measure(self, reading: float, *, sent: float, received: float) -> None:
        """Narrow the bounds by a reading of the other clock, between two instants of the deployment's."""
        least, most = sent - reading, received - reading
        if most < self.least or least > self.most:
            self.least, self.most = least, most
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)

    def instant(self, reading: float, *, received: float) -> float:
        """Return the instant of the deployment's clock for a reading that was `received` later.

        It is never later than `received`.
        """
        transit = min((self.most - self.least) / 2, TRANSIT_SECONDS)
        return min(reading + self.most - transit, received)
