"""The limiter of new connections on a running server, as its clients see it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from talking import Deployment, Talker, play, play_live

from fakeserver import ClusterSpec

_PREFIX = "ingressConnectionEstablishment"
_PING = {"ping": 1}


def _spec(*, rate: int = 1, burst: float = 1.0, depth: int = 0, **more: Any) -> ClusterSpec:
    return ClusterSpec.standalone(
        parameters={
            f"{_PREFIX}RateLimiterEnabled": True,
            f"{_PREFIX}RatePerSec": rate,
            f"{_PREFIX}BurstCapacitySecs": burst,
            f"{_PREFIX}MaxQueueDepth": depth,
            **more,
        }
    )


async def _storm(deployment: Deployment, count: int) -> list[float | None]:
    """Connect `count` clients at once; return after how long each was answered, None where none ever was."""
    began = deployment.world.clock.now()

    async def one() -> float | None:
        talker = await deployment.connect()
        reply = await talker.command(_PING)
        return None if reply is None else deployment.world.clock.now() - began

    return await asyncio.gather(*(one() for _ in range(count)))


@pytest.mark.spec("SAC-37", "SAC-41", "SAC-42")
def test_connections_beyond_the_rate_are_closed_without_a_word() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _storm(deployment, 5)
        assert [answer is None for answer in answers] == [False, False, False, True, True]
        await deployment.sleep(1.0)
        assert [answer is None for answer in await _storm(deployment, 3)] == [False, False, True]

    play(scenario, _spec(rate=2, burst=1.5))


@pytest.mark.spec("SAC-38")
def test_with_a_queue_connections_are_established_one_after_the_other() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _storm(deployment, 4)
        assert [None if answer is None else round(answer, 1) for answer in answers] == [0.0, 1.0, 2.0, None]

    play(scenario, _spec(depth=2))


@pytest.mark.spec("SAC-39", "SAC-46")
def test_a_storm_is_established_queued_and_rejected_to_the_last_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _storm(deployment, 2000)
        waits = sorted(answer for answer in answers if answer is not None)
        assert len(waits) == 300
        assert waits[199] < 0.01
        assert waits[200] > 0.004
        assert waits[-1] == pytest.approx(100 / 200, abs=0.01)
        status = await (await deployment.connect()).ok({"serverStatus": 1})
        queue = status["queues"]["ingressSessionEstablishment"]
        assert queue["attemptedAdmissions"] == 2001
        assert queue["rejectedAdmissions"] == 1700
        assert queue["successfulAdmissions"] == 301
        assert queue["addedToQueue"] == queue["removedFromQueue"] == 101
        connections = status["connections"]
        assert connections["totalCreated"] == 2001
        assert connections["rejected"] == 1700
        assert connections["current"] == 301
        assert connections["queuedForEstablishment"] == 0
        assert connections["establishmentRateLimit"] == {
            "rejected": 1700,
            "exempted": 0,
            "interruptedDueToClientDisconnect": 0,
        }

    play(scenario, _spec(rate=200, depth=100))


@pytest.mark.slow
def test_a_storm_over_tcp_loses_no_connection_in_the_counters() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _storm(deployment, 400)
        limiter = deployment.cluster.nodes[0].admission.establishment
        served = sum(answer is not None for answer in answers)
        assert served >= 120
        assert (limiter.attempted, limiter.successful) == (400, served)
        assert limiter.rejected == 400 - served
        assert limiter.queued == 0

    play_live(scenario, _spec(rate=200, burst=0.5, depth=20))


@pytest.mark.spec("SAC-38", "SAC-45", "SAC-48")
def test_a_client_that_leaves_while_it_waits_gives_its_token_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.connect()
        impatient = await deployment.connect()
        await deployment.sleep(0.1)
        node = deployment.cluster.nodes[0]
        assert node.gate.stats()["queuedForEstablishment"] == 1
        await impatient.aclose()
        await deployment.sleep(0.1)
        stats = node.gate.stats()
        assert stats["queuedForEstablishment"] == 0
        assert stats["establishmentRateLimit"]["interruptedDueToClientDisconnect"] == 1
        told = [line for line in map(json.loads, node.log.lines) if line["id"] == 20883]
        assert [line["ctx"] for line in told] == ["conn2"]
        waited = (await _storm(deployment, 1))[0]
        assert waited is not None
        assert waited < 1.0

    play(scenario, _spec(depth=5))


@pytest.mark.spec("SAC-43")
def test_who_waits_is_not_read_from_and_counts_as_open_and_not_as_current() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = await deployment.connect(), await deployment.connect()
        await second.send(_PING)
        await deployment.sleep(0.5)
        node = deployment.cluster.nodes[0]
        assert node.counters.requests == 0
        connections = (await first.ok({"serverStatus": 1}))["connections"]
        assert (connections["current"], connections["queuedForEstablishment"]) == (1, 1)
        reply = await second.reply()
        assert reply is not None
        assert reply["ok"] == 1.0

    play(scenario, _spec(depth=5))


@pytest.mark.spec("SAC-44")
@pytest.mark.parametrize(("ranges", "served"), [(["127.0.0.0/8"], 4), (["10.0.0.0/8"], 1)])
def test_addresses_that_bypass_the_limiter_are_let_in_and_counted_apart(
    ranges: list[str], served: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _storm(deployment, 4)
        assert sum(answer is not None for answer in answers) == served
        exempted = deployment.cluster.nodes[0].gate.stats()["establishmentRateLimit"]["exempted"]
        assert exempted == (4 if served == 4 else 0)

    bypass: dict[str, Any] = {f"{_PREFIX}RateLimiterBypass": {"ranges": ranges}}
    play(scenario, _spec(**bypass))


def test_a_limiter_that_is_switched_off_lets_those_in_who_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        storm = asyncio.create_task(_storm(deployment, 4))
        await deployment.sleep(0.1)
        node = deployment.cluster.nodes[0]
        node.parameters.set({f"{_PREFIX}RateLimiterEnabled": False})
        answers = await storm
        assert max(answer for answer in answers if answer is not None) < 0.2
        assert None not in answers
        assert node.admission.establishment.exempted == 3

    play(scenario, _spec(depth=5))


@pytest.mark.spec("SAC-45")
def test_a_server_that_stops_ends_the_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.connect()
        waiting = await deployment.connect()
        await deployment.sleep(0.1)
        limiter = deployment.cluster.nodes[0].admission.establishment
        await deployment.cluster.stop()
        assert await waiting.receive() is None
        assert (limiter.queued, limiter.interrupted_in_queue) == (0, 1)

    play(scenario, _spec(depth=5))


def test_no_more_connections_are_open_than_may_be() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers: list[Talker] = [await deployment.connect() for _ in range(7)]
        replies = [await talker.command(_PING) for talker in talkers]
        assert [reply is None for reply in replies] == [False] * 5 + [True] * 2
        node = deployment.cluster.nodes[0]
        assert node.gate.stats()["rejected"] == 2
        ranges = {"ranges": ["127.0.0.1"]}
        await talkers[0].ok({"setParameter": 1, "maxIncomingConnectionsOverride": ranges})
        await (await deployment.connect()).ok(_PING)

    play(scenario, ClusterSpec.standalone(parameters={"maxIncomingConnections": 5}))


@pytest.mark.spec("SAC-47")
def test_the_times_of_handshakes_are_averaged() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.sleep(0.25)
        await talker.ok({"hello": 1})
        network = (await talker.ok({"serverStatus": 1}))["metrics"]["network"]
        assert network == {
            "averageTimeToCompletedTLSHandshakeMicros": 0.0,
            "averageTimeToCompletedHelloMicros": pytest.approx(250_000, rel=0.01),
            "averageTimeToCompletedAuthMicros": 0.0,
        }

    play(scenario, ClusterSpec.standalone())


def test_available_connections_are_the_limit_less_the_open_ones_below_zero_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        privileged = {"maxIncomingConnectionsOverride": {"ranges": ["127.0.0.1"]}}
        deployment.cluster.nodes[0].parameters.set(privileged)
        shown = []
        for _ in range(7):
            talker = await deployment.connect()
            shown.append((await talker.ok({"serverStatus": 1}))["connections"]["available"])
        assert shown == [4, 3, 2, 1, 0, -1, -2]

    play(scenario, ClusterSpec.standalone(parameters={"maxIncomingConnections": 5}))
