"""A transport over another, for what stands between a connection and its socket."""

from __future__ import annotations

import asyncio
from typing import Any


class TransportAbove(asyncio.Transport):
    """Passes everything on to the transport `below` it; those who change something override it."""

    def __init__(self, below: asyncio.Transport) -> None:
        super().__init__()
        self.below = below

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
        """Deliver no data until told to."""
        self.below.pause_reading()

    def resume_reading(self) -> None:
        """Deliver data again."""
        self.below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about the connection, such as `peername`."""
        return self.below.get_extra_info(name, default)
