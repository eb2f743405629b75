"""Whatever bytes a client sends, it is answered or hung up on as a server would, and nobody else notices."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import size
from threaded_server import ThreadedServer, serving
from wire import drain, mutated

from fakeserver import ClusterSpec
from mongowire.compression import Compressor
from mongowire.connection import Envelope, Message, Signal, WireConnection
from mongowire.messages import DocumentSequence, OpMsg, OpQuery, OpReply

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXAMPLES = size("packets")


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadedServer]:
    with serving(ClusterSpec.standalone()) as running:
        yield running
        assert running.reports == []


@pytest.fixture(scope="module")
def bystander(server: ThreadedServer) -> Iterator[socket.socket]:
    """Another client, who must never notice."""
    with server.connect() as sock:
        yield sock


@pytest.fixture
def client(server: ThreadedServer, bystander: socket.socket) -> Iterator[socket.socket]:
    with server.connect() as sock:
        yield sock
    _ping(bystander)
    assert server.reports == []


# Bytes.


def _framed(payload: bytes, op_code: int = 2013, *, size: int | None = None) -> bytes:
    length = 16 + len(payload) if size is None else size
    return struct.pack("<iiii", length, 77, 0, op_code) + payload


def _msg(*sections: bytes, flags: int = 0) -> bytes:
    return _framed(struct.pack("<I", flags) + b"".join(sections))


def _body(document: dict[str, Any]) -> bytes:
    return b"\0" + bson.encode(document)


def _sequence(name: str, *documents: dict[str, Any]) -> bytes:
    content = name.encode() + b"\0" + b"".join(map(bson.encode, documents))
    return b"\1" + struct.pack("<i", 4 + len(content)) + content


def _sent(message: Message, **options: Any) -> bytes:
    return WireConnection().send(message, request_id=77, **options)


_PING = _sent(OpMsg.of({"ping": 1, "$db": "admin"}))
_INSERT = {"insert": "c", "$db": "test"}


# What a client sees.


def _next_message(sock: socket.socket) -> Message | None:
    """Return the next message, None if the server closed instead."""
    wire = WireConnection()
    while (found := wire.next_message()) is Signal.NEED_DATA:
        try:
            wire.receive_data(sock.recv(65536))
        except ConnectionResetError:
            return None
    return found.parse() if isinstance(found, Envelope) else None


def _ping(sock: socket.socket) -> None:
    sock.sendall(_PING)
    reply = _next_message(sock)
    assert isinstance(reply, OpMsg)
    assert reply.decode()["ok"] == 1.0


_CLOSED_WITHOUT_A_WORD = {
    "length 0": struct.pack("<i", 0),
    "length 15": _framed(b"", size=15),
    "negative length": _framed(b"", size=-1),
    "smallest length": _framed(b"", size=-(2**31)),
    "length above the limit": _framed(b"", size=48_000_001),
    "greatest length": _framed(b"", size=2**31 - 1),
    "unknown required flag": _msg(_body({"ping": 1, "$db": "admin"}), flags=4),
    "three sequences": _msg(_body(_INSERT), _sequence("a"), _sequence("b"), _sequence("c")),
    "wrong checksum": _msg(_body({"ping": 1, "$db": "admin"}), b"\0\0\0\0", flags=1),
    "OP_INSERT": _framed(b"\0\0\0\0test.c\0" + bson.encode({}), 2002),
    "OP_UPDATE": _framed(b"\0\0\0\0test.c\0\0\0\0\0" + bson.encode({}) * 2, 2001),
    "OP_DELETE": _framed(b"\0\0\0\0test.c\0\0\0\0\0" + bson.encode({}), 2006),
    "OP_KILL_CURSORS": _framed(struct.pack("<iiq", 0, 1, 5), 2007),
    "compressed header cut": _framed(b"\0\0\0", 2012),
    "unknown compressor": _framed(struct.pack("<iiB", 2013, 5, 99) + b"abcde", 2012),
    "damaged zlib": _framed(struct.pack("<iiB", 2013, 5, 2) + b"abcde", 2012),
    "a bomb": _framed(struct.pack("<iiB", 2013, 2**31 - 1, 2) + b"abcde", 2012),
    "compressed twice": _framed(struct.pack("<iiB", 2012, 5, 0) + b"abcde", 2012),
}


@pytest.mark.parametrize("case", _CLOSED_WITHOUT_A_WORD)
def test_what_cannot_be_trusted_is_hung_up_on_without_a_word(client: socket.socket, case: str) -> None:
    client.sendall(_CLOSED_WITHOUT_A_WORD[case])
    assert _next_message(client) is None


_ANSWERED = {
    "two bodies": (_msg(_body(_INSERT), _body(_INSERT)), 40430),
    "no body": (_msg(), 40587),
    "a sequence twice": (_msg(_body(_INSERT), _sequence("documents"), _sequence("documents")), 40431),
    "unknown section": (_msg(_body(_INSERT), b"\x07"), 40432),
    "a field twice": (_msg(_body(_INSERT | {"documents": []}), _sequence("documents")), 40433),
    "no $db": (_msg(_body({"ping": 1})), 40571),
    "no BSON": (_msg(b"\0\x05\0\0\0\1"), 22),
    "BSON cut": (_msg(_body({"ping": 1})[:-2]), 22),
    "BSON of a negative size": (_msg(b"\0" + struct.pack("<i", -5) + b"\0"), 22),
    "BSON damaged inside": (_msg(b"\0\x0f\0\0\0\x02ping\0\xff\0\0\0\0"), 22),
    "an unknown command": (_msg(_body({"frobnicate": 1, "$db": "test"})), 59),
    "an empty command": (_msg(_body({})), None),
    "no flags": (_framed(b"\0\0"), None),
    "too short for a checksum": (_msg(b"\0", flags=1), 51252),
}


@pytest.mark.parametrize("case", _ANSWERED)
def test_what_can_be_framed_is_answered_and_the_connection_goes_on(client: socket.socket, case: str) -> None:
    sent, code = _ANSWERED[case]
    client.sendall(sent)
    reply = _next_message(client)
    assert isinstance(reply, OpMsg)
    document = reply.decode()
    assert document["ok"] == 0.0
    assert document["errmsg"]
    assert code is None or document["code"] == code
    _ping(client)


@pytest.mark.parametrize("case", [case for case in _ANSWERED if case != "no flags"])
def test_who_waits_for_no_reply_gets_none_to_an_invalid_message_either(
    client: socket.socket, case: str
) -> None:
    sent = bytearray(_ANSWERED[case][0])
    sent[16] |= 2
    client.sendall(sent)
    _ping(client)


def test_an_operation_that_nobody_knows_is_ignored(client: socket.socket) -> None:
    client.sendall(_framed(b"anything", 9999))
    _ping(client)


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (_sent(OpQuery("test.things", bson.encode({}))), "OP_QUERY is no longer supported"),
        (_sent(OpQuery.of("test", {"find": "c"})), "Unsupported OP_QUERY command: find"),
        (_framed(b"\0\0\0\0test.c\0" + bytes(12), 2005), "OP_GET_MORE is no longer supported"),
    ],
)
def test_legacy_operations_are_answered_in_their_own_language(
    client: socket.socket, sent: bytes, text: str
) -> None:
    client.sendall(sent)
    reply = _next_message(client)
    assert isinstance(reply, OpReply)
    document = reply.decode()
    assert text in str(document.get("errmsg", document.get("$err")))
    _ping(client)


@pytest.mark.parametrize("size", [1, 4, 15, 16, 20, len(_PING) - 1])
def test_a_client_who_leaves_inside_a_message_is_let_go(client: socket.socket, size: int) -> None:
    client.sendall(_PING[:size])
    client.shutdown(socket.SHUT_WR)
    assert _next_message(client) is None


def test_a_message_that_drips_is_answered_when_it_is_whole(
    client: socket.socket, bystander: socket.socket
) -> None:
    for byte in _PING:
        client.sendall(bytes([byte]))
    _ping(bystander)
    reply = _next_message(client)
    assert isinstance(reply, OpMsg)
    assert reply.decode()["ok"] == 1.0


def test_good_messages_before_a_bad_one_are_answered(client: socket.socket) -> None:
    client.sendall(_PING * 3 + struct.pack("<i", 3))
    received = b""
    while piece := client.recv(65536):
        received += piece
    wire = WireConnection()
    wire.receive_data(received)
    assert len(drain(wire)) == 3 + 1


# Mutations.


_SEQUENCE = DocumentSequence.of("documents", [{"_id": 1, "x": "a"}, {"x": [1, {"y": None}]}])
_GOOD = [
    _PING,
    _sent(OpMsg.of({"hello": 1, "helloOk": True, "client": {"driver": {"name": "d"}}, "$db": "admin"})),
    _sent(OpQuery.of("admin", {"isMaster": 1, "helloOk": True})),
    _sent(OpMsg.of(_INSERT, sequences=[_SEQUENCE])),
    _sent(OpMsg.of(_INSERT, sequences=[_SEQUENCE], more_to_come=True)),
    _sent(OpMsg.of(_INSERT | {"documents": [{"a": 1}]}, checksum=True)),
    _sent(OpMsg.of({"find": "c", "filter": {"x": {"$gt": 1}}, "batchSize": 1, "$db": "test"})),
    _sent(OpMsg.of({"getMore": bson.Int64(5), "collection": "c", "$db": "test"}, exhaust_allowed=True)),
    _sent(OpMsg.of({"aggregate": "c", "pipeline": [{"$match": {}}], "cursor": {}, "$db": "test"})),
    _sent(OpMsg.of({"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}}], "$db": "test"})),
    _sent(OpMsg.of({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "test"})),
    _sent(
        OpMsg.of(
            {
                "findAndModify": "c",
                "query": {"x": 1},
                "update": {"$inc": {"n": 1}},
                "lsid": {"id": bson.Binary(bytes(16), 4)},
                "txnNumber": bson.Int64(1),
                "writeConcern": {"w": 1},
                "$db": "test",
            }
        )
    ),
    *(_sent(OpMsg.of(_INSERT, sequences=[_SEQUENCE]), compressor=compressor) for compressor in Compressor),
]
_good_bytes = st.lists(st.sampled_from(_GOOD), min_size=1, max_size=3).map(b"".join)


def _survives(server: ThreadedServer, bystander: socket.socket, sent: bytes) -> None:
    """Send bytes and leave: the server sends whole messages, hangs up, and goes on serving others."""
    with server.connect() as sock:
        received = b""
        try:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(65536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # it hung up before it had read all: as good an answer as another
    wire = WireConnection()
    wire.receive_data(received.partition(b"HTTP/1.0")[0])  # for what begins like a request of HTTP
    wire.receive_data(b"")
    *replies, end = drain(wire)
    assert end is Signal.END_OF_FILE
    for reply in replies:
        assert isinstance(reply, Envelope)
        message = reply.parse()
        assert not isinstance(message, OpQuery)
        assert "ok" in message.decode()
    _ping(bystander)
    assert server.reports == []


@pytest.mark.slow
@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_mutations_of_good_messages_harm_nobody(
    server: ThreadedServer, bystander: socket.socket, data: st.DataObject
) -> None:
    _survives(server, bystander, data.draw(mutated(data.draw(_good_bytes))))


@pytest.mark.slow
@settings(max_examples=_EXAMPLES // 10)
@given(sent=st.binary(min_size=1, max_size=200))
def test_garbage_harms_nobody(server: ThreadedServer, bystander: socket.socket, sent: bytes) -> None:
    _survives(server, bystander, sent)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcxy"), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=_EXAMPLES // 10)
@given(data=st.data())
def test_commands_whose_fields_have_any_value_harm_nobody(
    server: ThreadedServer, bystander: socket.socket, data: st.DataObject
) -> None:
    wire = WireConnection()
    wire.receive_data(data.draw(st.sampled_from(_GOOD)))
    envelope = wire.next_message()
    assert isinstance(envelope, Envelope)
    message = envelope.parse()
    document = message.decode()
    for key in sorted(data.draw(st.sets(st.sampled_from(sorted(document)), min_size=1))):
        document[key] = data.draw(_values)
    again = OpQuery.of("admin", document) if isinstance(message, OpQuery) else OpMsg.of(document)
    _survives(server, bystander, _sent(again))
