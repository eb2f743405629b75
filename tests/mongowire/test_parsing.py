"""What a server says to an OP_MSG that it cannot read, and what it makes of the legacy messages."""

from __future__ import annotations

import struct

import bson
import pytest

from mongowire.connection import Envelope
from mongowire.errors import InvalidMessage
from mongowire.messages import DocumentSequence, OpMsg, OpQuery, OpReply, crc32c

_BODY = b"\0" + bson.encode({"insert": "c", "$db": "test"})
_DOCUMENT = bson.encode({"_id": 1})


def _flags(bits: int) -> bytes:
    return struct.pack("<I", bits)


def _sequence(name: bytes, *documents: bytes) -> bytes:
    content = name + b"\0" + b"".join(documents)
    return b"\1" + struct.pack("<i", 4 + len(content)) + content


def _parse(payload: bytes, op_code: int = 2013) -> object:
    return Envelope(7, 0, op_code, payload, None, 16 + len(payload)).parse()


def _with_checksum(payload: bytes, *, off_by: int = 0) -> bytes:
    header = struct.pack("<iiii", 16 + len(payload) + 4, 7, 0, 2013)
    return payload + struct.pack("<I", crc32c(header + payload) + off_by)


_INVALID = {
    "no flags": (b"\0\0\0", 15, "flag bits", False),
    "unknown required flag": (
        _flags(4) + _BODY,
        223,
        "Message contains illegal flags value: Ob00000000000000000000000000000100",
        True,
    ),
    "three sequences": (
        _flags(0) + _BODY + _sequence(b"a") + _sequence(b"b") + _sequence(b"c"),
        233,
        "Too many document sequences in OP_MSG",
        True,
    ),
    "wrong checksum": (
        _with_checksum(_flags(1) + _BODY, off_by=1),
        288,
        "OP_MSG checksum does not match contents",
        True,
    ),
    "two bodies": (_flags(0) + _BODY + _BODY, 40430, "Multiple body sections in message", False),
    "no body": (_flags(0), 40587, "OP_MSG messages must have a body", False),
    "only a sequence": (_flags(0) + _sequence(b"a"), 40587, "OP_MSG messages must have a body", False),
    "a sequence twice": (
        _flags(0) + _BODY + _sequence(b"a") + _sequence(b"a"),
        40431,
        "Duplicate document sequence: a",
        False,
    ),
    "a field twice": (
        _flags(0) + _BODY + _sequence(b"insert", _DOCUMENT),
        40433,
        "Duplicate field between body and document sequence insert",
        False,
    ),
    "unknown kind": (_flags(0) + _BODY + b"\x09", 40432, "Unknown section kind 9", False),
    "too short for a checksum": (
        _flags(1) + b"1234",
        51252,
        "Invalid message size for an OpMsg containing a checksum",
        False,
    ),
    "body cut": (_flags(0) + _BODY[:-1], 22, "Invalid BSON object size: 33", False),
    "body without end": (_flags(0) + _BODY[:-1] + b"\1", 22, "BSON object not terminated with EOO", False),
    "body of no size": (_flags(0) + b"\0\0\0\0\0\0", 22, "Invalid BSON object size: 0", False),
    "body of a negative size": (
        _flags(0) + b"\0\xff\xff\xff\xff\0",
        22,
        "Invalid BSON object size: -1",
        False,
    ),
    "body missing": (_flags(0) + b"\0\5\0", 22, "at least 5 bytes", False),
    "sequence cut": (_flags(0) + _BODY + b"\1\x10\0", 15, "inside one of its fields", False),
    "sequence too long": (_flags(0) + _BODY + b"\1\x10\0\0\0a\0", 15, "16 bytes long", False),
    "sequence of a negative size": (_flags(0) + _BODY + b"\1\xff\xff\xff\xffa\0", 15, "-1 bytes", False),
    "sequence without name": (_flags(0) + _BODY + b"\1\4\0\0\0", 15, "has no end", False),
    "sequence name not UTF-8": (_flags(0) + _BODY + _sequence(b"\xff"), 22, "not UTF-8", False),
    "document of a sequence cut": (
        _flags(0) + _BODY + _sequence(b"a", _DOCUMENT[:-1]),
        22,
        "size: 14",
        False,
    ),
    "token without end": (_flags(0) + b"\2token", 15, "has no end", False),
}


