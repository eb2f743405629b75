"""The network in memory keeps the contracts of networks, and is exact."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from typing import TYPE_CHECKING

import pytest

from harness.sim import MemoryNetwork, VirtualClock, World, run_virtual
from harness.testing.listener import check_listener
from harness.testing.network import check_network
from harness.testing.peers import PATIENCE, AcceptedStreams, connected, listening, read_exactly
from harness.testing.stream import check_stream
from harness.testing.worlds import run_in_memory

if TYPE_CHECKING:
    from mongowire.ports import Clock, Network, Stream


def test_memory_is_a_network() -> None:
    check_network(run_in_memory)


def test_memory_listeners_are_listeners() -> None:
    check_listener(run_in_memory)


def test_memory_streams_are_streams() -> None:
    check_stream(run_in_memory)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def test_a_connection_takes_one_round_trip_and_so_does_an_answer() -> None:
    async def main(world: World) -> tuple[float, float]:
        listener = await world.network.listen("localhost", 0, _Echo)
        client = await world.network.connect(*listener.address, deadline=1)
        established = world.clock.now()
        await client.write(b"ping")
        assert await read_exactly(client, 4) == b"ping"
        return established, world.clock.now()

    assert run_virtual(main) == (0.001, 0.002)
    assert run_virtual(main, latency=0.25) == (0.5, 1.0)


def test_a_link_can_have_a_latency_of_its_own() -> None:
    async def main(world: World) -> list[float]:
        durations = []
        for latency in (None, 0.125):
            listener = await world.network.listen("localhost", 0, _Echo)
            if latency is not None:
                world.network.set_latency(*listener.address, latency)
            start = world.clock.now()
            await world.network.connect(*listener.address, deadline=start + 1)
            durations.append(world.clock.now() - start)
        return durations

    assert run_virtual(main) == pytest.approx([0.001, 0.25])


def test_ports_are_handed_out_in_order() -> None:
    async def main(world: World) -> list[int]:
        await world.network.listen("localhost", 40002, _Echo)
        return [(await world.network.listen("localhost", 0, _Echo)).address[1] for _ in range(3)]

    assert run_virtual(main) == [40001, 40003, 40004]


def test_a_slow_answer_to_a_connection_is_a_timeout_at_the_deadline() -> None:
    async def main(world: World) -> float:
        accepted = AcceptedStreams()
        listener = await world.network.listen("localhost", 0, accepted.factory)
        with pytest.raises(TimeoutError):
            await world.network.connect(*listener.address, deadline=0.75)
        timed_out = world.clock.now()
        with pytest.raises(ConnectionResetError):
            await (await accepted.next()).read(1)
        return timed_out

    assert run_virtual(main, latency=0.5) == 0.75


def test_jitter_never_reorders_bytes() -> None:
    async def scenario(world: World) -> None:
        async with connected(world.clock, world.network) as (client, server):
            for number in range(100):
                await client.write(b"%04d" % number)
            data = await read_exactly(server, 400)
            assert data == b"".join(b"%04d" % number for number in range(100))

    run_virtual(scenario, jitter=0.01)


class _Scripted:
    """Dice that fall as they are told, then on 0."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0) if self._numbers else 0.0

    def randbytes(self, n: int) -> bytes:
        raise AssertionError

    def spawn(self, actor: str) -> _Scripted:
        raise AssertionError


def test_what_was_delayed_delays_what_follows_it() -> None:
    async def main(world: World) -> list[float]:
        network = MemoryNetwork(world.clock, _Scripted(0.0, 0.0, 0.75), latency=0.25, jitter=1.0)
        arrivals = []
        async with connected(world.clock, network) as (client, server):
            start = world.clock.now()
            await client.write(b"delayed")
            await client.write(b"prompt")
            for size in (7, 6):
                await read_exactly(server, size)
                arrivals.append(world.clock.now() - start)
        return arrivals

    assert run_virtual(main) == [1.0, 1.0]


def test_jitter_needs_dice() -> None:
    with pytest.raises(ValueError, match="pass an Rng"):
        MemoryNetwork(VirtualClock(), jitter=0.1)


