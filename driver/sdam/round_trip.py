"""Round trip times of a server: an average for the latency window, a minimum for deadlines."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

ALPHA = 0.2
"""The weight of the newest sample: one slow reply moves the average little."""

SAMPLES = 10
"""How many the minimum is taken of: long enough to have met a quick one, short enough to forget the past."""


@dataclass(slots=True)
class RoundTripTimes:
    """Server Selection: Round Trip Times and the Latency Window, in seconds."""

    average: float | None = None
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def add(self, sample: float) -> None:
        """Count a sample: newer ones weigh a fifth of the average."""
        self.average = sample if self.average is None else ALPHA * sample + (1 - ALPHA) * self.average
        self._recent.append(sample)

    @property
    def minimum(self) -> float:
        """The shortest of the last ten, 0 until there are two."""
        # One sample alone may be far too long, and would hold commands back.
        return min(self._recent) if len(self._recent) > 1 else 0.0

    def reset(self) -> None:
        """Forget everything: the server became Unknown."""
        self.average = None
        self._recent.clear()
