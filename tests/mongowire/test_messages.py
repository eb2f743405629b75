"""Messages as values: made, asked for their command, decoded."""

from __future__ import annotations

import datetime as dt

import bson
import pytest
from bson import DatetimeMS

from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage
from mongowire.messages import DocumentSequence, OpCode, OpMsg, OpQuery, OpReply, decode_document


def test_a_message_knows_its_command_without_decoding() -> None:
    body = bytearray(bson.encode({"insert": "c", "x": "damaged below"}))
    body[-8] = 0xFF
    message = OpMsg(bytes(body))
    assert message.command_name == "insert"
    with pytest.raises(InvalidMessage):
        message.decode()


def test_an_empty_body_has_an_empty_command() -> None:
    assert OpMsg.of({}).command_name == ""
    assert OpQuery.of("admin", {}).command_name == ""


@pytest.mark.parametrize("body", [b"\x09\0\0\0\x10abc\0"[:8], b"\x0a\0\0\0\x10\xff\xfe\0\1\0"])
def test_a_first_key_that_cannot_be_read_is_an_invalid_message(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        OpMsg(body).command_name  # noqa: B018 - reading the property is the subject


def test_document_sequences_are_merged_into_the_decoded_command() -> None:
    message = OpMsg.of(
        {"insert": "c", "$db": "test"},
        sequences=[DocumentSequence.of("documents", [{"_id": 1}, {"_id": 2}])],
    )
    assert message.decode() == {"insert": "c", "$db": "test", "documents": [{"_id": 1}, {"_id": 2}]}
    assert list(message.decode()) == ["insert", "$db", "documents"]


_EMPTY = bson.encode({})


@pytest.mark.parametrize(
    ("message", "flag_bits"),
    [
        (OpMsg(_EMPTY), 0),
        (OpMsg(_EMPTY, checksum=True), 1),
        (OpMsg(_EMPTY, more_to_come=True), 2),
        (OpMsg(_EMPTY, exhaust_allowed=True), 1 << 16),
        (OpMsg(_EMPTY, checksum=True, more_to_come=True, exhaust_allowed=True), 3 | 1 << 16),
    ],
)
def test_flag_bits(message: OpMsg, flag_bits: int) -> None:
    assert message.flag_bits == flag_bits
    assert message.to_payload()[:4] == flag_bits.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("collection", "database", "is_command"),
    [("admin.$cmd", "admin", True), ("test.things", "test", False), ("test.$cmd.sys.x", "test", False)],
)
def test_a_query_knows_its_database(collection: str, database: str, *, is_command: bool) -> None:
    query = OpQuery(collection, bson.encode({"hello": 1}))
    assert (query.database, query.is_command) == (database, is_command)
    assert query.command_name == "hello"
    assert query.decode() == {"hello": 1}


def test_a_legacy_handshake_is_a_query_on_the_command_collection() -> None:
    query = OpQuery.of("admin", {"isMaster": 1}, flags=4)
    assert (query.collection, query.flags, query.skip, query.limit) == ("admin.$cmd", 4, 0, -1)
    assert query.op_code is OpCode.QUERY


def test_a_reply_is_its_first_document() -> None:
    reply = OpReply.of({"ok": 1}, {"ok": 2})
    assert reply.decode() == {"ok": 1}
    assert reply.flags == 8
    assert reply.op_code is OpCode.REPLY
    with pytest.raises(InvalidMessage, match="no document"):
        OpReply(()).decode()


def test_documents_are_decoded_with_the_library_s_defaults() -> None:
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert decode_document(bson.encode({"when": when})) == {"when": when.replace(tzinfo=None)}


def _nested(depth: int) -> bytes:
    innermost = bson.encode({"a": 1})
    sizes = (len(innermost) + 8 * level for level in range(depth, 0, -1))
    opened = b"".join(size.to_bytes(4, "little") + b"\x03a\0" for size in sizes)
    return opened + innermost + bytes(depth)


@pytest.mark.parametrize("total", [-(2**63), 253_402_300_800_000, 2**63 - 1])
def test_a_date_that_python_does_not_reach_is_decoded_as_bson_has_it(total: int) -> None:
    body = bson.encode({"date": DatetimeMS(total)})
    assert decode_document(body) == {"date": DatetimeMS(total)}
    assert bson.encode(decode_document(body)) == body


def test_nesting_is_decoded_as_far_as_users_nest() -> None:
    assert decode_document(_nested(1)) == {"a": {"a": 1}}
    decode_document(_nested(100))


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\5\0\0\0\1",
        b"\x0e\0\0\0\x02a\0\2\0\0\0\xff\0\0",
        b"\x0c\0\0\0\x10a\0\1\0\0\0",
        _nested(60_000),
    ],
    ids=["empty", "no end", "not UTF-8", "cut", "too deep"],
)
def test_invalid_bson_is_an_invalid_message(document: bytes) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode_document(document)
    assert caught.value.code == ErrorCode.INVALID_BSON
    assert not caught.value.fatal
