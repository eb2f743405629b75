from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure

from fakeserver import ClusterSpec
from fakeserver.background import BackgroundCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

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
    cluster.fail_command("insert", error_code=96, error_labels=["Custom"], times=2)
    for _ in range(2):
        with pytest.raises(OperationFailure) as raised:
            client.shop.orders.insert_one({})
        assert (raised.value.code, raised.value.has_error_label("Custom")) == (96, True)
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
        old = cluster.call(cluster.cluster.step_down)
        assert old is cluster.nodes[0]
        with pytest.raises(LookupError, match="there is no primary"):
            _ = cluster.primary


def test_what_a_call_raises_reaches_the_caller(cluster: BackgroundCluster) -> None:
    with pytest.raises(ValueError, match="a standalone has no elections"):
        cluster.call(cluster.cluster.step_down)


def test_an_asynchronous_function_can_run_on_the_deployments_loop(cluster: BackgroundCluster) -> None:
    async def answer() -> int:
        return 42

    assert cluster.run(answer) == 42


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
