"""Client Backpressure: Driver mechanisms subject to the retry policy, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from driven_client import Stage, play, staged
from scripted_mongod import ScriptedMongod, error, mongos_hello, standalone_hello, topology_version

from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08, Edition
from driver.errors import ServerError
from harness.sim import run_virtual
from mongowire.codes import Label

OVERLOADED = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
BALANCED = mongos_hello(serviceId=ObjectId("65" * 12))
EDITIONS = pytest.mark.parametrize(
    ("edition", "retries"),
    [(EDITION_2026_02_20, 5), (EDITION_2026_07_08, 2)],
    ids=["2026-02-20", "2026-07-08"],
)


async def refused_ping(stage: Stage) -> None:
    with pytest.raises(ServerError, match="rate exceeded"):
        await stage.client.command("admin", {"ping": 1})


@pytest.mark.spec("CB-27")
@EDITIONS
def test_a_handshake_that_meets_overload_ends_its_connection(edition: Edition, retries: int) -> None:
    """The operation that wanted the connection is retried, on another one."""
    members = [ScriptedMongod(1, BALANCED)]
    members[0].will("hello", *[OVERLOADED] * (retries + 1))
    stage = play(refused_ping, "loadBalanced=true", members=members, edition=edition)
    assert len(stage.primary.hellos) == len(stage.primary.connections) == retries + 1
    assert stage.kinds("connectionReady") == []


@pytest.mark.spec("CB-27")
@EDITIONS
def test_authentication_that_meets_overload_ends_its_connection(edition: Edition, retries: int) -> None:
    member = ScriptedMongod(1, BALANCED)
    member.will("saslStart", *[OVERLOADED] * (retries + 1))

    async def main(world: Any) -> None:
        async with staged(
            world, [member], "loadBalanced=true", edition=edition, credentials="user:secret@"
        ) as stage:
            await refused_ping(stage)

    run_virtual(main)
    assert [next(iter(command)) for command in member.received] == ["saslStart"] * (retries + 1)
    assert len(member.connections) == retries + 1


@pytest.mark.spec("CB-26")
def test_a_check_that_meets_overload_has_failed_and_the_next_one_comes_at_its_time() -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.open()
        await stage.world.clock.sleep_until(0.5)
        stage.primary.will("hello", OVERLOADED)
        await stage.world.clock.sleep_until(3.5)

    options = "heartbeatFrequencyMS=1000&serverMonitoringMode=poll"
    stage = play(scenario, options, members=[ScriptedMongod(1, standalone_hello())])
    assert stage.kinds("serverHeartbeat") == [
        *("serverHeartbeatStarted", "serverHeartbeatSucceeded"),
        *("serverHeartbeatStarted", "serverHeartbeatFailed"),
        *("serverHeartbeatStarted", "serverHeartbeatSucceeded") * 2,
    ]
    assert len(stage.primary.hellos) == 4
    assert len(stage.primary.connections) == 2


@pytest.mark.spec("CB-26")
def test_a_round_trip_that_meets_overload_is_not_measured_again_before_its_time() -> None:
    """The monitor's own connection streams, and is silent here: all other hellos are the pinger's."""
    streaming = standalone_hello(topologyVersion=topology_version(1))

    async def scenario(stage: Stage) -> None:
        stage.primary.will("hello", *[OVERLOADED] * 20)
        stage.client.open()
        await stage.world.clock.sleep_until(3.5)

    member = ScriptedMongod(1, streaming)
    play(scenario, "heartbeatFrequencyMS=1000&serverMonitoringMode=stream", members=[member])
    pings = [hello for hello in member.hellos if "topologyVersion" not in hello and "client" not in hello]
    assert len(pings) <= 4
