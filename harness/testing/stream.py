"""The contract of every `Stream`, at either end of a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.testing.peers import PATIENCE, connected, read_exactly, read_to_end
from harness.testing.verdict import raises

if TYPE_CHECKING:
    from harness.testing.worlds import Run
    from mongowire.ports import Clock, Network

_LARGE = bytes(range(256)) * 4096 * 16


async def _bytes_arrive_in_order_both_ways(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        for number in range(20):
            await client.write(b"%04d" % number)
        assert await read_exactly(server, 80) == b"".join(b"%04d" % number for number in range(20))
        await server.write(b"answer")
        assert await read_exactly(client, 6) == b"answer"


async def _a_read_returns_no_more_than_asked(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await client.write(b"abcdef")
        assert 1 <= len(await server.read(2)) <= 2
        assert 1 <= len(await server.read(2)) <= 2


async def _closing_is_the_end_of_file_after_what_was_written(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await client.write(b"last words")
        await client.aclose()
        assert await read_to_end(server) == b"last words"
        assert await server.read(10) == b""


async def _aborting_resets_the_peer(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await client.aclose(abort=True)
        with raises(ConnectionResetError):
            await server.read(10)
        with raises(OSError, match=r"reset|closed"):
            await server.write(b"too late")


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


async def _closing_twice_is_allowed(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, _):
        await client.aclose()
        await client.aclose()
        await client.aclose(abort=True)


async def _writing_to_a_peer_who_has_gone_fails_in_the_end(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        await server.aclose()
        with raises(OSError, match=r"reset|closed"):
            deadline = clock.now() + PATIENCE
            while clock.now() < deadline:
                await client.write(b"is anybody there?")
                await clock.sleep_until(clock.now() + 0.001)


async def _a_writer_waits_for_a_reader_who_is_slow(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        writing = asyncio.create_task(client.write(_LARGE))
        await clock.sleep_until(clock.now() + 0.01)
        assert not writing.done()
        assert await read_exactly(server, len(_LARGE)) == _LARGE
        await writing


async def _a_writer_who_waits_learns_of_a_reset(clock: Clock, network: Network) -> None:
    async with connected(clock, network) as (client, server):
        writing = asyncio.create_task(client.write(_LARGE))
        await clock.sleep_until(clock.now() + 0.01)
        await server.aclose(abort=True)
        with raises(OSError, match=r"reset|closed"):
            await writing


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
