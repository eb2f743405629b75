"""Probing and flow control have a clock of their own: what they show is of now, whoever has asked before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec
from fakeserver.admission.execution_control import ExecutionControl, ExecutionParameters
from fakeserver.admission.throughput_probing import ProbingParameters
from fakeserver.waiting.bell import Bell
from harness.world.clock import NothingScheduled

if TYPE_CHECKING:
    from fakeserver.admission.execution_control import Ticket

_FIND = {"find": "c", "$db": "db"}
_LAGGING = ClusterSpec.replica_set(
    3, parameters={"flowControlTargetLagSeconds": 10, "flowControlSamplePeriod": 1}
)


async def _fall_behind(deployment: Deployment, talker: Talker, seconds: int) -> None:
    for node in deployment.cluster.nodes:
        if not node.is_primary:
            await deployment.configure("stopReplProducer", "alwaysOn", node=node)
    for number in range(seconds):
        await talker.ok({"insert": "c", "documents": [{"n": number}], "$db": "db"})
        await deployment.sleep(1.0)


async def _flow(talker: Talker) -> dict[str, Any]:
    status: dict[str, Any] = (await talker.ok({"serverStatus": 1}))["flowControl"]
    return status


def test_the_lag_of_a_quiet_set_goes_on_to_be_counted() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 8)
        before = (await _flow(talker))["isLaggedTimeMicros"]
        await deployment.sleep(3600.0)
        after = await _flow(talker)
        assert after["isLagged"]
        assert after["isLaggedTimeMicros"] - before == pytest.approx(3600e6, abs=1e6)

    play(scenario, _LAGGING)


def test_a_period_sees_what_was_true_in_it_though_nobody_asked_then() -> None:
    """The majority catches up in the middle of a quiet time: the lag ends there and not when it is looked."""

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 8)
        before = (await _flow(talker))["isLaggedTimeMicros"]
        await deployment.sleep(100.0)
        for node in deployment.cluster.nodes:
            if not node.is_primary:
                node.configure_fail_point("stopReplProducer", mode="off", data=None)
        await deployment.sleep(1000.0)
        after = await _flow(talker)
        assert not after["isLagged"]
        assert after["isLaggedTimeMicros"] - before == pytest.approx(100e6, abs=1e6)

    play(scenario, _LAGGING)


def test_who_is_no_longer_primary_holds_nobody_back_any_more() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await _fall_behind(deployment, talker, 8)
        primary = deployment.primary
        assert (await _flow(talker))["isLagged"]
        deployment.cluster.step_down(seconds=600)
        await deployment.sleep(2.0)
        assert not (await _flow(await deployment.connect(primary)))["isLagged"]

    play(scenario, _LAGGING)


def test_an_idle_set_is_never_lagged() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.sleep(3600.0)
        assert (await _flow(talker))["isLaggedCount"] == 0

    play(scenario, _LAGGING)


def test_probes_of_a_quiet_server_are_counted() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.sleep(3600.0)
        monitor = (await talker.ok({"serverStatus": 1}))["queues"]["execution"]["monitor"]
        probes = sum(monitor[f"timesProbed{state}"] for state in ("Stable", "Up", "Down"))
        assert probes == pytest.approx(36_000, abs=1)

    play(scenario, ClusterSpec.standalone())


def test_a_deployment_that_nobody_uses_schedules_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"insert": "c", "documents": [{}], "$db": "db"})
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingScheduled):
        play(scenario, ClusterSpec.replica_set(1, parameters={"serviceTimeBaseMillis": 1}))


def test_a_server_that_is_paused_while_operations_queue_schedules_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        for talker in [await deployment.connect() for _ in range(20)]:
            await talker.send(_FIND)
        await deployment.sleep(0.001)
        deployment.cluster.nodes[0].pause()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingScheduled):
        play(scenario, ClusterSpec.standalone(parameters={"serviceTimeBaseMillis": 250}))


def test_who_waits_for_a_ticket_is_served_by_the_very_probe_that_brings_it() -> None:
    """Nothing happens at 0.1 s but the probe, which finds four tickets exhausted and adds one."""

    async def scenario(deployment: Deployment) -> None:
        node, clock = deployment.cluster.nodes[0], deployment.world.clock
        talkers = [await deployment.connect() for _ in range(5)]
        until = node.admission.execution.next_probe
        for talker in talkers:
            await talker.send(_FIND)
        await deployment.sleep(until - clock.now() - 0.001)
        assert (node.admission.execution.read.out, node.admission.execution.read.queued) == (4, 1)
        await deployment.sleep(0.002)
        assert (node.admission.execution.read.out, node.admission.execution.read.queued) == (5, 0)

    spec = {"serviceTimeBaseMillis": 1000, "throughputProbingInitialConcurrency": 8}
    play(scenario, ClusterSpec.standalone(parameters=spec))


_STEPS = st.lists(
    st.tuples(st.integers(1, 400), st.sampled_from(("acquire", "release", "glance"))), max_size=40
)


def _played(steps: list[tuple[int, str]], *, asked: bool) -> list[object]:
    """Run steps so many milliseconds apart; `asked` says whether somebody looks in between, too."""
    parameters = ExecutionParameters(probing=ProbingParameters(initial_concurrency=8))
    control = ExecutionControl(parameters, cores=8, now=0.0)
    held: list[Ticket] = []
    seen: list[object] = []
    now = 0.0
    for gap, step in steps:
        before, now = now, now + gap / 1000
        if asked:
            for part in range(1, 4):
                control.catch_up(before + gap / 4000 * part)
        if step == "acquire":
            ticket = control.acquire("read", now)
            ticket.bell = Bell()
            held.append(ticket)
        elif step == "release" and held and held[0].started is not None:
            control.release("read", held.pop(0), now)
        else:
            control.catch_up(now)
        seen.append((control.stats(), control.probing.situation))
    return seen


@given(_STEPS)
def test_what_is_seen_does_not_depend_on_who_asked_before(steps: list[tuple[int, str]]) -> None:
    assert _played(steps, asked=True) == _played(steps, asked=False)
