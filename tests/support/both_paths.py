"""Two deployments that are asked the same: one walks the paths it has worked out, one every stage."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fakeserver import ClusterSpec, start
from fakeserver.network.connection import Connection
from harness.world.virtual import run_virtual
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node
    from harness.world.virtual import World

SPECS = {
    "standalone": ClusterSpec.standalone(),
    "replica set": ClusterSpec.replica_set(3, profile="9.0"),
    "sharded": ClusterSpec.sharded(),
}


_LAG = 0.003
"""The seconds by which secondaries are behind, so that concerns have something to wait for."""


@dataclass(frozen=True)
class Send:
    """Some clients' messages, one after the other: a connection's number, and what it sends."""

    connection: int
    message: bytes
    times: int = 1


@dataclass(frozen=True)
class Rule:
    """A rule for a command, or none any more."""

    rule: Mapping[str, Any] | None


@dataclass(frozen=True)
class Pass:
    """The passing of time, in seconds."""

    seconds: float


Event: TypeAlias = Send | Rule | Pass


@dataclass(frozen=True)
class Heard:
    """What can be seen of a deployment afterwards."""

    replies: list[tuple[int, float, bytes]]
    journal: str
    entries: list[tuple[Any, ...]]
    statistics: list[dict[str, Any]]


class _Client(asyncio.Transport):
    """A connection without a socket: it hears replies, and opens another one when it is closed."""

    def __init__(self, number: int, node: Node, heard: list[tuple[int, float, bytes]]) -> None:
        super().__init__()
        self._number, self._node, self._heard = number, node, heard
        self._open()

    def _open(self) -> None:
        self.protocol = Connection(self._node)
        self.protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", self._number) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._heard.append((self._number, self._node.clock.now(), bytes(data)))

    def close(self) -> None:
        self._heard.append((self._number, self._node.clock.now(), b"closed"))
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
        if not self._node.refuses:
            self._open()

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        """Deliver all the same: nothing here is large."""

    def resume_reading(self) -> None:
        """Deliver."""


def observe(topology: str, events: Sequence[Event], *, compiled: bool) -> Heard:
    """Send messages to a deployment in virtual time and return what can be seen of it."""

    async def main(world: World) -> Heard:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock, "rng": world.rng}
        async with start(SPECS[topology], **ports) as cluster:
            for node in cluster.servers:
                node.pipeline.recompile(compiled=compiled)
                if node.shard is not None and not node.is_primary:
                    node.lag(_LAG)
            return await _play(cluster, events, world)

    return run_virtual(main)


async def _play(cluster: Cluster, events: Sequence[Event], world: World) -> Heard:
    node, heard = cluster.nodes[0], list[tuple[int, float, bytes]]()
    clients = [_Client(number, node, heard) for number in range(3)]
    for event in events:
        if isinstance(event, Send):
            for _ in range(event.times):
                clients[event.connection].protocol.data_received(event.message)
        elif isinstance(event, Pass):
            await world.clock.sleep_until(world.clock.now() + event.seconds)
        elif event.rule is not None:
            cluster.control.perform("addRule", {"rule": event.rule})
        else:
            cluster.control.perform("removeRule", {"id": "all"})
    await world.clock.sleep_until(world.clock.now() + 60.0)
    journal = cluster.journal
    seen = Heard(
        list(heard),
        journal.to_json_lines(),
        [(each.details, each.exchange) for each in journal],
        [_statistics(each) for each in cluster.servers],
    )
    for client in clients:
        with suppress(Exception):
            client.protocol.abort("the end")
    return seen


def _statistics(node: Node) -> dict[str, Any]:
    now, admission, counters = node.clock.now(), node.admission, node.counters
    return {
        "requests": admission.request_stats(now),
        "queues": admission.queues(now, mongos=node.is_mongos),
        "flow": admission.flow.stats(),
        "commands": counters.by_command(),
        "opcounters": counters.opcounters(),
        "documents": counters.by_document(),
        "network": counters.network(),
        "sessions": len(node.sessions),
        "fail points": {each.name: each.times_entered for each in node.fail_points},
        "log": [line for line in node.log.lines if "Slow query" in line],
    }


def message(command: Mapping[str, Any], **parts: Any) -> bytes:
    """Return a command as the bytes of an OP_MSG with flags or sequences."""
    return WireConnection().send(OpMsg.of(command, **parts), request_id=7)
