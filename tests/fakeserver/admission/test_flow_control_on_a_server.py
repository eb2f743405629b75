"""Flow control on a running replica set: what writers meet when the majority falls behind."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import Deployment, Talker, lsid, play

from fakeserver import ClusterSpec

_PARAMETERS = {
    "flowControlTargetLagSeconds": 10,
    "flowControlMinTicketsPerSecond": 5,
    "flowControlSamplePeriod": 1,
}
_SPEC = ClusterSpec.replica_set(3, parameters=_PARAMETERS)


def _insert(number: int) -> dict[str, Any]:
    return {"insert": "c", "documents": [{"n": number}], "$db": "db"}


async def _stop_replication(deployment: Deployment) -> None:
    for node in deployment.cluster.nodes:
        if not node.is_primary:
            await deployment.configure("stopReplProducer", "alwaysOn", node=node)


async def _resume_replication(deployment: Deployment) -> None:
    for node in deployment.cluster.nodes:
        if not node.is_primary:
            await deployment.configure("stopReplProducer", "off", node=node)


async def _fall_behind(deployment: Deployment, talker: Talker, seconds: int) -> None:
    await _stop_replication(deployment)
    for number in range(seconds):
        await talker.ok(_insert(number))
        await deployment.sleep(1.0)


async def _writes_in(deployment: Deployment, talker: Talker, seconds: float) -> int:
    """Write as fast as the server lets one client, and return how often it did."""
    until, count = deployment.world.clock.now() + seconds, 0
    while deployment.world.clock.now() < until:
        await talker.ok(_insert(count))
        count += 1
    return count


def test_while_the_majority_keeps_up_nobody_is_held_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert await _writes_in(deployment, talker, 2.0) > 1000
        status = (await talker.ok({"serverStatus": 1}))["flowControl"]
        assert (status["enabled"], status["isLagged"], status["timeAcquiringMicros"]) == (True, False, 0)

    play(scenario, _SPEC)


def test_a_lagging_majority_slows_writers_down_to_the_minimum() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 30)
        assert 45 <= await _writes_in(deployment, talker, 10.0) <= 56
        status = (await talker.ok({"serverStatus": 1}))["flowControl"]
        assert status["isLagged"]
        assert status["isLaggedCount"] == 1
        assert status["targetRateLimit"] == 5
        assert status["timeAcquiringMicros"] > 5_000_000

    play(scenario, _SPEC)


def test_writers_are_free_again_when_the_majority_has_caught_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 30)
        await _resume_replication(deployment)
        await _writes_in(deployment, talker, 2.0)
        assert await _writes_in(deployment, talker, 1.0) > 500
        assert not (await talker.ok({"serverStatus": 1}))["flowControl"]["isLagged"]

    play(scenario, _SPEC)


@pytest.mark.spec("SAC-3")
def test_readers_and_commits_are_never_held_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, reader = await deployment.connect(), await deployment.connect()
        await _fall_behind(deployment, talker, 30)
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await talker.ok({**_insert(1), **session, "startTransaction": True})
        await _writes_in(deployment, talker, 1.0)
        began = deployment.world.clock.now()
        for _ in range(50):
            await reader.ok({"find": "c", "filter": {"n": 1}, "$db": "db"})
        await reader.ok({"commitTransaction": 1, **session})
        assert deployment.world.clock.now() - began < 0.2

    play(scenario, _SPEC)


@pytest.mark.spec("SAC-2")
def test_a_writer_that_flow_control_holds_back_holds_no_ticket_of_the_engine() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("flowControlTicketOverride", "alwaysOn", numTickets=1)
        await _writes_in(deployment, talker, 1.5)
        await talker.send(_insert(1))
        await deployment.sleep(0.01)
        admission = deployment.primary.admission
        assert await _is_held_back(deployment)
        assert admission.execution.write.out == 0
        assert admission.ingress.out == 1

    play(scenario, ClusterSpec.replica_set(1, parameters={**_PARAMETERS, "serviceTimeBaseMillis": 100}))


async def _is_held_back(deployment: Deployment) -> bool:
    """Return whether an operation waits for flow control."""
    operations = (await (await deployment.connect()).ok({"currentOp": 1}))["inprog"]
    return any(operation.get("waitingForFlowControl") for operation in operations)


def test_a_deadline_ends_the_wait_of_a_writer() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 30)
        replies = [await talker.command({**_insert(n), "maxTimeMS": 50}) for n in range(20)]
        codes = {reply.get("code") for reply in replies if reply is not None}
        assert codes == {None, 50}

    play(scenario, _SPEC)


def test_flow_control_that_is_switched_off_holds_nobody_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 30)
        await talker.ok({"setParameter": 1, "enableFlowControl": False})
        await deployment.sleep(1.0)
        assert await _writes_in(deployment, talker, 1.0) > 500

    play(scenario, _SPEC)


@pytest.mark.parametrize(("threshold", "warnings"), [(10, 2), (4, 6), (0, 0)])
def test_a_lag_that_lasts_is_warned_of_each_time_that_the_threshold_passes(
    threshold: int, warnings: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "flowControlWarnThresholdSeconds": threshold})
        await _fall_behind(deployment, talker, 30)
        log = await talker.ok({"getLog": "global"})
        assert sum("sustainer point is not moving" in line for line in log["log"]) == warnings

    play(scenario, _SPEC)


def test_a_fail_point_gives_writers_so_many_tickets_a_second() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("flowControlTicketOverride", "alwaysOn", numTickets=3)
        assert await _writes_in(deployment, talker, 1.0) > 100, "it holds from the next second on"
        assert 28 <= await _writes_in(deployment, talker, 10.0) <= 36
        await deployment.configure("flowControlTicketOverride", "off")
        await deployment.sleep(1.0)
        assert await _writes_in(deployment, talker, 1.0) > 100

    play(scenario, _SPEC)


def test_a_number_of_tickets_that_is_not_positive_is_passed_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for useless in (0, -1, "many"):
            await deployment.configure("flowControlTicketOverride", "alwaysOn", numTickets=useless)
            await deployment.sleep(1.0)
            assert await _writes_in(deployment, talker, 1.0) > 100

    play(scenario, _SPEC)


def test_the_override_holds_where_flow_control_is_off() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("flowControlTicketOverride", "alwaysOn", numTickets=3)
        await deployment.sleep(1.0)
        assert await _writes_in(deployment, talker, 10.0) <= 36

    play(scenario, ClusterSpec.replica_set(3, parameters={"enableFlowControl": False}))