async def _trace(world: World) -> str:
    """Two hundred clients make twenty round trips each, and everything is logged."""
    log = hashlib.sha256()
    listener = await world.network.listen("localhost", 0, _Echo)

    async def client(number: int) -> None:
        dice = world.rng.spawn(f"client{number}")
        stream = await world.network.connect(*listener.address, deadline=10)
        for _ in range(20):
            await world.clock.sleep_until(world.clock.now() + dice.random() * 0.01)
            await stream.write(dice.randbytes(16))
            answer = await read_exactly(stream, 16)
            log.update(f"{world.clock.now()!r} {number} {answer.hex()}\n".encode())
        await stream.aclose()

    await asyncio.gather(*(client(number) for number in range(200)))
    return log.hexdigest()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    traces = [run_virtual(_trace, seed=seed, jitter=0.001) for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


def test_the_trace_is_the_same_on_every_version_of_python() -> None:
    recorded = "0c7b81f7086d436fd35aaf1df3b9cf2af6707f6182e328d3006fc203d40c2cb8"
    assert run_virtual(_trace, seed=1, jitter=0.001) == recorded


class _Recorder(asyncio.Protocol):
    """Logs what the transport tells it."""

    def __init__(self, *, keep_open: bool = False, fail_on: bytes = b"") -> None:
        self.log: list[object] = []
        self._keep_open = keep_open
        self._fail_on = fail_on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data == self._fail_on:
            raise RuntimeError("a bug")
        self.log.append(data)

    def eof_received(self) -> bool:
        if self._fail_on == b"EOF":
            raise RuntimeError("a bug")
        self.log.append("eof")
        return self._keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.log.append(type(exc).__name__)

    def pause_writing(self) -> None:
        self.log.append("pause")

    def resume_writing(self) -> None:
        self.log.append("resume")


async def _open(clock: Clock, network: Network, server: _Recorder) -> Stream:
    listener = await network.listen("localhost", 0, lambda: server)
    return await network.connect(*listener.address, deadline=clock.now() + PATIENCE)


async def _settle(clock: Clock) -> None:
    await clock.sleep_until(clock.now() + 1)


def test_a_protocol_that_does_not_keep_open_is_closed_at_the_end_of_file() -> None:
    async def main(world: World) -> list[object]:
        server = _Recorder()
        client = await _open(world.clock, world.network, server)
        await client.write(b"a")
        await client.aclose()
        await _settle(world.clock)
        assert server.transport.is_closing()
        return server.log

    assert run_virtual(main) == [b"a", "eof", "NoneType"]


def test_a_half_closed_connection_still_carries_the_other_way() -> None:
    async def main(world: World) -> list[object]:
        server = _Recorder(keep_open=True)
        client = await _open(world.clock, world.network, server)
        server.transport.write(b"first")
        assert server.transport.can_write_eof()
        server.transport.write_eof()
        server.transport.write_eof()
        with pytest.raises(RuntimeError, match="after write_eof"):
            server.transport.write(b"second")
        assert await read_exactly(client, 5) == b"first"
        assert await client.read(1) == b""
        await client.write(b"one way")
        await _settle(world.clock)
        return server.log

    assert run_virtual(main) == [b"one way"]


@pytest.mark.parametrize("failing", [b"poison", b"EOF"])
def test_a_failing_protocol_is_reported_and_its_peer_reset(failing: bytes) -> None:
    reports: list[dict[str, object]] = []

    async def main(world: World) -> list[object]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        server, client = _Recorder(fail_on=failing), _Recorder(keep_open=True)
        stream = await _open(world.clock, world.network, server)
        transport = stream._live()  # type: ignore[attr-defined]
        transport.set_protocol(client)
        assert transport.get_protocol() is client
        transport.write(b"poison")
        transport.write_eof()
        await _settle(world.clock)
        return list(client.log)

    assert run_virtual(main) == ["ConnectionResetError"]
    assert [str(report["exception"]) for report in reports] == ["a bug"]


def test_back_pressure_pauses_and_resumes_at_the_limits() -> None:
    async def main(world: World) -> list[object]:
        server, client = _Recorder(), _Recorder()
        stream = await _open(world.clock, world.network, server)
        stream._live().set_protocol(client)  # type: ignore[attr-defined]
        client.log = server.log
        server.transport.set_write_buffer_limits(high=10, low=4)
        assert server.transport.get_write_buffer_limits() == (4, 10)
        for piece in (b"123456", b"7890", b"more"):
            server.transport.write(piece)
        assert server.transport.get_write_buffer_size() == 14
        assert server.log == ["pause"]
        await _settle(world.clock)
        assert server.transport.get_write_buffer_size() == 0
        return list(server.log)

    assert run_virtual(main) == ["pause", b"123456", "resume", b"7890", b"more"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, (16384, 65536)),
        ({"high": 100}, (25, 100)),
        ({"low": 100}, (100, 400)),
        ({"high": 0}, (0, 0)),
    ],
)
def test_write_buffer_limits_default_as_asyncio_s_do(
    limits: dict[str, int], expected: tuple[int, int]
) -> None:
    async def main(world: World) -> tuple[int, int]:
        server = _Recorder()
        await _open(world.clock, world.network, server)
        server.transport.set_write_buffer_limits(**limits)
        with pytest.raises(ValueError, match="must be >="):
            server.transport.set_write_buffer_limits(high=1, low=2)
        return server.transport.get_write_buffer_limits()

    assert run_virtual(main) == expected


