"""Flow control: writers are slowed down before the majority falls too far behind (`Flow Control`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bson import Int64

MAX_TICKETS: Final = 1_000_000_000
"""What nobody ever uses up: no throttling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlParameters:
    """The server parameters `flowControl…`. Lags and periods are seconds."""

    enabled: bool = True
    target_lag: float = 10
    threshold_percentage: float = 0.5
    min_tickets_per_second: int = 100
    decay_constant: float = 0.5
    fudge_factor: float = 0.95
    ticket_adder: int = 1000
    ticket_multiplier: float = 1.05
    warn_threshold: float = 10
    sample_period: int = 1000
    max_samples: int = 1_000_000

    @property
    def threshold(self) -> float:
        """The lag from which writers are slowed down."""
        return self.target_lag * self.threshold_percentage


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """What was seen in a period: the majority's lag in seconds, and what was done meanwhile.

    Numbers of operations are as exact as the samples of them (`FlowSamples`), None where they tell nothing:
    `behind` is how many operations the majority does not have, `sustained` how many the median member
    applied, `locks_per_operation` how many tickets an operation took. `locks_used` is how many were taken.
    """

    lag: float
    behind: int | None
    sustained: int | None
    locks_used: int
    locks_per_operation: float | None


class FlowControl:
    """How many global locks writers may take in a second, and how many of this second are left."""

    def __init__(self, parameters: FlowControlParameters) -> None:
        self.parameters = parameters
        self.limit = MAX_TICKETS
        self.left: float = MAX_TICKETS
        self.is_lagged = False
        self.lagged_count = 0
        self.lagged_seconds = 0.0
        self.seconds_acquiring = 0.0
        self.sustainer_rate = 0
        self.locks_per_operation = 0.0
        self.locks_used = 0
        """In this period."""
        self.locks_total = 0

    def __repr__(self) -> str:
        return f"<FlowControl {self.left} of {self.limit} left{', lagged' if self.is_lagged else ''}>"

    def try_acquire(self) -> bool:
        """Take a ticket if there is one. Operations of immediate priority do not ask."""
        if self.left < 1:
            return False
        self.left -= 1
        self.locks_used += 1
        self.locks_total += 1
        return True

    def waited(self, seconds: float) -> None:
        """Take note of how long a writer waited for its ticket."""
        self.seconds_acquiring += seconds

    def release_all(self) -> None:
        """Throttle nobody: flow control is off, or this member takes no writes."""
        self.limit, self.left = MAX_TICKETS, MAX_TICKETS
        self.is_lagged = False

    def next_period(self, sample: LagSample, *, seconds: float) -> None:
        """Fill up for a period of `seconds`, by what was seen in the last one.

        A lag of very few operations is none: an idle set has it too.
        """
        was_lagged = self.is_lagged
        known = sample.behind is not None and sample.locks_per_operation is not None
        self.is_lagged = known and sample.lag >= self.parameters.threshold
        self.locks_per_operation = sample.locks_per_operation or 0.0
        self.sustainer_rate = sample.sustained or 0
        if self.is_lagged:
            self.lagged_seconds += seconds
            self.lagged_count += not was_lagged
            self.limit = self._throttled(sample)
        else:
            self.limit = self._relaxed()
        self.left = self.limit
        self.locks_used = 0

    def _throttled(self, sample: LagSample) -> int:
        """Return what the set can sustain, less the further it is behind."""
        own = self.parameters
        if sample.sustained is None:
            allowed = sample.locks_used / 2
        else:
            exponent = (sample.lag - own.threshold) / own.threshold
            decay = own.decay_constant**exponent
            allowed = self.locks_per_operation * sample.sustained * decay * own.fudge_factor
        return max(int(allowed), own.min_tickets_per_second)

    def _relaxed(self) -> int:
        own = self.parameters
        return min(int((self.limit + own.ticket_adder) * own.ticket_multiplier), MAX_TICKETS)

    def stats(self) -> dict[str, Any]:
        """Return `serverStatus.flowControl`."""
        return {
            "enabled": self.parameters.enabled,
            "targetRateLimit": self.limit,
            "timeAcquiringMicros": Int64(round(self.seconds_acquiring * 1e6)),
            "locksPerKiloOp": self.locks_per_operation * 1000,
            "sustainerRate": self.sustainer_rate,
            "isLagged": self.is_lagged,
            "isLaggedCount": self.lagged_count,
            "isLaggedTimeMicros": Int64(round(self.lagged_seconds * 1e6)),
        }
