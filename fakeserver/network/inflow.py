"""The bytes that are read from a connection while a request of it is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

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
