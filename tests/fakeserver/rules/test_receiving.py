"""Requests that a test receives and answers itself."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from talking import LATENCY, STANDALONE, Deployment, Talker, play

from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.control.control import DistantControl
from fakeserver.rules import delay, error
from fakeserver.rules.builders import UnmetExpectation
from mongowire.documents.errors import ControlError

FIND = {"find": "orders", "$db": "shop"}
EMPTY = {"cursor": {"id": 0, "ns": "shop.orders", "firstBatch": []}}


async def answered(talker: Talker) -> dict[str, Any]:
    found = await talker.reply()
    assert found is not None
    return found


def test_a_request_is_held_until_it_is_answered() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        receiving = deployment.cluster.control.receives("find")
        await talker.send(FIND)
        request = await receiving
        assert (request.name, request.command, request.namespace) == ("find", FIND, "shop.orders")
        assert (request.app_name, request.node, request.connection, request.attempt) == ("", "node0", 1, 1)
        assert repr(request) == "<HeldRequest find on shop.orders>"
        await deployment.sleep(100.0)
        request.reply({"cursor": {"id": 0, "ns": "shop.orders", "firstBatch": [{"_id": 1}]}})
        assert (await answered(talker))["cursor"]["firstBatch"] == [{"_id": 1}]
        assert deployment.world.clock.now() > 100.0
        await talker.ok(FIND)  # one request was held, and no more
        assert deployment.cluster.control.list_rules() == {"rules": []}

    play(scenario)


def test_a_held_request_is_answered_in_each_way() -> None:
    async def scenario(deployment: Deployment) -> None:
        with deployment.cluster.control.hold("find") as finds:

            async def sent() -> Any:
                talker = await deployment.connect()
                await talker.send(FIND)
                return talker, await finds.receive()

            talker, request = await sent()
            request.fail("NotWritablePrimary", labels=["RetryableError"])
            found = await answered(talker)
            assert (found["code"], found["errorLabels"]) == (10107, ["RetryableError"])
            talker, request = await sent()
            request.close()
            assert await talker.reply() is None
            talker, request = await sent()
            request.silence()
            await talker.ok({"ping": 1})
            talker, request = await sent()
            request.go_on()
            assert (await answered(talker))["cursor"]["firstBatch"] == []

    play(scenario)


def test_an_answer_that_cannot_be_sent_leaves_the_request_waiting() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        receiving = deployment.cluster.control.receives("find")
        await talker.send(FIND)
        request = await receiving
        with pytest.raises(ControlError, match=r"error: unknown code name 'HostUnreachabel'; did you mean"):
            request.fail("HostUnreachabel")
        with pytest.raises(ControlError, match="no BSON"):
            request.reply(cursor=object())
        request.reply(EMPTY)
        with pytest.raises(ControlError, match=r"find on shop\.orders: the request has been answered"):
            request.go_on()
        await answered(talker)

    play(scenario)


def test_a_client_that_leaves_cannot_be_answered() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        receiving = deployment.cluster.control.receives("find")
        await talker.send(FIND)
        request = await receiving
        await talker.aclose()
        await deployment.sleep(1.0)
        with pytest.raises(ControlError, match="its client, or its server, has left"):
            request.reply(EMPTY)

    play(scenario)


def test_a_request_that_does_not_come_is_told_with_those_that_came_close() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        receiving = deployment.cluster.control.receives("find", namespace="shop.carts", within="2s")
        await talker.ok(FIND)
        with pytest.raises(UnmetExpectation) as raised:
            await receiving
        assert str(raised.value) == (
            "rule1 (command: find, namespace: shop.carts): no request came within 2s\n"
            "  near miss: find on shop.orders: namespace is shop.orders, expected shop.carts"
        )
        assert deployment.world.clock.now() == pytest.approx(2 + 2 * LATENCY, abs=0.001)
        assert deployment.cluster.control.list_rules() == {"rules": []}

    play(scenario)


def test_everything_is_let_go_when_the_block_ends() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = [await deployment.connect() for _ in range(3)]
        with deployment.cluster.control.hold("find") as finds:
            for talker in talkers:
                await talker.send(FIND)
            with await finds.receive():
                pass
            await answered(talkers[0])
            await finds.receive()
        for talker in talkers[1:]:
            assert (await answered(talker))["ok"] == 1.0

    play(scenario)


def test_everything_is_let_go_when_all_rules_are_removed_or_reset() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        receiving = control.receives("find")
        await talker.send(FIND)
        await receiving
        other = asyncio.ensure_future(control.hold("insert").receive())
        await deployment.sleep(1.0)
        control.remove_rule("all")
        await answered(talker)
        with pytest.raises(ControlError, match="the rule was removed, or the deployment has stopped"):
            await other

    play(scenario)


def test_a_test_that_waits_is_told_when_the_deployment_stops() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        receiving = control.receives("find")
        await talker.send(FIND)
        request = await receiving
        other = asyncio.ensure_future(control.hold("insert").receive())
        await deployment.sleep(1.0)
        await deployment.cluster.stop()
        with pytest.raises(ControlError, match="the deployment has stopped"):
            await other
        assert not request.waits

    play(scenario)


def test_a_request_that_an_earlier_rule_delays_is_received_after_that() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        control.when("find").then(delay("3s"))
        receiving = control.receives("find")
        await talker.send(FIND)
        request = await receiving
        assert deployment.world.clock.now() == pytest.approx(3 + LATENCY, abs=0.001)
        control.when("find").then(error(91))
        request.go_on()
        assert (await answered(talker))["ok"] == 1.0  # past the rules that follow
        assert (await talker.fails(FIND))["code"] == 91

    play(scenario)


def test_a_mongos_ends_a_held_request_with_its_deadline() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        receiving = deployment.cluster.control.receives("find")
        await talker.send(FIND | {"maxTimeMS": 100})
        request = await receiving
        assert (await answered(talker))["code"] == 50
        assert not request.waits

    play(scenario, ClusterSpec.sharded(mongos=1))


def test_a_request_that_is_never_awaited_is_warned_of() -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            deployment.cluster.control.receives("find")

    play(scenario, STANDALONE)


def test_another_thread_receives_requests_too() -> None:
    with (
        BackgroundCluster(ClusterSpec.standalone()) as server,
        MongoClient[dict[str, Any]](server.uri) as client,
        ThreadPoolExecutor() as pool,
        server.control.hold("find", namespace="shop.orders") as finds,
    ):
        found = pool.submit(client.shop.orders.find_one)
        finds.receive().reply({"cursor": {"id": 0, "ns": "shop.orders", "firstBatch": [{"_id": 7}]}})
        assert found.result() == {"_id": 7}
        failed = pool.submit(client.shop.orders.find_one)
        request = finds.receive()
        request.fail(2, message="no")
        with pytest.raises(OperationFailure, match="no"):
            failed.result()
        with pytest.raises(ControlError, match="has been answered"):
            request.go_on()
        with pytest.raises(UnmetExpectation, match="no request came within 10ms"):
            server.control.receives("insert", within="10ms")


def test_a_deployment_of_another_process_holds_no_requests() -> None:
    control = DistantControl(lambda _name, _arguments: {})
    with pytest.raises(ControlError, match="in the deployment's own process only"):
        control.receives("find")
