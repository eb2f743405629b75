"""The bytes that leave a connection: replies to requests that came together go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from fakeserver.network.transport import TransportAbove, is_reset

if TYPE_CHECKING:
    import asyncio


_MOST_BYTES: Final = 1 << 16
"""The bytes that are kept back at most, before the transport says whether it takes more."""


class Outflow:
    """The replies that are kept back, to leave in one piece."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        """The transport for which replies are kept; None where each is to leave at once."""
        self._kept: list[bytes] = []
        self._size = 0

    def joining(self, transport: asyncio.Transport) -> Self:
        """Keep what is written inside.

        What stands in front of a socket looks at each message, so for that nothing is kept.
        """
        self.transport = None if isinstance(transport, TransportAbove) else transport
        return self

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Send what was kept."""
        self.flush()
        self.transport = None

    def write(self, data: bytes, transport: asyncio.Transport) -> None:
        """Keep a reply, unless something has come to stand in front of the socket meanwhile."""
        if transport is not self.transport:
            self.flush()
            transport.write(data)
            return
        self._kept.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self.flush()

    @property
    def is_in_vain(self) -> bool:
        """Whether a reply is kept for nobody: the client has reset the connection.

        A server learns this when it writes that reply, and reads no request more.
        """
        return bool(self._kept) and self.transport is not None and is_reset(self.transport)

    def flush(self) -> None:
        """Send what was kept."""
        if self._kept and self.transport is not None:
            kept, self._kept, self._size = self._kept, [], 0
            self.transport.write(b"".join(kept))


# The bytes that are read from a connection while a request of it is under way.

_READ_AHEAD_BYTES: Final = 1 << 20
"""The bytes that are read behind a request that is under way, before reading stops."""


class Inflow:
    """The bytes that a transport delivers: up to a bound beyond what the connection can take now."""

    def __init__(self) -> None:
        self._reading = True
        """The transport delivers bytes."""
        self._unread = 0
        """The bytes that arrived while the connection was busy."""

    def read_ahead(self, transport: asyncio.Transport, count: int) -> None:
        """Take note of bytes that wait behind a request."""
        # Not stopped at once: only while it reads does the transport notice that the client has left.
        self._unread += count
        if self._unread > _READ_AHEAD_BYTES:
            self.stop(transport)

    def caught_up(self) -> None:
        """Take note that nothing waits any more."""
        self._unread = 0

    def stop(self, transport: asyncio.Transport) -> None:
        """Have the transport deliver nothing."""
        if self._reading:
            self._reading = False
            transport.pause_reading()

    def go_on(self, transport: asyncio.Transport) -> None:
        """Have the transport deliver again."""
        if not self._reading:
            self._reading = True
            transport.resume_reading()
