"""The ports on the real world keep the contracts of ports."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from typing import TYPE_CHECKING

import pytest

from harness.testing.clock import check_clock
from harness.testing.listener import check_listener
from harness.testing.network import check_network
from harness.testing.peers import PATIENCE, listening
from harness.testing.rng import check_rng
from harness.testing.stream import check_stream
from harness.testing.worlds import run_in_system
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from mongowire.ports import Clock, Network


def test_the_system_clock_is_a_clock() -> None:
    check_clock(run_in_system)


def test_seeded_dice_are_an_rng() -> None:
    check_rng(SeededRng)


def test_tcp_is_a_network() -> None:
    check_network(run_in_system)


def test_tcp_listeners_are_listeners() -> None:
    check_listener(run_in_system)


def test_tcp_streams_are_streams() -> None:
    check_stream(run_in_system)


def test_the_system_clock_shows_the_loop_s_time_and_the_real_date() -> None:
    async def scenario() -> None:
        assert abs(SystemClock().now() - asyncio.get_running_loop().time()) < PATIENCE

    asyncio.run(scenario())
    assert abs(SystemClock().utc() - time.time()) < PATIENCE


def _keep_busy(loop: asyncio.AbstractEventLoop, until: float) -> None:
    if loop.time() < until:
        loop.call_soon(_keep_busy, loop, until)


def test_waking_is_not_early_on_a_loop_whose_timers_are() -> None:
    async def scenario() -> None:
        # A busy loop calls timers early by its resolution: here, by more than the whole wait.
        loop, clock = asyncio.get_running_loop(), SystemClock()
        loop._clock_resolution = 1.0  # type: ignore[attr-defined]
        when = clock.now() + 0.002
        loop.call_soon(_keep_busy, loop, when)
        await clock.sleep_until(when)
        assert clock.now() >= when

    asyncio.run(scenario())


def test_a_host_with_two_kinds_of_address_is_reached_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        ]

    async def scenario(clock: Clock, network: Network) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
            listener = await network.listen("both.test", 0, asyncio.Protocol)
        host, port = listener.address
        assert host == "both.test"
        client = await network.connect("127.0.0.1", port, deadline=clock.now() + PATIENCE)
        await client.aclose()
        await listener.aclose()

    run_in_system(scenario)


def test_tcp_connections_do_not_wait_to_fill_packets() -> None:
    async def scenario(clock: Clock, network: Network) -> None:
        async with listening(network) as (listener, accepted):
            client = await network.connect(*listener.address, deadline=clock.now() + PATIENCE)
            for end in (client, await accepted.next()):
                sock = end._live().get_extra_info("socket")  # type: ignore[attr-defined]
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await client.aclose()

    run_in_system(scenario)


def test_a_wildcard_host_listens_on_ipv4() -> None:
    async def scenario(clock: Clock, network: Network) -> None:
        async with listening(network, "0.0.0.0") as (listener, accepted):
            client = await network.connect("127.0.0.1", listener.address[1], deadline=clock.now() + PATIENCE)
            await accepted.next()
            await client.aclose()

    run_in_system(scenario)


class _Counted(asyncio.Protocol):
    """Aborts its connection at once, and counts both ends of its life."""

    made = lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _Counted.made += 1
        assert isinstance(transport, asyncio.Transport)
        transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        _Counted.lost += 1


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_arrives_while_the_listener_closes_is_not_forgotten(turns: int) -> None:
    _Counted.made = _Counted.lost = 0

    async def scenario() -> None:
        listener = await TcpNetwork().listen("127.0.0.1", 0, _Counted)
        clients = [socket.create_connection(listener.address) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await listener.aclose()
        assert _Counted.made in {0, 3}
        await asyncio.sleep(0)
        assert _Counted.lost == _Counted.made
        for client in clients:
            client.close()

    asyncio.run(scenario())
    gc.collect()  # a transport that nobody closed says so now


def test_dice_print_as_what_makes_them_again() -> None:
    assert repr(SeededRng(7, "node0")) == "SeededRng(7, 'node0')"
