"""Faults of bytes: what a client sees, byte for byte, for each phase and effect, over both networks."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from talking import STANDALONE, Deployment, play, play_live

from fakeserver.deployment.records.events import FaultHit
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable

    from mongowire.ports import Stream

REQUEST_ID: Final = 7
LATENCY: Final = 0.0005
ROUND_TRIP: Final = 2 * LATENCY

PHASES: Final[dict[str, dict[str, Any]]] = {
    "accept": {"ping": 1},
    "handshake": {"hello": 1, "client": {}},
    "saslStart": {"saslStart": 1, "mechanism": "PLAIN", "payload": b""},
    "saslContinue": {"saslContinue": 1, "conversationId": 1, "payload": b""},
    "requestHeader": {"ping": 1},
    "requestBody": {"ping": 1},
    "beforeReply": {"ping": 1},
    "reply": {"ping": 1},
}
"""A request that comes to each phase."""

LINE: Final = ("delay", "bandwidth", "cut", "split", "reset", "halfOpen", "garbage")
EDITS: Final = ("responseTo", "length", "checksum", "truncate", "duplicate")
VALUES: Final[dict[str, Any]] = {
    "delay": "2s",
    "bandwidth": "100B/s",
    "cut": 10,
    "split": 7,
    "reset": True,
    "halfOpen": True,
    "garbage": 20,
    "responseTo": 4242,
    "length": 15,
    "checksum": "bad",
    "truncate": 3,
    "duplicate": True,
}
TABLE: Final = [
    (phase, effect) for phase in PHASES for effect in (*LINE, *EDITS) if phase != "accept" or effect in LINE
]


@dataclass
class Seen:
    """What came back: pieces with the seconds since the request, and the state of the connection."""

    pieces: list[tuple[float, bytes]]
    end: str
    ended: float

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.pieces)


def request(**command: Any) -> bytes:
    return WireConnection().send(OpMsg.of({**command, "$db": "admin"}), request_id=REQUEST_ID)


async def look(deployment: Deployment, stream: Stream, patience: float) -> Seen:
    """Read until the end, or until nothing has come for `patience` seconds."""
    clock = deployment.world.clock
    begun = clock.now()
    pieces: list[tuple[float, bytes]] = []
    end = "open"
    while True:
        try:
            async with asyncio.timeout(patience):
                data = await stream.read(1 << 20)
        except TimeoutError:
            break
        except ConnectionResetError:
            end = "reset"
            break
        if not data:
            end = "closed"
            break
        pieces.append((round(clock.now() - begun, 6), data))
    return Seen(pieces, end, round(clock.now() - begun, 6))


async def say(deployment: Deployment, data: bytes) -> Stream:
    """Send bytes on a new connection."""
    host, _, port = deployment.cluster.nodes[0].address.rpartition(":")
    world = deployment.world
    stream = await world.network.connect(host, int(port), deadline=world.clock.now() + 10)
    with suppress(ConnectionError):  # a connection may be reset before anything was said
        await stream.write(data)
    return stream


async def ask(deployment: Deployment, data: bytes, patience: float = 60.0) -> Seen:
    stream = await say(deployment, data)
    try:
        return await look(deployment, stream, patience)
    finally:
        await stream.aclose(abort=True)


def under(
    fault: dict[str, Any] | None,
    data: bytes,
    *,
    over: Callable[..., None] = play,
    patience: float = 60.0,
) -> Seen:
    """Send bytes on a new connection to a new deployment with a fault, and return what is seen."""
    seen: list[Seen] = []

    async def scenario(deployment: Deployment) -> None:
        if fault is not None:
            deployment.cluster.control.add_fault(fault)
        seen.append(await ask(deployment, data, patience))
        if fault is not None:
            events = [record.event for record in deployment.cluster.journal]
            hits = [(each.fault, each.phase) for each in events if isinstance(each, FaultHit)]
            assert hits == [("fault1", fault["at"])]

    over(scenario, STANDALONE)
    return seen[0]


def expected(phase: str, effect: str, reply: bytes, seen: Seen) -> bytes:
    """Return the bytes that a client should see, of a fault with the value of `VALUES`."""
    match effect:
        case "cut":
            return reply[:10]
        case "reset" | "halfOpen":
            return b""
        case "garbage":
            return seen.data[:20] + (b"" if phase == "reply" else reply)
        case "responseTo":
            return reply[:8] + struct.pack("<i", 4242) + reply[12:]
        case "length":
            return struct.pack("<i", 15) + reply[4:]
        case "checksum":
            head = struct.pack("<i", len(reply) + 4) + reply[4:16] + b"\1\0\0\0"
            return head + reply[20:] + seen.data[-4:]
        case "truncate":
            return struct.pack("<i", len(reply) - 3) + reply[4:-3]
        case "duplicate":
            return reply * 2
    return reply


ENDS: Final = {"cut": "closed", "reset": "reset"}


@pytest.mark.parametrize(("phase", "effect"), TABLE)
def test_a_client_in_memory_sees_exactly_the_bytes_of_a_fault(phase: str, effect: str) -> None:
    data = request(**PHASES[phase])
    reply = under(None, data).data
    seen = under({"at": phase, "times": 1, "do": {effect: VALUES[effect]}}, data)
    assert seen.data == expected(phase, effect, reply, seen)
    assert seen.end == ENDS.get(effect, "open")


# Over TCP, all rows at once: each fault is for one connection.

LIVE: Final = VALUES | {"delay": "100ms", "bandwidth": "20KB/s"}


def _judged(phase: str, effect: str, seen: Seen, reply: bytes) -> str:
    """Return what is wrong with what was seen over TCP, nothing if it is right."""
    if seen.end != ENDS.get(effect, "open"):
        return f"{phase} {effect}: {seen.end}"
    if phase == "handshake":
        return ""  # two replies to a hello differ by the time
    at = 20 if effect == "garbage" and phase != "reply" else 0
    reply = reply[:4] + seen.data[at + 4 : at + 8].ljust(4, b"\0") + reply[8:]
    wanted = expected(phase, effect, reply, seen)
    return "" if seen.data == wanted else f"{phase} {effect}: {seen.data!r} is not {wanted!r}"


@pytest.mark.slow
def test_a_client_over_tcp_sees_the_same_bytes() -> None:
    replies = {phase: under(None, request(**command)).data for phase, command in PHASES.items()}

    async def scenario(deployment: Deployment) -> None:
        streams = []
        for number, (phase, effect) in enumerate(TABLE, 1):
            fault = {"at": phase, "connection": number, "times": 1, "do": {effect: LIVE[effect]}}
            deployment.cluster.control.add_fault(fault)
            streams.append(await say(deployment, request(**PHASES[phase])))
        seen = await asyncio.gather(*(look(deployment, stream, 0.5) for stream in streams))
        for stream in streams:
            await stream.aclose(abort=True)
        judged = [
            _judged(phase, effect, each, replies[phase])
            for (phase, effect), each in zip(TABLE, seen, strict=True)
        ]
        assert [each for each in judged if each] == []

    play_live(scenario, STANDALONE)
