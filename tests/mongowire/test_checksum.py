"""CRC-32C against the published vectors (RFC 3720, B.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mongowire.messages import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_vectors(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@given(st.binary(), st.binary())
def test_a_checksum_can_be_continued(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)


@given(st.binary(min_size=1), st.data())
def test_every_changed_bit_shows(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    changed[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    assert crc32c(bytes(changed)) != crc32c(data)
