"""The contract of every `Listener`.

A fake server listens on ports that the system chooses and announces them in its replies, so that a driver
connects to where `address` says. When it is restarted it needs the same port again, because drivers know it
by that; and when it stops accepting, connections that it has stay, as those of a server that steps down or
drains do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.testing.peers import PATIENCE, AcceptedStreams, listening, read_exactly
from harness.testing.verdict import raises

if TYPE_CHECKING:
    from harness.testing.worlds import Run
    from mongowire.ports import Clock, Network


# Fixed ports would collide between tests that run side by side. The name stays what was asked for, because
# a host in a reply has to be the one in the connection string.
async def _port_zero_takes_a_free_port_and_says_which(clock: Clock, network: Network) -> None:
    async with listening(network) as (first, _), listening(network) as (second, _):
        assert first.address[0] == second.address[0] == "localhost"
        assert 0 < first.address[1] < 65536
        assert first.address != second.address


# Two servers on one port would share its clients at random, where a system allows it.
async def _a_taken_port_is_refused(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, _):
        with raises(OSError, match="in use"):
            await network.listen(*listener.address, AcceptedStreams().factory)


# A member that is killed and started again; connections of its former life may still be closing.
async def _a_port_can_be_taken_again_after_closing(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, _):
        address = listener.address
    again = await network.listen(*address, AcceptedStreams().factory)
    assert again.address == address
    await again.aclose()


# At once refused, not after a timeout: drivers tell a server that is down by it, and quickly.
async def _after_closing_nobody_answers(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, _):
        await listener.aclose()
        with raises(ConnectionRefusedError):
            await network.connect(*listener.address, deadline=clock.now() + PATIENCE)
        await listener.aclose()


async def _closing_keeps_what_was_accepted(clock: Clock, network: Network) -> None:
    async with listening(network) as (listener, accepted):
        client = await network.connect(*listener.address, deadline=clock.now() + PATIENCE)
        server = await accepted.next()
        await listener.aclose()
        await client.write(b"still here")
        assert await read_exactly(server, 10) == b"still here"
        await client.aclose()


def check_listener(run: Run) -> None:
    """Raise `AssertionError` unless the listeners of the world that `run` makes are `Listener`s."""
    run(_port_zero_takes_a_free_port_and_says_which)
    run(_a_taken_port_is_refused)
    run(_a_port_can_be_taken_again_after_closing)
    run(_after_closing_nobody_answers)
    run(_closing_keeps_what_was_accepted)
