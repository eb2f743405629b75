"""Identifiers made from an actor's own clock and random numbers, so that a run can be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bson import Binary, ObjectId
from bson.binary import UUID_SUBTYPE

if TYPE_CHECKING:
    from mongowire.ports import Clock, Rng


def object_id(clock: Clock, rng: Rng) -> ObjectId:
    """Return a new ObjectId: four bytes of seconds since the epoch, eight random ones."""
    return ObjectId((int(clock.utc()) & 0xFFFFFFFF).to_bytes(4, "big") + rng.randbytes(8))


class ObjectIds:
    """The ObjectIds of one process: they ascend, also within a second (`BSON ObjectId`).

    Each has five bytes that are the process's own, and a counter that begins at random and has room for
    eight million before it begins again at 0.
    """

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._process = rng.randbytes(5)
        self._counter = int.from_bytes(rng.randbytes(3), "big") >> 1

    def new(self) -> ObjectId:
        """Return the next one."""
        seconds = (int(self._clock.utc()) & 0xFFFFFFFF).to_bytes(4, "big")
        self._counter = (self._counter + 1) & 0xFFFFFF
        return ObjectId(seconds + self._process + self._counter.to_bytes(3, "big"))


def uuid(rng: Rng) -> Binary:
    """Return a new random UUID (RFC 9562, version 4) as BSON binary subtype 4."""
    raw = bytearray(rng.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return Binary(bytes(raw), UUID_SUBTYPE)
