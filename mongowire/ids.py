"""Identifiers made from an actor's own clock and dice, so that a run in virtual time repeats them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bson import Binary, ObjectId
from bson.binary import UUID_SUBTYPE

if TYPE_CHECKING:
    from mongowire.ports import Clock, Rng


def object_id(clock: Clock, rng: Rng) -> ObjectId:
    """Return a new ObjectId: four bytes of seconds since the epoch, eight of dice."""
    return ObjectId((int(clock.utc()) & 0xFFFFFFFF).to_bytes(4, "big") + rng.randbytes(8))


def uuid(rng: Rng) -> Binary:
    """Return a new random UUID (RFC 9562, version 4) as BSON binary subtype 4."""
    raw = bytearray(rng.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return Binary(bytes(raw), UUID_SUBTYPE)
