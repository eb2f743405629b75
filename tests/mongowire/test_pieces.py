"""Large messages, decoded piece by piece: the same values, in steps of a bounded size."""

from __future__ import annotations

import struct
from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mongowire import framing, pieces
from mongowire.compression import Compressor, available, compress
from mongowire.compression import pieces as inflated
from mongowire.connection import Envelope, Signal, WireConnection
from mongowire.errors import InvalidMessage, RemoteProtocolError
from mongowire.messages import DocumentSequence, OpMsg, crc32c, crc32c_in_steps, decode_document
from mongowire.pieces import PIECE_BYTES, Decoder, Unread, finish

DECODER = Decoder(lambda data, _around: decode_document(data), deepest=200)
SMALL = 64


def framed(elements: bytes) -> bytes:
    """Return elements as a document."""
    return struct.pack("<i", len(elements) + 5) + elements + b"\0"


def array(count: int, element: bytes = b"\3%d\0\5\0\0\0\0") -> bytes:
    """Return an array of so many elements, empty documents if nothing else is said."""
    return framed(b"".join(element % number for number in range(count)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=40) | st.binary(max_size=90),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=8)
    ),
    max_leaves=60,
)


@given(st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=8))
@settings(max_examples=60)
def test_a_document_is_the_same_in_pieces_of_any_size(document: dict[str, Any]) -> None:
    data = bson.encode(document)
    was = pieces.PIECE_BYTES
    pieces.PIECE_BYTES = SMALL  # type: ignore[misc]
    try:
        assert finish(DECODER.document(data)) == bson.decode(data)
    finally:
        pieces.PIECE_BYTES = was  # type: ignore[misc]


def test_a_large_document_takes_many_steps() -> None:
    data = framed(b"\4x\0" + array(50_000))
    assert sum(1 for _ in DECODER.document(data)) > len(data) // PIECE_BYTES // 2
    assert finish(DECODER.document(data)) == bson.decode(data)


def test_elements_of_the_same_name_are_two_in_an_array_and_one_in_a_document() -> None:
    elements = b"\2a\0\6\0\0\0three\0" * 20_000
    data = framed(b"\3d\0" + framed(elements) + b"\4a\0" + framed(elements))
    found = finish(DECODER.document(data))
    assert found == bson.decode(data)
    assert (len(found["d"]), len(found["a"])) == (1, 20_000)


def test_what_is_nested_too_deep_is_refused_before_it_is_decoded() -> None:
    levels = 20_000
    data = b"".join(struct.pack("<i", (levels - each) * 8 + 5) + b"\3a\0" for each in range(levels))
    with pytest.raises(InvalidMessage, match="maximum nested object depth: 200"):
        finish(DECODER.document(data + b"\5\0\0\0\0" + bytes(levels)))


@pytest.mark.parametrize(
    "elements",
    [
        b"\4x\0" + struct.pack("<i", 1 << 30) + bytes(PIECE_BYTES),
        b"\3x" + b"x" * PIECE_BYTES,
        b"\x63x\0" + bytes(PIECE_BYTES),
        b"\3x\0" + array(20_000)[:-1] + b"\1",
    ],
    ids=["longer than its document", "no end of a name", "no such type", "no end"],
)
def test_what_is_not_well_framed_is_refused(elements: bytes) -> None:
    with pytest.raises(InvalidMessage):
        finish(DECODER.document(framed(elements)))


def test_of_an_array_that_is_too_long_the_length_alone_is_kept() -> None:
    decoder = Decoder(lambda data, _around: decode_document(data), deepest=9, counted=("x", "y"), most=20_000)
    data = framed(b"\4x\0" + array(20_001) + b"\4y\0" + array(20_000) + b"\4z\0" + array(20_001))
    found = finish(decoder.document(data, top=True))
    assert type(found["x"]) is Unread
    assert (len(found["x"]), list(found["x"])) == (20_001, [])
    assert (len(list(found["y"])), len(list(found["z"]))) == (20_000, 20_001)


# Encoding.


@given(st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=8), st.integers(1, 3))
@settings(max_examples=60)
def test_a_document_is_encoded_to_the_same_bytes_in_pieces(document: dict[str, Any], at_once: int) -> None:
    was = pieces._AT_ONCE
    pieces._AT_ONCE = at_once  # type: ignore[misc]
    try:
        assert finish(pieces.encode_in_steps(document)) == bson.encode(document)
    finally:
        pieces._AT_ONCE = was  # type: ignore[misc]


def test_a_batch_is_encoded_in_many_steps() -> None:
    reply = {"cursor": {"firstBatch": [{"_id": number} for number in range(10_000)], "id": 0}, "ok": 1.0}
    assert sum(1 for _ in pieces.encode_in_steps(reply)) > 100
    assert finish(pieces.encode_in_steps(reply)) == bson.encode(reply)


