"""A server that shuts down in order tells its clients first (`SDAM: ShutdownInProgress`)."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import LATENCY, STANDALONE, Deployment, play, retryable_insert

from fakeserver import ClusterSpec

_INSERT = {"insert": "c", "documents": [{}], "$db": "db"}
_FIND = {"find": "c", "$db": "db", "$readPreference": {"mode": "nearest"}}
_ROUTED = ClusterSpec.sharded(1, 1)


@pytest.mark.parametrize("spec", [ClusterSpec.replica_set(3), _ROUTED], ids=["secondary", "mongos"])
def test_in_quiesce_mode_hello_fails_and_the_rest_works(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        node = cluster.routers[0] if cluster.routers else deployment.secondary
        talker = await deployment.connect(node)
        before = await talker.ok({"hello": 1})
        cluster.spawn(node.shut_down(quiesce=10.0))
        await deployment.sleep(4.0)
        refused = await talker.fails({"hello": 1})
        assert (refused["code"], refused["codeName"]) == (91, "ShutdownInProgress")
        assert refused["errmsg"] == "The server is in quiesce mode and will shut down"
        assert refused["remainingQuiesceTimeMillis"] == pytest.approx(6000, abs=5)
        assert isinstance(refused["remainingQuiesceTimeMillis"], Int64)
        told, known = refused["topologyVersion"], before["topologyVersion"]
        assert (told["processId"], told["counter"]) == (known["processId"], known["counter"] + 1)
        await talker.ok(_FIND)
        await deployment.sleep(6.0)
        assert await talker.reply() is None
        with pytest.raises(OSError, match="nobody listens"):
            await deployment.connect(node)

    play(scenario, spec)


@pytest.mark.parametrize("spec", [ClusterSpec.replica_set(3), _ROUTED], ids=["secondary", "mongos"])
def test_quiesce_mode_answers_the_hellos_that_wait(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        node = cluster.routers[0] if cluster.routers else deployment.secondary
        talker = await deployment.connect(node)
        told = (await talker.ok({"hello": 1}))["topologyVersion"]
        await talker.send({"hello": 1, "topologyVersion": told, "maxAwaitTimeMS": 10_000})
        await deployment.sleep(1.0)
        begun = deployment.world.clock.now()
        cluster.spawn(node.shut_down(quiesce=5.0))
        refused = await talker.reply()
        assert refused is not None
        assert refused["code"] == 91
        assert deployment.world.clock.now() - begun == pytest.approx(LATENCY)

    play(scenario, spec)


def test_a_primary_hands_over_before_it_shuts_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        old = deployment.primary
        await old.shut_down(quiesce=1.0)
        assert deployment.primary is deployment.cluster.nodes[1]
        assert old.stopped

    play(scenario)


def test_what_waits_when_quiesce_mode_ends_is_interrupted() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        for other in deployment.cluster.nodes[1:]:
            other.hold()
        talker = await deployment.connect(node)
        insert = retryable_insert(1, txn_number=1, writeConcern={"w": 3})
        await talker.send(insert)
        await deployment.fail_command(
            "alwaysOn", "find", node=node, errorCode=91, blockConnection=True, blockTimeMS=60_000
        )
        reader = await deployment.connect(node)
        await reader.send(_FIND)
        await deployment.sleep(1.0)
        await node.shut_down()
        refused = await reader.reply()
        assert refused is not None
        assert (refused["code"], refused["errmsg"]) == (11600, "interrupted at shutdown")
        assert await reader.reply() is None

    play(scenario)


# The command.


def test_the_shutdown_command_closes_its_connection_and_then_quiesces() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        other = await deployment.connect(node)
        assert await (await deployment.connect(node)).command({"shutdown": 1}) is None
        await deployment.sleep(14.0)
        assert (await other.fails({"hello": 1}))["code"] == 91
        await deployment.sleep(1.5)
        assert node.stopped
        assert await other.reply() is None

    play(scenario)


def test_a_standalone_shuts_down_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        assert await (await deployment.connect()).command({"shutdown": 1, "timeoutSecs": 60}) is None
        await deployment.sleep(0.1)
        assert node.stopped
        await node.start()
        await (await deployment.connect()).ok({"hello": 1})

    play(scenario, STANDALONE)


def test_a_mongos_quiesces_at_the_command_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.routers[0]
        other = await deployment.connect(node)
        for _ in range(2):
            assert await (await deployment.connect(node)).command({"shutdown": 1, "timeoutSecs": 5}) is None
        assert (await other.fails({"hello": 1}))["code"] == 91
        await deployment.sleep(5.1)
        assert node.stopped

    play(scenario, _ROUTED)


def test_a_primary_without_a_successor_shuts_down_by_force_only() -> None:
    async def scenario(deployment: Deployment) -> None:
        for node in deployment.cluster.nodes[1:]:
            node.hold()
        talker = await deployment.connect()
        await talker.ok(_INSERT)
        refused = await talker.fails({"shutdown": 1, "timeoutSecs": 2})
        assert refused["code"] == 262
        assert not deployment.primary.stopped
        node = deployment.primary
        assert await talker.command({"shutdown": 1, "timeoutSecs": 0, "force": True}) is None
        await deployment.sleep(1.0)
        assert node.stopped
        assert deployment.primary is deployment.cluster.nodes[1]

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [({"shutdown": 1, "$db": "db"}, 13), ({"shutdown": 1, "timeoutSecs": -1}, 2)],
)
def test_a_server_refuses_to_shut_down(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).fails(command))["code"] == code

    play(scenario, STANDALONE)


# Which errors carry a topologyVersion.


@pytest.mark.parametrize("code", [189, 10107, 11602, 13435, 13436])
def test_errors_of_who_is_not_primary_carry_the_present_version(code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.fail_command("alwaysOn", "ping", errorCode=code)
        refused = await (await deployment.connect()).fails({"ping": 1})
        assert refused["topologyVersion"] == deployment.primary.topology_version()

    play(scenario)


@pytest.mark.parametrize("code", [91, 11600])
def test_errors_of_a_shutdown_carry_a_version_in_quiesce_mode_only(code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        await deployment.fail_command("alwaysOn", "ping", node=node, errorCode=code)
        talker = await deployment.connect(node)
        assert "topologyVersion" not in await talker.fails({"ping": 1})
        deployment.cluster.spawn(node.shut_down(quiesce=10.0))
        await deployment.sleep(1.0)
        assert (await talker.fails({"ping": 1}))["topologyVersion"] == node.topology_version()

    play(scenario)


@pytest.mark.parametrize("spec", [STANDALONE, _ROUTED])
@pytest.mark.parametrize("code", [10107, 91])
def test_who_has_no_set_never_adds_a_version(spec: ClusterSpec, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.fail_command("alwaysOn", "ping", errorCode=code)
        assert "topologyVersion" not in await (await deployment.connect()).fails({"ping": 1})

    play(scenario, spec)
