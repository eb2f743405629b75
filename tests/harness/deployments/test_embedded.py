from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from driver import AsyncClient
from driver.errors import DriverError
from fakeserver.profile import Profile
from harness.adapters.deployment import Topology
from harness.deployments.embedded import SERVED, EmbeddedDeployment, embedded
from harness.unified.uri import host_count
from harness.world.virtual import World, run_virtual
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Scenario = Callable[[EmbeddedDeployment], Awaitable[None]]


def on_a_replica_set(
    scenario: Scenario, *, topology: Topology = Topology.REPLICA_SET, auth: bool = False
) -> None:
    """Run a scenario on a deployment in virtual time."""

    async def main(world: World) -> None:
        ports: dict[str, Any] = {"clock": world.clock, "network": world.network, "rng": world.rng}
        async with embedded(topology, virtual=True, auth=auth, **ports) as deployment:
            await scenario(deployment)

    run_virtual(main)


@pytest.mark.parametrize("topology", SERVED)
def test_a_deployment_tells_what_requirements_are_compared_with(topology: Topology) -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        assert deployment.topology is topology
        assert deployment.server_version == tuple(Profile.named("8.2").version_array[:3])
        assert deployment.parameters["enableTestCommands"] is True
        assert deployment.auth is False
        assert len(deployment.addresses) == _CLIENT_FACING[topology]
        assert host_count(deployment.uri) == (3 if topology is Topology.REPLICA_SET else 1)
        assert (deployment.uri_multi == deployment.uri) is not topology.has_mongos

    on_a_replica_set(scenario, topology=topology)


@pytest.mark.parametrize("topology", SERVED)
def test_what_requirements_are_compared_with_is_what_the_servers_answer(topology: Topology) -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        before = deployment.journal.last_seq
        version, parameters = deployment.server_version, deployment.parameters
        assert deployment.journal.last_seq == before  # nothing was sent
        build_info = await deployment.admin("admin", {"buildInfo": 1})
        assert list(version) == build_info["versionArray"][:3]
        answered = await deployment.admin("admin", {"getParameter": "*"})
        assert {name: answered[name] for name in parameters} == parameters
        assert set(answered) - set(parameters) <= {"ok", "$clusterTime", "operationTime"}

    on_a_replica_set(scenario, topology=topology)


def test_its_own_client_of_a_member_takes_two_connections() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        await deployment.admin("admin", {"ping": 1})
        await deployment.clock.sleep_until(deployment.clock.now() + 30)
        assert [len(node.connections) for node in deployment.cluster.nodes] == [2, 0, 0]

    on_a_replica_set(scenario)


_CLIENT_FACING = {
    Topology.SINGLE: 1,
    Topology.REPLICA_SET: 3,
    Topology.SHARDED: 2,
    Topology.LOAD_BALANCED: 2,
}


@pytest.mark.parametrize("topology", SERVED)
def test_a_driver_reaches_a_deployment_by_its_connection_string(topology: Topology) -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        for number, uri in enumerate((deployment.uri, deployment.uri_multi)):
            async with AsyncClient(
                uri, network=deployment.ports, clock=deployment.clock, rng=deployment.rng.spawn(f"{number}")
            ) as client:
                await client.database("db").collection("c").insert_one({"of": uri})

    on_a_replica_set(scenario, topology=topology)

    on_a_replica_set(scenario, topology=topology)


@pytest.mark.parametrize("topology", SERVED)
def test_with_access_control_its_connection_strings_name_a_user_who_may_do_everything(
    topology: Topology,
) -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        assert deployment.auth is True
        assert deployment.uri.startswith("mongodb://bob:pwd123@")
        assert (await deployment.admin("db", {"dropDatabase": 1}))["ok"] == 1

    on_a_replica_set(scenario, topology=topology, auth=True)


def test_a_command_goes_to_the_primary_of_the_moment() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        for _ in range(2):
            hello = await deployment.admin("admin", {"hello": 1})
            assert hello["isWritablePrimary"] is True
            deployment.cluster.elect(next(node for node in deployment.cluster.nodes if not node.is_primary))

    on_a_replica_set(scenario)


def test_a_command_can_be_sent_to_any_member() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        told = [
            (await deployment.admin("admin", {"hello": 1}, address=address))["me"]
            for address in deployment.addresses
        ]
        assert told == list(deployment.addresses)

    on_a_replica_set(scenario)


def test_a_command_reaches_a_server_that_was_restarted_since_the_last_one() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        node = deployment.cluster.nodes[2]
        await deployment.admin("admin", {"ping": 1}, address=node.address)
        await node.kill()
        await node.start()
        assert (await deployment.admin("admin", {"ping": 1}, address=node.address))["ok"] == 1

    on_a_replica_set(scenario)


def test_a_reply_is_returned_whatever_it_says() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        reply = await deployment.admin("admin", {"frobnicate": 1})
        assert (reply["ok"], reply["codeName"]) == (0.0, "CommandNotFound")

    on_a_replica_set(scenario)


def test_other_dice_mean_other_sessions_on_the_same_servers() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        other = deployment.with_rng(SeededRng(1))
        assert other.cluster is deployment.cluster
        assert other.rng.random() != deployment.rng.random()

    on_a_replica_set(scenario)


def test_a_write_that_its_client_has_given_up_marks_the_servers_until_it_has_ended() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        block = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": 2000}
        on = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": block}
        await deployment.admin("admin", on)
        ports: dict[str, Any] = {"network": deployment.network, "clock": deployment.clock}
        async with AsyncClient(deployment.uri + "&timeoutMS=100", **ports) as client:
            stock = client.database("shop").collection("stock")
            with pytest.raises(DriverError):
                await stock.insert_one({"_id": 1})
        assert deployment.is_marked
        await deployment.clock.sleep_until(deployment.clock.now() + 3)
        assert not deployment.is_marked

    on_a_replica_set(scenario)


def test_another_primary_than_the_first_member_marks_the_servers() -> None:
    async def scenario(deployment: EmbeddedDeployment) -> None:
        assert not deployment.is_marked
        await deployment.admin("admin", {"replSetStepDown": 2, "force": True})
        assert deployment.is_marked

    on_a_replica_set(scenario)


def test_in_real_time_clients_come_over_tcp() -> None:
    async def main() -> None:
        clock, rng = SystemClock(), SeededRng(0)
        async with embedded(
            Topology.SINGLE, clock=clock, network=TcpNetwork(), rng=rng, virtual=False
        ) as deployment:
            assert deployment.network is None
            assert (await deployment.admin("admin", {"ping": 1}))["ok"] == 1.0

    asyncio.run(main())
