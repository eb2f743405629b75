"""The codec as a whole: two ends against each other, every split of the bytes, early refusals, mutations."""

from __future__ import annotations

import itertools
import struct
import zlib
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import ConnectionPair, compressors, drain, int32s, messages, mutated, splits, streams

from mongowire.compression import Compressor
from mongowire.connection import Envelope, Message, Signal, WireConnection
from mongowire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from mongowire.messages import DocumentSequence, OpMsg, OpQuery, OpReply

_PING = OpMsg.of({"ping": 1, "$db": "admin"})
_OK = OpMsg.of({"ok": 1.0})


def _sent(message: Message = _PING, **options: Any) -> bytes:
    return WireConnection().send(message, request_id=1, **options)


def test_a_request_and_its_reply() -> None:
    pair = ConnectionPair()
    request = pair.carry(pair.client, _PING, request_id=5)
    assert (request.request_id, request.response_to, request.compressor) == (5, 0, None)
    assert request.wire_size == 16 + 5 + len(_PING.body)
    assert request.parse() == _PING
    reply = pair.carry(pair.server, _OK, request_id=9, response_to=request.request_id)
    assert (reply.request_id, reply.response_to) == (9, 5)
    assert reply.parse() == _OK


def test_the_bytes_of_a_message() -> None:
    expected = struct.pack("<iiiiI", 16 + 5 + len(_PING.body), 1, 0, 2013, 0) + b"\0" + _PING.body
    assert _sent() == expected


@pytest.mark.parametrize("compressor", list(Compressor))
def test_a_compressed_message_arrives_as_what_it_was(compressor: Compressor) -> None:
    pair = ConnectionPair()
    message = OpMsg.of({"insert": "c", "text": "again and " * 100}, checksum=True)
    arrived = pair.carry(pair.client, message, request_id=3, compressor=compressor)
    assert arrived.compressor is compressor
    assert arrived.op_code == 2013
    assert arrived.parse() == message
    assert arrived.wire_size == len(_sent(message, compressor=compressor))


@pytest.mark.slow
@given(messages, int32s, int32s, compressors)
def test_whatever_one_end_sends_the_other_receives(
    message: Message, request_id: int, response_to: int, compressor: Compressor | None
) -> None:
    pair = ConnectionPair()
    arrived = pair.carry(
        pair.client, message, request_id=request_id, response_to=response_to, compressor=compressor
    )
    assert arrived.parse() == message
    assert (arrived.request_id, arrived.response_to) == (request_id, response_to)
    assert arrived.compressor is compressor


@pytest.mark.slow
@given(st.data())
def test_messages_do_not_depend_on_how_the_bytes_were_split(data: st.DataObject) -> None:
    stream = data.draw(streams())
    whole, split = WireConnection(), WireConnection()
    whole.receive_data(stream)
    expected = drain(whole)
    arrived: list[Envelope | Signal] = []
    for piece in data.draw(splits(stream)):
        split.receive_data(piece)
        arrived += drain(split)
    assert [message for message in arrived if isinstance(message, Envelope)] == expected[:-1]
    assert arrived[-1] is Signal.NEED_DATA
    assert expected[-1] is Signal.NEED_DATA


def test_bytes_that_drip_one_by_one() -> None:
    stream = _sent() + _sent(OpQuery.of("admin", {"hello": 1})) + _sent(OpReply.of({"ok": 1}))
    connection = WireConnection()
    arrived = []
    for byte in stream:
        connection.receive_data(bytes([byte]))
        arrived += drain(connection)[:-1]
    assert [type(message.parse()) for message in arrived if isinstance(message, Envelope)] == [
        OpMsg,
        OpQuery,
        OpReply,
    ]


def test_a_large_message_in_small_pieces() -> None:
    message = OpMsg.of(
        {"insert": "c"}, sequences=[DocumentSequence("documents", (bson.encode({"x": bytes(1 << 20)}),))]
    )
    stream = _sent(message)
    connection = WireConnection()
    for start in range(0, len(stream), 16):
        assert connection.next_message() is Signal.NEED_DATA
        connection.receive_data(stream[start : start + 16])
    (arrived, _) = drain(connection)
    assert isinstance(arrived, Envelope)
    assert arrived.parse() == message


def test_messages_that_arrive_together_come_one_by_one() -> None:
    connection = WireConnection()
    connection.receive_data(b"".join(WireConnection().send(_PING, request_id=n) for n in range(50)))
    connection.receive_data(b"")
    *arrived, end = drain(connection)
    assert [message.request_id for message in arrived if isinstance(message, Envelope)] == list(range(50))
    assert end is Signal.END_OF_FILE
    assert connection.next_message() is Signal.END_OF_FILE


