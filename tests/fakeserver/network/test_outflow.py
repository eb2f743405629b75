"""Replies to requests that came together leave together (fakeserver/network/connection.py)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.network.connection import Connection, Outflow
from fakeserver.network.transport import ProtocolAbove, TransportAbove
from fakeserver.request.pipeline import PASS, Action, Stage, Step
from mongowire.connection import Envelope, WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.request.context import RequestContext

ONE_LONG_TURN = ClusterSpec.standalone(parameters={"internalQueryExecYieldPeriodMS": 1_000_000})
PING = {"ping": 1}
FAIL = {
    "configureFailPoint": "failCommand",
    "mode": "alwaysOn",
    "data": {"failCommands": ["ping"], "closeConnection": True},
}


class Socket(asyncio.Transport):
    """A transport that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False
        self.above = asyncio.Protocol()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed:  # as asyncio's, which forgets what comes later
            self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True
        asyncio.get_running_loop().call_soon(self.above.connection_lost, None)

    abort = close

    @property
    def answers(self) -> list[list[int]]:
        """The requests that are answered in each piece."""
        return [_answered(piece) for piece in self.pieces]


def _answered(piece: bytes) -> list[int]:
    wire = WireConnection()
    wire.receive_data(piece)
    found = []
    while isinstance(envelope := wire.next_message(), Envelope):
        found.append(envelope.response_to)
    assert wire.idle, "a piece ends in the middle of a message"
    return found


def sent(*commands: Mapping[str, Any], first: int = 1) -> bytes:
    """Return commands as they travel together, numbered from `first` on."""
    wire = WireConnection()
    messages = (OpMsg.of({**command, "$db": "admin"}) for command in commands)
    return b"".join(wire.send(message, request_id=number) for number, message in enumerate(messages, first))


class AbortsAtHello(Stage):
    """Aborts the connection of a hello."""

    step = Step.RULES

    def enter(self, request: RequestContext, now: float) -> Action:
        if request.name == "hello":
            request.node.connections[request.connection.id].abort("a test")
        return PASS


def heard(*arrivals: bytes, stage: Stage | None = None) -> Socket:
    """Have a server, with another stage, receive what arrives, and return what it made of it."""

    async def scenario() -> Socket:
        async with fakeserver.start(ONE_LONG_TURN) as cluster:
            connection, socket = Connection(cluster.nodes[0]), Socket()
            socket.above = connection
            connection.connection_made(socket)
            pipeline = cluster.nodes[0].pipeline
            with nullcontext() if stage is None else pipeline.installed(stage):
                for data in arrivals:
                    connection.data_received(data)
            if not socket.closed:
                connection.connection_lost(None)
            return socket

    return asyncio.run(scenario())


def test_requests_that_come_together_are_answered_together() -> None:
    assert heard(sent(PING, PING, PING)).answers == [[1, 2, 3]]


def test_a_request_that_comes_alone_is_answered_alone() -> None:
    assert heard(sent(PING), sent(PING, first=2)).answers == [[1], [2]]


def test_the_rest_of_a_message_does_not_hold_up_the_replies_before_it() -> None:
    data = sent(PING, PING, PING)
    cut = len(data) * 5 // 6
    assert heard(data[:cut], data[cut:]).answers == [[1, 2], [3]]


def test_what_was_answered_is_sent_before_the_connection_is_closed() -> None:
    socket = heard(sent(PING, FAIL, PING))
    assert socket.answers == [[1, 2]]
    assert socket.closed


def test_what_was_answered_is_sent_before_the_connection_is_aborted() -> None:
    socket = heard(sent(PING, {"hello": 1}, PING), stage=AbortsAtHello())
    assert socket.answers == [[1]]
    assert socket.closed


def test_large_replies_are_not_kept_back() -> None:
    socket = heard(sent(*[{"isMaster": 1}] * 300))
    assert list(chain.from_iterable(socket.answers)) == list(range(1, 301))
    assert 1 < len(socket.pieces) < 10
    assert all(len(piece) < (1 << 16) + 1000 for piece in socket.pieces)


def test_what_stands_in_front_of_the_socket_sees_each_message() -> None:
    socket, outflow = Socket(), Outflow()
    above = TransportAbove(socket, ProtocolAbove(asyncio.Protocol()))
    with outflow.joining(above):
        assert outflow.transport is None


def test_what_comes_to_stand_in_front_of_the_socket_sees_each_message_from_then_on() -> None:
    socket, outflow = Socket(), Outflow()
    above = TransportAbove(socket, ProtocolAbove(asyncio.Protocol()))
    with outflow.joining(socket):
        for number in range(2):
            outflow.write(b"before %d " % number, socket)
        for number in range(2):
            outflow.write(b"behind %d " % number, above)
    assert socket.pieces == [b"before 0 before 1 ", b"behind 0 ", b"behind 1 "]
