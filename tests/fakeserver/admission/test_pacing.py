"""The limiters of 9.0 beside those of requests and connections, on running servers.

The pace of replies that refuse, the write throttler, and flow control by a rate.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64
from talking import Deployment, Talker, lsid, play

from fakeserver import ClusterSpec

_PING = {"ping": 1}
_REFUSING = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 5e-6,
}
_ADMITTING = {"ingressRequestRateLimiterEnabled": False}
_SLOWLY = {"egressResponseRateLimiterRatePerSec": 2, "egressResponseRateLimiterBurstCapacitySecs": 0.5}

_TEN_A_SECOND = {
    "writeThrottlerEnabled": True,
    "writeThrottlerTargetRatePerSec": 10,
    "writeThrottlerBurstCapacitySecs": 0.1,
}
_THROTTLED = ClusterSpec.replica_set(1, profile="9.0", parameters=_TEN_A_SECOND)


def _insert(documents: int = 1) -> dict[str, Any]:
    return {"insert": "c", "documents": [{"x": 1}] * documents, "$db": "db"}


async def _egress(deployment: Deployment) -> dict[str, int]:
    node = deployment.cluster.nodes[0]
    stats = node.admission.request_stats(deployment.world.clock.now())["egressResponseRateLimiter"]
    return {name: int(stats[name]) for name in ("attemptedAdmissions", "successfulAdmissions")}


async def _throttler(talker: Talker) -> dict[str, Any]:
    stats: dict[str, Any] = (await talker.ok({"serverStatus": 1}))["queues"]["writeThrottler"]
    return stats


async def _time_of(deployment: Deployment, talker: Talker, command: dict[str, Any]) -> float:
    began = deployment.world.clock.now()
    await talker.ok(command)
    return deployment.world.clock.now() - began


# Replies that refuse.


@pytest.mark.parametrize("make", [ClusterSpec.standalone, ClusterSpec.sharded])
def test_only_a_reply_that_refuses_is_counted(make: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        await talker.fails({"bogus": 1})
        assert await _egress(deployment) == {"attemptedAdmissions": 0, "successfulAdmissions": 0}
        deployment.cluster.nodes[0].parameters.set(_REFUSING)
        for _ in range(3):
            assert (await talker.fails(_PING))["code"] == 462
        assert await _egress(deployment) == {"attemptedAdmissions": 3, "successfulAdmissions": 3}

    play(scenario, make(profile="9.0"))


@pytest.mark.parametrize("make", [ClusterSpec.standalone, ClusterSpec.sharded])
def test_refusals_leave_a_server_no_faster_than_they_may(make: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        node.parameters.set({**_REFUSING, **_SLOWLY})
        talkers = [await deployment.connect() for _ in range(5)]
        began = deployment.world.clock.now()
        replies = await asyncio.gather(*(talker.fails(_PING) for talker in talkers))
        assert {reply["code"] for reply in replies} == {462}
        # One at once, and one each half second behind it.
        assert deployment.world.clock.now() - began == pytest.approx(2.0, abs=0.01)
        node.parameters.set(_ADMITTING)
        assert await _time_of(deployment, talkers[0], _PING) < 0.01
        egress = node.admission.pacing.egress
        assert (egress.attempted, egress.successful, egress.added_to_queue, egress.queued) == (5, 5, 4, 0)

    play(scenario, make(profile="9.0"))


def test_a_server_that_stops_leaves_no_refusal_in_the_queue() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        node.parameters.set({**_REFUSING, **_SLOWLY})
        talkers = [await deployment.connect() for _ in range(3)]
        for talker in talkers:
            await talker.send(_PING)
        await deployment.sleep(0.1)
        egress = node.admission.pacing.egress
        assert egress.queued == 2
        await deployment.cluster.stop()
        assert (egress.queued, egress.interrupted_in_queue) == (0, 2)

    play(scenario, ClusterSpec.standalone(profile="9.0"))


def test_before_9_0_nothing_paces_refusals() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        network = (await talker.ok({"serverStatus": 1}))["network"]
        assert "egressResponseRateLimiter" not in network
        assert (await talker.fails({"getParameter": 1, "egressResponseRateLimiterRatePerSec": 1}))[
            "code"
        ] == 72

    play(scenario, ClusterSpec.standalone(profile="8.2"))


# The write throttler.


@pytest.mark.parametrize(
    ("command", "tokens"),
    [
        (_insert(), 1),
        (_insert(3), 3),
        ({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}}], "$db": "db"}, 1),
        ({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}}] * 2, "$db": "db"}, 2),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 1}], "$db": "db"}, 1),
        ({"findAndModify": "c", "query": {}, "update": {"$inc": {"x": 1}}, "$db": "db"}, 1),
    ],
)
def test_a_write_takes_a_token_for_each_statement(command: dict[str, Any], tokens: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_insert())
        await deployment.sleep(5)
        before = await _throttler(talker)
        await talker.ok(command)
        after = await _throttler(talker)
        grown = {name: after[name] - before[name] for name in ("attemptedAdmissions", "successfulAdmissions")}
        assert grown == {"attemptedAdmissions": 1, "successfulAdmissions": 1}
        assert after["tokensAcquired"] - before["tokensAcquired"] == tokens

    play(scenario, _THROTTLED)


def test_writers_share_the_rate_and_readers_are_free() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        began = deployment.world.clock.now()
        for _ in range(11):
            await talker.ok(_insert())
        assert deployment.world.clock.now() - began == pytest.approx(1.0, abs=0.05)
        assert await _time_of(deployment, talker, {"find": "c", "$db": "db"}) < 0.01
        stats = await _throttler(talker)
        assert (stats["enabled"], stats["targetRateLimit"]) == (True, 10)
        assert stats["totalTimeQueuedMicros"] > 900_000

    play(scenario, _THROTTLED)


def test_documents_beyond_the_statements_are_paid_for_afterwards() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_insert(20))
        await deployment.sleep(10)
        update = {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}], "$db": "db"}
        assert await _time_of(deployment, talker, update) < 0.01
        assert await _time_of(deployment, talker, _insert()) == pytest.approx(2.0, abs=0.05)

    play(scenario, _THROTTLED)


def test_a_write_that_changed_nothing_gets_its_token_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        nothing = {"delete": "c", "deletes": [{"q": {"x": 7}, "limit": 0}], "$db": "db"}
        began = deployment.world.clock.now()
        for _ in range(5):
            await talker.ok(nothing)
        assert deployment.world.clock.now() - began < 0.05

    play(scenario, _THROTTLED)


def test_no_write_costs_more_than_it_may() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "writeThrottlerMaxCostPerOp": 5})
        await talker.ok(_insert(100))
        assert await _time_of(deployment, talker, _insert()) == pytest.approx(0.1, abs=0.05)

    play(scenario, _THROTTLED)


def test_a_full_queue_of_writers_rejects() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second, third = [await deployment.connect() for _ in range(3)]
        await first.ok({"setParameter": 1, "writeThrottlerMaxQueueDepth": 1})
        await first.ok(_insert())
        await second.send(_insert())
        await deployment.sleep(0.01)
        refused = await third.fails(_insert())
        assert (refused["code"], refused["codeName"]) == (449, "RateLimitExceeded")
        reply = await second.reply()
        assert reply is not None
        assert reply["ok"] == 1.0

    play(scenario, _THROTTLED)


def test_a_writer_that_waits_can_be_seen_and_its_deadline_ends_the_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor, talker = await deployment.connect(), await deployment.connect()
        await talker.send({**_insert(20), "maxTimeMS": 500})
        await deployment.sleep(0.3)
        (operation,) = [op for op in (await monitor.ok({"currentOp": 1}))["inprog"] if op.get("currentQueue")]
        assert operation["currentQueue"]["name"] == "writeThrottle"
        late = await talker.reply()
        assert late is not None
        assert late["code"] == 50
        assert (await _throttler(monitor))["interruptedInQueue"] == 1

    play(scenario, _THROTTLED)


def test_a_throttler_that_is_switched_off_lets_those_go_who_wait_and_counts_nobody() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor, talker = await deployment.connect(), await deployment.connect()
        await talker.ok(_insert(50))
        await talker.send(_insert())
        await deployment.sleep(0.1)
        await monitor.ok({"setParameter": 1, "writeThrottlerEnabled": False})
        reply = await talker.reply()
        assert reply is not None
        assert reply["ok"] == 1.0
        before = await _throttler(monitor)
        await talker.ok(_insert(50))
        await talker.ok(_insert(50))
        after = await _throttler(monitor)
        assert (before["enabled"], after["attemptedAdmissions"]) == (False, before["attemptedAdmissions"])

    play(scenario, _THROTTLED)


def test_a_commit_is_not_throttled() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        facts = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await talker.ok({**_insert(30), **facts, "startTransaction": True})
        assert await _time_of(deployment, talker, {"commitTransaction": 1, **facts}) < 0.01

    play(scenario, _THROTTLED)


def test_before_9_0_there_is_no_write_throttler() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert "writeThrottler" not in (await talker.ok({"serverStatus": 1}))["queues"]
        assert (await talker.fails({"setParameter": 1, "writeThrottlerEnabled": True}))["code"] == 72

    play(scenario, ClusterSpec.replica_set(1, profile="8.2"))


# Flow control by a rate.


async def _by_rate(talker: Talker) -> dict[str, Any]:
    stats: dict[str, Any] = (await talker.ok({"serverStatus": 1}))["flowControl"]["rateLimiter"]
    return stats


def test_writers_ask_the_limiter_of_flow_control_where_it_is_switched_on_and_only_there() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_insert())
        assert (await _by_rate(talker))["attemptedAdmissions"] == 0
        await talker.ok({"setParameter": 1, "flowControlUseRateLimiter": True})
        await talker.ok(_insert())
        assert (await _by_rate(talker))["successfulAdmissions"] == 1
        await talker.ok({"setParameter": 1, "flowControlUseRateLimiter": False})
        await talker.ok(_insert())
        assert (await _by_rate(talker))["successfulAdmissions"] == 1

    play(scenario, ClusterSpec.replica_set(1, profile="9.0"))


def test_the_limiter_gives_writers_the_rate_that_flow_control_allows() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("flowControlTicketOverride", "alwaysOn", numTickets=5)
        await talker.ok(_insert())
        await deployment.sleep(2)
        began = deployment.world.clock.now()
        for _ in range(22):
            await talker.ok(_insert())
        # A burst of half a second, and the rest one after the other.
        assert deployment.world.clock.now() - began == pytest.approx(4.0, abs=0.3)
        status = (await talker.ok({"serverStatus": 1}))["flowControl"]
        assert status["timeAcquiringMicros"] > 3_000_000
        limiter = status["rateLimiter"]
        assert (limiter["queued"], limiter["successfulAdmissions"]) == (0, 1 + 22)

    play(scenario, ClusterSpec.replica_set(1, profile="9.0", parameters={"flowControlUseRateLimiter": True}))


def test_a_server_that_stops_ends_the_wait_of_a_writer() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        talker = await deployment.connect()
        await deployment.configure("hangInRateLimiter", "alwaysOn")
        await talker.send(_insert())
        await deployment.sleep(0.5)
        assert node.admission.pacing.flow.queued == 1
        await deployment.cluster.stop()
        assert (node.admission.pacing.flow.queued, node.admission.pacing.flow.interrupted_in_queue) == (0, 1)

    play(scenario, ClusterSpec.replica_set(1, profile="9.0", parameters={"flowControlUseRateLimiter": True}))
