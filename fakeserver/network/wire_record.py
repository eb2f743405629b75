"""A record of what clients did to servers: their connections, and every message with its document.

It is a network over another, as the wire tap is, so that it works with every client, in real and in virtual
time. A tap writes text for readers; this keeps values for programs: the bytes of a message are decoded when
somebody asks. What is encrypted cannot be read, and is left out.

Only connections that are accepted while the record is on are looked at, so that a deployment that serves many
cases one after the other has a record of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Literal, cast

from fakeserver.network.connection import Connection
from fakeserver.network.fault_layer import FirstLayer
from fakeserver.network.transport import ProtocolAbove, TransportAbove
from fakeserver.network.wire_entries import Accepted, Closed, Entry, Received, Sent
from fakeserver.waiting.bystanders import aside
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import RemoteProtocolError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from mongowire.ports import Clock, Listener, Network, Stream


@dataclass(slots=True)
class WireRecord:
    """A `Network` over another that keeps entries while it is on.

    `number` gives each entry its place among the events of the process. `round_trip` is the seconds that a
    reply and the next request travel, None where nobody can say so exactly. `is_disturbed` says that the
    network below delays messages on purpose.
    """

    network: Network
    clock: Clock
    number: Callable[[], int]
    round_trip: float | None = None
    is_disturbed: bool = False
    entries: list[Entry] = field(default_factory=list)
    on: bool = False
    part: int = 0
    """How often it has begun. A connection is recorded in the part in which it was accepted."""
    _connections: count[int] = field(default_factory=lambda: count(1))

    def begin(self) -> None:
        """Forget what was kept, and keep what happens from now on."""
        self.entries = []
        self._connections = count(1)
        self.on = True
        self.part += 1

    def end(self) -> None:
        """Keep nothing more; the entries stay."""
        self.on = False

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Open a connection, as the network below does."""
        return await self.network.connect(host, port, deadline=deadline)

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        """Accept connections, as the network below does, and record those that begin while this is on."""

        def make() -> asyncio.Protocol:
            protocol = factory()
            connection = protocol.behind if isinstance(protocol, FirstLayer) else protocol
            # Behind TLS there is no connection to be seen here, and nothing that could be read.
            if not self.on or not isinstance(connection, Connection):
                return protocol
            return _Recorded(protocol, connection, self)

        return await self.network.listen(host, port, make, refused=refused)

    def next_connection(self) -> int:
        """Return the number of a new connection."""
        return next(self._connections)

    def enter(self, entry: Entry) -> None:
        """Keep an entry of a connection that is recorded."""
        self.entries.append(entry)


class _Recorded(ProtocolAbove):
    """A server's connection, and what is kept of it."""

    def __init__(self, protocol: asyncio.Protocol, connection: Connection, record: WireRecord) -> None:
        super().__init__(protocol)
        self._node = connection.node
        self._record = record
        self._part = record.part
        self._number = record.next_connection()
        self._requests = WireConnection()
        self._replies = WireConnection()
        self._closed = False

    @property
    def is_recorded(self) -> bool:
        """Whether the record is on, and still in the part in which this connection has its number."""
        return self._record.on and self._part == self._record.part

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        record, peer = self._record, transport.get_extra_info("peername")
        name = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "")
        node = self._node.name
        if self.is_recorded:
            record.enter(Accepted(record.number(), record.clock.now(), self._number, node, name))
        super().connection_made(_RecordedTransport(transport, self))

    def data_received(self, data: bytes) -> None:
        record, node = self._record, self._node
        role = "mongos" if node.is_mongos else node.role.name.lower()
        with aside("the record of the wire"):
            for envelope in _messages(self._requests, data) if self.is_recorded else ():
                record.enter(Received(record.number(), record.clock.now(), self._number, envelope, role))
        super().data_received(data)

    def sent(self, data: bytes) -> None:
        record = self._record
        with aside("the record of the wire"):
            for envelope in _messages(self._replies, data) if self.is_recorded else ():
                record.enter(Sent(record.number(), record.clock.now(), self._number, envelope))

    def closed(self, by: Literal["client", "server"]) -> None:
        if not self._closed and self.is_recorded:
            record = self._record
            record.enter(Closed(record.number(), record.clock.now(), self._number, by))
        self._closed = True

    def eof_received(self) -> bool | None:
        self.closed("client")
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed("client")
        super().connection_lost(exc)


class _RecordedTransport(TransportAbove):
    """A transport whose writes and closing are recorded."""

    def __init__(self, below: asyncio.Transport, line: _Recorded) -> None:
        super().__init__(below, line)
        self._line = line

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._line.sent(bytes(data))
        self.below.write(data)

    def close(self) -> None:
        self._line.closed("server")
        self.below.close()

    def abort(self) -> None:
        self._line.closed("server")
        self.below.abort()


def _messages(wire: WireConnection, data: bytes) -> list[Envelope]:
    """Return the messages that are whole with these bytes; none from what is no wire protocol."""
    found: list[Envelope] = []
    try:
        wire.receive_data(data)
        while isinstance(envelope := wire.next_message(), Envelope):
            found.append(envelope)
    except RemoteProtocolError:
        return found  # the server says what it makes of that
    return found
