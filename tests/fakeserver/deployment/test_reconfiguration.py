"""Members that join and leave a set that runs."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from talking import STANDALONE, Deployment, Talker, play

from fakeserver import ClusterSpec, MemberSpec

_INSERT = {"insert": "c", "documents": [{"_id": 1}], "$db": "db"}
_FIND = {"find": "c", "$db": "db", "$readPreference": {"mode": "nearest"}}


async def _config(talker: Talker) -> dict[str, Any]:
    config: dict[str, Any] = (await talker.ok({"replSetGetConfig": 1}))["config"]
    return config | {"version": config["version"] + 1}


# In Python.


def test_a_member_joins_with_all_data_and_the_others_tell_of_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        talker = await deployment.connect()
        await talker.ok(_INSERT)
        before = await talker.ok({"hello": 1})
        node = await cluster.add_member(MemberSpec(tags={"dc": "new"}))
        after = await talker.ok({"hello": 1})
        assert after["setVersion"] == before["setVersion"] + 1
        assert after["hosts"] == [*before["hosts"], node.address]
        assert after["topologyVersion"]["counter"] > before["topologyVersion"]["counter"]
        joined = await deployment.connect(node)
        hello = await joined.ok({"hello": 1})
        assert (hello["secondary"], hello["tags"]) == (True, {"dc": "new"})
        assert len((await joined.ok(_FIND))["cursor"]["firstBatch"]) == 1
        assert node in cluster.nodes
        assert node.address in cluster.uri

    play(scenario)


def test_a_member_that_left_runs_on_without_a_set() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.remove_member("node2")
        talker = await deployment.connect(node)
        hello = await talker.ok({"hello": 1})
        assert {name: hello.get(name) for name in ("isWritablePrimary", "secondary", "isreplicaset")} == {
            "isWritablePrimary": False,
            "secondary": False,
            "isreplicaset": True,
        }
        assert hello["info"] == "Does not have a valid replica set config"
        assert not {"setName", "hosts", "me", "lastWrite"} & set(hello)
        assert "topologyVersion" in hello
        refused = await talker.fails(_FIND)
        assert (refused["code"], refused["errmsg"]) == (13436, "node is not in primary or recovering state")
        assert (await talker.fails(_INSERT))["code"] == 10107
        status = await talker.fails({"replSetGetStatus": 1})
        assert (status["code"], status["errmsg"]) == (
            93,
            "Our replica set config is invalid or we are not a member of it",
        )
        told = await (await deployment.connect()).ok({"hello": 1})
        assert node.address not in told["hosts"]

    play(scenario)


def test_a_hello_that_waits_hears_that_its_server_was_removed() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[2]
        talker = await deployment.connect(node)
        told = (await talker.ok({"hello": 1}))["topologyVersion"]
        await talker.send({"hello": 1, "topologyVersion": told, "maxAwaitTimeMS": 10_000})
        await deployment.sleep(1.0)
        deployment.cluster.remove_member(node)
        news = await talker.reply()
        assert news is not None
        assert news["isreplicaset"] is True
        assert news["topologyVersion"]["counter"] > told["counter"]

    play(scenario)


def test_a_primary_that_leaves_is_followed_by_another() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = deployment.cluster.remove_member("primary")
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[1]
        assert (await (await deployment.connect(old)).fails(_INSERT))["code"] == 10107
        await (await deployment.connect(deployment.primary)).ok({**_INSERT, "writeConcern": {"w": 2}})

    play(scenario)


def test_a_server_that_belongs_to_no_set_yet_says_so() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = await deployment.cluster.add_server()
        talker = await deployment.connect(node)
        assert (await talker.ok({"hello": 1}))["info"] == "Does not have a valid replica set config"
        for command in ("replSetGetStatus", "replSetGetConfig"):
            refused = await talker.fails({command: 1})
            assert (refused["code"], refused["errmsg"]) == (94, "no replset config has been received")

    play(scenario)


def test_what_cannot_be_is_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        with pytest.raises(ValueError, match="without node0 no member could be elected"):
            cluster.remove_member("node0")
        gone = cluster.remove_member("node1")
        with pytest.raises(ValueError, match="node1 is no member"):
            cluster.remove_member(gone)

    play(scenario, ClusterSpec.replica_set([MemberSpec(), MemberSpec(priority=0), MemberSpec(priority=0)]))


@pytest.mark.parametrize("spec", [STANDALONE, ClusterSpec.sharded(1, 1)])
def test_only_a_replica_set_takes_members(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.raises(ValueError, match="members can be added to a replica set only"):
            await deployment.cluster.add_member()

    play(scenario, spec)


# By command.


def test_reconfiguring_adds_changes_and_removes_members() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        node = await cluster.add_server()
        talker = await deployment.connect()
        config = await _config(talker)
        config["members"].append({"_id": 7, "host": node.address, "priority": 0, "hidden": True})
        await talker.ok({"replSetReconfig": config})
        assert (await (await deployment.connect(node)).ok({"hello": 1}))["hidden"] is True
        assert (await _config(talker))["members"][3]["_id"] == 7

        config = await _config(talker)
        config["members"][1] |= {"priority": 5.0, "tags": {"dc": "x"}}
        await talker.ok({"replSetReconfig": config})
        await deployment.sleep(1.0)
        assert deployment.primary is cluster.nodes[1]

        talker = await deployment.connect(deployment.primary)
        config = await _config(talker)
        del config["members"][3]
        await talker.ok({"replSetReconfig": config})
        hello = await talker.ok({"hello": 1})
        assert (hello["setVersion"], hello["tags"]) == (4, {"dc": "x"})
        assert (await (await deployment.connect(node)).fails({"replSetGetStatus": 1}))["code"] == 93

    play(scenario)


def _renamed(config: dict[str, Any]) -> None:
    config["_id"] = "other"


def _of_another_set(config: dict[str, Any]) -> None:
    config["settings"]["replicaSetId"] = ObjectId(bytes(12))


def _old(config: dict[str, Any]) -> None:
    config["version"] = 1


def _two_less(config: dict[str, Any]) -> None:
    del config["members"][1:]


def _without_itself(config: dict[str, Any]) -> None:
    del config["members"][0]


def _same_id(config: dict[str, Any]) -> None:
    config["members"][1]["_id"] = 0


def _same_host(config: dict[str, Any]) -> None:
    config["members"][1]["host"] = config["members"][0]["host"]


def _passive_itself(config: dict[str, Any]) -> None:
    config["members"][0]["priority"] = 0


def _nobody_electable(config: dict[str, Any]) -> None:
    for member in config["members"]:
        member["priority"] = 0


def _hidden_with_priority(config: dict[str, Any]) -> None:
    config["members"][1]["hidden"] = True


def _another_arbiter(config: dict[str, Any]) -> None:
    config["members"][1]["arbiterOnly"] = True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_renamed, "New and old configurations differ in replica set name; old was rs0, and new is other"),
        (_of_another_set, "New and old configurations differ in replica set ID"),
        (_old, "New replica set configuration version must be greater than old, but 1 is not greater than 1"),
        (_two_less, "Non force replica set reconfig can only add or remove at most 1 voting member."),
        (_without_itself, "No host described in new configuration with {version: 2, term: 1}"),
        (_same_id, "Found two member configurations with same _id field, members.0._id == members.1._id"),
        (_same_host, "Found two member configurations with same host field"),
        (_passive_itself, "with _id 0 is not electable under the new configuration"),
        (_nobody_electable, "must contain at least one non-arbiter member with priority > 0"),
        (_hidden_with_priority, "priority must be 0 when hidden=true"),
        (_another_arbiter, "differ in the setting of the arbiterOnly field"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(change: Any, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        config = await _config(talker)
        change(config)
        refused = await talker.fails({"replSetReconfig": config})
        assert (refused["code"], refused["codeName"]) == (103, "NewReplicaSetConfigurationIncompatible")
        assert message in refused["errmsg"]
        assert (await talker.ok({"hello": 1}))["setVersion"] == 1

    play(scenario)


def test_a_configuration_with_a_stranger_finds_no_quorum() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        config = await _config(talker)
        config["members"].append({"_id": 3, "host": "elsewhere:27017"})
        refused = await talker.fails({"replSetReconfig": config})
        assert refused["code"] == 74
        assert refused["errmsg"].startswith("Quorum check failed because not enough voting nodes responded")

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"replSetReconfig": 1}, 2),
        ({"replSetReconfig": {"_id": "rs0", "version": 2}}, 93),
        ({"replSetReconfig": {"_id": "rs0", "version": 2, "members": [{"_id": 0}]}}, 93),
    ],
)
def test_what_is_no_configuration_is_refused(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails(command))["code"] == code

    play(scenario)


def test_only_a_primary_reconfigures_unless_forced() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        config = await _config(talker)
        refused = await talker.fails({"replSetReconfig": config})
        assert refused["code"] == 10107
        assert refused["errmsg"] == (
            "New config is rejected :: caused by :: replSetReconfig should only be run on a writable PRIMARY."
            " Current state SECONDARY;"
        )
        assert "topologyVersion" in refused
        del config["members"][0]
        del config["members"][1]
        await talker.ok({"replSetReconfig": config, "force": True})
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[1]
        assert (await talker.ok({"hello": 1}))["setVersion"] > 10_000

    play(scenario)


@pytest.mark.parametrize("command", ["replSetReconfig", "replSetStepUp"])
def test_a_standalone_has_no_set_to_change(command: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        refused = await (await deployment.connect()).fails({command: {}})
        assert (refused["code"], refused["errmsg"]) == (76, "not running with --replSet")

    play(scenario, STANDALONE)