def test_a_paused_reader_gets_everything_when_it_resumes() -> None:
    async def main(world: World) -> list[object]:
        server = _Recorder()
        client = await _open(world.clock, world.network, server)
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        await client.write(b"a")
        await client.write(b"b")
        await _settle(world.clock)
        assert server.log == []
        server.transport.resume_reading()
        await _settle(world.clock)
        return server.log

    assert run_virtual(main) == [b"a", b"b"]


def test_bytes_for_a_connection_that_was_closed_are_answered_with_a_reset() -> None:
    async def main(world: World) -> list[object]:
        server = _Recorder(keep_open=True)
        client = await _open(world.clock, world.network, server)
        await client.aclose()
        await _settle(world.clock)
        server.transport.write(b"anybody?")
        await _settle(world.clock)
        server.transport.write(b"dropped without a word")
        server.transport.abort()
        server.transport.write_eof()
        return server.log

    assert run_virtual(main) == ["eof", "ConnectionResetError"]


def test_transports_say_who_is_at_either_end() -> None:
    async def main(world: World) -> None:
        server = _Recorder()
        client = await _open(world.clock, world.network, server)
        far = client._live()  # type: ignore[attr-defined]
        assert server.transport.get_extra_info("sockname") == ("localhost", 40001)
        assert server.transport.get_extra_info("peername") == ("127.0.0.1", 50001)
        assert far.get_extra_info("sockname") == server.transport.get_extra_info("peername")
        assert far.get_extra_info("peername") == server.transport.get_extra_info("sockname")
        assert server.transport.get_extra_info("socket") is None

    run_virtual(main)


def test_many_buffers_are_written_as_one() -> None:
    async def main(world: World) -> None:
        server = _Recorder()
        client = await _open(world.clock, world.network, server)
        server.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
        server.transport.write(b"")
        assert await client.read(10) == b"abc"
        with pytest.raises(TypeError, match="bytes-like"):
            server.transport.write("text")  # type: ignore[arg-type]

    run_virtual(main)


def test_the_network_works_on_the_wall_clock_too() -> None:
    from mongowire.system import SystemClock  # noqa: PLC0415 - the one test that needs it

    async def scenario() -> None:
        clock = SystemClock()
        network = MemoryNetwork(clock, latency=0.0001)
        async with connected(clock, network) as (client, server):
            await client.write(b"hello")
            assert await read_exactly(server, 5) == b"hello"

    asyncio.run(scenario())


def test_two_listeners_of_one_port_on_different_hosts_are_two() -> None:
    async def main(world: World) -> int:
        network = world.network
        ports = [(await network.listen(host, 27017, _Echo)).address for host in ("a.test", "b.test")]
        return len(set(ports))

    assert run_virtual(main) == 2


def test_connections_are_numbered_by_their_client_s_port() -> None:
    async def main(world: World) -> list[int]:
        async with listening(world.network) as (listener, accepted):
            ports = []
            for _ in itertools.repeat(None, 3):
                await world.network.connect(*listener.address, deadline=PATIENCE)
                ports.append((await accepted.next())._live().get_extra_info("peername")[1])
            return ports

    assert run_virtual(main) == [50001, 50002, 50003]