# Ends of files.


def test_an_end_between_messages_is_an_end() -> None:
    connection = WireConnection()
    assert connection.next_message() is Signal.NEED_DATA
    connection.receive_data(b"")
    connection.receive_data(b"")
    assert connection.next_message() is Signal.END_OF_FILE


@pytest.mark.parametrize("size", [1, 3, 4, 15, 16, 40])
def test_an_end_inside_a_message_is_an_error(size: int) -> None:
    connection = WireConnection()
    connection.receive_data(_sent()[:size])
    connection.receive_data(b"")
    with pytest.raises(RemoteProtocolError, match=f"inside a message, after {size} bytes"):
        connection.next_message()


def test_data_after_the_end_is_our_own_mistake() -> None:
    connection = WireConnection()
    connection.receive_data(b"")
    with pytest.raises(LocalProtocolError, match="after the end of file"):
        connection.receive_data(b"more")


# Early refusals.


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 15, 48_000_001, 2**31 - 1])
def test_an_invalid_length_is_refused_as_soon_as_it_is_there(size: int) -> None:
    connection = WireConnection()
    connection.receive_data(struct.pack("<i", size)[:3])
    assert connection.next_message() is Signal.NEED_DATA
    connection.receive_data(struct.pack("<i", size)[3:])
    with pytest.raises(RemoteProtocolError) as caught:
        connection.next_message()
    assert str(caught.value) == f"recv(): message msgLen {size} is invalid. Min 16 Max: 48000000"


@pytest.mark.parametrize("size", [16, 48_000_000])
def test_the_limits_themselves_are_allowed(size: int) -> None:
    connection = WireConnection()
    connection.receive_data(struct.pack("<iii", size, 1, 0))
    assert connection.next_message() is Signal.NEED_DATA


def test_the_limit_can_be_lowered() -> None:
    connection = WireConnection(max_message_size=100)
    connection.receive_data(struct.pack("<i", 101))
    with pytest.raises(RemoteProtocolError, match=r"msgLen 101 is invalid\. Min 16 Max: 100"):
        connection.next_message()


def test_a_broken_connection_stays_broken() -> None:
    connection = WireConnection()
    connection.receive_data(struct.pack("<i", 3) + _sent())
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="msgLen 3"):
            connection.next_message()
    connection.receive_data(_sent())
    with pytest.raises(RemoteProtocolError, match="msgLen 3"):
        connection.next_message()


def _compressed(op_code: int, size: int, compressor: int, data: bytes) -> bytes:
    content = struct.pack("<iiB", op_code, size, compressor) + data
    return struct.pack("<iiii", 16 + len(content), 1, 0, 2012) + content


_PAYLOAD = _PING.to_payload()


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (struct.pack("<iiii", 20, 1, 0, 2012) + b"1234", "too short for its header"),
        (_compressed(2013, len(_PAYLOAD), 9, _PAYLOAD), "not available: 9"),
        (_compressed(2012, len(_PAYLOAD), 0, _PAYLOAD), "OP_COMPRESSED inside OP_COMPRESSED"),
        (_compressed(2013, -1, 0, b""), "larger than maximum message size: -1"),
        (_compressed(2013, 47_999_985, 2, zlib.compress(b"")), "larger than maximum message size: 47999985"),
        (_compressed(2013, 10, 2, zlib.compress(bytes(10_000_000))), "another number of bytes"),
        (_compressed(2013, 10, 2, b"garbage"), "cannot decompress zlib data"),
        (_compressed(2013, 10, 1, b"garbage"), "cannot decompress snappy data"),
        (_compressed(2013, 10, 3, b"garbage"), "cannot decompress zstd data"),
    ],
)
def test_compression_that_cannot_be_trusted_breaks_the_connection(stream: bytes, text: str) -> None:
    connection = WireConnection()
    connection.receive_data(stream + _sent())
    with pytest.raises(RemoteProtocolError, match=text):
        connection.next_message()


def test_the_lowered_limit_holds_for_what_is_decompressed() -> None:
    message = OpMsg.of({"text": "a" * 1000})
    stream = _sent(message, compressor=Compressor.ZLIB)
    assert len(stream) < 200
    connection = WireConnection(max_message_size=200)
    connection.receive_data(stream)
    with pytest.raises(RemoteProtocolError, match="larger than maximum message size"):
        connection.next_message()


