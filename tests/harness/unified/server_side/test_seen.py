"""The record of the wire as connections and requests."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from harness.unified.server_side.seen import connections_of, requests_of
from mongowire.connection import Envelope, WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from fakeserver.network.wire_entries import Entry


def envelope(request_id: int, response_to: int = 0, **document: Any) -> Envelope:
    wire = WireConnection()
    wire.receive_data(wire.send(OpMsg.of(document), request_id=request_id, response_to=response_to))
    found = wire.next_message()
    assert isinstance(found, Envelope)
    return found


def received(seq: int, connection: int, request_id: int, **document: Any) -> Received:
    return Received(seq, seq / 10, connection, envelope(request_id, **document), "primary")


def sent(seq: int, connection: int, response_to: int, **document: Any) -> Sent:
    return Sent(seq, seq / 10, connection, envelope(99, response_to, **document))


def hello(seq: int, connection: int, name: str) -> Received:
    return received(seq, connection, seq, hello=1, client={"application": {"name": name}})


def test_a_request_has_its_reply_and_the_application_of_its_connection() -> None:
    entries: list[Entry] = [
        Accepted(1, 0.1, 1, "node0", "a:1"),
        hello(2, 1, "app"),
        sent(3, 1, 2, ok=1),
        received(4, 1, 40, find="stock"),
        sent(6, 1, 40, ok=0, code=462),
    ]
    (connection,) = connections_of(entries)
    _, found = connection.requests
    assert (found.name, found.reply, found.app_name) == ("find", {"ok": 0, "code": 462}, "app")
    assert (found.server, found.role, found.accepted) == ("node0", "primary", 0.1)
    assert (found.at, found.end, found.ended, found.ended_seq) == (0.4, "reply", 0.6, 6)


def test_a_request_without_a_reply_ends_with_its_connection() -> None:
    entries: list[Entry] = [Accepted(1, 0.1, 1, "node0", "a:1"), received(2, 1, 20, find="stock")]
    (still,) = requests_of(connections_of(entries))
    assert (still.end, still.ended) == ("open", inf)
    entries += [Closed(3, 0.3, 1, "server"), Closed(4, 0.4, 1, "client")]
    (lost,) = requests_of(connections_of(entries))
    assert (lost.end, lost.ended) == ("server", 0.3)


def test_the_first_reply_of_a_stream_is_the_reply() -> None:
    entries: list[Entry] = [
        Accepted(1, 0.1, 1, "n", "a:1"),
        received(2, 1, 20, hello=1),
        sent(3, 1, 20, n=1),
        sent(4, 1, 20, n=2),
    ]
    (found,) = requests_of(connections_of(entries))
    assert found.reply == {"n": 1}


def test_requests_of_several_connections_are_in_the_order_of_their_arrival() -> None:
    entries: list[Entry] = [
        *(Accepted(1, 0.1, 1, "n", "a:1"), Accepted(2, 0.2, 2, "n", "a:2")),
        *(received(3, 2, 1, find="a"), received(4, 1, 1, find="b"), received(5, 2, 2, find="c")),
    ]
    assert [each.command["find"] for each in requests_of(connections_of(entries))] == ["a", "b", "c"]


def test_the_harnesss_own_connections_and_those_accepted_before_the_record_are_left_out() -> None:
    entries: list[Entry] = [
        *(Accepted(1, 0.1, 1, "n", "a:1"), hello(2, 1, "harness")),
        received(3, 7, 1, find="a"),
        *(Accepted(4, 0.4, 2, "n", "a:2"), hello(5, 2, "app")),
    ]
    assert [connection.number for connection in connections_of(entries)] == [2]


def test_a_message_that_is_no_document_is_kept_empty() -> None:
    broken = envelope(1)._replace(payload=b"\0")
    entries: list[Entry] = [Accepted(1, 0.1, 1, "n", "a:1"), Received(2, 0.2, 1, broken, "primary")]
    (found,) = requests_of(connections_of(entries))
    assert (found.command, found.name) == ({}, "")
