"""A client that costs as little as one in Python can: messages encoded beforehand, one selector."""

from __future__ import annotations

import os
import select
import socket
import struct
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
_PATIENCE_SECONDS = 20
_POLL = getattr(select, "epoll", select.poll)
"""What waits for sockets; the two are called alike, and so are their events."""


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
        self.sockets = [_connected(address) for _ in range(connections)]

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Run one command on the first connection and return its reply."""
        return self.exchange(encoded(command))

    def exchange(self, request: bytes) -> dict[str, Any]:
        """Send one message on the first connection and return its reply."""
        wire, sock = WireConnection(), self.sockets[0]
        sock.sendall(request)
        while not isinstance(message := wire.next_message(), Envelope):
            wire.receive_data(sock.recv(_MANY))
        reply = message.parse()
        assert isinstance(reply, OpMsg | OpReply)
        return reply.decode()

    def run(self, next_message: Callable[[], bytes], requests: int) -> float:
        """Send `requests` messages, each after the reply to the one before it; return the seconds it took."""
        start = time.perf_counter()
        first = self.sockets[:requests]
        poll = _POLL()
        for sock in first:
            poll.register(sock.fileno(), select.POLLIN)
            sock.sendall(next_message())
        self._exchange(poll, next_message, to_send=requests - len(first), to_come=requests)
        return time.perf_counter() - start

    def _exchange(
        self, poll: select.poll, next_message: Callable[[], bytes], to_send: int, to_come: int
    ) -> None:
        by_file = {sock.fileno(): sock for sock in self.sockets}
        while to_come:
            for file, _ in _ready(poll):
                sock = by_file[file]
                _read_reply(sock)
                to_come -= 1
                if to_send:
                    to_send -= 1
                    sock.sendall(next_message())


def _connected(address: tuple[str, int]) -> socket.socket:
    sock = socket.create_connection(address, _PATIENCE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Patience is the kernel's: with a timeout of Python's, each call would be two.
    sock.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _PATIENCE_SECONDS, 0))
    return sock


def _ready(poll: select.poll) -> list[tuple[int, int]]:
    """Return what can be read, without ever sleeping: the server would pay for waking us."""
    if ready := poll.poll(0):
        return ready
    patience_ends = time.perf_counter() + _PATIENCE_SECONDS
    while not (ready := poll.poll(0)):
        assert time.perf_counter() < patience_ends, "the server does not answer"
        # Where cores are few, the server may be waiting for ours.
        os.sched_yield()
    return ready


def _read_reply(sock: socket.socket) -> None:
    data = sock.recv(_MANY)
    if _size_of(data) == len(data):
        return
    while len(data) < _LENGTH_BYTES or len(data) < _size_of(data):
        more = sock.recv(_MANY)
        assert more, "the server closed the connection"
        data += more


def _size_of(data: bytes) -> int:
    return int.from_bytes(data[:_LENGTH_BYTES], "little")
