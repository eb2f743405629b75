"""Policies of a controller: pure decisions, one sound, one that people make all the same.

Nothing here asks a server or a clock. `Reading.of` takes the counters out of a `serverStatus`, `since` makes
a `Sample` of two of them, and a `Policy` makes `Settings` of that. All times are seconds, all rates per
second; `serverStatus` has milliseconds and microseconds, which end in `Reading.of`. Counters are those since
the start of the server, so time is measured by its `uptime` too: a slow reply does not distort a rate.

docs/OVERLOAD.md, "The policy engine", has the rules of `Aimd` for operators, with what they achieve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


UNLIMITED: Final = 2**31 - 1
"""The rate of a limiter that limits nothing."""
_LEAST_RATE: Final = 1
_LEAST_BURST_TOKENS: Final = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for the limiters of a server; rates are per second.

    Without a `connection_rate` the limiter of new connections is left alone.
    """

    request_rate: int
    burst_seconds: float = 0.1
    connection_rate: int | None = None

    def parameters(self) -> dict[str, Any]:
        """Return them as server parameters."""
        # A bucket that holds no whole token would admit nobody.
        burst = max(self.burst_seconds, _LEAST_BURST_TOKENS / self.request_rate)
        chosen: dict[str, Any] = {
            "ingressRequestRateLimiterEnabled": True,
            "ingressRequestAdmissionRatePerSec": self.request_rate,
            "ingressRequestAdmissionBurstCapacitySecs": burst,
        }
        if self.connection_rate is not None:
            chosen |= {
                "ingressConnectionEstablishmentRateLimiterEnabled": True,
                "ingressConnectionEstablishmentRatePerSec": self.connection_rate,
                "ingressConnectionEstablishmentBurstCapacitySecs": 1.0,
            }
        return chosen


class Policy(Protocol):
    """Decides what the limiters are set to, from what was seen since it last decided."""

    def decide(self, sample: Sample, now: float) -> Settings:
        """Return what the limiters are to be set to from `now` on."""
        ...


class Aimd:
    """Additive increase, multiplicative decrease, on the delay that requests queue for.

    While they queue for longer than `target_delay` seconds, and have since the last look, the server is busy,
    and what it finishes is what it can do: the rate goes to `decrease` of that, and the queue drains. While
    they do not, and a limiter that the policy sets rejects somebody, the rate grows: by `increase` of the
    capacity a second once that is known, before by `growth` times a decision. A limit that nobody meets stays
    where it is: growing then would prove nothing.
    """

    def __init__(
        self,
        *,
        target_delay: float = 0.1,
        decrease: float = 0.9,
        increase: float = 0.05,
        growth: float = 1.5,
        initial_rate: float = 20.0,
        weight: float = 0.3,
        limits_connections: bool = False,
        capacity: float | None = None,
    ) -> None:
        self.rate = initial_rate if capacity is None else capacity * decrease
        self.capacity = capacity
        """Operations a second that a busy server finished, a moving average; None before it was busy, unless
        it is known from the beginning."""
        self._target_delay = target_delay
        self._decrease = decrease
        self._increase = increase
        self._growth = growth
        self._weight = weight
        self._limits_connections = limits_connections

    def __repr__(self) -> str:
        return f"<Aimd {self.rate:.0f}/s of {self.capacity or float('nan'):.0f}/s>"

    def decide(self, sample: Sample, _now: float) -> Settings:
        if sample.delay > self._target_delay:
            if sample.busy:
                known, new = self.capacity, sample.finished
                self.capacity = new if known is None else known + self._weight * (new - known)
                # Never up: while there is a queue, a rate below the target already drains it.
                self.rate = min(self.rate, self.capacity * self._decrease)
        elif sample.rejected or (self._limits_connections and sample.turned_away):
            if self.capacity is None:
                self.rate *= self._growth
            else:
                self.rate += self.capacity * self._increase * sample.seconds
        rate = round(min(max(self.rate, _LEAST_RATE), UNLIMITED))
        return Settings(rate, connection_rate=rate if self._limits_connections else None)


