"""Whatever happens to a set: who may be elected, and what each member shows, never contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import Deployment, play

from fakeserver import MemberSpec
from fakeserver.deployment.replication.state import Member, ReplicaSet, Role
from fakeserver.storage.port.engine import Namespace, Query

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Node
    from fakeserver.storage.port.oplog import OpTime

_SPECS = st.sampled_from(
    [
        *(MemberSpec(), MemberSpec(priority=2), MemberSpec(priority=0)),
        *(MemberSpec(arbiter=True), MemberSpec(votes=0), MemberSpec(hidden=True)),
    ]
)
_MEMBERS = st.lists(
    st.tuples(_SPECS, st.booleans(), st.integers(0, 1), st.integers(0, 2), st.sampled_from([0.0, 10.0])),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@given(_MEMBERS)
def test_who_is_elected_may_be_and_no_other_is_further(
    drawn: list[tuple[MemberSpec, bool, int, int, float]],
) -> None:
    members, applied = [], {}
    for number, (spec, alive, island, position, frozen_until) in enumerate(drawn):
        role = Role.ARBITER if spec.arbiter else Role.SECONDARY
        member = Member(
            number, f"host:{number}", ObjectId(bytes(12)), role, 0, frozen_until, spec, alive, island
        )
        members.append(member)
        applied[member] = position
    replica_set = ReplicaSet("rs0", ObjectId(bytes(12)), members)
    winner = replica_set.candidate(5.0, applied.__getitem__)
    able = [
        member
        for member in members
        if member.spec.is_electable and member.frozen_until <= 5.0 and replica_set.has_majority(member)
    ]
    assert (winner is None) == (not able)
    if winner is not None:
        votes = sum(member.spec.votes for member in members if winner.reaches(member))
        assert 2 * votes > sum(member.spec.votes for member in members)
        assert all((applied[each], each.spec.rank) <= (applied[winner], winner.spec.rank) for each in able)


_NODES = st.integers(0, 2)
_WRITE_AND_WAIT = st.sampled_from([("write", None), ("sleep", 0.01), ("sleep", 0.7)])
_STEPS = st.lists(
    st.one_of(
        *[_WRITE_AND_WAIT] * 3,
        st.tuples(st.sampled_from(["lag", "lag", "catch up", "hold", "release"]), _NODES),
        st.tuples(st.sampled_from(["elect", "pause", "resume", "kill", "start", "part", "heal"]), _NODES),
    ),
    max_size=25,
)


class _Model:
    """What was written when, and how far each member was when it was last looked at."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.nodes = deployment.cluster.nodes
        self.written: list[OpTime] = []
        self.before: dict[Node, OpTime] = {}
        self.paused: set[Node] = set()

    async def take(self, step: str, argument: Any) -> None:
        if step == "write":
            await self._write()
        elif step == "sleep":
            await self.deployment.sleep(argument)
        elif step == "part":
            self.deployment.cluster.partition([self.nodes[argument]])
        elif step == "heal":
            self.deployment.cluster.heal()
        else:
            await self._do(step, self.nodes[argument])

    async def _write(self) -> None:
        cluster = self.deployment.cluster
        if cluster.primary is not None:
            talker = await self.deployment.connect(cluster.primary)
            await talker.ok({"insert": "c", "documents": [{"_id": len(self.written)}], "$db": "db"})
            self.written.append(cluster.oplog.last)

    async def _do(self, step: str, node: Node) -> None:
        if step == "elect":
            set_of = self.deployment.cluster.replica_set
            assert set_of is not None
            if node.role is Role.SECONDARY and set_of.has_majority(node.member):
                self.deployment.cluster.elect(node)
        elif step in {"lag", "catch up"}:
            node.lag(1.0 if step == "lag" else 0.0)
        elif step in {"hold", "release"}:
            getattr(node, step)()
        elif step == "pause" and not node.stopped and node not in self.paused:
            node.pause()
            self.paused.add(node)
        elif step == "resume" and node in self.paused:
            node.resume()
            self.paused.discard(node)
        elif step == "kill" and not node.stopped:
            self.paused.discard(node)
            await node.kill()
        elif step == "start" and node.stopped:
            await node.start()

    def check(self) -> None:
        """Each member shows what had been written at its last operation, and none goes back."""
        cluster = self.deployment.cluster
        for node in self.nodes:
            found = node.catalog.engine.find(Namespace("db", "c"), Query(sort={"_id": 1}))
            expected = [number for number, at in enumerate(self.written) if at <= node.applied]
            assert [document["_id"] for document in found] == expected
            assert node.applied >= self.before.get(node, node.applied)
            self.before[node] = node.applied
        assert sum(node.is_primary for node in self.nodes) <= 1
        primary = cluster.primary
        if primary is not None:
            assert cluster.replica_set is not None
            assert cluster.replica_set.has_majority(primary.member)
            assert primary.applied == cluster.oplog.last


@pytest.mark.slow
@settings(max_examples=60)
@given(_STEPS)
def test_every_member_shows_exactly_what_it_has_applied(steps: list[tuple[str, Any]]) -> None:
    async def scenario(deployment: Deployment) -> None:
        model = _Model(deployment)
        for step, argument in steps:
            await model.take(step, argument)
            model.check()
        deployment.cluster.heal()
        for node in model.nodes:
            for end in ("release", "catch up", "resume", "start"):
                await model.take(end, model.nodes.index(node))
        await deployment.sleep(1.0)
        model.check()
        assert all(node.applied == deployment.cluster.oplog.last for node in model.nodes)
        await model.take("write", None)
        assert model.written

    play(scenario)
