"""What stands between a network and its servers keeps the contracts of both, and is late as it is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from harness.sim import World, run_virtual
from harness.testing.listener import check_listener
from harness.testing.network import check_network
from harness.testing.peers import listening, read_exactly
from harness.testing.stream import check_stream
from harness.testing.worlds import run_in_memory, run_in_system
from harness.world.disturbed import DisturbedNetwork, command_name
from harness.world.schedule import parse
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from harness.testing.peers import AcceptedStreams
    from harness.testing.worlds import Run, Scenario
    from harness.world.schedule import Disturbance
    from mongowire.ports import Clock, Network, Stream


class AnyPort(dict[int, str]):
    """Calls the server on every port by one name."""

    def get(self, _port: int, _default: object = None) -> str:
        return "node0"


def disturbed(run: Run, schedule: str) -> Run:
    """Return what runs a scenario on a network on which a schedule is carried out."""

    def run_disturbed(scenario: Scenario) -> None:
        async def main(clock: Clock, network: Network) -> None:
            around = DisturbedNetwork(network, clock)
            with around.disturbed(parse(schedule), AnyPort()):
                await scenario(clock, around)

        run(main)

    return run_disturbed


@pytest.mark.parametrize("check", [check_network, check_listener, check_stream])
@pytest.mark.parametrize("run", [run_in_memory, run_in_system])
@pytest.mark.parametrize("schedule", ["", "to:node0=1ms from:node0=2ms"])
def test_a_disturbed_network_is_a_network(check: Callable[[Run], None], run: Run, schedule: str) -> None:
    check(disturbed(run, schedule))


# Packets. A link takes half a millisecond one way, so an answer takes one, and so does a connection.


class Here:
    """A world with a disturbed network and one server on it, `node0`."""

    def __init__(
        self,
        world: World,
        disturbance: Disturbance,
        network: Network,
        accepted: AcceptedStreams,
        address: tuple[str, int],
    ) -> None:
        self.clock = world.clock
        self.disturbance = disturbance
        self.accepted = accepted
        self._network = network
        self._address = address

    async def connect(self) -> tuple[Stream, Any]:
        client = await self._network.connect(*self._address, deadline=10)
        return client, await self.accepted.next()

    def since(self, instant: float) -> float:
        """Return the milliseconds that have gone by."""
        return round((self.clock.now() - instant) * 1000, 6)


def with_schedule(schedule: str, main: Callable[[Here], Coroutine[Any, Any, Any]]) -> Any:
    async def run(world: World) -> Any:
        network = DisturbedNetwork(world.network, world.clock)
        async with listening(network) as (listener, accepted):
            with network.disturbed(parse(schedule), {listener.address[1]: "node0"}) as disturbance:
                return await main(Here(world, disturbance, network, accepted, listener.address))

    return run_virtual(run)


async def exchange(here: Here, client: Stream, server: Stream) -> tuple[float, float]:
    """Return how many milliseconds a packet takes to the server, and its answer from there."""
    began = here.clock.now()
    await client.write(b"ask")
    await read_exactly(server, 3)
    there = here.since(began)
    await server.write(b"answer")
    await read_exactly(client, 6)
    return there, round(here.since(began) - there, 6)


@pytest.mark.parametrize(
    ("schedule", "first", "second"),
    [
        ("", [(0.5, 0.5), (0.5, 0.5)], [(0.5, 0.5), (0.5, 0.5)]),
        ("to:node0=20ms", [(20.5, 0.5), (20.5, 0.5)], [(20.5, 0.5), (20.5, 0.5)]),
        ("from:node0:2=5ms", [(0.5, 0.5), (0.5, 0.5)], [(0.5, 5.5), (0.5, 5.5)]),
        ("to:node0:1:2=10ms", [(0.5, 0.5), (10.5, 0.5)], [(0.5, 0.5), (0.5, 0.5)]),
        ("from:node0=1ms from:node0:1=2ms from:node0:1:1=5ms", [(0.5, 8.5), (0.5, 3.5)], [(0.5, 1.5)] * 2),
        ("to:node1=20ms", [(0.5, 0.5), (0.5, 0.5)], [(0.5, 0.5), (0.5, 0.5)]),
    ],
)
def test_packets_are_late_by_server_connection_and_number(
    schedule: str, first: list[tuple[float, float]], second: list[tuple[float, float]]
) -> None:
    async def main(here: Here) -> list[list[tuple[float, float]]]:
        return [
            [await exchange(here, *ends), await exchange(here, *ends)]
            for ends in [await here.connect(), await here.connect()]
        ]

    assert with_schedule(schedule, main) == [first, second]


def test_nothing_overtakes_a_packet_that_is_late() -> None:
    async def main(here: Here) -> float:
        client, server = await here.connect()
        began = here.clock.now()
        await client.write(b"late")
        await client.write(b"punctual")
        assert await read_exactly(server, 12) == b"latepunctual"
        return here.since(began)

    assert with_schedule("to:node0:1:1=10ms", main) == 10.5


def test_what_a_server_wrote_before_it_closed_arrives_late_but_whole() -> None:
    async def main(here: Here) -> float:
        client, server = await here.connect()
        began = here.clock.now()
        await server.write(b"farewell")
        await server.aclose()
        assert await read_exactly(client, 8) == b"farewell"
        assert await client.read(1) == b""
        return here.since(began)

    assert with_schedule("from:node0=10ms", main) == 10.5


def test_a_server_hears_what_came_before_its_client_left_and_then_that_it_left() -> None:
    async def main(here: Here) -> float:
        client, server = await here.connect()
        began = here.clock.now()
        await client.write(b"last words")
        await client.aclose()
        assert await read_exactly(server, 10) == b"last words"
        assert await server.read(1) == b""
        return here.since(began)

    assert with_schedule("to:node0=10ms", main) == 10.5


def test_a_reset_overtakes_what_is_late() -> None:
    async def main(here: Here) -> float:
        client, server = await here.connect()
        began = here.clock.now()
        await server.write(b"never heard")
        await server.aclose(abort=True)
        with pytest.raises(ConnectionResetError):
            await client.read(1)
        return here.since(began)

    assert with_schedule("from:node0=10ms", main) == 0.5


def test_connections_of_before_are_neither_late_nor_counted() -> None:
    async def run(world: World) -> list[tuple[float, float]]:
        network = DisturbedNetwork(world.network, world.clock)
        async with listening(network) as (listener, accepted):
            port = listener.address[1]
            early = await network.connect(*listener.address, deadline=10), await accepted.next()
            with network.disturbed(parse("to:node0:1=10ms"), {port: "node0"}) as disturbance:
                here = Here(world, disturbance, network, accepted, listener.address)
                late = await here.connect()
                during = [await exchange(here, *early), await exchange(here, *late)]
            return [*during, await exchange(here, *late)]

    assert run_virtual(run) == [(0.5, 0.5), (10.5, 0.5), (0.5, 0.5)]


def test_what_a_perturbation_met_is_told_by_the_names_of_commands() -> None:
    async def main(here: Here) -> list[str]:
        client, server = await here.connect()
        for command in ("hello", "insert", "insert"):
            await client.write(WireConnection().send(OpMsg.of({command: 1}), request_id=1))
            await server.read(1000)
            await server.write(b"an answer")
            await client.read(1000)
        return list(here.disturbance.effects())

    assert with_schedule("to:node0=1ms from:node0:1:2=5ms from:node0:2=5ms seeds=1,0", main) == [
        "seeds=1,0",
        "to:node0=1ms  hello, insert x 2",
        "from:node0:1:2=5ms  reply to insert",
    ]


@pytest.mark.parametrize("packet", [b"", b"\0" * 15, b"\x16\x03\x01" + b"\0" * 40, b"x" * 200])
def test_what_is_no_command_has_no_name(packet: bytes) -> None:
    assert command_name(packet) == ""


# Tasks.


def starts(schedule: str, *names: str) -> list[tuple[str, float]]:
    """Return the order in which tasks begin, each with its instant in milliseconds."""
    begun: list[tuple[str, float]] = []

    async def main(here: Here) -> None:
        async def begin(name: str) -> None:
            begun.append((name, here.since(0)))

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(begin(name))

    with_schedule(schedule, main)
    return begun


def test_tasks_begin_in_their_order_unless_they_are_late() -> None:
    assert starts("", "a", "b", "c") == [("a", 0), ("b", 0), ("c", 0)]
    assert starts("start:1=0ms", "a", "b", "c") == [("b", 0), ("c", 0), ("a", 0)]
    assert starts("start:2=5ms start:1=10ms", "a", "b", "c") == [("c", 0), ("b", 5), ("a", 10)]


def test_a_task_that_is_cancelled_before_it_begins_leaves_nothing_behind() -> None:
    async def main(here: Here) -> None:
        async def never() -> None:
            raise AssertionError

        at_once = asyncio.create_task(never())
        waiting = asyncio.create_task(never())
        at_once.cancel()
        await here.clock.sleep_until(here.clock.now() + 0.001)
        waiting.cancel()
        await asyncio.wait({at_once, waiting})
        assert at_once.cancelled()
        assert waiting.cancelled()

    with_schedule("start:1=5ms start:2=5ms", main)


def test_a_late_task_has_its_result_and_its_name() -> None:
    async def main(here: Here) -> None:
        async def seven() -> int:
            return 7

        task = asyncio.create_task(seven(), name="seven")
        assert (await task, task.get_name(), here.since(0)) == (7, "seven", 5)
        assert list(here.disturbance.effects()) == [f"start:1=5ms  {seven.__qualname__}"]

    with_schedule("start:1=5ms", main)


def test_tasks_of_servers_are_not_counted() -> None:
    async def main(here: Here) -> float:
        server: dict[str, Any] = {"__name__": "fakeserver.deployment.node"}
        exec("async def work(): pass", server)
        await asyncio.create_task(server["work"]())
        return here.since(0)

    assert with_schedule("start:1=5ms", main) == 0


def test_the_loop_is_left_as_it_was() -> None:
    async def run(world: World) -> None:
        loop, network = asyncio.get_running_loop(), DisturbedNetwork(world.network, world.clock)
        with network.disturbed(parse("start:1=5ms"), {}):
            assert loop.get_task_factory() is not None
        assert loop.get_task_factory() is None

    run_virtual(run)
