"""What flow control has to know of the set, looked at once in a period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.admission.flow_control import LagSample
from fakeserver.admission.flow_samples import FlowSamples

if TYPE_CHECKING:
    from fakeserver.node import Node
    from fakeserver.oplog import OpTime

_PERIOD: Final = 1.0
"""`flowControlPollIntervalMs`, in seconds."""


class FlowMonitor:
    """Fills up the tickets of one member's flow control, second by second (`Flow Control`).

    No timer runs. Whoever writes, asks, or is about to change what it looks at (the oplog, a member's place
    in it, who is primary, a parameter) has it catch up first, so that each period sees what was true in it.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._began = node.started_at
        self._periods = 0
        self._samples = FlowSamples()
        self._sustainer: OpTime | None = None
        self._stuck = 0.0
        """For how many seconds the majority has been behind and has not moved."""

    @property
    def _next_at(self) -> float:
        return self._began + (self._periods + 1) * _PERIOD

    def written(self, optime: OpTime) -> None:
        """Take note of an operation that this member wrote as a primary."""
        if self._node.is_primary:
            flow, samples = self._node.admission.flow, self._samples
            samples.period, samples.most = flow.parameters.sample_period, flow.parameters.max_samples
            samples.record(optime, flow.locks_total)

    def catch_up(self, now: float) -> float:
        """Begin the periods whose time has come; return the instant of the next one."""
        next_at = self._next_at
        if now < next_at:
            return next_at
        flow, seen = self._node.admission.flow, None
        while now >= self._next_at:
            before, seen = (seen, flow.limit), self._begin(1)
            if before == (seen, flow.limit):
                # Nothing has happened since, so every period is like this one.
                left = max(int(now - self._next_at), 0)
                self._begin(left)
        return self._next_at

    def _begin(self, periods: int) -> LagSample | None:
        """Begin so many periods, all alike, and return what was seen."""
        self._periods += periods
        node, flow = self._node, self._node.admission.flow
        shard = node.shard
        if not flow.parameters.enabled or shard is None or not node.is_primary:
            flow.release_all()
            self._samples.clear()
            self._sustainer = None
            return None
        sustainer = shard.majority()
        seen = self._look(sustainer)
        self._sustainer = sustainer
        self._samples.trim(sustainer)
        if periods:
            flow.next_period(seen, seconds=periods * _PERIOD)
            self._warn(periods * _PERIOD, moved=seen.sustained != 0)
        return seen

    def _look(self, sustainer: OpTime) -> LagSample:
        last, before, samples = self._node.oplog.last, self._sustainer, self._samples
        if before is None:
            sustained = None
        else:
            sustained = 0 if before == sustainer else samples.between(before, sustainer)
        return LagSample(
            lag=max(last.seconds - sustainer.seconds, 0),
            behind=samples.between(sustainer, last),
            sustained=sustained,
            locks_used=self._node.admission.flow.locks_used,
            locks_per_operation=samples.locks_per_operation,
        )

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
