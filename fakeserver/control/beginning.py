"""The beginning of a deployment: its state at one instant, which `reset` brings back.

What is brought back is compared first, so that a reset costs what has changed and no more. Data are a
snapshot that shares its documents with the deployment (docs/adr/0007): bringing it back copies nothing, and
the first write to each collection afterwards copies the keys of that collection.

What clients rely on goes on, or they would lose their way: terms, `topologyVersion`, cluster time, ids of
connections and requests, and the counters of `serverStatus`. A member that was removed is configured anew,
under a higher version; the first primary is elected, in a new term.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control import data
from fakeserver.deployment.replication.state import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.logs.server_log import Profiling
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.shard import Shard
    from fakeserver.deployment.spec import MemberSpec

_NEVER: Final = float("-inf")


class Beginning:
    """The state of a deployment when it was made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._data = data.take(cluster)
        self._last = cluster.oplog.last
        self._users = cluster.users.state()
        self._concerns = replace(cluster.default_concerns)
        self._write_block = cluster.write_block
        self._features = cluster.feature_compatibility_version
        self._rules, self._faults = cluster.rules.kept(), cluster.faults.registry.kept()
        self._sets = [_Set.of(shard) for shard in cluster.shards]
        self._servers = {node: _Server.of(node) for node in cluster.servers}

    @property
    def stopped(self) -> Sequence[Node]:
        """The servers that do not run, and have to, before `bring_back`."""
        return [node for node, state in self._servers.items() if node.stopped and state.runs]

    @property
    def added(self) -> Sequence[Node]:
        """The servers that have come since; they have to go, after `bring_back`."""
        return [node for node in self._cluster.servers if node not in self._servers]

    def parameters_of(self, node: Node) -> Mapping[str, Any]:
        """Return the server parameters that a server had; of one that was added since, its own."""
        state = self._servers.get(node)
        return node.parameters.values if state is None else state.parameters

    def bring_back(self) -> None:
        """Make everything as it was, but for servers that do not run, or were added. It does not wait."""
        cluster = self._cluster
        now = cluster.clock.now()
        cluster.rules.restore(self._rules, now)
        cluster.faults.restore(self._faults, cluster)
        data.interrupt(cluster)
        cluster.transactions.abort_all()
        profiled = [state.bring_back(node) for node, state in self._servers.items()]
        moved = [state.reconnect(node) for node, state in self._servers.items()]
        for each in self._sets:
            each.bring_back(settle=any(moved))
        if any(profiled) or cluster.oplog.last != self._last or cluster.config is not None:
            data.restore(cluster, self._data)
            self._last = cluster.oplog.last
        for node, state in self._servers.items():
            node.position.reset(state.lag)
        cluster.sessions.clear()
        if cluster.users.restore(*self._users):
            self._users = (*self._users[:2], cluster.users.version)
        _assign(cluster.default_concerns, self._concerns)
        cluster.write_block = self._write_block
        cluster.feature_compatibility_version = self._features
        for node in cluster.servers:
            node.pipeline.recompile()
        cluster.journal.clear()


@dataclass(frozen=True, slots=True)
class _Set:
    """A replica set: its members, and its primary."""

    shard: Shard
    members: Mapping[Node, MemberSpec]
    primary: Node | None

    @classmethod
    def of(cls, shard: Shard) -> _Set:
        return cls(shard, {node: node.member.spec for node in shard.nodes}, shard.primary)

    def bring_back(self, *, settle: bool) -> None:
        shard = self.shard
        if shard.nodes != tuple(self.members) or any(
            node.member.spec != spec for node, spec in self.members.items()
        ):
            shard.reconfigure(self.members)
        for node in self.members:
            if node.role is Role.RECOVERING:
                shard.replica_set.maintain(node.member, on=False)
        shard.abandon_histories()
        if settle:
            shard.settle()
        if self.primary is not None and shard.primary is not self.primary:
            shard.elect(self.primary)


@dataclass(frozen=True, slots=True)
class _Server:
    """The settings of one server."""

    parameters: Mapping[str, Any]
    fail_points: Mapping[str, tuple[Any, Mapping[str, Any]]]
    profiling: Profiling
    slow: tuple[float, float]
    lag: float
    runs: bool

    @classmethod
    def of(cls, node: Node) -> _Server:
        active = node.fail_points.active
        profiling = node.profiler.profiling
        return cls(
            node.parameters.values,
            {name: (point.setting, point.data) for name, point in active.items()},
            replace(profiling, levels=dict(profiling.levels)),
            (node.slowness.delay, node.slowness.jitter),
            node.position.delay,
            not node.stopped,
        )

    def bring_back(self, node: Node) -> bool:
        """Make a server's settings as they were; return whether it has recorded operations meanwhile."""
        node.parameters.restore(self.parameters)
        points = node.fail_points
        for name in dict.fromkeys((*points.active, *self.fail_points)):
            mode, held = self.fail_points.get(name, ("off", {}))
            node.configure_fail_point(name, mode=mode, data=dict(held))
        points.forget_hits()
        node.admission.fill(node.clock.now())
        node.cursors.clear()
        if node.transaction_router is not None:
            node.transaction_router.clear()
        if node.shards is not None:
            node.shards.forget()
        while node.write_lock.count:
            node.write_lock.unlock()
        profiler = node.profiler
        if profiler.profiling == self.profiling:
            return bool(self.profiling.levels)
        for db in {*profiler.profiling.levels, *self.profiling.levels}:
            profiler.set_level(db, self.profiling.levels.get(db, 0))
        _assign(profiler.profiling, replace(self.profiling, levels=dict(self.profiling.levels)))
        node.pipeline.recompile()
        return True

    def reconnect(self, node: Node) -> bool:
        """End what keeps a server from others; return whether its set has to look anew."""
        member, outages = node.member, node.outages
        if (node.slowness.delay, node.slowness.jitter) != self.slow:
            outages.slow(*self.slow)
        moved = outages.end() or member.island != 0
        member.island, member.frozen_until = 0, _NEVER
        return moved


def _assign(target: Any, source: Any) -> None:
    """Copy every field of a dataclass."""
    for each in fields(source):
        setattr(target, each.name, getattr(source, each.name))
