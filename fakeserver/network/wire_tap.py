"""The wire, seen: a network that enters every message between clients and servers in a journal.

It sits where servers listen, so that it works with every client, in real and in virtual time. What is
encrypted it cannot read, and leaves out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from bson import json_util
from bson.errors import BSONError

from fakeserver.deployment.records.events import MessageReceived, MessageSent
from fakeserver.network.transport import ProtocolAbove, TransportAbove
from fakeserver.waiting.bystanders import aside
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import InvalidMessage, RemoteProtocolError
from mongowire.framing import OpCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from fakeserver.deployment.records.journal import Journal
    from mongowire.ports import Clock, Listener, Network, Stream


class WireTap:
    """A `Network` over another. What passes before `journal` is set is not kept.

    `names` are those of the servers, by their ports, which are known when they have begun to listen; a server
    without a name goes by its address.
    """

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network = network
        self._clock = clock
        self.journal: Journal | None = None
        self.names: Mapping[int, str] = {}

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
            server = self.names.get(line.port, line.server)
            self.journal.append(self._clock.now(), server, event)


class _Line:
    """One connection: who speaks with whom, and what has been said in each direction so far."""

    def __init__(self, tap: WireTap) -> None:
        self._tap = tap
        self._heard = WireConnection()
        self._said = WireConnection()
        self.peer = self.server = ""
        self.port = 0

    def begin(self, transport: asyncio.BaseTransport) -> None:
        self.peer = _address(transport.get_extra_info("peername"))
        name = transport.get_extra_info("sockname")
        self.server = _address(name)
        self.port = name[1] if isinstance(name, tuple) else 0

    def received(self, data: bytes) -> None:
        self._pass(self._heard, data, MessageReceived)

    def sent(self, data: bytes) -> None:
        self._pass(self._said, data, MessageSent)

    def _pass(
        self, wire: WireConnection, data: bytes, event_type: type[MessageReceived | MessageSent]
    ) -> None:
        with aside("the tap of the wire"), suppress(RemoteProtocolError):
            # Of what is no wire protocol, the server says what it makes.
            wire.receive_data(data)
            while isinstance(envelope := wire.next_message(), Envelope):
                self._tap.enter(event_type, self, envelope)


class _Tapped(ProtocolAbove):
    """A server's protocol, with an ear on its line."""

    def __init__(self, protocol: asyncio.Protocol, tap: WireTap) -> None:
        super().__init__(protocol)
        self._line = _Line(tap)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        self._line.begin(transport)
        super().connection_made(_TappedTransport(transport, self, self._line))

    def data_received(self, data: bytes) -> None:
        self._line.received(data)
        super().data_received(data)


class _TappedTransport(TransportAbove):
    """A transport that is heard when it is written to."""

    def __init__(self, below: asyncio.Transport, above: ProtocolAbove, line: _Line) -> None:
        super().__init__(below, above)
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
        return json_util.dumps(envelope.parse().decode(), json_options=json_util.RELAXED_JSON_OPTIONS)
    except (InvalidMessage, BSONError, TypeError, ValueError) as error:
        return f"cannot be read: {error}"
