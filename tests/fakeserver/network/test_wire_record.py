"""The record of what clients did to servers."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from fakeserver.network.wire_record import WireRecord
from harness.testing.network import check_network
from harness.world.virtual import World, run_virtual
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg
from mongowire.system import SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeserver.network.wire_entries import Entry
    from mongowire.ports import Clock, Network, Stream


def test_a_recorded_network_is_a_network_like_any_other() -> None:
    def run(work: Callable[[Clock, Network], Awaitable[None]]) -> None:
        async def main() -> None:
            clock = SystemClock()
            record = WireRecord(TcpNetwork(), clock, count(1).__next__)
            record.begin()
            await work(clock, record)

        asyncio.run(main())

    check_network(run)


def request(**command: Any) -> bytes:
    return WireConnection().send(OpMsg.of({**command, "$db": "admin"}), request_id=7, response_to=0)


def recorded(
    play: Callable[[WireRecord, Stream, World], Awaitable[None]], spec: ClusterSpec | None = None
) -> list[Entry]:
    async def main(world: World) -> list[Entry]:
        record = WireRecord(world.network, world.clock, count(1).__next__)
        async with fakeserver.start(
            spec or ClusterSpec.replica_set(2), network=record, clock=world.clock, rng=world.rng
        ) as cluster:
            record.begin()
            host, port = cluster.uri.split("//")[1].split("/")[0].split(",")[0].split(":")
            stream = await world.network.connect(host, int(port), deadline=world.clock.now() + 5)
            await play(record, stream, world)
            await world.clock.sleep_until(world.clock.now() + 1)
            record.end()
            return record.entries

    return run_virtual(main, seed="record")


async def ping(record: WireRecord, stream: Stream, world: World) -> None:
    await stream.write(request(ping=1))
    await stream.read(1_000_000)
    await stream.aclose()


def test_a_connection_and_its_messages_are_kept_in_order_with_their_documents() -> None:
    accepted, received, sent, closed = recorded(ping)
    assert isinstance(accepted, Accepted)
    assert (accepted.connection, accepted.server) == (1, "node0")
    assert isinstance(received, Received)
    assert (received.role, received.envelope.parse().decode()) == ("primary", {"ping": 1, "$db": "admin"})
    assert isinstance(sent, Sent)
    assert sent.envelope.response_to == received.envelope.request_id == 7
    assert sent.envelope.parse().decode()["ok"] == 1
    assert isinstance(closed, Closed)
    assert closed.by == "client"
    assert [entry.seq for entry in (accepted, received, sent, closed)] == [1, 2, 3, 4]
    assert received.at == sent.at == pytest.approx(accepted.at + 0.001)


def test_a_server_that_closes_is_said_to_have_closed() -> None:
    async def play(record: WireRecord, stream: Stream, world: World) -> None:
        await stream.write(b"\0" * 16)
        assert await stream.read(1_000_000) == b""

    assert [(type(entry).__name__, getattr(entry, "by", "")) for entry in recorded(play)] == [
        ("Accepted", ""),
        ("Closed", "server"),
    ]


def test_what_happens_while_it_is_off_is_not_kept() -> None:
    async def play(record: WireRecord, stream: Stream, world: World) -> None:
        record.end()
        await ping(record, stream, world)

    assert [type(entry) for entry in recorded(play)] == [Accepted]


def test_after_a_new_beginning_older_connections_are_not_taken_for_those_with_their_numbers() -> None:
    async def main(world: World) -> list[tuple[str, int]]:
        record = WireRecord(world.network, world.clock, count(1).__next__)
        async with fakeserver.start(
            ClusterSpec.standalone(), network=record, clock=world.clock, rng=world.rng
        ) as cluster:
            host, port = cluster.node("node0").address.split(":")
            record.begin()
            older = await world.network.connect(host, int(port), deadline=world.clock.now() + 5)
            record.begin()
            newer = await world.network.connect(host, int(port), deadline=world.clock.now() + 5)
            await ping(record, older, world)
            await world.clock.sleep_until(world.clock.now() + 1)
            kept = [(type(entry).__name__, entry.connection) for entry in record.entries]
            await newer.aclose()
            return kept

    assert run_virtual(main, seed="record") == [("Accepted", 1)]


def test_a_connection_through_a_load_balancer_is_with_the_mongos_behind_it() -> None:
    entries = recorded(ping, ClusterSpec.load_balanced(mongos=2))
    assert [(entry.server) for entry in entries if isinstance(entry, Accepted)] == ["mongos0"]
    assert [(entry.role) for entry in entries if isinstance(entry, Received)] == ["mongos"]