# Sending.


def test_what_is_too_large_is_not_sent() -> None:
    small = WireConnection(max_message_size=100)
    with pytest.raises(LocalProtocolError, match="exceeds 100 bytes"):
        small.send(OpMsg.of({"text": "a" * 100}), request_id=1)
    with pytest.raises(LocalProtocolError, match="exceeds 100 bytes"):
        small.send(OpMsg.of({"text": "a" * 100}), request_id=1, compressor=Compressor.ZLIB)


def test_a_message_that_compression_makes_too_large_is_not_sent() -> None:
    incompressible = OpMsg.of({"x": zlib.compress(bytes(range(60)))})
    exact = 16 + len(incompressible.to_payload())
    connection = WireConnection(max_message_size=exact)
    assert len(connection.send(incompressible, request_id=1)) == exact
    with pytest.raises(LocalProtocolError, match="exceeds"):
        connection.send(incompressible, request_id=1, compressor=Compressor.NOOP)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        (_PING, {"request_id": 2**31}),
        (_PING, {"response_to": -(2**31) - 1}),
        (OpMsg(b"not a document"), {}),
        (OpMsg(_PING.body, (DocumentSequence("a", (b"no",)),)), {}),
        (OpMsg(_PING.body, (DocumentSequence("a\0b", ()),)), {}),
        (OpMsg(_PING.body, (DocumentSequence("\ud800", ()),)), {}),
        (OpQuery("admin.$cmd", b""), {}),
        (OpQuery("admin.$cmd", _PING.body, skip=2**31), {}),
        (OpReply((b"",)), {}),
    ],
)
def test_what_no_peer_could_accept_is_not_sent(message: Message, options: dict[str, int]) -> None:
    ids = {"request_id": 1, "response_to": 0} | options
    with pytest.raises(LocalProtocolError):
        WireConnection().send(message, request_id=ids["request_id"], response_to=ids["response_to"])


# Peeking.


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
def test_flags_can_be_read_without_parsing(flags: tuple[bool, bool, bool]) -> None:
    more_to_come, exhaust_allowed, checksum = flags
    message = OpMsg.of(
        {"ping": 1}, more_to_come=more_to_come, exhaust_allowed=exhaust_allowed, checksum=checksum
    )
    pair = ConnectionPair()
    arrived = pair.carry(pair.client, message, request_id=1)
    assert (arrived.more_to_come, arrived.exhaust_allowed, arrived.checksum_present) == flags


@pytest.mark.parametrize(("op_code", "payload"), [(2004, b"\xff\xff\xff\xff"), (2013, b"\xff\xff")])
def test_a_message_without_flags_has_none(op_code: int, payload: bytes) -> None:
    arrived = Envelope(1, 0, op_code, payload, None, 20)
    assert (arrived.more_to_come, arrived.exhaust_allowed, arrived.checksum_present) == (False,) * 3


# Mutations.


def _understand(stream: bytes, *, end: bool) -> None:
    """Do all that can be done with bytes; only errors of the protocol may come out."""
    connection = WireConnection()
    connection.receive_data(stream)
    if end:
        connection.receive_data(b"")
    try:
        arrived = drain(connection)
    except ProtocolError as error:
        assert isinstance(error, RemoteProtocolError)  # noqa: PT017 - either outcome is right, no other is
        return
    for message in arrived[:-1]:
        assert isinstance(message, Envelope)
        _look_inside(message)


def _look_inside(envelope: Envelope) -> None:
    try:
        message = envelope.parse()
        if not isinstance(message, OpReply):
            assert isinstance(message.command_name, str)
        assert isinstance(message.decode(), dict)
    except RemoteProtocolError:
        pass


@pytest.mark.slow
@given(data=st.data(), end=st.booleans())
def test_any_mutation_of_good_bytes_gives_messages_or_a_remote_protocol_error(
    data: st.DataObject, *, end: bool
) -> None:
    _understand(data.draw(mutated(data.draw(streams()))), end=end)


@given(stream=st.binary(max_size=100), end=st.booleans())
def test_garbage_gives_messages_or_a_remote_protocol_error(stream: bytes, *, end: bool) -> None:
    _understand(stream, end=end)


@given(st.binary(max_size=100), st.sampled_from([1, 2004, 2012, 2013]))
def test_a_good_header_before_garbage_gives_a_message_or_a_remote_protocol_error(
    payload: bytes, op_code: int
) -> None:
    _understand(struct.pack("<iiii", 16 + len(payload), 1, 0, op_code) + payload, end=True)
