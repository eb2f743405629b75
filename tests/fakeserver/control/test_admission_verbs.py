"""Limits, tickets and service times: what they set on which servers, and how they end."""

from __future__ import annotations

import asyncio

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from mongowire.documents.errors import ControlError

FIND = {"find": "c", "$db": "db"}
_SWITCH = "ingressRequestRateLimiterEnabled"
_READ = "executionControlConcurrentReadTransactions"
_ALGORITHM = "executionControlConcurrencyAdjustmentAlgorithm"


def test_a_limit_admits_its_burst_and_then_so_many_a_second() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.control.limits(requests="2/s", requests_burst="2s")
        replies = [await talker.command(FIND) for _ in range(6)]
        assert [reply and reply["ok"] for reply in replies] == [1.0] * 4 + [0.0] * 2
        await deployment.sleep(1.0)
        replies = [await talker.command(FIND) for _ in range(3)]
        assert [reply and reply["ok"] for reply in replies] == [1.0, 1.0, 0.0]
        deployment.cluster.control.limits(off=True)
        await talker.ok(FIND)

    play(scenario)


def test_requests_wait_in_a_queue_where_the_release_has_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        deployment.cluster.control.limits(requests="1/s", requests_queue=5)
        began = clock.now()
        for _each in range(3):
            await talker.ok(FIND)
        assert 1.9 < clock.now() - began < 2.1

    play(scenario, ClusterSpec.replica_set(1, profile="9.0"))


def test_what_a_release_lacks_is_refused_by_name_on_every_server_or_on_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        for nodes, place in (("all", "no server has"), ("node0", "nodes: node0 has no")):
            with pytest.raises(ControlError, match=f"{place}.* parameter .*{_SWITCH}"):
                control.limits(requests="1/s", nodes=nodes)
        control.limits(connections="10/s")
        assert control.state()["servers"][0]["limits"] == {"connections": 10}

    play(scenario, ClusterSpec.replica_set(1, profile="7.0"))


def test_settings_reach_the_servers_that_are_named_and_no_others() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, nodes = deployment.cluster.control, deployment.cluster.nodes
        control.tickets(read=3, nodes=["node1", "secondary"])
        assert [node.parameters[_READ] for node in nodes] == [128, 3, 128]
        states = control.state()["servers"]
        assert [state["tickets"] for state in states] == [{}, {"read": 3, "write": 128}, {}]
        assert nodes[1].parameters[_ALGORITHM] == "fixedConcurrentTransactions"
        control.tickets(off=True)
        assert {(node.parameters[_READ], node.parameters[_ALGORITHM]) for node in nodes} == {
            (128, "throughputProbing")
        }

    play(scenario)


def test_commands_take_the_time_that_is_asked_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        times = []
        for seconds in ("250ms", 0):
            deployment.cluster.control.service_time(seconds)
            began = clock.now()
            await talker.ok(FIND)
            times.append(clock.now() - began)
        assert times[0] >= 0.25
        assert times[1] < 0.1

    play(scenario)


def test_the_state_shows_the_commands_at_work_and_the_most_at_a_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        talkers = [await deployment.connect() for _ in range(3)]
        assert control.state()["servers"][0]["serviceTime"] == {"seconds": 0, "atWork": 0, "peak": 0}
        control.service_time("1s")
        asked = [asyncio.create_task(talker.ok(FIND)) for talker in talkers]
        await deployment.sleep(0.5)
        assert control.state()["servers"][0]["serviceTime"] == {"seconds": 1, "atWork": 3, "peak": 3}
        await asyncio.gather(*asked)
        assert control.state()["servers"][0]["serviceTime"] == {"seconds": 1, "atWork": 0, "peak": 3}

    play(scenario)


def test_mongos_are_limited_and_have_no_tickets() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        assert control.limits(requests="5/s")["nodes"][:2] == ["mongos0", "shard01/node0"]
        assert control.tickets(read=5)["nodes"][0] == "shard01/node0"
        with pytest.raises(ControlError, match="nodes: mongos0 has no parameter"):
            control.tickets(read=5, nodes="mongos")

    play(scenario, ClusterSpec.sharded(mongos=1))
