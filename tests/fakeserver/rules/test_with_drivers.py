"""Rules under the reference driver in virtual time, and under PyMongo over TCP."""

from __future__ import annotations

from typing import Any

import pymongo
import pytest
from against_the_fake import Scene, act
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure, WriteConcernError

from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.rules import close, delay, error, reply, sequence, write_concern_error
from fakeserver.rules.builders import UnmetExpectation

OVERLOADED = ["SystemOverloadedError", "RetryableError"]


# The reference driver.


def test_an_insert_is_retried_through_overload_and_a_shutdown() -> None:
    async def scenario(scene: Scene) -> None:
        control = scene.cluster.control
        busy = error(462, labels=OVERLOADED)
        steps = sequence(busy, busy, error(91, labels=["RetryableWriteError"]), per="operation")
        rule = control.when("insert").then(steps)
        with control.expect("insert", count=8), control.expect("insert", attempt=4, count=2):
            await scene.collection.insert_one({"_id": 1})
            await scene.collection.insert_one({"_id": 2})
        assert rule.hits == 6
        assert await scene.collection.count_documents({}) == 2

    act(ClusterSpec.replica_set(1), scenario)


def test_a_read_is_retried_past_a_closed_connection() -> None:
    async def scenario(scene: Scene) -> None:
        control = scene.cluster.control
        control.when("find", nth=1).then(close())
        with control.expect("find", count=2):
            assert await scene.collection.find_one({}) is None

    act(ClusterSpec.replica_set(1), scenario)


def test_a_held_request_is_answered_to_the_reference_driver() -> None:
    async def scenario(scene: Scene) -> None:
        receiving = scene.cluster.control.receives("find", namespace="prose.things")
        finding = scene.cluster.spawn(_found(scene))
        request = await receiving
        request.reply({"cursor": {"id": 0, "ns": "prose.things", "firstBatch": [{"_id": 7}]}})
        await finding

    async def _found(scene: Scene) -> None:
        assert await scene.collection.find_one({}) == {"_id": 7}

    act(ClusterSpec.replica_set(1), scenario)


def test_the_same_seed_gives_the_same_journal() -> None:
    def journal() -> str:
        async def scenario(scene: Scene) -> str:
            scene.cluster.control.when("insert", probability="30%").then(delay("5ms"))
            for number in range(30):
                await scene.collection.insert_one({"_id": number})
            return scene.cluster.journal.to_json_lines()

        return str(act(ClusterSpec.replica_set(1), scenario))

    first = journal()
    assert first.count('"kind":"ruleHit"') > 3
    assert first == journal()


# PyMongo.


@pytest.fixture(scope="module")
def server() -> Any:
    with BackgroundCluster(ClusterSpec.replica_set(1)) as server:
        yield server


@pytest.fixture
def client(server: BackgroundCluster) -> Any:
    with MongoClient[dict[str, Any]](server.uri, appname="till", retryReads=False) as client:
        yield client
    server.control.remove_rule("all")


def test_pymongo_retries_what_a_rule_fails(server: BackgroundCluster, client: MongoClient[Any]) -> None:
    with server.control.when("insert", nth=2).then(error("HostUnreachable"), times=1) as rule:
        for number in range(3):
            client.shop.orders.insert_one({"_id": number})
        assert rule.hits == 1
    assert client.shop.orders.count_documents({}) == 3


def test_pymongo_sees_errors_replies_and_closed_connections_of_one_collection(
    server: BackgroundCluster, client: MongoClient[Any]
) -> None:
    control = server.control
    control.when("find", namespace="shop.bad", app_name="till").then(error("Unauthorized", message="not you"))
    with pytest.raises(OperationFailure, match="not you") as raised:
        client.shop.bad.find_one()
    assert raised.value.code == 13
    client.shop.good.find_one()
    control.when("count", namespace="shop.good").then(reply({"n": 41}))
    assert client.shop.good.estimated_document_count() == 41
    control.when("aggregate").then(close())
    with pytest.raises(AutoReconnect):
        list(client.shop.good.aggregate([]))


def test_pymongo_sees_a_write_concern_error_after_the_write(
    server: BackgroundCluster, client: MongoClient[Any]
) -> None:
    server.control.when("insert").then(write_concern_error(100, message="too few"))
    with pytest.raises(WriteConcernError, match="too few"):
        client.shop.kept.insert_one({"_id": 1})
    assert client.shop.kept.find_one() == {"_id": 1}


def test_a_rule_is_added_and_removed_by_any_client(client: MongoClient[Any]) -> None:
    rule = {"when": {"command": "ping"}, "then": [{"error": 462}]}
    added = client.admin.command("pushbackd", "addRule", rule=rule)
    with pytest.raises(OperationFailure):
        client.admin.command("ping")
    (listed,) = client.admin.command("pushbackd", "listRules")["rules"]
    assert (listed["id"], listed["rule"], listed["hits"]) == (added["id"], rule, 1)
    client.admin.command("pushbackd", "removeRule", id=added["id"])
    client.admin.command("ping")
    with pytest.raises(OperationFailure, match=r"rule\.when: unknown condition 'comand'; did you mean"):
        client.admin.command("pushbackd", "addRule", rule={"when": {"comand": "x"}, "then": []})


def test_an_expectation_of_another_thread_is_checked_at_the_end_of_its_block(
    server: BackgroundCluster, client: MongoClient[Any]
) -> None:
    with server.control.expect("insert", namespace="shop.orders", count=1):
        client.shop.orders.insert_one({})
    near = "insert on shop.carts: namespace is shop.carts, expected shop.orders"
    with pytest.raises(UnmetExpectation, match=near), server.control.expect(namespace="shop.orders"):
        client.shop.carts.insert_one({})


def test_a_delay_is_felt_by_a_client_with_a_timeout(
    server: BackgroundCluster, client: MongoClient[Any]
) -> None:
    server.control.when("find").then(delay("150ms"))
    with pytest.raises(pymongo.errors.NetworkTimeout), pymongo.timeout(0.05):
        client.shop.orders.find_one()
