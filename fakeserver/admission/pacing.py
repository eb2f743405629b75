"""The rate limiters that 9.0 has beside those of requests and of connections.

    egress   paces the replies that refuse a request, so that clients which do not back off are slowed down
    writes   the write throttler: tokens are documents that a writer writes
    flow     flow control by a rate, in the place of tickets for a second

Each is a `RateLimiter`; none but the first is without bounds where nobody has set it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.admission.flow_control import MAX_TICKETS
from fakeserver.admission.parameters import MOST_WRITES
from fakeserver.admission.rate_limiter import RateLimiter
from fakeserver.settings.declaration import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

EGRESS: Final = "egressResponseRateLimiter"
_WRITES: Final = "writeThrottle"
_FLOW: Final = "flowControl"


class Pacing:
    """The three limiters, as the parameters `own` set them."""

    def __init__(self, own: Mapping[str, Any] | Any, now: float) -> None:
        self.egress = RateLimiter(EGRESS, **_egress(own), max_queue_depth=INT64_MAX, now=now)
        self.writes = RateLimiter(_WRITES, **_writes(own), now=now)
        self.flow = RateLimiter(
            _FLOW, rate=MAX_TICKETS, burst_seconds=own["flowControlRateLimiterBurstCapacitySecs"], now=now
        )
        self._set = (_egress(own), _writes(own))
        self._flow_rate = MAX_TICKETS
        self._read(own)

    def __repr__(self) -> str:
        return f"<Pacing {self.egress!r}, {self.writes!r}, {self.flow!r}>"

    @property
    def limiters(self) -> tuple[RateLimiter, ...]:
        """All of them."""
        return self.egress, self.writes, self.flow

    def reconfigure(self, own: Mapping[str, Any] | Any, now: float) -> None:
        """Take changed parameters into account. A limiter whose rate is untouched keeps tokens and debts."""
        before, self._set = self._set, (_egress(own), _writes(own))
        for limiter, old, new in zip((self.egress, self.writes), before, self._set, strict=True):
            if new != old:
                limiter.reconfigure(now, **new)
        if own["flowControlRateLimiterBurstCapacitySecs"] != self._flow_burst:
            self._read(own)
            self.flow.reconfigure(now, rate=self._flow_rate, burst_seconds=self._flow_burst)
        self._read(own)

    def _read(self, own: Mapping[str, Any] | Any) -> None:
        self.limits_writes: bool = own["writeThrottlerEnabled"]
        self.most_cost: int = own["writeThrottlerMaxCostPerOp"]
        self.writes.max_queue_depth = own["writeThrottlerMaxQueueDepth"]
        self.limits_flow: bool = own["flowControlUseRateLimiter"]
        """Whether writers ask `flow`, and not for a ticket of the second."""
        self.flow.max_queue_depth = own["flowControlRateLimiterMaxQueueDepth"]
        self._flow_burst: float = own["flowControlRateLimiterBurstCapacitySecs"]

    def allow(self, tickets: int, now: float) -> None:
        """Give writers so many tickets of flow control a second."""
        rate = max(tickets, 1)
        if rate != self._flow_rate:
            self._flow_rate = rate
            self.flow.reconfigure(now, rate=rate, burst_seconds=self._flow_burst)

    def cost(self, documents: int) -> int:
        """Return the tokens that a write of so many documents costs."""
        cost = max(documents, 1)
        return min(cost, self.most_cost) if self.most_cost else cost

    def write_stats(self, now: float) -> dict[str, Any]:
        """Return `queues.writeThrottler`."""
        rate = self._set[1]["rate"]
        return {"enabled": self.limits_writes, "targetRateLimit": rate, **self.writes.stats(now)}

    def flow_stats(self, now: float) -> dict[str, Any]:
        """Return `flowControl.rateLimiter`."""
        return {**self.flow.stats(now), "queued": Int64(self.flow.queued)}


def _egress(own: Mapping[str, Any] | Any) -> dict[str, Any]:
    return {"rate": own[f"{EGRESS}RatePerSec"], "burst_seconds": own[f"{EGRESS}BurstCapacitySecs"]}


def _writes(own: Mapping[str, Any] | Any) -> dict[str, Any]:
    rate = own["writeThrottlerTargetRatePerSec"] if own["writeThrottlerEnabled"] else MOST_WRITES
    return {"rate": min(rate, MOST_WRITES), "burst_seconds": own["writeThrottlerBurstCapacitySecs"]}
