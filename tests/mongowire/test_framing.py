"""Documents are framed, and their keys found, without decoding them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from mongowire import framing
from mongowire.errors import InvalidMessage, LocalProtocolError

_EVERY_TYPE: dict[str, Any] = {
    "double": 1.5,
    "string": "text",
    "document": {"a": {"b": 1}},
    "array": [1, 2, 3],
    "binary": Binary(b"\0\1\2", 5),
    "object id": ObjectId(b"0123456789ab"),
    "boolean": True,
    "date": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "null": None,
    "regex": Regex("^a", "i"),
    "code": Code("f()"),
    "code with scope": Code("f()", {"x": 1}),
    "int32": 5,
    "timestamp": Timestamp(1, 2),
    "int64": Int64(5),
    "decimal": Decimal128("1.5"),
    "min": MinKey(),
    "max": MaxKey(),
}


def test_keys_of_every_type_of_value_are_found() -> None:
    assert framing.keys(bson.encode(_EVERY_TYPE)) == frozenset(_EVERY_TYPE)
    assert framing.keys(bson.encode({})) == frozenset()


def test_keys_of_deprecated_types_are_found() -> None:
    elements = b"\x06undefined\0" + b"\x0esymbol\0\2\0\0\0s\0" + b"\x0cpointer\0\2\0\0\0c\0" + b"i" * 12
    document = (len(elements) + 5).to_bytes(4, "little") + elements + b"\0"
    assert framing.keys(document) == {"undefined", "symbol", "pointer"}


@given(st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), st.integers(0, 9)))
def test_the_first_key_is_what_a_decoder_finds_first(document: dict[str, int]) -> None:
    assert framing.first_key(bson.encode(document)) == next(iter(document), "")


@given(st.binary(max_size=60))
def test_garbage_has_keys_or_is_invalid(data: bytes) -> None:
    for look in (framing.keys, framing.first_key):
        try:
            look(data)
        except InvalidMessage as error:
            assert error.code in {15, 22}  # noqa: PT017 - the codes matter, and either outcome is right


@pytest.mark.parametrize(
    "elements",
    [
        b"\x10number\0\1\0",
        b"\x02string\0\xff\xff\xff\x7f",
        b"\x02string\0\xff\xff\xff\xff",
        b"\x02string\0\1",
        b"\x0bregex\0no end",
        b"\x55unknown\0",
        b"\x10no end",
        b"\x10\xff\xfe\0\1\0\0\0",
    ],
)
def test_elements_that_are_not_well_framed_are_invalid(elements: bytes) -> None:
    document = (len(elements) + 5).to_bytes(4, "little") + elements + b"\0"
    with pytest.raises(InvalidMessage):
        framing.keys(document)


def test_what_is_sent_must_be_framed_as_a_document() -> None:
    framing.check_outgoing(bson.encode({}))
    for data in (b"", b"\5\0\0\0", bson.encode({}) + b"\0", b"\5\0\0\0\1"):
        with pytest.raises(LocalProtocolError, match="not one BSON document"):
            framing.check_outgoing(data)


def test_strings_on_the_wire_end_with_their_only_zero_byte() -> None:
    assert framing.c_string("documents") == b"documents\0"
    with pytest.raises(LocalProtocolError, match="zero byte"):
        framing.c_string("a\0b")
