from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure, WriteConcernError

from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    Client = MongoClient[dict[str, Any]]


@pytest.fixture
def cluster() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone()) as running:
        yield running


@pytest.fixture
def client(cluster: BackgroundCluster) -> Iterator[Client]:
    connected: Client = MongoClient(cluster.uri, retryWrites=False, retryReads=False)
    with connected:
        yield connected


def test_a_deployment_in_the_background_serves_a_client_that_has_no_event_loop(client: Client) -> None:
    client.shop.orders.insert_one({"_id": 1})
    assert client.shop.orders.count_documents({}) == 1


def test_a_command_fails_as_often_as_was_asked(cluster: BackgroundCluster, client: Client) -> None:
    cluster.fail_command("insert", error_code=96, error_labels=["RetryableError"], times=2)
    for _ in range(2):
        with pytest.raises(OperationFailure) as raised:
            client.shop.orders.insert_one({})
        assert (raised.value.code, raised.value.has_error_label("RetryableError")) == (96, True)
    client.shop.orders.insert_one({})


def test_without_a_number_a_command_fails_until_it_is_told_to_stop(
    cluster: BackgroundCluster, client: Client
) -> None:
    cluster.fail_command("insert", "find", error_code=96)
    for _ in range(3):
        with pytest.raises(OperationFailure):
            client.shop.orders.insert_one({})
    cluster.stop_failing()
    client.shop.orders.insert_one({})


def test_several_faults_add_up(cluster: BackgroundCluster, client: Client) -> None:
    cluster.fail_command("insert", error_code=96, times=1)
    cluster.fail_command("find", error_code=43, namespace="shop.orders")
    with pytest.raises(OperationFailure) as raised:
        client.shop.orders.insert_one({})
    assert raised.value.code == 96
    with pytest.raises(OperationFailure) as raised:
        client.shop.orders.find_one({})
    assert raised.value.code == 43
    assert client.shop.carts.find_one({}) is None
    cluster.fail_command("insert", error_code=2, replace=True)
    assert client.shop.orders.find_one({}) is None
    with pytest.raises(OperationFailure) as raised:
        client.shop.orders.insert_one({})
    assert raised.value.code == 2


def test_a_write_has_an_error_of_its_concern_and_is_written(
    cluster: BackgroundCluster, client: Client
) -> None:
    cluster.fail_command("insert", write_concern_error={"code": 64, "errmsg": "late"}, times=1)
    with pytest.raises(WriteConcernError):
        client.shop.orders.insert_one({"_id": 1})
    assert client.shop.orders.find_one({}) == {"_id": 1}


def test_a_command_waits_before_it_fails(cluster: BackgroundCluster, client: Client) -> None:
    cluster.fail_command("insert", block_ms=30, close_connection=True, app_name="nobody")
    cluster.fail_command("insert", block_ms=30, error_code=96)
    began = time.monotonic()
    with pytest.raises(OperationFailure):
        client.shop.orders.insert_one({})
    assert time.monotonic() - began >= 0.03


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"commands": ["inserd"], "error_code": 96}, "unknown command 'inserd'; did you mean 'insert'?"),
        ({"commands": ["insert"], "error_labels": ["RetryableError"]}, "the rule does nothing"),
        ({"commands": ["insert"], "error_code": 96, "times": -1}, "negative"),
        ({"commands": ["insert"], "error_code": 96, "namespace": "orders"}, "namespace"),
    ],
)
def test_a_mistaken_fault_is_refused(
    cluster: BackgroundCluster, arguments: dict[str, Any], message: str
) -> None:
    commands = arguments.pop("commands")
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        cluster.fail_command(*commands, **arguments)
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.count('  File "') <= 4, shown


def test_a_fault_on_a_sharded_cluster_meets_what_clients_send() -> None:
    with (
        BackgroundCluster(ClusterSpec.sharded(1)) as cluster,
        MongoClient[dict[str, Any]](cluster.uri, retryWrites=False) as client,
    ):
        cluster.fail_command("insert", error_code=96, times=1)
        with pytest.raises(OperationFailure):
            client.shop.orders.insert_one({})
        client.shop.orders.insert_one({})


