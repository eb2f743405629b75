"""A client that says exactly what a test wants to a fake deployment, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from bson import Binary, Int64

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.deployment.doors import Door
from harness.sim import run_virtual
from mongowire.connection import Envelope, Message, Signal, WireConnection
from mongowire.messages import DocumentSequence, OpMsg
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fakeserver.deployment.cluster import Cluster, Node
    from mongowire.compression import Compressor
    from mongowire.ports import Clock, Network, Rng, Stream

Scenario: TypeAlias = "Callable[[Deployment], Coroutine[Any, Any, None]]"

STANDALONE = ClusterSpec.standalone()
REPLICA_SET = ClusterSpec.replica_set(3)
LATENCY = 0.0005


def lsid(number: int = 1) -> dict[str, Any]:
    """Return the `lsid` of a session."""
    return {"id": Binary(bytes([number]) * 16, 4)}


def retryable_insert(_id: int, *, txn_number: int, session: int = 1, **more: Any) -> dict[str, Any]:
    """Return an insert of one document, as a driver that retries writes sends it."""
    insert = {"insert": "c", "documents": [{"_id": _id}], "$db": "db"}
    return {**insert, "lsid": lsid(session), "txnNumber": Int64(txn_number), **more}


@dataclass(frozen=True)
class World:
    """The three ports of one run."""

    clock: Clock
    rng: Rng
    network: Network


class Talker:
    """One connection. `command` returns the reply, `None` when the server hung up instead."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._wire = WireConnection()
        self._next_id = 100

    async def send(
        self,
        message: Message | dict[str, Any],
        *,
        compressor: Compressor | None = None,
        **flags: Any,
    ) -> int:
        """Send a message, a dictionary as OP_MSG, and return its request id."""
        self._next_id += 1
        if isinstance(message, dict):
            message = OpMsg.of(message if "$db" in message else {**message, "$db": "admin"}, **flags)
        data = self._wire.send(message, request_id=self._next_id, compressor=compressor)
        await self._stream.write(data)
        return self._next_id

    async def send_bytes(self, data: bytes) -> None:
        """Send anything."""
        await self._stream.write(data)

    async def rest(self) -> bytes:
        """Return all that the server sends, in whatever language, until it hangs up."""
        received = b""
        try:
            while piece := await self._stream.read(65536):
                received += piece
        except ConnectionResetError:
            pass  # it hung up before it had read all
        return received

    async def receive(self) -> Envelope | None:
        """Return the next message, `None` at the end of the connection."""
        while True:
            found = self._wire.next_message()
            if isinstance(found, Envelope):
                return found
            if found is Signal.END_OF_FILE:
                return None
            try:
                self._wire.receive_data(await self._stream.read(65536))
            except ConnectionResetError:
                return None

    async def reply(self) -> dict[str, Any] | None:
        """Return the next message's document."""
        envelope = await self.receive()
        return None if envelope is None else envelope.parse().decode()

    async def command(self, command: dict[str, Any], **how: Any) -> dict[str, Any] | None:
        """Send a command (on `admin` unless it says otherwise) and return the reply."""
        await self.send(command, **how)
        return await self.reply()

    async def ok(self, command: dict[str, Any], **how: Any) -> dict[str, Any]:
        """Run a command that must succeed."""
        reply = await self.command(command, **how)
        assert reply is not None
        assert reply["ok"] == 1.0, reply
        return reply

    async def fails(self, command: dict[str, Any], **how: Any) -> dict[str, Any]:
        """Run a command that must fail, and return the reply."""
        reply = await self.command(command, **how)
        assert reply is not None
        assert reply["ok"] == 0.0, reply
        return reply

    async def aclose(self) -> None:
        """Leave."""
        await self._stream.aclose()


@dataclass
class Deployment:
    """A running deployment and its world; `connect` opens connections that are closed at the end."""

    world: World
    cluster: Cluster
    talkers: list[Talker]

    @classmethod
    async def start(cls, world: World, spec: ClusterSpec) -> Self:
        starting = fakeserver.start(spec, network=world.network, clock=world.clock, rng=world.rng)
        return cls(world, await starting, [])

    @property
    def primary(self) -> Node:
        found = self.cluster.primary
        assert found is not None
        return found

    @property
    def secondary(self) -> Node:
        return next(node for node in self.cluster.nodes if not node.is_primary)

    async def connect(self, node: Node | None = None, door: Door = Door.MAIN) -> Talker:
        """Open a connection to a port of `node`, the first one where none is named."""
        server = node or self.cluster.nodes[0]
        address = server.address if door is Door.MAIN else server.doors.addresses[door]
        host, _, port = address.rpartition(":")
        stream = await self.world.network.connect(host, int(port), deadline=self.world.clock.now() + 10)
        talker = Talker(stream)
        self.talkers.append(talker)
        return talker

    async def configure(self, name: str, mode: Any, *, node: Node | None = None, **data: Any) -> None:
        """Configure a fail point, as a client would, on a connection of its own."""
        talker = await self.connect(node)
        command = {"configureFailPoint": name, "mode": mode}
        await talker.ok(command | ({"data": data} if data else {}))

    async def fail_command(self, mode: Any, *commands: str, node: Node | None = None, **data: Any) -> None:
        """Configure `failCommand`."""
        await self.configure("failCommand", mode, node=node, failCommands=list(commands), **data)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await self.world.clock.sleep_until(self.world.clock.now() + seconds)

    async def aclose(self) -> None:
        for talker in self.talkers:
            await talker.aclose()
        await self.cluster.stop()


def play(scenario: Scenario, spec: ClusterSpec = REPLICA_SET) -> None:
    """Run a scenario against a new deployment."""
    run_virtual(_main(scenario, spec))


def play_live(scenario: Scenario, spec: ClusterSpec = REPLICA_SET) -> None:
    """Run a scenario on the wall clock, over TCP."""
    asyncio.run(_main(scenario, spec)(World(SystemClock(), SeededRng(0), TcpNetwork())))


def _main(scenario: Scenario, spec: ClusterSpec) -> Callable[[Any], Coroutine[Any, Any, None]]:
    async def main(world: World) -> None:
        deployment = await Deployment.start(world, spec)
        try:
            await scenario(deployment)
        finally:
            await deployment.aclose()

    return main


__all__ = [
    "LATENCY",
    "REPLICA_SET",
    "STANDALONE",
    "Deployment",
    "DocumentSequence",
    "Talker",
    "lsid",
    "play",
    "play_live",
    "retryable_insert",
]
