"""The servers of one replica set, and its elections: the deployment itself, or a shard of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.events import PrimaryElected, PrimarySteppedDown
from fakeserver.replication import Member, ReplicaSet, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.cluster import Cluster
    from fakeserver.node import Node
    from fakeserver.oplog import OpTime


def shard_name(number: int) -> str:
    """Return the name of a shard of a sharded cluster, which is that of its replica set."""
    return f"shard{number + 1:02}"


class Shard:
    """A replica set that runs. Its state is `replica_set`, which knows no servers and never waits."""

    def __init__(self, cluster: Cluster, replica_set: ReplicaSet, nodes: Sequence[Node]) -> None:
        self.cluster = cluster
        self.replica_set = replica_set
        self.nodes = tuple(nodes)
        for node in self.nodes:
            node.shard = self

    def __repr__(self) -> str:
        return f"<Shard {self.name} of {len(self.nodes)}>"

    @property
    def name(self) -> str:
        """The name of the set, which is the shard's too."""
        return self.replica_set.name

    @property
    def connection_string(self) -> str:
        """The set as `config.shards` has it: its name and its members."""
        return f"{self.name}/" + ",".join(node.address for node in self.nodes)

    @property
    def primary(self) -> Node | None:
        """The member that takes writes, if there is one now."""
        found = self.replica_set.primary
        return None if found is None else self.node_of(found)

    def replicated(self, optime: OpTime) -> int:
        """Return how many members have the operation of `optime`."""
        return sum(node.applied >= optime for node in self.nodes)

    def majority(self) -> OpTime:
        """Return the last operation that a majority has."""
        positions = sorted((node.applied for node in self.nodes), reverse=True)
        return positions[len(positions) // 2]

    def node_of(self, member: Member) -> Node:
        """Return the server that is this member."""
        return next(node for node in self.nodes if node.member is member)

    def step_down(self, *, seconds: float) -> Node:
        """Make the primary a secondary that seeks no election for `seconds`, and return it.

        Raises `ValueError` if there is no primary.
        """
        now = self.cluster.clock.now()
        node = self.node_of(self.replica_set.step_down(frozen_until=now + seconds))
        node.record(PrimarySteppedDown(node.name, self.replica_set.term))
        self.cluster.transactions.abort_all()
        self.cluster.replication.ring()
        self._seek_election(now + self.cluster.spec.election_delay)
        return node

    def elect(self, node: Node) -> None:
        """Make `node` the primary of a new term. Raises `ValueError` unless it is a secondary."""
        if node.role is not Role.SECONDARY:
            raise ValueError(f"{node.name} is {node.role.name}, only a SECONDARY can be elected")
        replica_set, oplog = self.replica_set, self.cluster.oplog
        old = self.primary
        if old is not None:
            self.cluster.transactions.abort_all()
            old.record(PrimarySteppedDown(old.name, replica_set.term))
        replica_set.elect(node.member)
        node.record(PrimaryElected(node.name, replica_set.term))
        oplog.term = max(oplog.term, replica_set.term)
        oplog.append()
        self.cluster.replication.ring()

    def _seek_election(self, at: float) -> None:
        async def campaign() -> None:
            await self.cluster.clock.sleep_until(at)
            self._hold_election()

        self.cluster.spawn(campaign())

    def _hold_election(self) -> None:
        replica_set = self.replica_set
        if replica_set.primary is not None:
            return
        now = self.cluster.clock.now()
        winner = replica_set.candidate(now)
        if winner is not None:
            self.elect(self.node_of(winner))
            return
        thaw = replica_set.next_thaw()
        if thaw is not None:
            self._seek_election(max(thaw, now + self.cluster.spec.election_delay))
