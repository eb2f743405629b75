"""Monitors, where only a network can show what they do: how far away a server is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import fakeserver
from driver import AsyncClient
from fakeserver import ClusterSpec
from harness.sim import run_virtual

if TYPE_CHECKING:
    from harness.world.virtual import World
    from mongowire.ports import Clock, Listener, Network, Stream

CONNECTING = 0.2
"""Seconds."""
NEAR = 0.0011
"""Seconds that a message and its reply travel, with what rounding adds."""


@dataclass(frozen=True)
class SlowToConnect:
    """A network in which connecting takes its time, as with TLS, and nothing else does."""

    network: Network
    clock: Clock

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        await self.clock.sleep_until(self.clock.now() + CONNECTING)
        return await self.network.connect(host, port, deadline=deadline)

    async def listen(self, *where: Any, **options: Any) -> Listener:
        return await self.network.listen(*where, **options)


@pytest.mark.parametrize("mode", ["poll", "stream"])
def test_connecting_is_no_part_of_a_round_trip(mode: str) -> None:
    async def main(world: World) -> list[float | None]:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        slow = SlowToConnect(world.network, world.clock)
        options = {"heartbeatFrequencyMS": 500, "serverMonitoringMode": mode}
        async with (
            fakeserver.start(ClusterSpec.replica_set(2), **ports, rng=world.rng.spawn("server")) as cluster,
            AsyncClient(cluster.uri, network=slow, clock=world.clock, options=options) as client,
        ):
            await client.command("admin", {"ping": 1})
            await world.clock.sleep_until(world.clock.now() + 2)
            return [server.round_trip_time for server in client.topology.description.servers.values()]

    times = run_virtual(main)
    assert [time is not None and time < NEAR for time in times] == [True, True], times
