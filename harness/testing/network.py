"""The contract of every `Network`.

`connect` ends in one of four ways, which callers treat differently: with a stream, refused
(`ConnectionRefusedError`, the server is down), too late (`TimeoutError`, it may be slow), or cancelled (the
client is closed). A network that let a refusal wait for the deadline would slow every failover of a test by
that time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.testing.peers import PATIENCE, listening, read_exactly, read_to_end
from harness.testing.verdict import raises

if TYPE_CHECKING:
    from harness.testing.worlds import Run
    from mongowire.ports import Clock, Network


# A protocol is the state of one connection: a factory that was called once would mix the bytes of all
# clients.
async def _each_connection_has_its_own_protocol(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, accepted):
        deadline = clock.now() + PATIENCE
        clients = [await network.connect(*listener.address, deadline=deadline) for _ in range(3)]
        servers = [await accepted.next() for _ in clients]
        for number, client in enumerate(clients):
            await client.write(b"%d" % number)
        assert sorted([await read_exactly(server, 1) for server in servers]) == [b"0", b"1", b"2"]
        assert len(set(map(id, servers))) == len(clients)
        for client in clients:
            await client.aclose()


async def _a_port_where_nobody_listens_refuses(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, _):
        address = listener.address
    with raises(ConnectionRefusedError):
        await network.connect(*address, deadline=clock.now() + PATIENCE)


# Without a try: an operation whose time is up must not open a connection that nobody waits for.
async def _a_deadline_that_has_passed_is_a_timeout(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, _):
        with raises(TimeoutError):
            await network.connect(*listener.address, deadline=clock.now())


# A connection that was accepted meanwhile is closed, or the server would count a client that is not there.
async def _connecting_can_be_cancelled(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, accepted):
        connecting = asyncio.create_task(network.connect(*listener.address, deadline=clock.now() + PATIENCE))
        await clock.sleep_until(clock.now())
        connecting.cancel()
        with raises(asyncio.CancelledError):
            await connecting
        for stream in accepted.all:
            assert await read_to_end(stream) == b""


# Configurations say `localhost` in one place and `127.0.0.1` in another, and mean one server.
async def _loopback_has_several_names(clock: Clock, network: Network) -> None:
    async with listening(network, "127.0.0.1") as (listener, accepted):
        _, port = listener.address
        client = await network.connect("localhost", port, deadline=clock.now() + PATIENCE)
        await (await accepted.next()).write(b"welcome")
        assert await read_exactly(client, 7) == b"welcome"
        await client.aclose()


def check_network(run: Run) -> None:
    """Raise `AssertionError` unless the network of the world that `run` makes is a `Network`."""
    run(_each_connection_has_its_own_protocol)
    run(_a_port_where_nobody_listens_refuses)
    run(_a_deadline_that_has_passed_is_a_timeout)
    run(_connecting_can_be_cancelled)
    run(_loopback_has_several_names)
