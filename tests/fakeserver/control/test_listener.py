from __future__ import annotations

import json
import socket
import stat
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
import pytest
from controlled import TOKEN, controlled
from sizes import size

from fakeserver import ClusterSpec
from fakeserver.control.client import ControlClient, NoAnswerError, ServerStatus
from fakeserver.control.listener import LINE_MAX
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver import BackgroundCluster
    from fakeserver.control.registry import RegistryEntry

WAITING = size("waiting")
GENEROUS_SECONDS = 5.0
"""The bound of a test; `benchmarks/side_door.py` measures."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BackgroundCluster, RegistryEntry]]:
    with controlled(tmp_path_factory.mktemp("home")) as both:
        yield both


def asked(entry: RegistryEntry, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines over one connection, and return the answers until it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(entry.control.removeprefix("unix:"))
        connection.sendall(b"".join(lines))
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


def request(verb: str, token: str = TOKEN, **arguments: Any) -> bytes:
    return json.dumps({"token": token, "verb": verb, "arguments": arguments}).encode() + b"\n"


def test_a_verb_is_performed_and_its_document_is_the_answer(
    served: tuple[BackgroundCluster, RegistryEntry],
) -> None:
    server, entry = served
    before = server.primary.name
    assert asked(entry, request("stepDown", seconds="1s")) == [{"ok": True, "result": {"node": before}}]


def test_a_connection_takes_one_request_after_the_other(
    served: tuple[BackgroundCluster, RegistryEntry],
) -> None:
    _, entry = served
    answers = asked(entry, request("hello"), request("failPointsOff"), request("hello"))
    assert [answer["result"].get("id") for answer in answers] == ["shop", None, "shop"]


def test_a_client_without_the_token_is_told_so_and_its_connection_ends(
    served: tuple[BackgroundCluster, RegistryEntry],
) -> None:
    _, entry = served
    refused = {"ok": False, "error": "the token is missing or wrong", "path": []}
    assert asked(entry, request("hello", token="another"), request("hello")) == [refused]
    no_text = {"ok": False, "error": "the line is no JSON", "path": []}
    assert asked(entry, request("hello", token="\ud800")) == [no_text]
    assert asked(entry, b'{"verb": "hello"}\n') == [refused]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"no JSON", "the line is no JSON"),
        (b"[1]", "the line is no JSON object"),
        (b"\xff\xfe", "the line is no JSON"),
        (b'{"token": {"$binary": 5}}', "the line is no"),
        (b"[" * 100_000, "the line is no"),
        (b'{"token": "the token"}', "needs the name of a verb"),
        (b'{"token": "the token", "verb": 5}', "needs the name of a verb"),
        (b'{"token": "the token", "verb": "hello", "arguments": [1]}', "arguments are a document"),
        (b'{"token": "the token", "verb": "hello", "argument": {}}', "no 'argument'"),
        (b'{"token": "the token", "verb": "kil"}', "did you mean 'kill'?"),
        (b'{"token": "the token", "verb": "kill", "follow": true}', "only readJournal can be followed"),
    ],
)
def test_a_wrong_line_is_answered_and_the_connection_goes_on(
    served: tuple[BackgroundCluster, RegistryEntry], line: bytes, error: str
) -> None:
    _, entry = served
    wrong, right = asked(entry, line + b"\n", request("hello"))
    assert wrong["ok"] is False
    assert error in wrong["error"]
    assert right["ok"] is True


def test_an_error_names_the_argument(served: tuple[BackgroundCluster, RegistryEntry]) -> None:
    _, entry = served
    with pytest.raises(ControlError) as raised:
        ControlClient(entry).perform("stepDown", {"seconds": "1 minute"})
    assert raised.value.path == ("seconds",)


def test_a_line_that_is_too_long_is_refused_and_the_server_goes_on(
    served: tuple[BackgroundCluster, RegistryEntry],
) -> None:
    _, entry = served
    with pytest.raises((ControlError, OSError), match=r"longer|Broken pipe|reset"):
        ControlClient(entry).perform("seed", {"namespace": "a.b", "documents": [{"a": "x" * LINE_MAX}]})
    assert ControlClient(entry).status() is ServerStatus.RUNNING


def test_the_socket_is_for_its_owner_alone(served: tuple[BackgroundCluster, RegistryEntry]) -> None:
    _, entry = served
    path = Path(entry.control.removeprefix("unix:"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_listens_on_a_port_of_the_loopback_interface_too(tmp_path: Path) -> None:
    with controlled(tmp_path, tcp=True) as (_, entry):
        assert entry.control.startswith("tcp:127.0.0.1:")
        assert ControlClient(entry).status() is ServerStatus.RUNNING
    assert ControlClient(entry).status() is ServerStatus.ENDED


def test_a_server_that_is_part_of_a_program_is_not_shut_down(
    served: tuple[BackgroundCluster, RegistryEntry],
) -> None:
    _, entry = served
    with pytest.raises(ControlError, match="ended by the program"):
        ControlClient(entry).shut_down()


def test_a_server_that_has_ended_gives_no_answer(tmp_path: Path) -> None:
    with controlled(tmp_path) as (_, entry):
        pass
    with pytest.raises(NoAnswerError, match="'shop' does not answer"):
        ControlClient(entry).perform("hello")


def test_it_answers_while_every_request_is_refused(tmp_path: Path) -> None:
    limited = ClusterSpec.standalone(parameters={"ingressRequestRateLimiterEnabled": True})
    with controlled(tmp_path, spec=limited) as (server, entry):
        control = ControlClient(entry)
        control.perform("setFailPoint", {"name": "failIngressRequestRateLimiting"})
        host, port = server.nodes[0].address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            assert said(connection, {"find": "orders", "$db": "shop"})["ok"] == 0.0
            assert control.perform("failPointsOff")["off"] == 1
            assert said(connection, {"find": "orders", "$db": "shop"})["ok"] == 1.0


def test_a_client_follows_the_journal_until_the_listener_closes(tmp_path: Path) -> None:
    with controlled(tmp_path, spec=ClusterSpec.standalone()) as (server, entry):
        control = ControlClient(entry)
        records = control.follow("readJournal", {"command": "ping", "limit": 1})
        host, port = server.nodes[0].address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            said(connection, {"ping": 1, "$db": "admin"})
            assert next(records)["command"] == "ping"
            for _ in range(3):  # more than a portion
                said(connection, {"ping": 1, "$db": "admin"})
        seen = [next(records)["seq"] for _ in range(3)]
        assert seen == sorted(set(seen))
        with pytest.raises(ControlError, match="unknown kind of record 'verbs'"):
            next(control.follow("readJournal", {"kind": "verbs"}))
    assert list(records) == []


def test_it_answers_while_a_member_is_paused(tmp_path: Path) -> None:
    with controlled(tmp_path) as (_, entry):
        control = ControlClient(entry)
        control.perform("pause", {"node": "node0"})
        assert control.perform("resume", {"node": "node0"})["node"] == "node0"


def test_it_answers_while_many_requests_wait(tmp_path: Path) -> None:
    with controlled(tmp_path, spec=ClusterSpec.standalone()) as (server, entry), ExitStack() as stack:
        control = ControlClient(entry)
        held = {"failCommands": ["ping"], "blockConnection": True, "blockTimeMS": 3_600_000}
        control.perform("setFailPoint", {"name": "failCommand", "data": held})
        host, port = server.nodes[0].address.split(":")
        for _ in range(WAITING):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(message({"ping": 1, "$db": "admin"}))
        while _entered(control) < WAITING:
            pass
        started = time.perf_counter()
        assert control.perform("failPointsOff")["off"] == 1
        assert time.perf_counter() - started < GENEROUS_SECONDS


def _entered(control: ControlClient) -> int:
    points = control.perform("listFailPoints")["failPoints"]
    return next(int(each["timesEntered"]) for each in points if each["name"] == "failCommand")


def message(command: dict[str, Any]) -> bytes:
    body = bytes(5) + bson.encode(command)
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body


def said(connection: socket.socket, command: dict[str, Any]) -> dict[str, Any]:
    """Send a command, and return the reply."""
    connection.sendall(message(command))
    with connection.makefile("rb") as replies:
        (length,) = struct.unpack("<i", replies.read(4))
        return bson.decode(replies.read(length - 4)[12 + 5 :])
