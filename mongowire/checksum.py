"""CRC-32C (Castagnoli), the checksum of OP_MSG."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_WORDS = struct.Struct("<II")
_STEP_BYTES = 1 << 16

_Table = tuple[int, ...]


def _first_table() -> _Table:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


@cache
def _tables() -> tuple[_Table, ...]:
    """Return the eight tables of "slicing by 8": table k advances a byte over k further zero bytes."""
    tables = [_first_table()]
    for _ in range(7):
        tables.append(tuple((value >> 8) ^ tables[0][value & 0xFF] for value in tables[-1]))
    return tuple(tables)


def crc32c_in_steps(data: bytes, value: int = 0) -> Generator[None, None, int]:
    """Return the same as `crc32c`, in steps of some milliseconds each."""
    for start in range(0, len(data), _STEP_BYTES):
        value = crc32c(data[start : start + _STEP_BYTES], value)
        yield
    return value


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C of `data`; give the `value` of what came before to continue it."""
    t0, t1, t2, t3, t4, t5, t6, t7 = _tables()
    crc = value ^ _ALL_ONES
    whole = len(data) & ~7
    for low, high in _WORDS.iter_unpack(memoryview(data)[:whole]):
        low ^= crc  # noqa: PLW2901 - the register is folded into the word that was read
        crc = (
            t7[low & 0xFF]
            ^ t6[low >> 8 & 0xFF]
            ^ t5[low >> 16 & 0xFF]
            ^ t4[low >> 24]
            ^ t3[high & 0xFF]
            ^ t2[high >> 8 & 0xFF]
            ^ t1[high >> 16 & 0xFF]
            ^ t0[high >> 24]
        )
    for byte in data[whole:]:
        crc = crc >> 8 ^ t0[(crc ^ byte) & 0xFF]
    return crc ^ _ALL_ONES
