"""A network in memory, with modelled latency, whose transports are asyncio's."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from mongowire.streams import StreamProtocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mongowire.ports import Clock, Listener, Rng, Stream

Address: TypeAlias = tuple[str, int]

DEFAULT_LATENCY = 0.0005
"""Seconds that bytes travel one way."""

FIRST_PORT = 40001
_FIRST_CLIENT_PORT = 50001
_HIGH_WATER = 64 * 1024
_MAX_READ = 256 * 1024
_LOOPBACK = {"127.0.0.1": "localhost", "::1": "localhost"}


class _PacketMark(Enum):
    """Signs that travel besides bytes."""

    END_OF_FILE = "end of file"
    RESET = "reset"


_Item: TypeAlias = bytes | _PacketMark


def _pieces(item: _Item) -> list[_Item]:
    """Cut bytes as a socket's reader does, so that a reader can pause between two pieces."""
    if isinstance(item, _PacketMark) or len(item) <= _MAX_READ:
        return [item]
    return [item[start : start + _MAX_READ] for start in range(0, len(item), _MAX_READ)]


class MemoryTransport(asyncio.Transport):
    """One end of a connection in memory.

    What is written counts as buffered until the other end's protocol has taken it, so a reader that pauses
    holds the writer back.
    """

    def __init__(self, link: _Link, sockname: Address, peername: Address) -> None:
        super().__init__({"sockname": sockname, "peername": peername, "socket": None})
        self._link = link
        self._protocol: asyncio.Protocol | None = None
        self.peer: MemoryTransport
        self._arrived: deque[_Item] = deque()
        self._in_flight: deque[_Item] = deque()
        self._last_arrival = 0.0
        self._undelivered = 0
        self._low, self._high = _HIGH_WATER // 4, _HIGH_WATER
        self._writing_paused = False
        self._reading_paused = False
        self._eof_sent = False
        self._closing = False
        self._lost = False

    # Construction.

    @classmethod
    def pair(cls, link: _Link, client: Address, server: Address) -> tuple[MemoryTransport, MemoryTransport]:
        """Return the client's and the server's end of a new connection; neither has begun."""
        ends = cls(link, client, server), cls(link, server, client)
        ends[0].peer, ends[1].peer = ends[1], ends[0]
        return ends

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Connect the protocol, then give it what has arrived meanwhile."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver()

    # Reading.

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._link.loop.call_soon(self._deliver)

    # Writing.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__}")
        if self._eof_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        self._undelivered += len(data)
        self._send(bytes(data))
        if self._undelivered > self._high and not self._writing_paused:
            self._writing_paused = True
            self._live().pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._closing or self._eof_sent:
            return
        self._eof_sent = True
        self._send(_PacketMark.END_OF_FILE)

    def get_write_buffer_size(self) -> int:
        return self._undelivered

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low, self._high = low, high

    # Ending.

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self.write_eof()
            self._end(None)

    def abort(self) -> None:
        if not self._closing:
            self._send(_PacketMark.RESET)
            self._end(None)

    def _end(self, reason: OSError | None) -> None:
        self._closing = True
        self._arrived.clear()
        self._link.loop.call_soon(self._lose, reason)

    def _lose(self, reason: OSError | None) -> None:
        self._lost = True
        self._live().connection_lost(reason)

    # The protocol.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._live()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def _live(self) -> asyncio.Protocol:
        assert self._protocol is not None, "the transport has no protocol yet"
        return self._protocol

    # The way of an item: sent here, in flight, arrived at the peer, delivered to the peer's protocol.

    def _send(self, item: _Item) -> None:
        # What was sent first arrives first, whatever the jitter says.
        self._last_arrival = max(self._last_arrival, self._link.arrival())
        self._in_flight.append(item)
        self._link.loop.call_at(self._last_arrival, self._arrive)

    def _arrive(self) -> None:
        item = self._in_flight.popleft()
        self.peer.take(item)

    def take(self, item: _Item) -> None:
        """Receive what the other end sent."""
        if not self._closing:
            self._arrived.extend(_pieces(item))
            self._deliver()
        elif isinstance(item, bytes):
            # Nobody is there to read it: TCP answers such bytes with a reset.
            self._send(_PacketMark.RESET)

    def _deliver(self) -> None:
        while self._arrived and self._protocol is not None and self.is_reading():
            item = self._arrived.popleft()
            if isinstance(item, bytes):
                self._deliver_bytes(self._protocol, item)
            elif item is _PacketMark.END_OF_FILE:
                self._deliver_eof(self._protocol)
            else:
                self._end(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _deliver_bytes(self, protocol: asyncio.Protocol, data: bytes) -> None:
        self.peer.delivered(len(data))
        try:
            protocol.data_received(data)
        except Exception as error:  # noqa: BLE001 - what a socket's transport does with a failing protocol
            self._fail(error, "Fatal error: protocol.data_received() call failed.")

    def _deliver_eof(self, protocol: asyncio.Protocol) -> None:
        try:
            keep_open = protocol.eof_received()
        except Exception as error:  # noqa: BLE001 - what a socket's transport does with a failing protocol
            self._fail(error, "Fatal error: protocol.eof_received() call failed.")
            return
        if not keep_open:
            self.close()

    def _fail(self, error: Exception, message: str) -> None:
        context: dict[str, Any] = {"message": message, "exception": error, "transport": self}
        self._link.loop.call_exception_handler(context | {"protocol": self._protocol})
        self.abort()

    def delivered(self, count: int) -> None:
        """Learn that the other end's protocol took `count` bytes."""
        self._undelivered -= count
        if self._writing_paused and self._undelivered <= self._low:
            self._writing_paused = False
            self._live().resume_writing()


@dataclass(slots=True)
class _Link:
    """The way between a connection's ends."""

    network: MemoryNetwork
    server: Address
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def arrival(self) -> float:
        return self.network.arrival(self.server)


class MemoryListener:
    """A port in memory."""

    def __init__(
        self, network: MemoryNetwork, address: Address, factory: Callable[[], asyncio.Protocol]
    ) -> None:
        self._network = network
        self._address = address
        self.factory = factory

    @property
    def address(self) -> Address:
        return self._address

    async def aclose(self) -> None:
        self._network.forget(self)


def _canonical(host: str, port: int) -> Address:
    return _LOOPBACK.get(host, host), port


class MemoryNetwork:
    """A `Network` whose bytes travel in memory for `latency` seconds, plus up to `jitter`, one way."""

    def __init__(
        self, clock: Clock, rng: Rng | None = None, latency: float = DEFAULT_LATENCY, *, jitter: float = 0.0
    ) -> None:
        if jitter and rng is None:
            raise ValueError("jitter needs random numbers: pass an Rng")
        self._clock = clock
        self._rng = rng
        self._latency = latency
        self._jitter = jitter
        self._latencies: dict[Address, float] = {}
        self._listeners: dict[Address, MemoryListener] = {}
        self._ports = itertools.count(FIRST_PORT)
        self._client_ports = itertools.count(_FIRST_CLIENT_PORT)

    def set_latency(self, host: str, port: int, latency: float) -> None:
        """Give the links to one port a latency of their own, in seconds, for what is sent from now on."""
        self._latencies[_canonical(host, port)] = latency

    @property
    def round_trip(self) -> float | None:
        """The seconds that bytes travel there and back, None where that is not the same everywhere."""
        return None if self._jitter or self._latencies else 2 * self._latency

    def arrival(self, server: Address) -> float:
        """Return the instant at which something sent now on a link of `server` arrives."""
        delay = self._latencies.get(server, self._latency)
        if self._jitter and self._rng is not None:
            delay += self._jitter * self._rng.random()
        return self._clock.now() + delay

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,  # noqa: ARG002 - memory has no limit of files
    ) -> Listener:
        """Accept connections; port 0 takes the next of a counter. Raises `OSError` if it is taken."""
        port = port or next(each for each in self._ports if _canonical(host, each) not in self._listeners)
        address = _canonical(host, port)
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        listener = MemoryListener(self, (host, port), factory)
        self._listeners[address] = listener
        return listener

    def forget(self, listener: MemoryListener) -> None:
        """Stop routing connections to `listener`."""
        address = _canonical(*listener.address)
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Open a connection in one round trip.

        Raises `TimeoutError` after `deadline`, `ConnectionRefusedError` if nobody listens.
        """
        server = _canonical(host, port)
        async with asyncio.timeout_at(deadline):
            await self._clock.sleep_until(self.arrival(server))
            transport = self._accept(server)
            try:
                await self._clock.sleep_until(self.arrival(server))
            except BaseException:
                if transport is not None:
                    transport.begin(StreamProtocol())
                    transport.abort()
                raise
        if transport is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        stream = StreamProtocol()
        transport.begin(stream)
        return stream

    def _accept(self, server: Address) -> MemoryTransport | None:
        """Let the listener's protocol begin, and return the client's end; None if there is no listener."""
        listener = self._listeners.get(server)
        if listener is None:
            return None
        client = ("127.0.0.1", next(self._client_ports))
        client_end, server_end = MemoryTransport.pair(_Link(self, server), client, listener.address)
        server_end.begin(listener.factory())
        return client_end
