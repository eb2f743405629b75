"""The reference driver while servers die, pause, part, quiesce and lag, in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

import fakeserver
from driver import AsyncClient
from driver.concerns import ReadMode, ReadPreference
from driver.events import CommandStartedEvent, DriverEvent
from fakeserver import ClusterSpec
from fakeserver.deployment.cluster import CLIENTS, Cluster, Node
from harness.sim import World, run_virtual

Outage: TypeAlias = Callable[[Cluster], Awaitable[None]]


def _play(scenario: Callable[[World, Cluster, AsyncClient, list[DriverEvent]], Awaitable[None]]) -> None:
    async def run(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        spec = ClusterSpec.replica_set(3)
        events: list[DriverEvent] = []
        async with fakeserver.start(spec, rng=world.rng.spawn("server"), **ports) as cluster:
            uri = cluster.uri + "&w=majority&socketTimeoutMS=2000"
            async with AsyncClient(
                uri, rng=world.rng.spawn("client"), listeners=[events.append], **ports
            ) as client:
                await scenario(world, cluster, client, events)

    run_virtual(run)


async def _kill(cluster: Cluster) -> None:
    await cluster.node("primary").kill()


async def _shut_down(cluster: Cluster) -> None:
    await cluster.node("primary").shut_down(quiesce=1.0)


async def _pause(cluster: Cluster) -> None:
    cluster.node("primary").pause()


async def _part(cluster: Cluster) -> None:
    cluster.partition(["primary"])


async def _silence(cluster: Cluster) -> None:
    cluster.partition(["primary"], ["node1", "node2", CLIENTS])


async def _reset(cluster: Cluster) -> None:
    cluster.partition(["primary"], ["node1", "node2", CLIENTS], reset=True)


async def _remove(cluster: Cluster) -> None:
    cluster.remove_member("primary")


@pytest.mark.parametrize("outage", [_kill, _shut_down, _pause, _part, _silence, _reset, _remove])
def test_a_write_outlives_the_primary_that_it_was_meant_for(outage: Outage) -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, _events: list[DriverEvent]
    ) -> None:
        stock = client.database("shop").collection("stock")
        await stock.insert_one({"_id": 1, "qty": 10})
        await outage(cluster)
        begun = world.clock.now()
        await stock.update_one({"_id": 1}, {"$inc": {"qty": -1}})
        assert world.clock.now() - begun < 10.0
        assert await stock.find_one({}) == {"_id": 1, "qty": 9}
        assert cluster.node("primary").name != "node0"

    _play(scenario)


def test_a_write_that_was_made_when_the_primary_died_is_not_made_again() -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        stock = client.database("shop").collection("stock")
        await stock.insert_one({"_id": 1, "qty": 10})
        for node in cluster.nodes:
            node.lag(1.5)

        async def kill_later() -> None:
            await world.clock.sleep_until(world.clock.now() + 0.5)
            await cluster.node("primary").kill()

        cluster.spawn(kill_later())
        await stock.update_one({"_id": 1}, {"$inc": {"qty": -1}})
        assert await stock.find_one({}) == {"_id": 1, "qty": 9}
        started = [each for each in events if isinstance(each, CommandStartedEvent)]
        assert sum(each.command_name == "update" for each in started) == 2

    _play(scenario)


def _pings(node: Node) -> int:
    total: int = node.counters.by_command().get("ping", {}).get("total", 0)
    return total


def test_a_read_prefers_a_member_that_is_quick() -> None:
    async def scenario(
        world: World, cluster: Cluster, client: AsyncClient, events: list[DriverEvent]
    ) -> None:
        await client.command("admin", {"ping": 1})
        cluster.nodes[1].slow(0.5)
        await world.clock.sleep_until(world.clock.now() + 60.0)
        before = [_pings(node) for node in cluster.nodes]
        for _ in range(20):
            await client.command("admin", {"ping": 1}, read_preference=ReadPreference(ReadMode.SECONDARY))
        assert [_pings(node) - already for node, already in zip(cluster.nodes, before, strict=True)] == [
            *(0, 0, 20)
        ]

    _play(scenario)
