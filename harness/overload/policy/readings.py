"""Readings of a server's queues from `serverStatus`, and the difference between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_MICROSECONDS: Final = 1e6
_MILLISECONDS: Final = 1e3


class CannotGovernError(Exception):
    """The server has no queues that a controller could read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a server did in the `seconds` between two readings; the others are per second, and a delay."""

    seconds: float
    admitted: float
    rejected: float
    """What the request rate limiter said to requests."""
    finished: float
    """Operations that gave back their ticket."""
    queue_length: int
    busy: bool
    """There was a queue at both readings, so what was finished is all that could be."""
    delay: float
    """How many seconds an operation queued for tickets, or will, if the queue moves on as it did."""
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
            return None
        finished = (self.finished - before.finished) / seconds
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
