"""Verbs that are not awaited, that take time, that fail late, and those that end who asks."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from talking import Deployment, play

from fakeserver import BackgroundCluster, ClusterSpec, UserSpec
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from talking import Talker

AUTH = ClusterSpec.standalone(
    auth=True, users=(UserSpec("ann", "x", roles=("clusterAdmin",)), UserSpec("bob", "x"))
)


def test_a_verb_that_nobody_awaits_is_done_all_the_same() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, (_, second, third) = deployment.cluster.control, deployment.cluster.nodes
        control.kill("node1")
        control.start("node1")
        control.restart("node2", down="2s")
        assert (second.stopped, third.stopped) == (True, True)
        await deployment.sleep(1.0)
        assert (second.stopped, third.stopped) == (False, True)
        await deployment.sleep(1.5)
        assert third.stopped is False

    play(scenario)


def test_a_step_down_that_leaves_nobody_to_elect_says_for_how_long() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, told = deployment.cluster.control, []
        for _each in range(3):
            told.append(dict(control.step_down("60s")))
            await deployment.sleep(1.0)
        assert told == [{"node": "node0"}, {"node": "node1"}, {"node": "node2", "noPrimaryFor": 58.0}]
        with pytest.raises(LookupError):
            deployment.cluster.node("primary")
        await deployment.sleep(58.0)
        assert deployment.cluster.node("primary").name == "node0"

    play(scenario)


def test_an_outcome_is_complete_when_it_was_awaited() -> None:
    async def scenario(deployment: Deployment) -> None:
        outcome = deployment.cluster.control.add_member(priority=0)
        assert (dict(outcome), outcome.done) == ({}, False)
        assert (await outcome)["node"] == "node3"
        assert outcome.done
        assert (await outcome)["node"] == "node3"

    play(scenario)


def test_a_server_ends_and_starts_in_the_order_of_the_verbs() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, node = deployment.cluster.control, deployment.cluster.nodes[1]
        talker = await deployment.connect(node)
        for _each in range(3):
            control.kill("node1")
            control.start("node1")
            await deployment.sleep(0.1)
        assert await talker.reply() is None
        await (await deployment.connect(node)).ok({"ping": 1})

    play(scenario)


def test_a_verb_that_fails_later_says_so_in_the_log_unless_somebody_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster = deployment.cluster
        await cluster.control.kill("node1")
        host, _, port = cluster.nodes[1].address.rpartition(":")
        taken = await deployment.world.network.listen(host, int(port), fakeserver_protocol)
        cluster.control.start("node1")
        await deployment.sleep(0.1)
        gc.collect()
        (line,) = [each for each in cluster.nodes[0].log.lines if "A verb failed" in each]
        told = json.loads(line)
        assert (told["s"], told["attr"]["verb"]) == ("E", "start")
        with pytest.raises(ControlError):
            await cluster.control.start("node1")
        assert len([each for each in cluster.nodes[0].log.lines if "A verb failed" in each]) == 1
        await taken.aclose()

    play(scenario)
    assert caplog.records == []


def fakeserver_protocol() -> Any:
    raise AssertionError("nobody connects")


# The wire.


async def _asked(talker: Talker, verb: str, **arguments: Any) -> dict[str, Any] | None:
    return await talker.command({"pushbackd": verb, **arguments})


def test_a_verb_that_takes_time_is_answered_at_its_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        began = clock.now()
        reply = await _asked(talker, "restart", node="node1", down="2s")
        assert reply is not None
        assert (reply["node"], reply["ok"]) == ("node1", 1.0)
        assert 2 <= clock.now() - began < 2.1
        assert deployment.cluster.nodes[1].stopped is False

    play(scenario)


def test_a_deadline_ends_the_wait_and_not_the_verb() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await _asked(talker, "restart", node="node1", down="2s", maxTimeMS=500)
        assert reply is not None
        assert reply["code"] == 50
        await deployment.sleep(2.0)
        assert deployment.cluster.nodes[1].stopped is False

    play(scenario)


@pytest.mark.parametrize("verb", ["kill", "restart"])
def test_a_server_that_is_asked_to_end_gives_no_answer(verb: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await _asked(await deployment.connect(), verb, node="node0") is None
        await deployment.sleep(0.1)
        assert deployment.cluster.nodes[0].stopped is (verb == "kill")

    play(scenario)


@pytest.mark.slow
def test_a_client_with_access_control_needs_what_root_may() -> None:
    with BackgroundCluster(AUTH) as server:
        address = server.nodes[0].address
        with (
            MongoClient[Any](f"mongodb://ann:x@{address}") as ann,
            pytest.raises(OperationFailure, match="not authorized on admin"),
        ):
            ann.admin.command({"pushbackd": "state"})
        with MongoClient[Any](f"mongodb://bob:x@{address}") as bob:
            assert bob.admin.command({"pushbackd": "state"})["topology"] == "single"
