"""Flow control: writers are slowed down before the majority falls too far behind (`Flow Control`).

The model: once a second (a period) the primary looks at how far the majority is behind (`LagSample`) and
decides how many global locks writers may take in the next second (`limit`). A write takes one; when none is
`left`, it waits for the next period. Reads never ask.

    healthy  limit = (limit + adder) · multiplier                             up to "no limit"
    lagged   limit = locks per operation · operations sustained · decay^x · fudge      at least a minimum
             x = (lag - threshold) / threshold

Reasons for the two formulas:

* Lagged, the set gets what it was seen to sustain and no more: the operations that the median member
  applied in the last period, times the locks that an operation takes here. The median, since a majority is
  what a majority write waits for; the slowest member alone holds nobody back. `fudge` below 1 lets the
  majority catch up instead of keeping its distance, `decay` brakes harder the further it is behind.
* Nobody knows what was sustained (too few samples): half of the locks used last. The next period knows more.
* Healthy, the limit grows by a part and by a constant, because the constant alone would take days
  from a throttled limit to none, and the part alone, rounded down, would never leave a limit of very few.
* The minimum keeps a primary writable: a set whose majority stands still shall hear of it in a warning and
  not by standing still itself.

A period is lagged only where something is `behind`: an idle set has an old majority point, too, and a lag of
fewer operations than one sample holds proves nothing. Only a primary throttles; a member that steps down
releases all (`release_all`). The set is looked at by `FlowMonitor`; this module knows numbers alone.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64

if TYPE_CHECKING:
    from fakeserver.storage.port.oplog import OpTime

_ENOUGH: Final = 2
"""The number of samples that a rate can be worked out from."""


class _Sample(NamedTuple):
    optime: OpTime
    operations: int
    locks: int


class FlowSamples:
    """The samples, the oldest first. `period` is how many operations there are of a sample, `most` the bound.

    Beyond the bound every other sample is dropped, so that those that are left are further apart.
    """

    def __init__(self) -> None:
        self.period = 1
        self.most = 1
        self._operations = 0
        self._sampled = 0
        self._samples: list[_Sample] = []

    def __len__(self) -> int:
        return len(self._samples)

    def record(self, optime: OpTime, locks: int) -> None:
        """Count an operation; `locks` is how many tickets were taken so far."""
        self._operations += 1
        if self._operations - self._sampled < self.period:
            return
        self._sampled = self._operations
        self._samples.append(_Sample(optime, self._operations, locks))
        if len(self._samples) > self.most:
            self._samples = self._samples[::-2][::-1] if self.most > 1 else self._samples[-1:]

    def clear(self) -> None:
        """Forget the samples."""
        self._samples.clear()

    def trim(self, before: OpTime) -> None:
        """Forget the samples that nobody will ask for: those before a time, but for the newest two."""
        del self._samples[: min(self._first_at(before), max(len(self._samples) - _ENOUGH, 0))]

    def between(self, begin: OpTime, end: OpTime) -> int | None:
        """Return about how many operations are later than `begin` and not than `end`; None if too few."""
        first = self._first_at(begin)
        if first == len(self._samples):
            return None
        last = min(self._first_at(end), len(self._samples) - 1)
        found = self._samples[last].operations - self._samples[first].operations
        return found if found > 0 else None

    @property
    def locks_per_operation(self) -> float | None:
        """Tickets that an operation took, between the last two samples."""
        if len(self._samples) < _ENOUGH:
            return None
        before, last = self._samples[-2:]
        return (last.locks - before.locks) / (last.operations - before.operations)

    def _first_at(self, optime: OpTime) -> int:
        return bisect_left(self._samples, optime, key=lambda sample: sample.optime)


MAX_TICKETS: Final = 1_000_000_000
"""More than anybody uses up in a second: no throttling."""


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
    """The set as the primary sees it at the end of a period.

    Numbers of operations are as exact as the samples of them (`FlowSamples`), None where these are too few.
    """

    lag: float
    """Seconds from the majority point to the last write."""
    behind: int | None
    """Operations that the majority does not have."""
    sustained: int | None
    """Operations that the median member applied in the period."""
    locks_used: int
    """Locks that writers took in the period."""
    locks_per_operation: float | None
    """Locks that an operation took, by the last two samples."""


class FlowControl:
    """The budget of global locks for writers in the present period, and what the last one taught."""

    def __init__(self, parameters: FlowControlParameters) -> None:
        self.parameters = parameters
        self.limit = MAX_TICKETS
        self.granted = MAX_TICKETS
        """Locks of this period: those of `limit` or of `override`."""
        """Locks that writers may take in this period. A server and a new primary begin unthrottled."""
        self.left: float = MAX_TICKETS
        """Locks of this period that nobody has taken. What is left over is lost with the period."""
        self.override: int | None = None
        """Locks of each period whatever the set looks like (`flowControlTicketOverride`), None without."""
        self.is_lagged = False
        """The last sample's verdict, which chose the formula of `limit`."""
        self.lagged_count = 0
        """Times that a lag began; a lag of many periods counts once."""
        self.lagged_seconds = 0.0
        self.seconds_acquiring = 0.0
        """Time that writers waited for their tickets, of all writers together."""
        self.sustainer_rate = 0
        """Operations that the median member applied in the last period, 0 where that is not known."""
        self.locks_per_operation = 0.0
        """Locks that an operation took lately, 0 where that is not known."""
        self.locks_used = 0
        """Locks taken in this period: what is halved if the sustained rate is not known."""
        self.locks_total = 0
        """Locks taken since the server started. Samples hold it, so that differences are exact."""

    def __repr__(self) -> str:
        return f"<FlowControl {self.left} of {self.limit} left{', lagged' if self.is_lagged else ''}>"

    def try_acquire(self) -> bool:
        """Take a ticket if there is one. Operations of immediate priority do not ask."""
        if self.left < 1:
            return False
        self.left -= 1
        self.count()
        return True

    def count(self) -> None:
        """Count a lock that a writer takes."""
        self.locks_used += 1
        self.locks_total += 1

    def waited(self, seconds: float) -> None:
        """Take note of how long a writer waited for its ticket."""
        self.seconds_acquiring += seconds

    def release_all(self) -> None:
        """Throttle nobody: flow control is off, or this member takes no writes."""
        self.limit = self.left = self.granted = MAX_TICKETS
        self.is_lagged = False

    def grant(self, locks: int) -> None:
        """Fill up for a period with so many locks; what earlier samples taught is left as it was."""
        self.left = self.granted = locks
        self.locks_used = 0

    def next_period(self, sample: LagSample, *, seconds: float) -> None:
        """Fill up for a period of `seconds`, by the sample of the last one."""
        was_lagged = self.is_lagged
        # A majority point that is old and behind by fewer operations than a sample shows is an idle set's.
        known = sample.behind is not None and sample.locks_per_operation is not None
        self.is_lagged = known and sample.lag >= self.parameters.threshold
        self.locks_per_operation = sample.locks_per_operation or 0.0
        self.sustainer_rate = sample.sustained or 0
        if self.is_lagged:
            self.lagged_seconds += seconds
            self.lagged_count += not was_lagged
            self.limit = self._throttled(sample)
        else:
            own = self.parameters
            self.limit = min(int((self.limit + own.ticket_adder) * own.ticket_multiplier), MAX_TICKETS)
        self.left = self.granted = self.limit
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
