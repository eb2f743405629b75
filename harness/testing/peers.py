"""Accepting ends of connections, for tests of networks and streams.

The accepting side is asyncio's protocol, made by the listener, so that a test does not hold the server's
end until it exists: `AcceptedStreams` collects them, and `connected` hands out both ends of one connection.
Connecting and accepting are bounded by `PATIENCE`: a broken network fails a test, and does not hang it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mongowire.streams import StreamProtocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mongowire.ports import Clock, Listener, Network, Stream

PATIENCE = 5.0
"""Seconds after which something on loopback has failed."""


class AcceptedStreams:
    """A listener's protocols, to be taken in the order in which clients connected.

    `all` has also those that were made and never connected, such as by a client that gave up while it
    connected: they have to be closed, too.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[StreamProtocol] = asyncio.Queue()
        self.all: list[StreamProtocol] = []

    def factory(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        accepted = _Accepted(self._queue)
        self.all.append(accepted)
        return accepted

    async def next(self) -> StreamProtocol:
        """Return the next connection. Raises `TimeoutError` when there is none in time."""
        async with asyncio.timeout(PATIENCE):
            return await self._queue.get()


class _Accepted(StreamProtocol):
    def __init__(self, queue: asyncio.Queue[StreamProtocol]) -> None:
        super().__init__()
        self._queue = queue

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._queue.put_nowait(self)


@asynccontextmanager
async def listening(
    network: Network, host: str = "localhost"
) -> AsyncIterator[tuple[Listener, AcceptedStreams]]:
    """Listen on a free port while the block runs; what was accepted is reset at its end."""
    accepted = AcceptedStreams()
    listener = await network.listen(host, 0, accepted.factory)
    try:
        yield listener, accepted
    finally:
        # The listener first: a connection accepted between the two would be left open.
        await listener.aclose()
        for stream in accepted.all:
            await stream.aclose(abort=True)


@asynccontextmanager
async def connected(clock: Clock, network: Network) -> AsyncIterator[tuple[Stream, StreamProtocol]]:
    """Yield a client's stream and the server's end of the same connection."""
    async with listening(network) as (listener, accepted):
        client = await network.connect(*listener.address, deadline=clock.now() + PATIENCE)
        try:
            yield client, await accepted.next()
        finally:
            await client.aclose(abort=True)


async def read_exactly(stream: Stream, count: int) -> bytes:
    """Return the next `count` bytes. Raises `AssertionError` when the stream ends before."""
    data = b""
    while len(data) < count:
        piece = await stream.read(count - len(data))
        assert piece, f"the stream ended after {len(data)} of {count} bytes"
        data += piece
    return data


async def read_to_end(stream: Stream) -> bytes:
    """Return all bytes up to the end of file."""
    data = b""
    while piece := await stream.read(65536):
        data += piece
    return data
