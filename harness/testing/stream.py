"""The contract of every `Stream`, at either end of a connection.

A server that shuts down, one that is killed and a fault that is played end a connection in different ways,
which drivers report with different words. Therefore the ends are told apart here: end of file after an
orderly close, `ConnectionResetError` after an abort, another `OSError` on one's own closed stream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.testing.peers import PATIENCE, connected, read_exactly, read_to_end
from harness.testing.verdict import raises

if TYPE_CHECKING:
    from harness.testing.worlds import Run
    from mongowire.ports import Clock, Network

# 16 MiB, more than the buffers of both ends and of the system hold together.
_LARGE = bytes(range(256)) * 4096 * 16


async def _bytes_arrive_in_order_both_ways(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        for number in range(20):
            await client.write(b"%04d" % number)
        assert await read_exactly(server, 80) == b"".join(b"%04d" % number for number in range(20))
        await server.write(b"answer")
        assert await read_exactly(client, 6) == b"answer"


# What came beyond would belong to the next message, and its reader would wait for it in vain.
async def _a_read_returns_no_more_than_asked(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await client.write(b"abcdef")
        assert 1 <= len(await server.read(2)) <= 2
        assert 1 <= len(await server.read(2)) <= 2


# The last reply before a shutdown has to arrive: a client that lost it would retry a write that was done.
async def _closing_is_the_end_of_file_after_what_was_written(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await client.write(b"last words")
        await client.aclose()
        assert await read_to_end(server) == b"last words"
        assert await server.read(10) == b""


# An injected fault and a killed server look like this. An end of file instead would be taken for an orderly
# close.
async def _aborting_resets_the_peer(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await client.aclose(abort=True)
        with raises(ConnectionResetError):
            await server.read(10)
        with raises(OSError, match=r"reset|closed"):
            await server.write(b"too late")


# Most connections are lost while somebody waits for a reply; without the error it would wait for its timeout.
async def _a_reader_who_waits_learns_of_a_reset(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        reading = asyncio.create_task(client.read(10))
        await clock.sleep_until(clock.now())
        await server.aclose(abort=True)
        with raises(ConnectionResetError):
            await reading


async def _writing_after_closing_is_an_error(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, _):
        await client.aclose()
        with raises(OSError, match="closed"):
            await client.write(b"too late")
        assert await client.read(10) == b""


# Pools, monitors and clients close what they share, in no agreed order, and after an error once more.
async def _closing_twice_is_allowed(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, _):
        await client.aclose()
        await client.aclose()
        await client.aclose(abort=True)


# The first write after a close may succeed, as bytes are taken before the peer's refusal arrives. So the
# promise is about a while, not about the next call.
async def _writing_to_a_peer_who_has_gone_fails_in_the_end(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await server.aclose()
        with raises(OSError, match=r"reset|closed"):
            deadline = clock.now() + PATIENCE
            while clock.now() < deadline:
                await client.write(b"is anybody there?")
                await clock.sleep_until(clock.now() + 0.001)


# Back-pressure: without it a server that answers faster than its client reads fills the memory.
async def _a_writer_waits_for_a_reader_who_is_slow(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        writing = asyncio.create_task(client.write(_LARGE))
        await clock.sleep_until(clock.now() + 0.01)
        assert not writing.done()
        assert await read_exactly(server, len(_LARGE)) == _LARGE
        await writing


# A writer that is held back waits for the peer to read, and a peer that is gone never will.
async def _a_writer_who_waits_learns_of_a_reset(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        writing = asyncio.create_task(client.write(_LARGE))
        await clock.sleep_until(clock.now() + 0.01)
        await server.aclose(abort=True)
        with raises(OSError, match=r"reset|closed"):
            await writing


# A timeout cancels a read; bytes that it had taken already would be missing from the next message.
async def _a_cancelled_read_loses_nothing(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        reading = asyncio.create_task(server.read(10))
        await clock.sleep_until(clock.now())
        reading.cancel()
        with raises(asyncio.CancelledError):
            await reading
        await client.write(b"here")
        assert await read_exactly(server, 4) == b"here"


def check_stream(run: Run) -> None:
    """Raise `AssertionError` unless the streams of the world that `run` makes are `Stream`s."""
    run(_bytes_arrive_in_order_both_ways)
    run(_a_read_returns_no_more_than_asked)
    run(_closing_is_the_end_of_file_after_what_was_written)
    run(_aborting_resets_the_peer)
    run(_a_reader_who_waits_learns_of_a_reset)
    run(_writing_after_closing_is_an_error)
    run(_closing_twice_is_allowed)
    run(_writing_to_a_peer_who_has_gone_fails_in_the_end)
    run(_a_writer_waits_for_a_reader_who_is_slow)
    run(_a_writer_who_waits_learns_of_a_reset)
    run(_a_cancelled_read_loses_nothing)
