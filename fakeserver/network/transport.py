"""A transport over another, for what stands between a connection and its socket."""

from __future__ import annotations

import asyncio
import select
from typing import Any, Final

_CAN_POLL: Final = hasattr(select, "poll")


def is_reset(transport: asyncio.Transport) -> bool:
    """Return whether the peer has reset a connection, before a write to it fails or its end is read."""
    sock = transport.get_extra_info("socket")
    if sock is None or not _CAN_POLL:
        return False
    if sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), 0)  # errors and hang-ups are told all the same
    return bool(poll.poll(0))


class ProtocolAbove(asyncio.Protocol):
    """A protocol in front of another one, to which it passes everything on."""

    def __init__(self, behind: asyncio.Protocol) -> None:
        self.behind = behind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.behind.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.behind.data_received(data)

    def eof_received(self) -> bool | None:
        return self.behind.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.behind.connection_lost(exc)

    def pause_writing(self) -> None:
        self.behind.pause_writing()

    def resume_writing(self) -> None:
        self.behind.resume_writing()


class TransportAbove(asyncio.Transport):
    """Passes everything on to the transport `below` it; those who change something override it.

    `above` is the protocol in front that hands on what arrives.
    """

    def __init__(self, below: asyncio.Transport, above: ProtocolAbove) -> None:
        super().__init__()
        self.below = below
        self._above = above

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Deliver what arrives to another protocol."""
        assert isinstance(protocol, asyncio.Protocol)
        self._above.behind = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that gets what arrives."""
        return self._above.behind

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data."""
        self.below.write(data)

    def close(self) -> None:
        """Close once all has been sent."""
        self.below.close()

    def abort(self) -> None:
        """Close at once."""
        self.below.abort()

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self.below.is_closing()

    def pause_reading(self) -> None:
        """Deliver no data until `resume_reading`."""
        self.below.pause_reading()

    def resume_reading(self) -> None:
        """Deliver data again."""
        self.below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about the connection, such as `peername`."""
        return self.below.get_extra_info(name, default)
