"""What currentOp, system.profile and the log tell of the time that operations waited to be admitted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node

_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{}], "$db": "db"}
_ONE_READER = {
    "serviceTimeBaseMillis": 200,
    "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
    "executionControlConcurrentReadTransactions": 1,
}
OF_DATA_NODES = frozenset({"flowControl", "globalLock", "opcountersRepl", "repl", "storageEngine"})
"""Sections of serverStatus that a router has nothing for."""


async def _operation(monitor: Talker, name: str) -> dict[str, Any]:
    """Return what runs under this name and waits, the last to have come."""
    found: list[dict[str, Any]] = (await monitor.ok({"currentOp": 1}))["inprog"]
    return [each for each in found if name in each["command"]][-1]


async def _slow_queries(monitor: Talker) -> list[dict[str, Any]]:
    lines = map(json.loads, (await monitor.ok({"getLog": "global"}))["log"])
    return [line for line in lines if line["id"] == 51803]


@pytest.mark.parametrize(
    ("queue", "parameters"),
    [("execution", _ONE_READER), ("ingress", {"ingressAdmissionControllerTicketPoolSize": 0})],
)
def test_current_op_tells_the_queue_and_the_time_in_it(queue: str, parameters: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor = await deployment.connect()
        for talker in (await deployment.connect(), await deployment.connect()):
            await talker.send(_FIND)
        await deployment.sleep(0.05)
        waiting = await _operation(monitor, "find")
        assert waiting["currentQueue"]["name"] == queue
        assert waiting["currentQueue"]["timeQueuedMicros"] == pytest.approx(50_000, abs=2000)
        told = waiting["queues"][queue]
        assert told["admissions"] == 1
        assert told["totalTimeQueuedMicros"] == waiting["currentQueue"]["timeQueuedMicros"]
        asking = await _operation(monitor, "currentOp")
        assert asking["currentQueue"] is None
        assert asking["queues"]["execution"] == {"admissions": 0, "totalTimeQueuedMicros": 0}

    play(scenario, ClusterSpec.standalone(parameters=parameters))


def test_current_op_tells_of_a_writer_that_flow_control_holds_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor, writer = await deployment.connect(), await deployment.connect()
        deployment.primary.admission.flow.left = 0
        await writer.send(_INSERT)
        await deployment.sleep(0.05)
        waiting = await _operation(monitor, "insert")
        assert waiting["waitingForFlowControl"] is True
        stats = waiting["flowControlStats"]
        assert stats["acquireWaitCount"] == 1
        assert stats["timeAcquiringMicros"] == pytest.approx(50_000, abs=2000)
        asking = await _operation(monitor, "currentOp")
        assert (asking["waitingForFlowControl"], asking["flowControlStats"]) == (False, {})

    play(scenario, ClusterSpec.replica_set(1))


def test_releases_before_8_0_know_no_queues() -> None:
    async def scenario(deployment: Deployment) -> None:
        asking = await _operation(await deployment.connect(), "currentOp")
        assert "queues" not in asking
        assert "currentQueue" not in asking
        assert asking["flowControlStats"] == {}

    play(scenario, ClusterSpec.standalone(profile="7.0"))


def test_the_profiler_and_the_log_tell_the_time_queued_and_the_time_at_work() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor = await deployment.connect()
        await monitor.ok({"profile": 2, "$db": "db"})
        talkers = [await deployment.connect() for _ in range(2)]
        for talker in talkers:
            await talker.send({**_FIND, "comment": "seen"})
        for talker in talkers:
            await talker.reply()
        await monitor.ok({"profile": 0, "$db": "db"})
        entries = (await monitor.ok({"find": "system.profile", "$db": "db"}))["cursor"]["firstBatch"]
        first, second = (entry for entry in entries if entry["command"].get("comment") == "seen")
        for told, duration in (
            (first, "millis"),
            ((await _slow_queries(monitor))[0]["attr"], "durationMillis"),
        ):
            assert told["queues"]["execution"] == {"admissions": 1, "totalTimeQueuedMicros": 0}
            assert (told["workingMillis"], told[duration]) == (200, 200)
        for told, duration in (
            (second, "millis"),
            ((await _slow_queries(monitor))[1]["attr"], "durationMillis"),
        ):
            queued = told["queues"]["execution"]["totalTimeQueuedMicros"]
            assert queued == pytest.approx(200_000, abs=2000)
            assert (told["workingMillis"], told[duration]) == (200, 400)

    play(scenario, ClusterSpec.standalone(parameters=_ONE_READER))


def test_a_slow_query_is_logged_as_a_mongod_does() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({**_INSERT, "lsid": {"id": _lsid()}})
        (line,) = await _slow_queries(talker)
        assert (line["s"], line["c"], line["ctx"], line["msg"]) == ("I", "COMMAND", "conn1", "Slow query")
        attr = line["attr"]
        assert (attr["type"], attr["ns"], attr["protocol"]) == ("command", "db.c", "op_msg")
        assert attr["command"]["insert"] == "c"
        assert attr["flowControl"] == {"acquireCount": 1}
        assert attr["queues"]["ingress"]["admissions"] == 1
        assert attr["durationMillis"] == 150

    play(scenario, ClusterSpec.standalone(parameters={"serviceTimeBaseMillis": 150}))


def _lsid() -> Any:
    from bson import Binary  # noqa: PLC0415 - a type that JSON has not

    return Binary(b"s" * 16, 4)


def test_what_only_waited_is_not_slow_since_8_0() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.primary.admission.flow.left = 0
        await talker.ok(_INSERT)
        assert len(await _slow_queries(talker)) == (deployment.primary.profile.name == "7.0")

    for profile in ("8.2", "7.0"):
        play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_slowms_decides_and_those_who_were_asked_to_wait_are_left_out() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.primary
        await talker.ok({"profile": 0, "slowms": 500, "$db": "db"})
        await talker.ok(_FIND)
        assert not await _slow_queries(talker)
        await talker.ok({"profile": 0, "slowms": 10, "$db": "db"})
        await talker.ok({"hello": 1, "topologyVersion": _version(node), "maxAwaitTimeMS": Int64(300)})
        assert not await _slow_queries(talker)
        await deployment.fail_command("alwaysOn", "ping", blockConnection=True, blockTimeMS=20, errorCode=7)
        await talker.fails({"ping": 1})
        (line,) = await _slow_queries(talker)
        assert line["attr"]["errCode"] == 7

    play(scenario, ClusterSpec.replica_set(1, parameters={"serviceTimeBaseMillis": 100}))


def _version(node: Node) -> dict[str, Any]:
    return node.topology_version()


@pytest.mark.spec("SAC-61")
@pytest.mark.parametrize("profile", ["7.0", "8.2", "9.0"])
def test_what_belongs_to_a_data_node_is_not_shown_by_a_mongos(profile: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        mongos = await (await deployment.connect()).ok({"serverStatus": 1})
        primary = deployment.cluster.shards[0].primary
        assert primary is not None
        data_node = await (await deployment.connect(primary)).ok({"serverStatus": 1})
        assert not OF_DATA_NODES & set(mongos)
        assert set(data_node) >= OF_DATA_NODES
        assert not {"execution", "ingress"} & set(mongos.get("queues", {}))
        if profile != "7.0":
            assert {"execution", "ingress", *mongos["queues"]} <= set(data_node["queues"])
        assert "ttl" in data_node["metrics"]
        assert "ttl" not in mongos["metrics"]

    play(scenario, ClusterSpec.sharded(members=1, profile=profile))
