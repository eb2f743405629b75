"""The monitors of a server: the samples of flow control, and the probes of execution control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from fakeserver.admission.flow_control import FlowSamples, LagSample
from fakeserver.deployment.logs.server_log import CAPACITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.deployment.server import Server
    from fakeserver.storage.port.oplog import OpTime
    from mongowire.ports import Clock


# The samples of flow control: the set's lag, looked at once in a period.


_PERIOD: Final = 1.0
"""`flowControlPollIntervalMs`, in seconds."""


class FlowMonitor:
    """Fills up the tickets of one member's flow control, second by second (`Flow Control`).

    No timer runs. Everything that the monitor looks at (the oplog, a member's position, the primary, a
    parameter) is changed by code that lets it catch up first, so that each period sees the state that it had.
    """

    def __init__(self, node: Server) -> None:
        self._node = node
        self._began = node.started_at
        self._periods = 0
        """The number of periods that have begun."""
        self._samples = FlowSamples()
        self._sustainer: OpTime | None = None
        """The last operation of the majority in the last period; a server calls its member the sustainer."""
        self._stuck = 0.0
        """The seconds for which the majority has been behind and has not moved, since the last warning."""

    @property
    def _next_at(self) -> float:
        return self._began + (self._periods + 1) * _PERIOD

    def written(self, optime: OpTime) -> None:
        """Record an operation that this member wrote as a primary."""
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
            # A clock that jumps an hour ahead, as one in virtual time does, must not cost 3600 steps.
            if before == (seen, flow.limit):
                # Nothing has happened since, so every period is like this one.
                left = max(int(now - self._next_at), 0)
                self._begin(left)
        return self._next_at

    def _begin(self, periods: int) -> LagSample | None:
        """Begin `periods` periods, all alike, and return their sample."""
        self._periods += periods
        node, flow = self._node, self._node.admission.flow
        shard = node.shard
        # Asked before all else, so it holds also where flow control is off.
        if flow.override is not None and shard is not None and node.is_primary:
            if periods:
                flow.grant(flow.override)
            return None
        # Only a primary has a majority to wait for; a member that becomes one begins without a history.
        if not flow.parameters.enabled or shard is None or not node.is_primary:
            flow.release_all()
            self._samples.clear()
            self._sustainer = None
            return None
        sustainer = shard.majority(node.history)
        last, before, samples = self._node.oplog.last, self._sustainer, self._samples
        # None is unknown, which flow control answers with half of the tickets that were used; 0 is a majority
        # that does not move. Samples are kept for some operations only, so equality is asked for itself.
        if before is None:
            sustained = None
        else:
            sustained = 0 if before == sustainer else samples.between(before, sustainer)
        seen = LagSample(
            lag=max(last.seconds - sustainer.seconds, 0),
            behind=samples.between(sustainer, last),
            sustained=sustained,
            locks_used=self._node.admission.flow.locks_used,
            locks_per_operation=samples.locks_per_operation,
        )
        self._sustainer = sustainer
        self._samples.trim(sustainer)
        if periods:
            flow.next_period(seen, seconds=periods * _PERIOD)
            self._warn(periods * _PERIOD, moved=seen.sustained != 0)
        return seen

    def _warn(self, seconds: float, *, moved: bool) -> None:
        """Warn of a majority that does not move, each time that the threshold passes; one of 0 is silent."""
        flow = self._node.admission.flow
        threshold = flow.parameters.warn_threshold
        self._stuck = 0.0 if moved or not flow.is_lagged else self._stuck + seconds
        if not 0 < threshold <= self._stuck:
            return
        times, self._stuck = divmod(self._stuck, threshold)
        # A clock that jumps a day ahead brings no more lines than the log keeps.
        for _ in range(min(int(times), CAPACITY)):
            self._node.log.write(
                "REPL",
                22225,
                "Flow control is engaged and the sustainer point is not moving. Please check the health of"
                " all secondaries.",
                severity="W",
                context="conn",
            )


class FlowMonitored(Protocol):
    """A server that has a monitor, another one after each start."""

    flow_monitor: FlowMonitor


class MonitoredSet(Protocol):
    """A replica set of the deployment."""

    @property
    def nodes(self) -> Sequence[FlowMonitored]:
        """Its members."""


class MonitoredDeployment(Protocol):
    """The deployment whose writes are watched."""

    clock: Clock

    @property
    def shards(self) -> Sequence[MonitoredSet]:
        """Its replica sets, none on a standalone."""


class FlowMonitors:
    """The monitors of all members of a deployment, which has one oplog."""

    def __init__(self, deployment: MonitoredDeployment) -> None:
        self._deployment = deployment
        self._caught_up_until = 0.0

    def catch_up(self) -> None:
        """Have every monitor look at its set as it is, before that changes."""
        shards = self._deployment.shards
        if not shards:
            return
        now = self._deployment.clock.now()
        if now >= self._caught_up_until:
            monitors = [node.flow_monitor for shard in shards for node in shard.nodes]
            self._caught_up_until = min(monitor.catch_up(now) for monitor in monitors)

    def written(self, optime: OpTime) -> None:
        """Record an operation: each monitor knows whether its member is the primary that wrote it."""
        for shard in self._deployment.shards:
            for node in shard.nodes:
                node.flow_monitor.written(optime)


# A timer for the probes of execution control, for the time in which an operation waits for a ticket.
#
# A probe may raise the number of tickets, so that nothing but the probe can serve the operation.


_WITHOUT_PROGRESS: Final = 4
"""The number of probes without progress after which all later ones would be the same."""


class ProbingClock:
    """Sleeps from probe to probe of one server's execution control, while an operation waits for a ticket.

    Otherwise the probes that were due are made when the next operation comes (`ExecutionControl.catch_up`),
    so a server without a queue schedules nothing.
    """

    def __init__(self, node: Server) -> None:
        self._node = node
        self._runs = False

    def wake(self) -> None:
        """Begin to probe on time, if an operation waits for it."""
        if not self._runs and self._node.ready and self._node.admission.execution.awaits_probe:
            self._runs = True
            self._node.spawn(self._run())

    async def _run(self) -> None:
        node, clock = self._node, self._node.clock
        execution = node.admission.execution
        alike = 0
        try:
            while alike < _WITHOUT_PROGRESS and execution.awaits_probe and node.ready:
                before = execution.progress
                await clock.sleep_until(execution.next_probe)
                if execution is not node.admission.execution:
                    return
                execution.catch_up(clock.now())
                alike = alike + 1 if execution.progress == before else 0
        finally:
            self._runs = False
