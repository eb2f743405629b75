"""Low priority for operations that take long, as clients of a server with service times see it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64
from talking import Deployment, lsid, play

from fakeserver import ClusterSpec
from fakeserver.deployment.doors import Door

_GATE = "executionControlDeprioritizationGate"
_LOW_READ = "executionControlConcurrentReadLowPriorityTransactions"
_LOW_WRITE = "executionControlConcurrentWriteLowPriorityTransactions"
_THRESHOLD = "executionControlHeuristicNumAdmissionsDeprioritizeThreshold"
_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{"x": 1}], "$db": "db"}
_INDEX = {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x"}], "$db": "db"}
_AS_A_BATCH = {"appNames": ["batch"]}


def _spec(**parameters: Any) -> ClusterSpec:
    """Describe a server with two tickets of each kind, on which each command takes a tenth of a second."""
    chosen = {
        "executionControlConcurrentReadTransactions": 2,
        "executionControlConcurrentWriteTransactions": 2,
        _LOW_READ: 1,
        _LOW_WRITE: 1,
        _GATE: True,
        "serviceTimeBaseMillis": 100,
        "serviceTimeConcurrencyLimit": 1000,
        **parameters,
    }
    return ClusterSpec.replica_set(1, profile="9.0", parameters=chosen, priority_ports=(0,))


async def _execution(deployment: Deployment) -> dict[str, Any]:
    stats: dict[str, Any] = (await (await deployment.connect()).ok({"serverStatus": 1}))["queues"][
        "execution"
    ]
    return stats


async def _counts(deployment: Deployment) -> tuple[int, int]:
    stats = await _execution(deployment)
    return int(stats["totalDeprioritizations"]), int(stats["totalMarkedNonDeprioritizable"])


@pytest.mark.parametrize("command", [_FIND, _INSERT])
def test_an_operation_that_asked_often_enough_goes_on_with_tickets_of_low_priority(
    command: dict[str, Any],
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        began = deployment.world.clock.now()
        await talker.ok(command)
        assert deployment.world.clock.now() - began == pytest.approx(0.1, abs=0.01)
        pool = (await _execution(deployment))["read" if command is _FIND else "write"]
        # Ten turns of 10 ms: three with tickets of normal priority.
        assert pool["normalPriority"]["finishedProcessing"] == 3
        assert pool["lowPriority"]["finishedProcessing"] == 7
        assert await _counts(deployment) == (1, 0)

    play(scenario, _spec())


def test_while_the_gate_is_closed_an_operation_keeps_its_ticket() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_FIND)
        stats = await _execution(deployment)
        assert stats["usesPrioritization"] is False
        assert stats["read"]["normalPriority"]["finishedProcessing"] == 1
        assert stats["read"]["lowPriority"]["finishedProcessing"] == 0

    play(scenario, _spec(**{_GATE: False}))


def test_short_operations_do_not_queue_behind_long_ones() -> None:
    async def times(deployment: Deployment) -> float:
        long = [await deployment.connect() for _ in range(30)]
        short = await deployment.connect()
        for talker in long:
            await talker.send(_FIND)
        await deployment.sleep(1.0)
        began = deployment.world.clock.now()
        await short.ok({"count": "c", "$db": "db"})
        waited = deployment.world.clock.now() - began
        await asyncio.gather(*(talker.reply() for talker in long))
        return waited

    seen = {}

    async def scenario(deployment: Deployment) -> None:
        gate = deployment.cluster.nodes[0].parameters[_GATE]
        seen[gate] = await times(deployment)

    weights = {"serviceTimeWeights": {"count": 0.1, "find": 10.0}}
    play(scenario, _spec(**weights))
    play(scenario, _spec(**{_GATE: False}, **weights))
    assert seen[True] < 0.05
    assert seen[False] > 1.5


def test_an_operation_stands_still_while_it_waits_for_its_next_ticket() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = [await deployment.connect() for _ in range(2)]
        began = deployment.world.clock.now()
        await asyncio.gather(*(talker.ok(_FIND) for talker in talkers))
        # Three turns side by side, and seven of each one after the other.
        assert deployment.world.clock.now() - began == pytest.approx(0.17, abs=0.015)

    play(scenario, _spec())


def test_index_builds_begin_with_low_priority() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_INDEX)
        write = (await _execution(deployment))["write"]
        assert (write["normalPriority"]["startedProcessing"], write["lowPriority"]["startedProcessing"]) == (
            0,
            10,
        )

    play(scenario, _spec())


async def _in_a_transaction(deployment: Deployment) -> None:
    talker = await deployment.connect()
    facts = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
    await talker.ok({**_FIND, **facts, "startTransaction": True})


async def _to_see_what_is_at_work(deployment: Deployment) -> None:
    await (await deployment.connect()).ok({"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}})


async def _by_the_priority_port(deployment: Deployment) -> None:
    await (await deployment.connect(door=Door.PRIORITY)).ok(_FIND)


async def _as_an_exempt_application(deployment: Deployment) -> None:
    talker = await deployment.connect()
    os, driver = {"type": "Linux"}, {"name": "talker", "version": "1"}
    await talker.ok({"hello": 1, "client": {"application": {"name": "batch"}, "driver": driver, "os": os}})
    await talker.ok(_FIND)


_SPARED = (_in_a_transaction, _to_see_what_is_at_work, _by_the_priority_port, _as_an_exempt_application)


@pytest.mark.parametrize("act", _SPARED)
def test_some_operations_are_never_lowered(act: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        await act(deployment)
        assert await _counts(deployment) == (0, 1)

    play(scenario, _spec(executionControlApplicationDeprioritizationExemptions=_AS_A_BATCH))


def test_an_application_that_is_not_in_the_list_is_lowered() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _as_an_exempt_application(deployment)
        assert await _counts(deployment) == (1, 0)

    play(scenario, _spec())


def test_the_heuristic_and_its_threshold_are_parameters() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for parameters, lowered in (
            ({_THRESHOLD: 0}, 1),
            ({_THRESHOLD: 1000}, 0),
            ({_THRESHOLD: 3, "executionControlHeuristicDeprioritization": False}, 0),
        ):
            await talker.ok({"setParameter": 1, **parameters})
            before, _ = await _counts(deployment)
            await talker.ok(_FIND)
            assert (await _counts(deployment))[0] - before == lowered

    play(scenario, _spec())


def test_an_operation_of_low_priority_is_shown_as_one_and_its_queue_may_overflow() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor, first, second = [await deployment.connect() for _ in range(3)]
        await monitor.ok({"setParameter": 1, "executionControlReadLowPriorityMaxQueueDepth": 0})
        await first.send(_FIND)
        await second.send(_FIND)
        replies = [await first.reply(), await second.reply()]
        assert sorted(reply.get("code", 0) for reply in replies if reply is not None) == [0, 433]
        await first.send(_FIND)
        await deployment.sleep(0.05)
        (operation,) = [
            each for each in (await monitor.ok({"currentOp": 1}))["inprog"] if each["ns"] == "db.c"
        ]
        assert operation["priorityLowered"] is True
        assert operation["queues"]["execution"]["admissions"] > 3
        await first.reply()

    play(scenario, _spec())


def test_sums_are_of_both_pools_while_there_are_two_priorities() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        shown = []
        for gate in (True, False):
            await talker.ok({"setParameter": 1, _GATE: gate})
            read = (await _execution(deployment))["read"]
            shown.append((read["totalTickets"], read["available"], read["lowPriority"]["totalTickets"]))
        assert shown == [(3, 3, 1), (2, 2, 1)]

    play(scenario, _spec())


def test_low_priority_does_not_end_while_its_pools_serve_nobody() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, _LOW_READ: 0})
        assert (await talker.fails({"setParameter": 1, _GATE: False}))["code"] == 20
        await talker.ok({"setParameter": 1, _LOW_READ: 5})
        await talker.ok({"setParameter": 1, _GATE: False})
        assert (await talker.ok({"getParameter": 1, _LOW_READ: 1}))[_LOW_READ] == 5

    play(scenario, _spec())


def test_a_client_that_gives_up_leaves_no_ticket_behind() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, late = await deployment.connect(), await deployment.connect()
        await first.send(_FIND)
        assert (await late.fails({**_FIND, "maxTimeMS": 60}))["code"] == 50
        await first.reply()
        read = (await _execution(deployment))["read"]
        assert (read["out"], read["lowPriority"]["queueLength"]) == (0, 0)

    play(scenario, _spec())


def test_before_9_0_there_is_no_low_priority() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"setParameter": 1, _GATE: True}))["code"] == 72
        assert "usesPrioritization" not in await _execution(deployment)

    play(scenario, ClusterSpec.standalone(profile="8.2"))