def test_a_command_can_lose_its_connection(cluster: BackgroundCluster, client: Client) -> None:
    cluster.fail_command("insert", close_connection=True, times=1)
    with pytest.raises(AutoReconnect):
        client.shop.orders.insert_one({})


def test_the_journal_tells_what_the_servers_saw(cluster: BackgroundCluster, client: Client) -> None:
    client.shop.orders.insert_one({})
    assert '"kind":"commandFinished","name":"insert"' in cluster.journal.to_json_lines()


def test_a_verb_of_the_deployment_runs_on_its_own_loop() -> None:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as cluster:
        assert cluster.primary is cluster.nodes[0]

        def step_down() -> None:
            # One turn of the loop for both: a machine that stands still in between elects another.
            assert cluster.cluster.step_down() is cluster.nodes[0]
            with pytest.raises(LookupError, match="there is no primary"):
                _ = cluster.primary

        cluster.call(step_down)


def test_what_a_call_raises_reaches_the_caller(cluster: BackgroundCluster) -> None:
    with pytest.raises(ValueError, match="a standalone has no elections"):
        cluster.call(cluster.cluster.step_down)


def test_an_asynchronous_function_can_run_on_the_deployments_loop(cluster: BackgroundCluster) -> None:
    async def answer() -> int:
        return 42

    assert cluster.run(answer) == 42


def test_a_verb_that_does_not_wait_runs_too() -> None:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as cluster:
        assert cluster.run(cluster.cluster.step_down) is cluster.nodes[0]


def test_a_call_within_a_call_is_answered(cluster: BackgroundCluster) -> None:
    assert cluster.call(lambda: cluster.call(lambda: cluster.primary)) is cluster.nodes[0]
    assert cluster.call(lambda: cluster.node("primary")) is cluster.nodes[0]


@pytest.mark.parametrize("verb", ["run", "stop"])
def test_what_waits_for_the_loop_is_refused_on_the_loop(cluster: BackgroundCluster, verb: str) -> None:
    wait = {"run": lambda: cluster.run(lambda: 1), "stop": cluster.stop}[verb]
    with pytest.raises(RuntimeError, match=f"{verb} waits for the deployment's loop"):
        cluster.call(wait)
    assert cluster.call(lambda: "still there") == "still there"


def test_a_call_refuses_what_nobody_would_await(cluster: BackgroundCluster) -> None:
    kill = cluster.nodes[0].kill
    with pytest.raises(TypeError, match=r"Node\.kill returns an awaitable: pass it to `run`"):
        _ = cluster.call(kill)
    assert cluster.primary.is_primary
    with pytest.raises(TypeError, match="returns an awaitable"):
        _ = cluster.call(lambda: cluster.call(kill))
    cluster.run(kill)


def test_nobody_waits_for_a_deployment_that_does_not_run(cluster: BackgroundCluster) -> None:
    fresh = BackgroundCluster(ClusterSpec.standalone())
    for use in (lambda: fresh.uri, lambda: fresh.call(lambda: 1), lambda: fresh.run(lambda: 1)):
        with pytest.raises(RuntimeError, match="is not started"):
            use()
    cluster.stop()
    for use in (lambda: cluster.call(lambda: 1), lambda: cluster.run(lambda: 1)):
        with pytest.raises(RuntimeError, match="has stopped"):
            use()
    with pytest.raises(RuntimeError, match="make another one"):
        cluster.start()


def test_who_waits_while_it_stops_is_told(cluster: BackgroundCluster) -> None:
    waiting = threading.Event()

    async def forever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(cluster.run, forever)
        waiting.wait()
        cluster.stop()
        with pytest.raises(RuntimeError, match="has stopped"):
            asked.result()


def test_a_port_that_is_taken_is_an_error_of_the_caller() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cluster = BackgroundCluster(ClusterSpec.standalone(ports=(taken.getsockname()[1],)))
        with pytest.raises(OSError, match="address"):
            cluster.start()
        cluster.stop()


def test_stopping_twice_is_allowed_and_nobody_listens_afterwards(cluster: BackgroundCluster) -> None:
    host, _, port = cluster.nodes[0].address.partition(":")
    cluster.stop()
    cluster.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
