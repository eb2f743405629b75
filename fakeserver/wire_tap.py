"""The wire, seen: a network that enters every message between clients and servers in a journal.

It sits where servers listen, so that it works with every client, in real and in virtual time. What is
encrypted it cannot read, and leaves out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from bson.errors import BSONError

from fakeserver.events import MessageReceived, MessageSent
from fakeserver.transport import TransportAbove
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import InvalidMessage, RemoteProtocolError
from mongowire.header import OpCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.journal import Journal
    from mongowire.ports import Clock, Listener, Network, Stream

TEXT_MAX: Final = 4000
"""How many characters of a message are kept."""


class WireTap:
    """A `Network` over another. What passes before `journal` is set is not kept."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network = network
        self._clock = clock
        self.journal: Journal | None = None

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Open a connection, as the network below does."""
        return await self._network.connect(host, port, deadline=deadline)

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        """Accept connections, as the network below does, and look at what they carry."""
        return await self._network.listen(host, port, lambda: _Tapped(factory(), self), refused=refused)

    def enter(self, event_type: type[MessageReceived | MessageSent], line: _Line, envelope: Envelope) -> None:
        """Enter a message in the journal."""
        if self.journal is not None:
            event = event_type(
                line.peer,
                envelope.request_id,
                envelope.response_to,
                _name(envelope.op_code),
                envelope.wire_size,
                _text(envelope),
            )
            self.journal.append(self._clock.now(), line.server, event)


class _Line:
    """One connection: who speaks with whom, and what has been said in each direction so far."""

    def __init__(self, tap: WireTap) -> None:
        self._tap = tap
        self._heard = WireConnection()
        self._said = WireConnection()
        self.peer = self.server = ""

    def begin(self, transport: asyncio.BaseTransport) -> None:
        self.peer = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))

    def received(self, data: bytes) -> None:
        self._pass(self._heard, data, MessageReceived)

    def sent(self, data: bytes) -> None:
        self._pass(self._said, data, MessageSent)

    def _pass(
        self, wire: WireConnection, data: bytes, event_type: type[MessageReceived | MessageSent]
    ) -> None:
        try:
            wire.receive_data(data)
            while isinstance(envelope := wire.next_message(), Envelope):
                self._tap.enter(event_type, self, envelope)
        except RemoteProtocolError:
            return  # no wire protocol: the server says what it makes of that


class _Tapped(asyncio.Protocol):
    """A server's protocol, with an ear on its line."""

    def __init__(self, protocol: asyncio.Protocol, tap: WireTap) -> None:
        self._protocol = protocol
        self._line = _Line(tap)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._line.begin(transport)
        self._protocol.connection_made(_TappedTransport(transport, self._line))

    def data_received(self, data: bytes) -> None:
        self._line.received(data)
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class _TappedTransport(TransportAbove):
    """A transport that is heard when it is written to."""

    def __init__(self, below: asyncio.Transport, line: _Line) -> None:
        super().__init__(below)
        self._line = line

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._line.sent(bytes(data))
        self.below.write(data)


def _address(name: Any) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")


def _name(op_code: int) -> str:
    try:
        return f"OP_{OpCode(op_code).name}"
    except ValueError:
        return f"operation {op_code}"


def _text(envelope: Envelope) -> str:
    try:
        said = json_util.dumps(envelope.parse().decode(), json_options=json_util.RELAXED_JSON_OPTIONS)
    except (InvalidMessage, BSONError, TypeError, ValueError) as error:
        return f"cannot be read: {error}"
    return said if len(said) <= TEXT_MAX else said[: TEXT_MAX - 1] + "…"
