"""Elections, who may run what where, and how many members must have a write."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, ObjectId
from talking import REPLICA_SET, STANDALONE, Deployment, play, retryable_insert

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.deployment.replication.state import Member, ReplicaSet, Role
from mongowire.messages import OpMsg

_INSERT = {"insert": "c", "documents": [{}], "$db": "db"}
_FIND = {"find": "c", "$db": "db"}
_SECONDARY_OK = {"$readPreference": {"mode": "secondaryPreferred"}}


# The state alone.


def _set_of(count: int = 3) -> tuple[ReplicaSet, list[Member]]:
    members = [Member(number, f"host:{number}", ObjectId(bytes(12))) for number in range(count)]
    return ReplicaSet("rs0", ObjectId(bytes(12)), members), members


def test_each_election_has_a_greater_id() -> None:
    replica_set, members = _set_of()
    ids = []
    for member in [*members, *members]:
        replica_set.elect(member)
        ids.append(replica_set.election_of(member))
    assert ids == sorted(ids)
    assert len(set(ids)) == 6


def test_there_is_one_primary_at_most() -> None:
    replica_set, members = _set_of()
    replica_set.elect(members[0])
    replica_set.elect(members[1])
    assert [member.role for member in members] == [Role.SECONDARY, Role.PRIMARY, Role.SECONDARY]
    assert replica_set.term == 2


def test_every_change_is_news_to_every_member() -> None:
    replica_set, members = _set_of()
    heard: list[int] = []
    replica_set.changed.listen(lambda: heard.append(members[2].counter))
    replica_set.elect(members[0])
    assert [member.counter for member in members] == [1, 1, 1]
    assert heard == [1]


def test_a_frozen_member_is_no_candidate_until_it_thaws() -> None:
    replica_set, members = _set_of(2)
    replica_set.elect(members[0])
    assert replica_set.candidate(0.0) is members[1]
    members[1].frozen_until = 10.0
    assert replica_set.candidate(9.9) is None
    assert replica_set.next_thaw() == 10.0
    assert replica_set.candidate(10.0) is members[1]


def test_a_set_without_a_primary_cannot_step_down() -> None:
    with pytest.raises(ValueError, match="no primary"):
        _set_of()[0].step_down()


def test_a_recovering_member_is_no_candidate() -> None:
    replica_set, members = _set_of(1)
    replica_set.maintain(members[0], on=True)
    assert replica_set.candidate(0.0) is None
    assert replica_set.next_thaw() is None


# Verbs.


def test_a_new_set_has_a_writable_primary_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert deployment.cluster.primary is deployment.cluster.nodes[0]
        await (await deployment.connect()).ok(_INSERT)
        assert deployment.cluster.uri.endswith("/?replicaSet=rs0")
        assert repr(deployment.cluster) == "<Cluster replicaset of 3>"
        assert repr(deployment.cluster.nodes[1]) == "<Node node1>"

    play(scenario)


def test_stepping_down_leaves_a_gap_and_then_another_primary() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = deployment.cluster.step_down()
        assert deployment.cluster.primary is None
        await deployment.sleep(1.0)
        assert deployment.primary is not old
        kinds = [(r.event.kind, r.source) for r in deployment.cluster.journal.records]
        assert kinds == [
            ("primaryElected", "node0"),
            ("primarySteppedDown", "node0"),
            ("primaryElected", "node1"),
        ]

    play(scenario)


def test_a_lonely_primary_comes_back_when_its_time_is_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.step_down(seconds=5.0)
        await deployment.sleep(4.9)
        assert deployment.cluster.primary is None
        await deployment.sleep(0.2)
        assert deployment.primary is deployment.cluster.nodes[0]

    play(scenario, ClusterSpec.replica_set(1))


def test_electing_another_member_moves_the_primary_without_a_gap() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = deployment.cluster.nodes[:2]
        reply = await (await deployment.connect(second)).ok({"hello": 1})
        deployment.cluster.elect(second)
        assert (first.is_primary, second.is_primary) == (False, True)
        elected = await (await deployment.connect(second)).ok({"hello": 1})
        assert elected["electionId"] == ObjectId("7fffffff0000000000000002")
        assert elected["setVersion"] == reply["setVersion"]
        assert elected["topologyVersion"]["counter"] > reply["topologyVersion"]["counter"]
        assert elected["lastWrite"]["opTime"]["t"] == 2

    play(scenario)


def test_an_election_ends_the_search_for_another() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.step_down()
        deployment.cluster.elect(deployment.cluster.nodes[2])
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[2]

    play(scenario)


def test_only_a_secondary_can_be_elected() -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.raises(ValueError, match="node0 is PRIMARY"):
            deployment.cluster.elect(deployment.cluster.nodes[0])

    play(scenario)


def test_a_standalone_has_no_elections() -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.raises(ValueError, match="no elections"):
            deployment.cluster.step_down()
        assert deployment.cluster.uri.endswith("/")
        assert deployment.cluster.primary is deployment.cluster.nodes[0]

    play(scenario, STANDALONE)


def test_connections_stay_open_over_a_step_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "helloOk": True})
        deployment.cluster.step_down()
        assert (await talker.fails(_INSERT))["code"] == 10107

    play(scenario)


def test_what_a_session_wrote_is_known_to_the_next_primary() -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok(retryable_insert(1, txn_number=1))
        deployment.cluster.elect(deployment.cluster.nodes[1])
        reply = await (await deployment.connect(deployment.primary)).ok(retryable_insert(1, txn_number=1))
        assert (reply["n"], reply["retriedStmtIds"]) == (1, [0])

    play(scenario)


# Who may run what.


@pytest.mark.parametrize(
    ("hello", "command", "code", "message"),
    [
        ({"hello": 1, "helloOk": True}, _INSERT, 10107, "not primary"),
        ({"hello": 1}, _INSERT, 10107, "not master"),
        ({"hello": 1, "helloOk": True}, _FIND, 13435, "not primary and secondaryOk=false"),
        ({"hello": 1}, _FIND, 13435, "not master and slaveOk=false"),
        ({"hello": 1}, {**_FIND, "$readPreference": {"mode": "primary"}}, 13435, None),
        ({"hello": 1}, {**_INSERT, **_SECONDARY_OK}, 10107, None),
    ],
)
def test_a_secondary_refuses_what_only_the_primary_may_do(
    hello: dict[str, Any], command: dict[str, Any], code: int, message: str | None
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        await talker.ok(hello)
        reply = await talker.fails(command)
        assert reply["code"] == code
        assert message is None or reply["errmsg"] == message
        assert reply["topologyVersion"] == deployment.secondary.topology_version()

    play(scenario)


@pytest.mark.parametrize("mode", ["primaryPreferred", "secondary", "secondaryPreferred", "nearest"])
def test_a_read_may_opt_in_to_secondaries(mode: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        talker = await deployment.connect(deployment.secondary)
        found = await talker.ok({**_FIND, "$readPreference": {"mode": mode}})
        assert found["cursor"]["firstBatch"] == [{"_id": 1}]

    play(scenario)


def test_the_local_database_is_anybodys() -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect(deployment.secondary)).ok({"find": "startup_log", "$db": "local"})

    play(scenario)


def test_a_member_in_maintenance_takes_no_reads() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        talker = await deployment.connect(node)
        await talker.ok({"replSetMaintenance": True})
        hello = await talker.ok({"hello": 1})
        assert (hello["isWritablePrimary"], hello["secondary"]) == (False, False)
        reply = await talker.fails({**_FIND, **_SECONDARY_OK})
        assert (reply["code"], reply["errmsg"]) == (13436, "node is recovering")
        assert "topologyVersion" in reply
        with pytest.raises(ValueError, match="RECOVERING"):
            deployment.cluster.elect(node)
        await talker.ok({"replSetMaintenance": False})
        await talker.ok({**_FIND, **_SECONDARY_OK})
        assert (await talker.fails({"replSetMaintenance": False}))["code"] == 96

    play(scenario)


def test_a_write_that_wants_no_reply_hangs_up_on_who_is_not_primary() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        await talker.send(OpMsg.of(_INSERT, more_to_come=True))
        assert await talker.receive() is None

    play(scenario)


# Commands.


def test_stepping_down_by_command_answers_and_hands_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"replSetStepDown": 10})
        await deployment.sleep(0.1)
        assert deployment.primary is deployment.cluster.nodes[1]
        assert (await talker.fails({"replSetStepDown": 10}))["errmsg"] == "not primary so can't step down"

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"replSetStepDown": -1}, 2),
        ({"replSetStepDown": "x"}, 2),
        ({"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 6}, 2),
        ({"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": -1}, 2),
        ({"replSetFreeze": 10}, 95),
        ({"replSetMaintenance": True}, 95),
        ({"replSetGetStatus": 1, "$db": "db"}, 13),
    ],
)
def test_a_primary_refuses(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails(command))["code"] == code

    play(scenario)


def test_a_primary_without_a_successor_steps_down_by_force_only() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        begun = deployment.world.clock.now()
        reply = await talker.fails({"replSetStepDown": 60, "secondaryCatchUpPeriodSecs": 3})
        assert (reply["code"], reply["codeName"]) == (262, "ExceededTimeLimit")
        assert reply["errmsg"].startswith("No electable secondaries caught up as of 2026-01-01T00:00:03")
        assert deployment.world.clock.now() - begun == pytest.approx(3.0, abs=0.1)
        await talker.ok({"replSetStepDown": 60, "force": True})
        assert deployment.cluster.primary is None

    play(scenario, ClusterSpec.replica_set(1))


def test_a_frozen_secondary_is_passed_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.cluster.nodes[1])
        assert "info" not in await talker.ok({"replSetFreeze": 60})
        deployment.cluster.step_down()
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[2]
        assert (await talker.ok({"replSetFreeze": 0}))["info"] == "unfreezing"

    play(scenario)


def test_the_status_shows_every_member_and_itself() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        status = await (await deployment.connect(node)).ok({"replSetGetStatus": 1})
        assert (status["set"], status["myState"], status["term"]) == ("rs0", 2, 1)
        assert [member["stateStr"] for member in status["members"]] == ["PRIMARY", "SECONDARY", "SECONDARY"]
        assert [member["name"] for member in status["members"] if member.get("self")] == [node.address]
        assert status["majorityVoteCount"] == 2

    play(scenario)


def test_the_configuration_names_every_member() -> None:
    async def scenario(deployment: Deployment) -> None:
        config = (await (await deployment.connect()).ok({"replSetGetConfig": 1}))["config"]
        assert (config["_id"], config["version"], config["term"]) == ("rs0", 1, 1)
        assert [member["host"] for member in config["members"]] == [
            node.address for node in deployment.cluster.nodes
        ]

    play(scenario)


@pytest.mark.parametrize(
    "command",
    ["replSetGetStatus", "replSetGetConfig", "replSetStepDown", "replSetFreeze", "replSetMaintenance"],
)
def test_a_standalone_has_no_set_to_tell_of(command: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails({command: 1})
        assert (reply["code"], reply["errmsg"]) == (76, "not running with --replSet")

    play(scenario, STANDALONE)


# Write concern.


def _with(w: Any, **more: Any) -> dict[str, Any]:
    return {**_INSERT, "writeConcern": {"w": w, **more}}


@pytest.mark.parametrize("w", [0, 1, 3, "majority", 2.0, Int64(3)])
def test_a_concern_that_the_set_satisfies_is_no_error(w: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert "writeConcernError" not in await (await deployment.connect()).ok(_with(w))

    play(scenario)


@pytest.mark.parametrize(
    ("w", "code", "name", "message"),
    [
        (4, 100, "UnsatisfiableWriteConcern", "Not enough data-bearing nodes"),
        (
            "mine",
            79,
            "UnknownReplWriteConcern",
            "No write concern mode named 'mine' found in replica set configuration",
        ),
    ],
)
def test_a_concern_that_no_wait_could_satisfy_is_an_error_of_a_write_that_happened(
    w: Any, code: int, name: str, message: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.ok(_with(w, wtimeout=50))
        assert reply["n"] == 1
        assert reply["writeConcernError"] == {
            "code": code,
            "codeName": name,
            "errmsg": message,
            "errInfo": {"writeConcern": {"w": w, "wtimeout": 50, "provenance": "clientSupplied"}},
        }
        assert len((await talker.ok(_FIND))["cursor"]["firstBatch"]) == 1

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({**_INSERT, "writeConcern": 5}, 14),
        (_with([]), 9),
        (_with({}), 9),
        (_with(51), 9),
        (_with(-1), 9),
        ({**_FIND, "writeConcern": {"w": 1}}, 72),
    ],
)
def test_a_concern_that_cannot_be_read_is_refused_before_the_write(
    command: dict[str, Any], code: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails(command))["code"] == code
        assert (await talker.ok(_FIND))["cursor"]["firstBatch"] == []

    play(scenario)


@pytest.mark.parametrize(("w", "ok"), [(1, True), ("majority", True), (2, False), ("mine", False)])
def test_a_standalone_acknowledges_for_itself_alone(*, w: Any, ok: bool) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.command(_with(w))
        assert reply is not None
        assert reply["ok"] == float(ok)
        assert ok or reply["code"] == 2

    play(scenario, STANDALONE)


async def _stop_replication(deployment: Deployment, mode: str = "alwaysOn") -> None:
    for node in deployment.cluster.nodes:
        if not node.is_primary:
            await deployment.configure("stopReplProducer", mode, node=node)


def test_a_concern_waits_for_members_that_lag_until_its_time_is_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _stop_replication(deployment)
        talker = await deployment.connect()
        begun = deployment.world.clock.now()
        reply = await talker.ok(_with("majority", wtimeout=500))
        assert deployment.world.clock.now() - begun == pytest.approx(0.5, abs=0.01)
        error = reply["writeConcernError"]
        assert (error["code"], error["codeName"]) == (64, "WriteConcernTimeout")
        assert error["errmsg"] == "waiting for replication timed out"
        assert error["errInfo"]["wtimeout"] is True

    play(scenario)


def test_a_concern_without_a_time_waits_for_replication_to_go_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _stop_replication(deployment)
        talker = await deployment.connect()
        await talker.send(_with("majority"))
        await deployment.sleep(1000.0)
        await _stop_replication(deployment, "off")
        reply = await talker.reply()
        assert reply is not None
        assert reply["ok"] == 1.0
        assert "writeConcernError" not in reply

    play(scenario)


def test_a_concern_is_not_satisfied_by_a_primary_that_steps_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _stop_replication(deployment)
        talker = await deployment.connect()
        await talker.send(_with("majority"))
        await deployment.sleep(1.0)
        deployment.cluster.step_down()
        reply = await talker.reply()
        assert reply is not None
        assert reply["writeConcernError"]["code"] == 189
        assert "topologyVersion" in reply

    play(scenario)


def test_members_that_lag_show_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _stop_replication(deployment)
        talker = await deployment.connect(deployment.secondary)
        before = (await talker.ok({"hello": 1}))["lastWrite"]["opTime"]["ts"]
        await (await deployment.connect()).ok(_INSERT)
        primary = (await (await deployment.connect()).ok({"hello": 1}))["lastWrite"]
        assert (await talker.ok({"hello": 1}))["lastWrite"]["opTime"]["ts"] == before
        assert primary["opTime"]["ts"] > before == primary["majorityOpTime"]["ts"]

    play(scenario)


def test_an_older_release_has_another_name_for_code_64() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _stop_replication(deployment)
        reply = await (await deployment.connect()).ok(_with(3, wtimeout=1))
        assert reply["writeConcernError"]["codeName"] == "WriteConcernFailed"

    play(scenario, ClusterSpec.replica_set(3, profile="7.0"))


# Time.


def test_operation_time_moves_with_writes_and_cluster_time_with_gossip() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        before = await talker.ok({"ping": 1})
        written = await talker.ok(_INSERT)
        after = await talker.ok({"ping": 1})
        assert before["operationTime"] < written["operationTime"] == after["operationTime"]
        told = written["$clusterTime"] | {"clusterTime": type(before["operationTime"])(2**31, 5)}
        heard = await talker.ok({"ping": 1, "$clusterTime": told})
        assert heard["$clusterTime"]["clusterTime"] == told["clusterTime"]
        assert heard["operationTime"] == after["operationTime"]
        assert heard["$clusterTime"]["signature"] == {"hash": bytes(20), "keyId": 0}

    play(scenario)


def test_a_cluster_time_that_is_none_is_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"ping": 1, "$clusterTime": {"clusterTime": 5}}))["code"] == 14
        assert (await talker.fails({"ping": 1, "$clusterTime": 5}))["code"] == 14

    play(scenario)


def test_a_standalone_takes_no_part_in_gossip() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).ok({"ping": 1, "$clusterTime": 5})
        assert list(reply) == ["ok"]

    play(scenario, STANDALONE)


def test_two_runs_of_one_seed_are_the_same() -> None:
    journals: list[str] = []

    async def scenario(deployment: Deployment) -> None:
        for number in range(3):
            talker = await deployment.connect()
            await talker.ok(retryable_insert(number, txn_number=1, session=number))
            await talker.ok({"hello": 1})
        deployment.cluster.step_down()
        await deployment.sleep(1.0)
        journals.append(deployment.cluster.journal.to_json_lines())
        hello = await (await deployment.connect()).ok({"hello": 1})
        journals.append(str(hello))

    play(scenario)
    play(scenario)
    assert journals[:2] == journals[2:]


def test_a_deployment_that_cannot_start_leaves_nothing_open() -> None:
    async def scenario(deployment: Deployment) -> None:
        world = deployment.world
        taken = int(deployment.cluster.nodes[0].address.rpartition(":")[2])
        spec = ClusterSpec.replica_set(2, ports=(taken + 100, taken))
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock, "rng": world.rng}
        with pytest.raises(OSError, match="in use"):
            await fakeserver.start(spec, **ports)
        again = await fakeserver.start(ClusterSpec.standalone(ports=(taken + 100,)), **ports)
        await again.stop()

    play(scenario, REPLICA_SET)
