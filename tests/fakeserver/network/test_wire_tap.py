"""The wire tap: every message between clients and servers, in the journal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import MessageReceived, MessageSent
from fakeserver.network.wire_tap import WireTap
from harness.testing.network import check_network
from harness.world.virtual import World, run_virtual
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg
from mongowire.system import SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mongowire.ports import Clock, Network


def test_a_tapped_network_is_a_network_like_any_other() -> None:
    def run(work: Callable[[Clock, Network], Awaitable[None]]) -> None:
        async def main() -> None:
            clock = SystemClock()
            await work(clock, WireTap(TcpNetwork(), clock))

        asyncio.run(main())

    check_network(run)


def tapped(*messages: bytes, name: str = "") -> list[Any]:
    async def main(world: World) -> list[Any]:
        tap = WireTap(world.network, world.clock)
        async with fakeserver.start(
            ClusterSpec.standalone(), network=tap, clock=world.clock, rng=world.rng
        ) as cluster:
            tap.journal = cluster.journal
            (node,) = cluster.nodes
            host, port = node.address.split(":")
            tap.names = {int(port): name} if name else {}
            stream = await world.network.connect(host, int(port), deadline=world.clock.now() + 5)
            for message in messages:
                await stream.write(message)
            await stream.read(1_000_000)
            await stream.aclose()
            assert all(
                record.source == (name or node.address)
                for record in cluster.journal
                if isinstance(record.event, MessageReceived | MessageSent)
            )
            return [record.event for record in cluster.journal]

    return run_virtual(main, seed="tap")


def request(**command: Any) -> bytes:
    return WireConnection().send(OpMsg.of({**command, "$db": "admin"}), request_id=7, response_to=0)


def test_a_message_and_its_reply_stand_before_and_after_what_the_server_did() -> None:
    kinds = [event.kind for event in tapped(request(ping=1))]
    assert kinds[1:4] == ["messageReceived", "commandFinished", "messageSent"]


def test_a_message_is_told_with_its_ids_its_size_and_its_document() -> None:
    data = request(ping=1)
    received, _, sent = tapped(data)[1:4]
    assert received[1:] == (7, 0, "OP_MSG", len(data), '{"ping": 1, "$db": "admin"}')
    assert (sent.response_to, sent.text) == (7, '{"ok": 1.0}')


def test_a_server_goes_by_its_name_where_that_is_known() -> None:
    assert len(tapped(request(ping=1), name="node0")) > 2


def test_a_message_in_two_pieces_is_one_message() -> None:
    data = request(ping=1)
    assert [event.kind for event in tapped(data[:10], data[10:])].count("messageReceived") == 1


def test_a_long_document_is_kept_to_its_end() -> None:
    (received, *_) = (event for event in tapped(request(ping="x" * 9000)) if event.kind == "messageReceived")
    assert received.text.endswith('x", "$db": "admin"}')
    assert len(received.text) > 9000


def test_what_is_no_wire_protocol_is_left_to_the_server() -> None:
    kinds = [event.kind for event in tapped(b"GET / HTTP/1.1\r\n\r\n" + bytes(40))]
    assert kinds[0] == "connectionAccepted"
    assert kinds[-1] == "connectionClosed"


def test_a_document_that_cannot_be_read_is_said_to_be_so() -> None:
    broken = bytearray(request(ping=1))
    broken[16 + 5] = 255  # the length of the document
    (received, *_) = (event for event in tapped(bytes(broken)) if event.kind == "messageReceived")
    assert received.text.startswith("cannot be read: ")
