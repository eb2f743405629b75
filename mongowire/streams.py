"""A `Stream` over asyncio's pair of transport and protocol, whatever network the transport belongs to."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import cast

_HIGH_WATER = 256 * 1024
"""Unread bytes above which the peer is asked to pause."""


_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""`struct linger` that discards and resets instead of the orderly end that `close` would give TCP."""


def reset(transport: asyncio.WriteTransport) -> None:
    """Close at once, so that the peer sees a reset connection and not the end of a file."""
    sock = transport.get_extra_info("socket")
    if sock is not None and not transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


class StreamProtocol(asyncio.Protocol):
    """The protocol half of a `Stream`: buffers what arrives, holds writers back while the peer is slow."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        """What has arrived and was not read: most often the one piece that a reader waits for, as it came."""
        self._eof = False
        self._failure: BaseException | None = None
        self._reading_paused = False
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._reader: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > _HIGH_WATER and not self._reading_paused:
            self._reading_paused = True
            self._live().pause_reading()
        self._wake_reader()

    def eof_received(self) -> bool:
        self._eof = True
        self._wake_reader()
        return True  # we may still have bytes to send: `aclose` closes

    def connection_lost(self, exc: Exception | None) -> None:
        self._eof = True
        self._failure = exc
        self._wake_reader()
        self.resume_writing()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # What the stream's user calls.

    async def read(self, max_bytes: int) -> bytes:
        """Return what has arrived, `max_bytes` at most; `b""` at the end. Raises `OSError` after a reset."""
        if not self._buffer and not self._eof:
            assert self._reader is None, "two readers wait on one stream"
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        if not self._buffer:
            if self._failure is not None:
                raise ConnectionResetError("connection reset by peer") from self._failure
            return b""
        data, self._buffer = self._buffer[:max_bytes], self._buffer[max_bytes:]
        if self._reading_paused and len(self._buffer) <= _HIGH_WATER // 2:
            self._reading_paused = False
            self._live().resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send `data`; return when there is room for more. Raises `OSError` once the connection is gone."""
        transport = self._live()
        if self._failure is not None or transport.is_closing():
            self._check_writable()
        transport.write(data)
        if not self._may_write.is_set():
            await self._may_write.wait()
            self._check_writable()

    async def aclose(self, *, abort: bool = False) -> None:
        """Close, after what was written has gone out unless `abort`, and wait until it is done."""
        if abort:
            reset(self._live())
        else:
            self._live().close()
        assert self._closed is not None
        await asyncio.shield(self._closed)

    def abandon(self) -> None:
        """Replace the socket, in this process alone, by one that leads nowhere.

        The transport cannot be closed: its event loop shares a selector with the parent process.
        """
        sock = self._live().get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, sock.fileno(), inheritable=False)
            os.close(nowhere)

    def _live(self) -> asyncio.Transport:
        assert self._transport is not None, "the protocol has not been connected"
        return self._transport

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise ConnectionResetError("connection reset by peer") from self._failure
        if self._live().is_closing():
            raise BrokenPipeError("the connection is closed")

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
