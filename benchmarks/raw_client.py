"""A client that costs as little as one in Python can: messages encoded beforehand, one selector."""

from __future__ import annotations

import selectors
import socket
import time
from itertools import cycle
from typing import TYPE_CHECKING, Any

import bson

from mongowire.connection import Envelope, WireConnection
from mongowire.messages import OpMsg, OpReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LENGTH_BYTES = 4
_MANY = 1 << 16
_PATIENCE_SECONDS = 30.0


def encoded(command: Mapping[str, Any]) -> bytes:
    """Return `command` as the bytes of an OP_MSG."""
    return WireConnection().send(OpMsg.of(command), request_id=1)


def inserts() -> Iterator[bytes]:
    """Return endless insertions of one small document, each with an `_id` of its own."""
    marker = 0x7071727374757677
    document = {"_id": bson.Int64(marker), "name": "Ada", "tags": ["a", "b"], "n": 1}
    message = encoded({"insert": "inserted", "documents": [document], "$db": "benchmark"})
    at = message.index(marker.to_bytes(8, "little"))
    number = 0
    while True:
        number += 1
        yield message[:at] + number.to_bytes(8, "little") + message[at + 8 :]


def updates() -> Iterator[bytes]:
    """Return endless updates of one document, each of which changes it."""
    statements = ({"q": {"_id": 5}, "u": {"$set": {"n": number}}} for number in (1, 2))
    return cycle([encoded({"update": "found", "updates": [each], "$db": "benchmark"}) for each in statements])


class RawClient:
    """A fixed number of connections, each with one request under way."""

    def __init__(self, address: tuple[str, int], connections: int) -> None:
        self.address = address
        self.sockets = [socket.create_connection(address, _PATIENCE_SECONDS) for _ in range(connections)]
        for sock in self.sockets:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Run one command on the first connection and return its reply."""
        wire, sock = WireConnection(), self.sockets[0]
        sock.sendall(encoded(command))
        while not isinstance(message := wire.next_message(), Envelope):
            wire.receive_data(sock.recv(_MANY))
        reply = message.parse()
        assert isinstance(reply, OpMsg | OpReply)
        return reply.decode()

    def run(self, next_message: Callable[[], bytes], requests: int) -> float:
        """Send `requests` messages, each after the reply to the one before it; return the seconds it took."""
        start = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            first = self.sockets[:requests]
            for sock in first:
                selector.register(sock, selectors.EVENT_READ)
                sock.sendall(next_message())
            self._exchange(selector, next_message, to_send=requests - len(first), to_come=requests)
        return time.perf_counter() - start

    def _exchange(
        self, selector: selectors.BaseSelector, next_message: Callable[[], bytes], to_send: int, to_come: int
    ) -> None:
        while to_come:
            for key, _ in _ready(selector):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                _read_reply(sock)
                to_come -= 1
                if to_send:
                    to_send -= 1
                    sock.sendall(next_message())


def _ready(selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
    """Return what can be read, without ever sleeping: the server would pay for waking us."""
    patience_ends = time.perf_counter() + _PATIENCE_SECONDS
    while not (ready := selector.select(0)):
        assert time.perf_counter() < patience_ends, "the server does not answer"
    return ready


def _read_reply(sock: socket.socket) -> None:
    data = sock.recv(_MANY)
    while len(data) < _LENGTH_BYTES or len(data) < int.from_bytes(data[:_LENGTH_BYTES], "little"):
        more = sock.recv(_MANY)
        assert more, "the server closed the connection"
        data += more