class FollowThroughput:
    """Naive: let in what the server was seen to finish, and a little more, so that it may grow.

    A server that is busy finishes as much with a long queue as with none: the little more is what makes the
    queue grow, for as long as there are more requests than it can serve.
    """

    def __init__(
        self, *, headroom: float = 1.1, initial_rate: float = 20.0, limits_connections: bool = False
    ) -> None:
        self._headroom = headroom
        self._initial_rate = initial_rate
        self._limits_connections = limits_connections

    def decide(self, sample: Sample, _now: float) -> Settings:
        rate = round(max(sample.finished * self._headroom, self._initial_rate))
        return Settings(rate, connection_rate=rate if self._limits_connections else None)


POLICIES: Final[Mapping[str, type[Aimd | FollowThroughput]]] = {
    "aimd": Aimd,
    "follow-throughput": FollowThroughput,
}
"""The policies by the names that a command line takes.

With `limits_connections` each lets in as many new connections a second as requests: one that brings no
request would be worth nothing.
"""


# Readings of a server's queues from `serverStatus`, and the difference between two of them.


_MICROSECONDS: Final = 1e6
_MILLISECONDS: Final = 1e3


class CannotGovernError(Exception):
    """The server has no queues that a controller could read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The work of a server in the `seconds` between two readings; the others are per second, and a delay."""

    seconds: float
    admitted: float
    rejected: float
    """Answers of the request rate limiter, as are those admitted."""
    finished: float
    """Operations that gave back their ticket."""
    queue_length: int
    busy: bool
    """There was a queue at both readings, so what was finished is all that could be."""
    delay: float
    """Seconds that an operation queued for tickets, or will, if the queue moves on as it did."""
    turned_away: float = 0.0
    """Connections that were not established, because of their own rate limiter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters of one `serverStatus`; times are seconds."""

    uptime: float
    admitted: int
    rejected: int
    finished: int
    arrived: int
    time_queued: float
    queue_length: int
    turned_away: int = 0

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Self:
        """Read a reply. Raises `CannotGovernError` where it lacks `queues.execution` or the limiter."""
        try:
            limiter = status["network"]["ingressRequestRateLimiter"]
            execution = [status["queues"]["execution"][pool]["normalPriority"] for pool in ("read", "write")]
            ingress = status["queues"].get("ingress")
            queues = [*execution, *([] if ingress is None else [ingress["normalPriority"]])]
        except KeyError as error:
            raise CannotGovernError(
                f"the server's status has no {error}: it is no mongod since 8.2"
            ) from None
        return cls(
            uptime=status["uptimeMillis"] / _MILLISECONDS,
            admitted=limiter["successfulAdmissions"],
            rejected=limiter["rejectedAdmissions"],
            finished=sum(each["finishedProcessing"] for each in execution),
            arrived=sum(each["newAdmissions"] for each in execution),
            time_queued=sum(each["totalTimeQueuedMicros"] for each in queues) / _MICROSECONDS,
            queue_length=sum(each["queueLength"] for each in queues),
            turned_away=status.get("connections", {}).get("establishmentRateLimit", {}).get("rejected", 0),
        )

    def since(self, before: Reading) -> Sample | None:
        """Return what happened since an earlier reading, None if no time has passed."""
        seconds = self.uptime - before.uptime
        if seconds <= 0:
            return None  # also after a restart, when the counters begin again
        finished = (self.finished - before.finished) / seconds
        # Per operation that arrived, not per second.
        queued = (self.time_queued - before.time_queued) / max(self.arrived - before.arrived, 1)
        # Whoever still waits is not in the sum: a queue that stands shows by its length alone.
        ahead = self.queue_length / finished if finished else self.queue_length * seconds
        return Sample(
            seconds=seconds,
            admitted=(self.admitted - before.admitted) / seconds,
            rejected=(self.rejected - before.rejected) / seconds,
            finished=finished,
            queue_length=self.queue_length,
            busy=before.queue_length > 0 and self.queue_length > 0,
            delay=max(queued, ahead),
            turned_away=(self.turned_away - before.turned_away) / seconds,
        )
