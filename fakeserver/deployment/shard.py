"""The servers of one replica set, and its elections: the deployment itself, or a shard of it.

`ReplicaSet` holds the state and its rules; this module adds servers, time and data.

Positions. A member has all operations (its `position.applied` is None), or those up to one. Elections, write
concerns and majority reads compare these operation times. The majority's is the one that `write_majority` of
the voting members with data have reached.

Elections. An election is never held at once, but after the spec's `election_delay`, so that clients see a set
without a primary, as they do for seconds on a real one. It is scheduled

    - when a primary steps down, for the others; the old one is frozen,
    - when a member ends, returns, is cut off or reached again (`settle`),
    - when a frozen member thaws, or a member of higher priority than the primary's has caught up.

At most one election is scheduled, the earliest. When its time has come it looks at the set as it is then: a
candidate may be gone, or may be behind a primary that it wanted to take over from.

A new primary has all acknowledged writes by construction: members share one store, and whoever is elected
shows the store itself. So a member that was held back catches up by its election, and no history forks
(docs/adr/0009). Its first operation is a no-op in the new term, as a server writes one: it makes the old
term's operations part of a majority's, and gives readers an operation time of this primary. Open transactions
are aborted, since only the old primary had them.

Flow control looks at positions and primaries once a second and without a timer, so each function here lets it
catch up before it changes either (`Cluster.catch_up`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fakeserver.deployment.events import PrimaryElected, PrimarySteppedDown
from fakeserver.deployment.hello import MemberFacts
from fakeserver.deployment.replication import Member, ReplicaSet, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.spec import MemberSpec
    from fakeserver.storage.oplog import OpTime


def shard_name(number: int) -> str:
    """Return the name of a shard of a sharded cluster, which is that of its replica set."""
    return f"shard{number + 1:02}"


class Shard:
    """A replica set that runs. Its state is `replica_set`, which knows no servers and never waits."""

    def __init__(self, cluster: Cluster, replica_set: ReplicaSet, nodes: Sequence[Node]) -> None:
        self.cluster = cluster
        self.replica_set = replica_set
        self.nodes = tuple(nodes)
        self._election_at: float | None = None
        """The instant of the scheduled election, None while none is."""
        for node in self.nodes:
            node.shard = self
            if node.member.spec.delay:
                node.position.lag(node.member.spec.delay)

    def __repr__(self) -> str:
        return f"<Shard {self.name} of {len(self.nodes)}>"

    @property
    def name(self) -> str:
        """The name of the set, which is the shard's too."""
        return self.replica_set.name

    @property
    def connection_string(self) -> str:
        """The set as `config.shards` has it: its name, and its members that hold data and are shown."""
        return f"{self.name}/" + ",".join(
            node.address for node in self.data_bearing if node.member.spec.is_shown
        )

    @property
    def primary(self) -> Node | None:
        """The member that takes writes, if there is one now."""
        found = self.replica_set.primary
        return None if found is None else self.node_of(found)

    def node_of(self, member: Member) -> Node:
        """Return the server that is this member."""
        for node in self.nodes:  # asked at each write
            if node.member is member:
                return node
        raise LookupError(f"no server is {member!r}")

    def facts_of(self, node: Node) -> MemberFacts | None:
        """Return the facts of a member's hello, None for a server that is no member (yet, or any more)."""
        if node not in self.nodes:
            return None
        replica_set = self.replica_set
        # A member knows of the majority's progress up to its own.
        applied, majority = node.applied, min(self.majority(), node.applied)
        shown = [member for member in replica_set.members if member.spec.is_shown]
        others = [member for member in shown if not member.spec.is_electable]
        primary = replica_set.primary
        return MemberFacts(
            set_name=replica_set.name,
            set_version=replica_set.version,
            hosts=tuple(member.address for member in shown if member.spec.is_electable),
            passives=tuple(member.address for member in others if not member.spec.arbiter),
            arbiters=tuple(member.address for member in others if member.spec.arbiter),
            spec=node.member.spec,
            me=node.address,
            role=node.role,
            primary=primary.address if primary is not None and primary.reaches(node.member) else None,
            election_id=replica_set.election_id if node.is_primary else None,
            last_write=applied,
            last_write_date=datetime.fromtimestamp(applied.seconds, UTC),
            majority=majority,
            majority_date=datetime.fromtimestamp(majority.seconds, UTC),
        )

    # How far its members are.

    @property
    def data_bearing(self) -> list[Node]:
        """The members that are no arbiters."""
        return [node for node in self.nodes if not node.member.spec.arbiter]

    def replicated(self, optime: OpTime) -> int:
        """Return the number of members that have the operation of `optime`."""
        return sum(node.applied >= optime for node in self.data_bearing)

    def majority(self) -> OpTime:
        """Return the last operation that a majority of the members with a vote has."""
        voters = (node for node in self.data_bearing if node.member.spec.votes)
        positions = sorted((node.applied for node in voters), reverse=True)
        return positions[self.replica_set.write_majority - 1]

    def successor(self, now: float) -> Node | None:
        """Return a secondary that could take over at once: it has all that the primary has."""
        # The rule of `replSetStepDown` without force: a set must not be left without a primary.
        last = self.cluster.oplog.last
        found = [
            node
            for node in self.nodes
            if node.role is Role.SECONDARY
            and node.member.spec.is_electable
            and node.member.frozen_until <= now
            and node.applied >= last
            and self.replica_set.has_majority(node.member)
        ]
        return found[0] if found else None

    # Elections.

    def step_down(self, *, seconds: float) -> Node:
        """Make the primary a secondary that seeks no election for `seconds`, and return it.

        Raises `ValueError` if there is no primary.
        """
        now = self.cluster.clock.now()
        node = self._demote(frozen_until=now + seconds)
        self._seek_election(now + self.cluster.spec.election_delay)
        return node

    def elect(self, node: Node) -> None:
        """Make `node` the primary of a new term. Raises `ValueError` unless a majority would have it."""
        if node.role is not Role.SECONDARY:
            raise ValueError(f"{node.name} is {node.role.name}, only a SECONDARY can be elected")
        if not node.member.spec.is_electable:
            raise ValueError(f"{node.name} has priority 0 and cannot be elected")
        if not self.replica_set.has_majority(node.member):
            raise ValueError(f"{node.name} does not reach a majority of its set")
        # No check of its position: a test may elect any member, and it catches up by that.
        self.cluster.catch_up()
        replica_set, oplog = self.replica_set, self.cluster.oplog
        old = self.primary
        if old is not None:
            self.cluster.transactions.abort_all()
            old.record(PrimarySteppedDown(old.name, replica_set.term))
        replica_set.elect(node.member)
        node.record(PrimaryElected(node.name, replica_set.term))
        self._reposition()
        # Shards share one oplog, in which terms must not go back.
        oplog.term = max(oplog.term, replica_set.term)
        oplog.append()
        self.cluster.replication.ring()
        self.cluster.ttl.refresh()
        self._look_ahead()

    def settle(self) -> None:
        """Update primary and positions after a member or the network has changed.

        A primary without a majority steps down at once and not after a timeout: what it would go on to
        acknowledge could not be kept. A majority elects another after the spec's `election_delay`.
        """
        self.cluster.catch_up()
        primary = self.replica_set.primary
        if primary is not None and not self.replica_set.has_majority(primary):
            self._demote()
        else:
            self._reposition()
            self.cluster.replication.ring()
        # Also where the primary is the same: `primary` is missing from the hello of a member that is cut off.
        self.replica_set.announce()
        self._look_ahead()

    def reconfigure(self, members: Mapping[Node, MemberSpec], *, version: int | None = None) -> None:
        """Replace the members; `version` is the new configuration's."""
        self.cluster.catch_up()
        gone = [node for node in self.nodes if node not in members]
        if self.primary in gone:
            self._demote()
        for node, spec in members.items():
            node.shard = self
            old, node.member.spec = node.member.spec, spec
            if old.delay != spec.delay:
                node.position.lag(spec.delay)
        self.replica_set.reconfigure([node.member for node in members], version=version)
        self.nodes = tuple(members)
        for node in members:
            node.position.release("removed")
        # A removed server runs on and shows what it had; it must not see later writes.
        for node in gone:
            node.position.hold("removed")
        self.settle()

    def _demote(self, **facts: Any) -> Node:
        self.cluster.catch_up()
        node = self.node_of(self.replica_set.step_down(**facts))
        node.record(PrimarySteppedDown(node.name, self.replica_set.term))
        self.cluster.transactions.abort_all()
        node.position.refresh()
        self.cluster.replication.ring()
        self.cluster.ttl.refresh()
        return node

    def _reposition(self) -> None:
        """Hold back the members that the primary does not reach; the others catch up."""
        # Without a primary there is nothing to apply, and every member stays at its position.
        primary = self.replica_set.primary
        if primary is None:
            return
        for node in self.nodes:
            if node.member.reaches(primary):
                node.position.release("unreachable")
            else:
                node.position.hold("unreachable")

    def _look_ahead(self) -> None:
        """Schedule the next election, if a member could stand for one."""
        thaw = self.replica_set.next_thaw(above=self._priority_to_beat)
        if thaw is not None:
            self._seek_election(max(thaw, self.cluster.clock.now() + self.cluster.spec.election_delay))

    def _seek_election(self, at: float) -> None:
        if self._election_at is not None and self._election_at <= at:
            return
        self._election_at = at

        async def campaign() -> None:
            await self.cluster.clock.sleep_until(at)
            # Another instant: an earlier election was scheduled in between, and has been held.
            if self._election_at == at:
                self._election_at = None
                self._hold_election()

        self.cluster.spawn(campaign())

    def _hold_election(self) -> None:
        winner = self.replica_set.candidate(
            self.cluster.clock.now(), self._applied, above=self._priority_to_beat
        )
        primary = self.replica_set.primary
        if winner is None:
            self._look_ahead()
        # A takeover waits until the member has all that the primary has: whoever releases it calls `settle`.
        elif primary is None or self._applied(winner) >= self._applied(primary):
            self.elect(self.node_of(winner))

    @property
    def _priority_to_beat(self) -> float:
        primary = self.replica_set.primary
        return 0.0 if primary is None else primary.spec.rank

    def _applied(self, member: Member) -> OpTime:
        return self.node_of(member).applied
