"""PyMongo over TCP under faults of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from pymongo.errors import (
    AutoReconnect,
    NetworkTimeout,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def server() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone()) as cluster:
        yield cluster


def client_of(server: BackgroundCluster, **options: Any) -> Client:
    options = {"retryReads": False, "serverSelectionTimeoutMS": 1000, "socketTimeoutMS": 300} | options
    return Client(server.uri, **options)


@pytest.mark.parametrize(
    ("do", "error"),
    [
        pytest.param({"reset": True}, AutoReconnect, marks=pytest.mark.slow),
        pytest.param({"cut": 20}, AutoReconnect, marks=pytest.mark.slow),
        ({"responseTo": 4242}, ProtocolError),
        ({"length": 15}, ProtocolError),
        ({"length": 48_000_001}, ProtocolError),
        ({"truncate": 3}, PyMongoError),
        pytest.param({"halfOpen": True}, NetworkTimeout, marks=pytest.mark.slow),
        pytest.param({"delay": "1s"}, NetworkTimeout, marks=pytest.mark.slow),
    ],
)
def test_a_damaged_reply_is_an_error_of_its_own(
    server: BackgroundCluster, do: dict[str, Any], error: type[PyMongoError]
) -> None:
    with client_of(server) as client:
        client.db.things.find_one({})
        server.control.add_fault({"at": "reply", "command": "find", "times": 1, "do": do})
        with pytest.raises(error):
            client.db.things.find_one({})
        assert client.db.things.find_one({}) is None


@pytest.mark.parametrize("do", [{"split": 7}, {"bandwidth": "20KB/s"}, {"delay": "20ms", "jitter": "10ms"}])
def test_slow_and_chopped_replies_are_read(server: BackgroundCluster, do: dict[str, Any]) -> None:
    with client_of(server) as client:
        server.control.add_fault({"at": "reply", "do": do})
        client.db.things.insert_one({"_id": 1, "text": "x" * 500})
        assert client.db.things.find_one({}) is not None
        assert server.control.list_faults()["faults"][0]["hits"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("at", ["accept", "handshake"])
def test_a_server_that_cannot_be_met_is_not_selected(server: BackgroundCluster, at: str) -> None:
    server.control.add_fault({"at": at, "do": {"reset": True}})
    with client_of(server) as client, pytest.raises(ServerSelectionTimeoutError):
        client.db.things.find_one({})


@pytest.mark.slow
def test_a_retried_read_survives_a_reset(server: BackgroundCluster) -> None:
    with client_of(server, retryReads=True) as client:
        client.db.things.find_one({})
        server.control.add_fault({"at": "beforeReply", "command": "find", "times": 1, "do": {"reset": True}})
        assert client.db.things.find_one({}) is None


def test_a_command_may_carry_the_way_of_its_reply(server: BackgroundCluster) -> None:
    with client_of(server) as client:
        actions = [{"sendBytes": 4}, {"delayMs": 20}, {"sendAll": True}]
        assert client.admin.command({"ping": 1, "proxyTest": {"actions": actions}})["ok"] == 1


@pytest.mark.slow
def test_faults_are_set_and_listed_by_a_command(server: BackgroundCluster) -> None:
    with client_of(server) as client:
        fault = {"at": "reply", "command": "find", "times": 1, "do": {"cut": 5}}
        added = client.admin.command({"pushbackd": "addFault", "fault": fault})
        with pytest.raises(AutoReconnect):
            client.db.things.find_one({})
        (listed,) = client.admin.command({"pushbackd": "listFaults"})["faults"]
        assert (listed["id"], listed["hits"], listed["over"]) == (added["id"], 1, True)
        assert client.admin.command({"pushbackd": "removeFault", "id": added["id"]})["ok"] == 1
