"""What a stream does over any transport is in the contract suite; here is what only its own half sees."""

from __future__ import annotations

import asyncio

import pytest

from mongowire.streams import StreamProtocol, reset


class _Transport(asyncio.Transport):
    """A transport that only remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def is_closing(self) -> bool:
        return "close" in self.asked or "abort" in self.asked

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.asked.append(f"write {len(data)}")

    def close(self) -> None:
        self.asked.append("close")

    def abort(self) -> None:
        self.asked.append("abort")

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")


def test_a_stream_that_is_not_read_asks_its_peer_to_pause_once() -> None:
    async def scenario() -> None:
        transport, stream = _Transport(), StreamProtocol()
        stream.connection_made(transport)
        for _ in range(3):
            stream.data_received(bytes(200_000))
        assert transport.asked == ["pause"]
        while sum(map(len, [await stream.read(100_000)])) and transport.asked == ["pause"]:
            pass
        assert transport.asked == ["pause", "resume"]

    asyncio.run(scenario())


def test_two_writers_both_wait_and_both_go_on() -> None:
    async def scenario() -> None:
        transport, stream = _Transport(), StreamProtocol()
        stream.connection_made(transport)
        stream.pause_writing()
        writers = [asyncio.create_task(stream.write(b"12345")) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(writer.done() for writer in writers)
        stream.resume_writing()
        async with asyncio.timeout(1):
            await asyncio.gather(*writers)
        assert transport.asked == ["write 5", "write 5"]

    asyncio.run(scenario())


def test_what_arrived_before_a_reset_can_still_be_read() -> None:
    async def scenario() -> None:
        stream = StreamProtocol()
        stream.connection_made(_Transport())
        stream.data_received(b"last words")
        stream.connection_lost(ConnectionResetError())
        assert await stream.read(100) == b"last words"
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                await stream.read(100)

    asyncio.run(scenario())


def test_a_reset_without_a_socket_is_an_abort() -> None:
    transport = _Transport()
    reset(transport)
    reset(transport)
    assert transport.asked == ["abort", "abort"]
