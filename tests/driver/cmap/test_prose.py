"""The numbered prose tests of Connection Monitoring and Pooling.

Those about pending responses are of a later text than the driver follows: there, a reply that comes too late
is read and thrown away; here, its connection is closed.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from against_the_fake import Scene, act

from driver import AsyncClient
from driver.cmap.state import PoolOptions
from driver.errors import NetworkError
from driver.events import PoolEvent
from fakeserver import ClusterSpec

ONE = ClusterSpec.replica_set(1)
OPTIONS: dict[str, int] = {
    "maxPoolSize": 7,
    "minPoolSize": 3,
    "maxIdleTimeMS": 60_000,
    "maxConnecting": 1,
    "waitQueueTimeoutMS": 4_000,
}
EXPECTED = PoolOptions(max_size=7, min_size=3, max_connecting=1, max_idle=60.0, wait_queue_timeout=4.0)


def pool_options(client: AsyncClient) -> PoolOptions:
    return client.topology._ports.pool_options


def test_cmap_prose_1_all_pool_options_are_given_to_the_client() -> None:
    assert pool_options(AsyncClient(options=OPTIONS)) == EXPECTED
    settable = {field.name for field in fields(PoolOptions)} - {"load_balanced"}
    differing = {name for name in settable if getattr(EXPECTED, name) != getattr(PoolOptions(), name)}
    assert differing == settable


def test_cmap_prose_2_all_pools_of_a_client_have_the_same_options() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.command("admin", {"ping": 1})
        await scene.world.clock.sleep_until(1.0)
        created: list[Any] = scene.of_kind("poolCreatedEvent")
        assert len(created) == 3
        assert [event.options for event in created] == [OPTIONS] * 3
        for address in scene.client.topology.description.servers:
            server = scene.client.topology.server(address)
            assert server is not None
            assert server.pool.state.options == EXPECTED

    query = "&".join(f"{name}={value}" for name, value in OPTIONS.items())
    act(ClusterSpec.replica_set(3), scenario, query)


def test_cmap_prose_3_all_pool_options_can_be_given_in_the_connection_string() -> None:
    query = "&".join(f"{name}={value}" for name, value in OPTIONS.items())
    assert pool_options(AsyncClient(f"mongodb://localhost/?{query}")) == EXPECTED


def test_cmap_prose_4_listeners_hear_every_event_of_pools_and_connections() -> None:
    heard: list[str] = []

    async def scenario(scene: Scene) -> None:
        scene.hooks.append(lambda event: heard.append(event.kind) if isinstance(event, PoolEvent) else None)
        await scene.client.command("admin", {"ping": 1})
        await scene.client.aclose()

    act(ONE, scenario)
    assert [kind.removesuffix("Event") for kind in heard[:8]] == [
        "poolCreated",
        "poolReady",
        "connectionCheckOutStarted",
        "connectionCreated",
        "connectionReady",
        "connectionCheckedOut",
        "connectionCheckedIn",
        "connectionCheckOutStarted",
    ]
    assert heard[-1] == "poolClosedEvent"


def test_cmap_prose_5_a_check_out_fails_with_connection_error_when_setting_up_a_connection_does() -> None:
    async def scenario(scene: Scene) -> None:
        scene.client.open()
        await scene.world.clock.sleep_until(1.0)
        scene.fail("isMaster", "alwaysOn", closeConnection=True)  # the first message of a connection
        with pytest.raises(NetworkError):
            await scene.client.command("admin", {"ping": 1})
        failed = scene.of_kind("connectionCheckOutFailedEvent")
        assert failed
        assert failed[0].reason == "connectionError"
        assert isinstance(failed[0].error, NetworkError)

    act(ONE, scenario, "serverSelectionTimeoutMS=500&retryReads=false")
