"""Chance that depends on nothing but seed, client, kind and number of a draw: counters, put through a cipher.

The cipher is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011): additions, rotations and exclusive ors of 32-bit words, here kept in wider integers and cut, so that
plain Python and compiled code agree. Logarithms are computed from the four operations of arithmetic, which
round the same way everywhere; a C library's would not.
"""

from __future__ import annotations

import math
from typing import Final

_MASK: Final = 0xFFFFFFFF
_PARITY: Final = 0x1BD11BDA
_WORD: Final = 2.0**-32
_UNIT: Final = 2.0**-53
_LN2: Final = 0.6931471805599453
_SQRT_HALF: Final = 0.7071067811865476
_HALF: Final = 0.5
_TERMS: Final = 21
"""The last odd power of the logarithm's series: the next one is below half a unit in the last place."""


def _mix(x: int, y: int, a: int, b: int, c: int, d: int) -> tuple[int, int]:
    """Return two words after four rounds with these rotations."""
    x = (x + y) & _MASK
    y = (((y << a) | (y >> (32 - a))) & _MASK) ^ x
    x = (x + y) & _MASK
    y = (((y << b) | (y >> (32 - b))) & _MASK) ^ x
    x = (x + y) & _MASK
    y = (((y << c) | (y >> (32 - c))) & _MASK) ^ x
    x = (x + y) & _MASK
    y = (((y << d) | (y >> (32 - d))) & _MASK) ^ x
    return x, y


def threefry(key: int, other_key: int, counter: int, other_counter: int) -> tuple[int, int]:
    """Return two words of 32 bits for a key of two words and a counter of two words."""
    third = _PARITY ^ key ^ other_key
    x = (counter + key) & _MASK
    y = (other_counter + other_key) & _MASK
    x, y = _mix(x, y, 13, 15, 26, 6)
    x, y = x + other_key, y + third + 1
    x, y = _mix(x & _MASK, y & _MASK, 17, 29, 16, 24)
    x, y = x + third, y + key + 2
    x, y = _mix(x & _MASK, y & _MASK, 13, 15, 26, 6)
    x, y = x + key, y + other_key + 3
    x, y = _mix(x & _MASK, y & _MASK, 17, 29, 16, 24)
    x, y = x + other_key, y + third + 4
    x, y = _mix(x & _MASK, y & _MASK, 13, 15, 26, 6)
    return (x + third) & _MASK, (y + key + 5) & _MASK


def uniform(seed: int, client: int, kind: int, number: int) -> float:
    """Return a number above 0 and at most 1, of 53 bits."""
    x, y = threefry(seed & _MASK, client, kind | ((seed >> 32) << 8) & _MASK, number)
    return float((x << 21 | y >> 11) + 1) * _UNIT


def log(u: float) -> float:
    """Return the natural logarithm of a number above 0 and at most 1."""
    halvings = 0
    while u < _SQRT_HALF:
        u *= 2.0
        halvings += 1
    z = (u - 1.0) / (u + 1.0)
    square = z * z
    series = 0.0
    power = _TERMS
    while power > 0:
        series = series * square + 1.0 / power
        power -= 2
    return 2.0 * z * series - halvings * _LN2


def exponential(seed: int, client: int, kind: int, number: int) -> float:
    """Return an exponential variate of mean 1."""
    return -log(uniform(seed, client, kind, number))


def normal(seed: int, client: int, kind: int, number: int) -> float:
    """Return a standard normal variate (Marsaglia's polar method)."""
    stream = kind
    while True:
        x, y = threefry(seed & _MASK, client, stream | ((seed >> 32) << 8) & _MASK, number)
        u = 2.0 * ((x + _HALF) * _WORD) - 1.0
        v = 2.0 * ((y + _HALF) * _WORD) - 1.0
        size = u * u + v * v
        if 0.0 < size < 1.0:
            return u * math.sqrt(-2.0 * log(size) / size)
        # A point outside the circle: the next of this draw's own stream.
        stream += 16
