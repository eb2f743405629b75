"""Members of every kind: what a hello tells of them, who votes, and who is elected."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, ObjectId
from talking import Deployment, play

from fakeserver import ClusterSpec, MemberSpec
from fakeserver.deployment.replication.state import Member, ReplicaSet, Role

_INSERT = {"insert": "c", "documents": [{}], "$db": "db"}
_FIND = {"find": "c", "$db": "db", "$readPreference": {"mode": "nearest"}}
_ARBITER = MemberSpec(arbiter=True)
_HIDDEN = MemberSpec(hidden=True)


def _set_of(*specs: MemberSpec) -> tuple[ReplicaSet, list[Member]]:
    members = [
        Member(
            number,
            f"host:{number}",
            ObjectId(bytes(12)),
            Role.ARBITER if spec.arbiter else Role.SECONDARY,
            spec=spec,
        )
        for number, spec in enumerate(specs)
    ]
    return ReplicaSet("rs0", ObjectId(bytes(12)), members), members


# The declaration.


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"votes": 2}, "votes must be 0 or 1, not 2"),
        ({"delay": -1}, "delay is a number of seconds"),
        ({"arbiter": True, "tags": {"a": "b"}}, "an arbiter has a vote, and neither tags"),
        ({"arbiter": True, "votes": 0}, "an arbiter has a vote"),
        ({"arbiter": True, "priority": 1}, "priority must be 0"),
        ({"hidden": True, "priority": 1}, "priority must be 0"),
        ({"votes": 0, "priority": 0.5}, "priority must be 0"),
        ({"delay": 5, "priority": 1}, "priority must be 0"),
        ({"priority": 1001}, "priority must be from 0 to 1000, not 1001"),
    ],
)
def test_a_member_that_no_configuration_may_hold_is_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemberSpec(**facts)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([MemberSpec()] * 8, "at most 7 of them may have a vote"),
        ([MemberSpec(priority=0), _ARBITER], "one of them at least must have a priority above 0"),
        ([], "members must be from 1 to 50, not 0"),
    ],
)
def test_a_set_that_could_not_run_is_refused(members: list[MemberSpec], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClusterSpec.replica_set(members)


def test_of_many_members_seven_vote() -> None:
    specs = ClusterSpec.replica_set(9).member_specs
    assert [(spec.votes, spec.rank) for spec in specs] == [(1, 1.0)] * 7 + [(0, 0.0)] * 2


# Votes and elections, the state alone.


@pytest.mark.parametrize(
    ("specs", "voters", "majority", "write_majority"),
    [
        ([MemberSpec()] * 3, 3, 2, 2),
        ([MemberSpec()] * 4, 4, 3, 3),
        ([MemberSpec(), MemberSpec(), _ARBITER], 3, 2, 2),
        ([MemberSpec(), _ARBITER, _ARBITER], 3, 2, 1),
        ([MemberSpec(), MemberSpec(), MemberSpec(votes=0)], 2, 2, 2),
    ],
)
def test_majorities_are_of_votes_and_writes_need_data(
    specs: list[MemberSpec], voters: int, majority: int, write_majority: int
) -> None:
    replica_set, _ = _set_of(*specs)
    assert (replica_set.voters, replica_set.majority, replica_set.write_majority) == (
        voters,
        majority,
        write_majority,
    )


@pytest.mark.parametrize(
    ("specs", "winner"),
    [
        ([MemberSpec(), MemberSpec(priority=2)], 1),
        ([MemberSpec(priority=0), MemberSpec()], 1),
        ([_ARBITER, MemberSpec()], 1),
        ([_HIDDEN, MemberSpec(votes=0), MemberSpec(priority=0.5)], 2),
    ],
)
def test_the_highest_priority_wins(specs: list[MemberSpec], winner: int) -> None:
    replica_set, members = _set_of(*specs)
    assert replica_set.candidate(0.0) is members[winner]


def test_who_has_come_further_beats_a_higher_priority() -> None:
    replica_set, members = _set_of(MemberSpec(), MemberSpec(priority=2), MemberSpec())
    assert replica_set.candidate(0.0, lambda member: 7 - member.id) is members[0]


def test_nobody_is_elected_without_a_majority() -> None:
    replica_set, members = _set_of(*[MemberSpec()] * 3)
    members[0].alive = members[1].alive = False
    assert replica_set.candidate(0.0) is None
    assert replica_set.next_thaw() is None
    members[1].alive = True
    assert replica_set.candidate(0.0) is members[1]
    members[1].island = 1
    assert replica_set.candidate(0.0) is None


def test_an_arbiter_votes() -> None:
    replica_set, members = _set_of(MemberSpec(), MemberSpec(), _ARBITER)
    members[0].alive = False
    assert replica_set.candidate(0.0) is members[1]


def test_only_a_higher_priority_stands_against_a_primary() -> None:
    replica_set, members = _set_of(MemberSpec(), MemberSpec(priority=2), MemberSpec())
    assert replica_set.candidate(0.0, above=1.0) is members[1]
    assert replica_set.candidate(0.0, above=2.0) is None


# What clients see.

_OF_ALL_KINDS = ClusterSpec.replica_set(
    [
        MemberSpec(tags={"dc": "ams"}),
        MemberSpec(priority=0),
        _ARBITER,
        MemberSpec(hidden=True, votes=0),
        MemberSpec(delay=3600),
    ]
)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, {"isWritablePrimary": True, "secondary": False, "tags": {"dc": "ams"}}),
        (1, {"isWritablePrimary": False, "secondary": True, "passive": True}),
        (2, {"isWritablePrimary": False, "secondary": False, "arbiterOnly": True}),
        (3, {"isWritablePrimary": False, "secondary": True, "passive": True, "hidden": True}),
        (4, {"secondary": True, "passive": True, "secondaryDelaySecs": Int64(3600)}),
    ],
)
def test_each_kind_of_member_says_hello_in_its_way(number: int, shown: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        nodes = deployment.cluster.nodes
        hello = await (await deployment.connect(nodes[number])).ok({"hello": 1})
        assert hello["hosts"] == [nodes[0].address]
        assert hello["passives"] == [nodes[1].address]
        assert hello["arbiters"] == [nodes[2].address]
        assert (hello["primary"], hello["me"]) == (nodes[0].address, nodes[number].address)
        kinds = {"passive", "arbiterOnly", "hidden", "secondaryDelaySecs", "tags", "electionId"}
        assert {name for name in hello if name in kinds} == {name for name in shown if name in kinds} | (
            {"electionId"} if number == 0 else set()
        )
        assert {name: hello[name] for name in shown} == shown

    play(scenario, _OF_ALL_KINDS)


def test_the_fields_of_a_hello_keep_their_order() -> None:
    async def scenario(deployment: Deployment) -> None:
        hello = await (await deployment.connect(deployment.cluster.nodes[3])).ok({"hello": 1})
        assert list(hello)[:13] == [
            *("topologyVersion", "hosts", "passives", "arbiters", "setName", "setVersion"),
            *("isWritablePrimary", "secondary", "primary", "passive", "hidden", "me", "lastWrite"),
        ]

    play(scenario, _OF_ALL_KINDS)


def test_the_legacy_hello_has_the_old_name_of_the_delay() -> None:
    async def scenario(deployment: Deployment) -> None:
        hello = await (await deployment.connect(deployment.cluster.nodes[4])).ok({"isMaster": 1})
        assert hello["slaveDelay"] == 3600
        assert "secondaryDelaySecs" not in hello

    play(scenario, _OF_ALL_KINDS)


def test_the_configuration_shows_what_each_member_is() -> None:
    async def scenario(deployment: Deployment) -> None:
        config = (await (await deployment.connect()).ok({"replSetGetConfig": 1}))["config"]
        columns = ("arbiterOnly", "hidden", "priority", "tags", "secondaryDelaySecs", "votes")
        assert [tuple(member[name] for name in columns) for member in config["members"]] == [
            (False, False, 1.0, {"dc": "ams"}, 0, 1),
            (False, False, 0.0, {}, 0, 1),
            (True, False, 0.0, {}, 0, 1),
            (False, True, 0.0, {}, 0, 0),
            (False, False, 0.0, {}, 3600, 1),
        ]
        status = await (await deployment.connect()).ok({"replSetGetStatus": 1})
        assert [member["stateStr"] for member in status["members"]] == [
            *("PRIMARY", "SECONDARY", "ARBITER", "SECONDARY", "SECONDARY")
        ]
        assert (status["votingMembersCount"], status["writableVotingMembersCount"]) == (4, 3)
        assert (status["majorityVoteCount"], status["writeMajorityCount"]) == (3, 3)
        assert "optime" not in status["members"][2]

    play(scenario, _OF_ALL_KINDS)


def test_an_arbiter_has_no_data_to_read_or_write() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.cluster.nodes[2])
        refused = await talker.fails(_FIND)
        assert (refused["code"], refused["errmsg"]) == (13436, "node is not in primary or recovering state")
        assert "topologyVersion" in refused
        assert (await talker.fails(_INSERT))["code"] == 10107
        await talker.ok({"ping": 1})

    play(scenario, _OF_ALL_KINDS)


def test_a_write_waits_for_members_with_data() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert "writeConcernError" not in await talker.ok({**_INSERT, "writeConcern": {"w": 2}})
        assert "writeConcernError" not in await talker.ok({**_INSERT, "writeConcern": {"w": "majority"}})
        reply = await talker.ok({**_INSERT, "writeConcern": {"w": 3}})
        assert reply["writeConcernError"]["errmsg"] == "Not enough data-bearing nodes"

    play(scenario, ClusterSpec.replica_set([MemberSpec(), MemberSpec(), _ARBITER]))


def test_a_set_begins_with_the_member_of_the_highest_priority() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert deployment.primary is deployment.cluster.nodes[2]

    play(scenario, ClusterSpec.replica_set([_ARBITER, MemberSpec(), MemberSpec(priority=2)]))


def test_a_higher_priority_takes_over_when_it_may() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        cluster.step_down(seconds=30.0)
        await deployment.sleep(1.0)
        assert deployment.primary is cluster.nodes[1]
        await deployment.sleep(28.0)
        assert deployment.primary is cluster.nodes[1]
        await deployment.sleep(2.0)
        assert deployment.primary is cluster.nodes[0]

    play(scenario, ClusterSpec.replica_set([MemberSpec(priority=2), MemberSpec(), MemberSpec()]))


def test_a_member_that_cannot_be_primary_is_not_elected() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        with pytest.raises(ValueError, match="priority 0"):
            cluster.elect(cluster.nodes[1])
        refused = await (await deployment.connect(cluster.nodes[1])).fails({"replSetStepUp": 1})
        assert (refused["code"], refused["errmsg"]) == (125, "Election failed.")
        await (await deployment.connect()).ok({"replSetStepUp": 1})

    play(scenario, ClusterSpec.replica_set([MemberSpec(), MemberSpec(priority=0)]))


def test_a_secondary_steps_up_on_demand() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        await (await deployment.connect(node)).ok({"replSetStepUp": 1})
        assert deployment.primary is node

    play(scenario)
