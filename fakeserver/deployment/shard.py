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

A primary that reaches no majority steps down at once, unless the spec has an `election_timeout`: then it goes
on for so long, without knowing what the others do.

A new primary has all that a member in its reach has, as after a server's catch-up. Mostly that is everything:
members share one history, and whoever is elected shows its store. Where it is not, because the old primary
goes on beyond its reach, or the set has an `election_timeout` and the newest operations are on members that
are gone, another history begins (`replication.history`), and those who are on the old one roll back when they
return (docs/adr/0019). The first operation of a primary is a no-op in the new term, as a server writes one:
it makes the old term's operations part of a majority's, and gives readers an operation time of this primary.
Open transactions are aborted, since only the old primary had them.

Flow control looks at positions and primaries once a second and without a timer, so each function here lets it
catch up before it changes either (`Cluster.catch_up`).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fakeserver.deployment.records.events import PrimaryElected, PrimarySteppedDown
from fakeserver.deployment.replication.hello import MemberFacts
from fakeserver.deployment.replication.history import Point
from fakeserver.deployment.replication.rollback import roll_back
from fakeserver.deployment.replication.state import ALONE, Member, ReplicaSet, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.replication.history import History
    from fakeserver.deployment.spec import MemberSpec
    from fakeserver.storage.port.oplog import OpTime


