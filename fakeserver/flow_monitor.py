"""What flow control has to know of the set, looked at once in a period, when somebody writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.admission.flow_control import LagSample

if TYPE_CHECKING:
    from fakeserver.node import Node
    from fakeserver.oplog import OpTime

_PERIOD: Final = 1.0
"""`flowControlPollIntervalMs`, in seconds."""


class FlowMonitor:
    """Fills up the tickets of one member's flow control, second by second (`Flow Control`)."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next_at = node.started_at + _PERIOD
        self._seen: OpTime = node.oplog.last
        self._sustainer: OpTime | None = None
        self._stuck = 0.0
        """For how many seconds the majority has been behind and has not moved."""

    def replenish(self, now: float) -> float:
        """Begin a new period if it is time; return the instant of the next one."""
        if now >= self._next_at:
            elapsed = now - self._next_at + _PERIOD
            self._next_at = now + _PERIOD
            self._begin(elapsed)
        return self._next_at

    def _begin(self, seconds: float) -> None:
        node, flow = self._node, self._node.admission.flow
        shard = node.shard
        if not flow.parameters.enabled or shard is None or not node.is_primary:
            flow.release_all()
            return
        sustainer = shard.majority()
        applied = None if self._sustainer is None else self._between(self._sustainer, sustainer)
        sample = LagSample(
            lag=max(node.oplog.last.seconds - sustainer.seconds, 0),
            sustained=applied,
            locks_used=flow.locks_used,
            operations=self._between(self._seen, node.oplog.last),
        )
        self._seen, self._sustainer = node.oplog.last, sustainer
        flow.next_period(sample, seconds=seconds)
        self._warn(seconds, moved=applied != 0)

    def _warn(self, seconds: float, *, moved: bool) -> None:
        """Warn, once, of a majority that does not move at all."""
        flow = self._node.admission.flow
        before = self._stuck
        self._stuck = 0.0 if moved or not flow.is_lagged else before + seconds
        if before < flow.parameters.warn_threshold <= self._stuck:
            self._node.log.write(
                "REPL",
                22223,
                "Flow control is engaged and the sustainer point is not moving. Please check the health of"
                " all secondaries.",
                severity="W",
                context="conn",
            )

    def _between(self, begin: OpTime, end: OpTime) -> int:
        """Return how many operations are later than `begin` and not later than `end`."""
        return sum(entry.optime <= end for entry in self._node.oplog.since(begin))