# Messages.


def sequence_payload(documents: bytes) -> bytes:
    """Return an OP_MSG with a sequence of documents that stand one behind the other."""
    sequence = b"documents\0" + documents
    return bytes(5) + bson.encode({"insert": "c"}) + b"\1" + struct.pack("<i", len(sequence) + 4) + sequence


@pytest.mark.parametrize(
    "documents",
    [b"\5\0\0\0\0" * 300_000, b"\5\0\0\0\0" * 100_001, (b"\5\0\0\0\0" + bson.encode({"a": 1})) * 60_000],
    ids=["equal", "one too many", "different"],
)
def test_documents_of_a_sequence_beyond_the_limit_are_counted(documents: bytes) -> None:
    envelope = Envelope(1, 0, 2013, sequence_payload(documents), None, 0)
    message = finish(envelope.parse_in_steps(most=100_000))
    assert type(message) is OpMsg
    (sequence,) = message.sequences
    assert sequence.documents == ()
    (whole,) = envelope.parse().sequences  # type: ignore[union-attr]
    assert sequence.left_out == len(whole.documents)


@given(st.lists(st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=4), min_size=1, max_size=20))
@settings(max_examples=30)
def test_a_message_is_the_same_in_steps(documents: list[dict[str, Any]]) -> None:
    for checksum in (False, True):
        sent = OpMsg.of(
            {"insert": "c", "$db": "db"},
            sequences=[DocumentSequence.of("documents", documents)],
            checksum=checksum,
        )
        wire = WireConnection()
        wire.receive_data(WireConnection().send(sent, request_id=1))
        envelope = wire.next_message()
        assert isinstance(envelope, Envelope)
        assert finish(envelope.parse_in_steps(most=100)) == envelope.parse() == sent


def test_an_element_of_the_body_that_is_also_a_sequence_is_refused_in_steps() -> None:
    body = bson.encode({"insert": "c", "documents": []})
    payload = bytes(5) + body + b"\1" + struct.pack("<i", 14) + b"documents\0"
    with pytest.raises(InvalidMessage, match="Duplicate field between body and document sequence"):
        finish(Envelope(1, 0, 2013, payload, None, 0).parse_in_steps(most=9))


def test_a_checksum_in_steps_is_the_same() -> None:
    data = bytes(range(256)) * 1000
    assert finish(crc32c_in_steps(data, 7)) == crc32c(data, 7)


# Compression.

SIZE = 5_000_000


@pytest.mark.parametrize("name", available())
def test_what_is_inflated_piece_by_piece_is_the_same(name: str) -> None:
    compressor = Compressor.named(name)
    data = bytes(range(251)) * (SIZE // 251)
    assert b"".join(inflated(compressor, compress(compressor, data), size=len(data))) == data


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("announced", [SIZE - 1, SIZE + 1])
def test_a_size_that_is_not_the_announced_one_is_refused(name: str, announced: int) -> None:
    compressor = Compressor.named(name)
    with pytest.raises(RemoteProtocolError):
        for _ in inflated(compressor, compress(compressor, bytes(SIZE)), size=announced):
            pass


def test_damaged_data_is_refused_piece_by_piece() -> None:
    with pytest.raises(RemoteProtocolError, match="cannot decompress zlib data"):
        list(inflated(Compressor.ZLIB, b"no zlib", size=100))


def test_a_patient_connection_inflates_a_large_message_as_it_is_parsed() -> None:
    sent = OpMsg.of({"ping": 1, "$db": "admin", "text": "x" * SIZE})
    wire = WireConnection(patient=True)
    wire.receive_data(WireConnection().send(sent, request_id=1, compressor=Compressor.ZLIB))
    envelope = wire.next_message()
    assert isinstance(envelope, Envelope)
    assert len(envelope.payload) < SIZE
    assert finish(envelope.parse_in_steps(most=1)) == sent


# Sizes.


def test_the_largest_message_may_change_between_two() -> None:
    data = WireConnection().send(OpMsg.of({"ping": 1, "$db": "admin"}), request_id=1)
    wire = WireConnection()
    wire.receive_data(data)
    wire.max_message_size = len(data)
    assert wire.next_message() is not Signal.NEED_DATA
    wire.receive_data(data)
    wire.max_message_size = len(data) - 1
    with pytest.raises(RemoteProtocolError, match="msgLen"):
        wire.next_message()


def test_a_large_message_is_refused_by_its_header() -> None:
    wire = WireConnection(max_message_size=1000)
    wire.receive_data(struct.pack("<iiii", 1001, 1, 0, 2013))
    with pytest.raises(RemoteProtocolError, match="msgLen 1001 is invalid"):
        wire.next_message()


def test_elements_are_counted() -> None:
    assert finish(framing.count_elements(array(20_000), 0, len(array(20_000)))) == 20_000