class Shard:
    """A replica set that runs. Its state is `replica_set`, which knows no servers and never waits."""

    def __init__(self, cluster: Cluster, replica_set: ReplicaSet, nodes: Sequence[Node]) -> None:
        self.cluster = cluster
        self.replica_set = replica_set
        self.nodes = tuple(nodes)
        self._election_at: float | None = None
        """The instant of the scheduled election, None while none is."""
        self._in_doubt: dict[Node, float] = {}
        """The primaries that reach no majority, and the instants at which they step down for it."""
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
        applied, majority = node.applied, min(node.majority, node.applied)
        shown = [member for member in replica_set.members if member.spec.is_shown]
        others = [member for member in shown if not member.spec.is_electable]
        primary = replica_set.primary_seen_by(node.member)
        return MemberFacts(
            set_name=replica_set.name,
            set_version=replica_set.version,
            hosts=tuple(member.address for member in shown if member.spec.is_electable),
            passives=tuple(member.address for member in others if not member.spec.arbiter),
            arbiters=tuple(member.address for member in others if member.spec.arbiter),
            spec=node.member.spec,
            me=node.address,
            role=node.role,
            primary=None if primary is None else primary.address,
            election_id=replica_set.election_of(node.member) if node.is_primary else None,
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

    def position(self, node: Node, history: History) -> OpTime:
        """Return the last operation of a history that a member has, which may be on another one."""
        if node.history is history:
            return node.applied
        return min(node.applied, history.common(node.history).optime)

    def replicated(self, optime: OpTime, history: History | None = None) -> int:
        """Return the number of members that have an operation of a history, by default the deployment's."""
        history = history or self.cluster.history
        return sum(self.position(node, history) >= optime for node in self.data_bearing)

    def majority(self, history: History | None = None) -> OpTime:
        """Return the last operation of a history that a majority of the members with a vote has."""
        history = history or self.cluster.history
        voters = (node for node in self.data_bearing if node.member.spec.votes)
        positions = sorted((self.position(node, history) for node in voters), reverse=True)
        return positions[self.replica_set.write_majority - 1]

    def committed(self, node: Node) -> Point:
        """Return the last operation that a majority and a member have, and the data as of then."""
        point = self.majority(node.history)
        if node.applied <= point:
            return Point(node.applied, node.catalog)
        # The forks of members that lag, and of histories where they part, are the only earlier data there
        # are, and the majority's last operation is always the last one of some member.
        catalogs = (other.catalog for other in self.nodes if other.applied == point)
        catalog = next(catalogs, None) or node.history.at(point)
        assert catalog is not None, "some member has it"
        return Point(point, catalog)

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
        if node.member.diverged:
            raise ValueError(f"{node.name} has a history that its set has left, and has to roll back first")
        # No check of its position: a test may elect any member, and it catches up by that.
        self.cluster.catch_up()
        replica_set, old = self.replica_set, self.primary
        hears = old is None or old is node or old.member.reaches(node.member)
        if old is not None and hears:
            old.transactions.abort_all()
            old.record(PrimarySteppedDown(old.name, replica_set.term))
        # A member that has not rolled back yet has nothing to give.
        among = [each for each in self.nodes if each.history is node.history]
        newest = max((each for each in among if each.member.reaches(node.member)), key=_progress)
        lost = not hears or (self._loses and newest.applied < self.cluster.oplog.last)
        point = Point(newest.applied, newest.catalog)
        replica_set.elect(node.member)
        if lost:
            self._begin_history(node, point)
        node.record(PrimaryElected(node.name, replica_set.term))
        self._reposition()
        # Shards share one oplog, in which terms must not go back.
        oplog = self.cluster.oplog
        oplog.term = max(oplog.term, replica_set.term)
        oplog.append()
        self.cluster.replication.ring()
        self.cluster.ttl.refresh()
        self._look_ahead()

    def settle(self) -> None:
        """Update primary and positions after a member or the network has changed.

        A primary without a majority steps down, at once or after the spec's `election_timeout`. A majority
        elects another after the spec's `election_delay`.
        """
        self.cluster.catch_up()
        for deposed in self.replica_set.deposed:
            if self.node_of(deposed).stopped:
                self._demote(deposed)
        primary = self.primary
        if primary is not None and not self._has_majority(primary) and not self._goes_on(primary):
            self._demote(primary.member)
        self._reposition()
        self.replica_set.spread_term()
        self._in_doubt = {node: at for node, at in self._in_doubt.items() if not self._has_majority(node)}
        self.cluster.replication.ring()
        # Also where the primary is the same: `primary` is missing from the hello of a member that is cut off.
        self.replica_set.announce()
        self._look_ahead()

    def reconfigure(self, members: Mapping[Node, MemberSpec], *, version: int | None = None) -> None:
        """Replace the members; `version` is the new configuration's."""
        self.cluster.catch_up()
        gone = [node for node in self.nodes if node not in members]
        for node in gone:
            if node.is_primary:
                self._demote(node.member)
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

    def _demote(self, member: Member | None = None, **facts: Any) -> Node:
        self.cluster.catch_up()
        node = self.node_of(self.replica_set.step_down(member, **facts))
        node.record(PrimarySteppedDown(node.name, node.member.term))
        self._in_doubt.pop(node, None)
        node.transactions.abort_all()
        node.position.refresh()
        self.cluster.replication.ring()
        self.cluster.ttl.refresh()
        return node

    def _reposition(self) -> None:
        """Hold back the members that reach no primary; the others catch up with theirs."""
        # Without a primary there is nothing to apply, and every member stays at its position.
        if self.primary is None:
            return
        for node in self.nodes:
            primary = self.replica_set.primary_seen_by(node.member)
            followed = None if primary is None else self.node_of(primary).history
            if followed is node.history:
                node.position.release("unreachable")
            elif followed is None or node.history is self.cluster.history:
                # An old primary that has come back is not followed by those who have elected another.
                node.position.hold("unreachable")
            else:
                # Have a member that returns follow the primary, after it has rolled back what it has
                # alone.
                history = self.cluster.history
                if node.is_primary:
                    self._demote(node.member)
                if node.applied <= node.history.common(history).optime:
                    node.follow(history)
                    self.rejoined(node)
                    node.position.release("unreachable")
                else:
                    roll_back(self, node)

    # A primary that does not hear of the others, and what comes of it.

    @property
    def _waits(self) -> float | None:
        """The seconds for which a primary goes on without a majority, None where it steps down at once."""
        return self.cluster.spec.election_timeout

    def _has_majority(self, node: Node) -> bool:
        return self.replica_set.has_majority(node.member)

    @property
    def _loses(self) -> bool:
        """Whether an election loses the operations that are on members out of reach alone."""
        return self._waits is not None or any(node.member.island == ALONE for node in self.nodes)

    def keep_primary(self, node: Node) -> None:
        """Let a primary go on, although it will reach no majority, until it is told to `give_up`."""
        self._in_doubt[node] = math.inf

    def give_up(self, node: Node) -> None:
        """Have a primary step down that still reaches no majority."""
        if node in self._in_doubt:
            self._demote(node.member)
            self.settle()

    def _goes_on(self, node: Node) -> bool:
        """Say whether a primary without a majority stays one; if so, it steps down when its time is over."""
        if node.stopped or (self._waits is None and node not in self._in_doubt):
            return False
        if node not in self._in_doubt:
            self._in_doubt[node] = at = self.cluster.clock.now() + (self._waits or 0.0)

            async def wait() -> None:
                await self.cluster.clock.sleep_until(at)
                # Another instant: it has reached a majority in between.
                if self._in_doubt.get(node) == at:
                    self.give_up(node)

            self.cluster.spawn(wait())
        return True

    def _begin_history(self, primary: Node, point: Point) -> None:
        """Have a new primary, and those in its reach, go on from what the newest of them has."""
        cluster = self.cluster
        left, history = cluster.history, cluster.history.branch(point)
        cluster.go_on_in(history)
        for node in cluster.servers:
            away = node in self.nodes and not node.member.reaches(primary.member)
            # One that was away before has its own to roll back, and does so when it follows the new primary.
            node.member.diverged = away or node.history is not left
            if not node.member.diverged:
                node.follow(history)

    def rejoined(self, node: Node) -> None:
        """Hear that a member has no history of its own any more."""
        node.member.diverged = False
        histories = {each.history for each in self.nodes}
        for each in self.nodes:
            each.history.keep(histories)

    def abandon_histories(self) -> None:
        """Have every member follow the deployment's history at once, because its data become others."""
        for node in self.nodes:
            if node.role is Role.ROLLBACK:
                self.replica_set.roll_back(node.member, on=False)
            if node.member.diverged:
                if node.is_primary:
                    self._demote(node.member)
                node.position.reset(0.0)
                node.follow(self.cluster.history)
                self.rejoined(node)

    # The next election.

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
                self.hold_election()

        self.cluster.spawn(campaign())

    def hold_election(self) -> None:
        """Elect the member that would win now, if there is one."""
        winner = self.replica_set.candidate(
            self.cluster.clock.now(), self._applied, above=self._priority_to_beat
        )
        primary = self.primary
        if winner is None:
            self._look_ahead()
        # A takeover waits until the member has all that the primary has: whoever releases it calls `settle`.
        elif primary is None or not self._has_majority(primary) or self._applied(winner) >= primary.applied:
            self.elect(self.node_of(winner))

    @property
    def _priority_to_beat(self) -> float:
        primary = self.primary
        return 0.0 if primary is None or not self._has_majority(primary) else primary.member.spec.rank

    def _applied(self, member: Member) -> OpTime:
        return self.node_of(member).applied


def _progress(node: Node) -> OpTime:
    return node.applied
