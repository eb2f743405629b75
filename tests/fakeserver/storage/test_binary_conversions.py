"""Binary data as text, as numbers and as arrays, and back."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pipelines import piped, refusal

UUID_TEXT = "4f1c2d3e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
UUID_DATA = Binary(uuid.UUID(UUID_TEXT).bytes, 4)
TEXTS = {
    "base64": "++/8",
    "base64url": "--_8",
    "hex": "FBEFFC",
}


def value(expression: Any) -> Any:
    (found,) = piped([{}], {"$replaceWith": {"r": expression}})
    return found.get("r")


def convert(source: Any, to: Any, **more: Any) -> dict[str, Any]:
    return {"$convert": {"input": source, "to": to, **more}}


def code_of(expression: Any) -> int:
    return refusal([{}], {"$set": {"r": expression}})[0]


@pytest.mark.parametrize(("name", "text"), TEXTS.items())
def test_a_format_shows_bytes_and_reads_them(name: str, text: str) -> None:
    data = b"\xfb\xef\xfc"
    assert value(convert(data, "string", format=name)) == text
    assert value(convert(text, {"type": "binData"}, format=name)) == data
    assert value(convert(text, {"type": "binData", "subtype": 128}, format=name)) == Binary(data, 128)


@given(st.binary(max_size=40), st.sampled_from(sorted(TEXTS)))
def test_bytes_are_the_same_after_a_format(data: bytes, name: str) -> None:
    assert value(convert(convert(data, "string", format=name), "binData", format=name)) == data


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (convert("é", "binData", format="utf8"), b"\xc3\xa9"),
        (convert(b"\xc3\xa9", "string", format="utf8"), "é"),
        (convert(UUID_TEXT.upper(), {"type": "binData", "subtype": 4}, format="uuid"), UUID_DATA),
        (convert(UUID_DATA, "string", format="uuid"), UUID_TEXT),
        (convert(UUID_DATA, "string", format="auto"), UUID_TEXT),
        (convert(b"ab", "string", format="auto"), "YWI="),
        (convert("YWI", "binData", format="base64url"), b"ab"),
        (convert("YWI=", "binData", format="base64url"), b"ab"),
        (convert(UUID_DATA, {"type": "binData", "subtype": 4}), UUID_DATA),
        (convert(b"ab", "binData"), b"ab"),
        (convert(b"", "bool"), True),
        (convert(None, "binData", format="hex", onNull="none"), "none"),
        (convert("zz", "binData", format="hex", onError="bad"), "bad"),
        (convert(1, None), None),
        (convert(None, None, onNull="none"), "none"),
        ({"$toUUID": UUID_TEXT}, UUID_DATA),
        ({"$toUUID": UUID_DATA}, UUID_DATA),
        ({"$toUUID": None}, None),
        ({"$toString": UUID_DATA}, UUID_TEXT),
        ({"$toString": b"ab"}, "YWI="),
        (convert(b"\0\0\0\x2a", "int", byteOrder="big"), 42),
        (convert(b"\xfe", "int"), -2),
        (convert(b"\x01\x02", "int"), 0x0201),
        (convert(b"\x01\x02", "long", byteOrder="big"), Int64(0x0102)),
        (convert(b"\0\0\0\0\0\0\x04\xc0", "double"), -2.5),
        (convert(b"\x3f\xc0\0\0", "double", byteOrder="big"), 1.5),
        ({"$toInt": b"\x02"}, 2),
        (convert(-2, "binData", byteOrder="big"), b"\xff\xff\xff\xfe"),
        (convert(Int64(1), "binData"), b"\x01" + bytes(7)),
        (convert(1.5, {"type": "binData", "subtype": 2}, byteOrder="big"), Binary(b"\x3f\xf8" + bytes(6), 2)),
        (convert([1, 0, True], "binData"), Binary(b"\x10\x05\xa0", 9)),
        (convert([1, -2], "binData"), Binary(b"\x03\x00\x01\xfe", 9)),
        (convert([1.5], "binData"), Binary(b"\x27\x00\x00\x00\xc0\x3f", 9)),
        (convert(Binary(b"\x27\x00\x00\x00\xc0\x3f", 9), "array"), [1.5]),
        (convert(Binary(b"\x10\x05\xa0", 9), "array"), [True, False, True]),
        (convert(Binary(b"\x03\x00\x01\xfe", 9), "array"), [1, -2]),
        (convert("-1010", "int", base=2), -10),
        (convert("fF", "decimal", base=16), Decimal128("255")),
        (convert("17", "double", base=8), 15.0),
        (convert(Int64(-255), "string", base=16), "-FF"),
        (convert(Decimal128("10.0"), "string", base=2), "1010"),
        (convert(1.9, "double", base=2), 1.9),
    ],
    ids=str,
)
def test_a_value_becomes_another_type(expression: Any, expected: Any) -> None:
    found = value(expression)
    assert found == expected
    assert type(found) is type(expected)
    assert getattr(found, "subtype", 0) == getattr(expected, "subtype", 0)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (convert("0g", "binData", format="hex"), 241),
        (convert("abc", "binData", format="base64"), 241),
        (convert("+/==", "binData", format="base64url"), 241),
        (convert("867dee", {"type": "binData", "subtype": 4}, format="uuid"), 241),
        (convert(UUID_TEXT, "binData", format="uuid"), 241),
        (convert("YWI=", {"type": "binData", "subtype": 4}, format="base64"), 241),
        (convert("YWI=", "binData", format="auto"), 241),
        (convert(b"\xff", "string", format="utf8"), 241),
        (convert(b"ab", "string", format="uuid"), 241),
        (convert(b"ab", {"type": "binData", "subtype": 4}), 241),
        (convert(b"abc", "int"), 241),
        (convert(Decimal128("1"), "binData"), 241),
        (convert(ObjectId("0" * 24), "binData", format="hex"), 241),
        (convert(b"ab", "date"), 241),
        (convert(b"ab", "array"), 241),
        (convert([300], "binData"), 241),
        (convert(["a"], "binData"), 241),
        (convert("9" * 30, "long", base=10), 241),
        (convert("2", "int", base=2), 241),
        (convert("0xA", "int", base=16), 241),
        (convert(10.5, "string", base=2), 241),
        (convert(b"ab", "string"), 4341115),
        (convert("ab", "binData", onError=1), 4341115),
        (convert(b"ab", "string", format=1), 4341114),
        (convert(b"ab", "string", format="octal"), 4341125),
        (convert(1, "binData", byteOrder=1), 9130001),
        (convert(1, "binData", byteOrder="middle"), 9130002),
        (convert(1, {"type": "binData", "subtype": 1.5}), 4341106),
        (convert(1, {"type": "binData", "subtype": 127}), 4341107),
        (convert(1, {"type": "binData", "subtype": "a"}), 4341108),
        (convert(1, {"type": -2}), 9),
        (convert(10, "string", base=2.5), 3501300),
        (convert(10, "string", base=3), 3501301),
        ({"$toInt": 2147483647.9}, 241),
        ({"$toLong": 2.0**63}, 241),
        ({"$toDouble": Decimal128("1E-400")}, 241),
        ({"$toDouble": "0x1"}, 241),
        ({"$toDate": "Friday"}, 241),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_refused_by_code(expression: Any, code: int) -> None:
    assert code_of(expression) == code