@pytest.mark.parametrize("case", _INVALID)
def test_an_invalid_op_msg_has_the_server_s_code_text_and_fate(case: str) -> None:
    payload, code, text, fatal = _INVALID[case]
    with pytest.raises(InvalidMessage) as caught:
        _parse(payload)
    assert (caught.value.code, caught.value.fatal) == (code, fatal)
    assert text in caught.value.message


def test_the_first_thing_wrong_is_what_is_said() -> None:
    with pytest.raises(InvalidMessage, match="illegal flags"):
        _parse(_flags(4))
    with pytest.raises(InvalidMessage, match="must have a body"):
        _parse(_with_checksum(_flags(1) + _sequence(b"a"), off_by=1))


def test_optional_flags_that_nobody_knows_are_ignored() -> None:
    assert _parse(_flags(1 << 31 | 1 << 16) + _BODY) == OpMsg(_BODY[1:], exhaust_allowed=True)


def test_a_right_checksum_is_accepted() -> None:
    assert _parse(_with_checksum(_flags(1) + _BODY)) == OpMsg(_BODY[1:], checksum=True)


def test_two_sequences_may_stand_around_the_body() -> None:
    message = _parse(_flags(0) + _sequence(b"a", _DOCUMENT, _DOCUMENT) + _BODY + _sequence(b"b"))
    expected = (DocumentSequence("a", (_DOCUMENT, _DOCUMENT)), DocumentSequence("b", ()))
    assert message == OpMsg(_BODY[1:], expected)


def test_security_tokens_and_telemetry_are_skipped() -> None:
    assert _parse(_flags(0) + b"\2token\0" + _BODY + b"\3" + _DOCUMENT) == OpMsg(_BODY[1:])


_QUERY = struct.pack("<i", 4) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode({"hello": 1})


def test_a_query_is_read_and_its_selector_dropped() -> None:
    expected = OpQuery("admin.$cmd", bson.encode({"hello": 1}), flags=4)
    assert _parse(_QUERY, 2004) == expected
    assert _parse(_QUERY + bson.encode({"field": 1}), 2004) == expected


@pytest.mark.parametrize("size", range(len(_QUERY)))
def test_a_query_that_is_cut_anywhere_is_invalid(size: int) -> None:
    with pytest.raises(InvalidMessage):
        _parse(_QUERY[:size], 2004)


def test_a_reply_is_read() -> None:
    payload = struct.pack("<iqii", 8, 5, 1, 2) + _DOCUMENT + _DOCUMENT
    assert _parse(payload, 1) == OpReply((_DOCUMENT, _DOCUMENT), 8, 5, 1)


def test_a_reply_that_miscounts_its_documents_is_invalid() -> None:
    with pytest.raises(InvalidMessage, match="announces 2 documents and holds 1"):
        _parse(struct.pack("<iqii", 8, 0, 0, 2) + _DOCUMENT, 1)
    with pytest.raises(InvalidMessage):
        _parse(b"too short", 1)


@pytest.mark.parametrize(
    ("op_code", "code", "fatal"),
    [
        (2001, 5745701, True),
        (2002, 5745702, True),
        (2006, 5745700, True),
        (2007, 5745703, True),
        (2005, 5739101, False),
        (2012, 17, False),
        (9999, 17, False),
    ],
)
def test_operations_that_no_server_takes(op_code: int, code: int, *, fatal: bool) -> None:
    with pytest.raises(InvalidMessage) as caught:
        _parse(b"anything", op_code)
    assert (caught.value.code, caught.value.fatal) == (code, fatal)
