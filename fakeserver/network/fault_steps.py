"""The way of a reply under faults: the changes to its bytes, and the steps in which they are sent.

Everything here is decided without waiting; the layers perform the steps, one after the other.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeserver.network.faults import Phase
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import RemoteProtocolError
from mongowire.header import HEADER, HEADER_SIZE, OpCode
from mongowire.messages import CHECKSUM_PRESENT, checksum_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fakeserver.network.fault_registry import FaultRegistry, Hit
    from fakeserver.network.faults import Effects


class End(Enum):
    """The ways in which a fault ends a connection."""

    CLOSE = "close"
    """Both sides hear of its end, in order."""
    RESET = "reset"
    """It is reset, and what was not read is lost."""
    SILENCE = "silence"
    """Nothing is sent any more, and the connection stays open."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait so many seconds behind the step before."""

    seconds: float


Step: TypeAlias = Send | Wait | End

_FLAGS: Final = struct.Struct("<I")
_BODY_AT: Final = HEADER_SIZE
_GAP: Final = 0.0001
"""The seconds between two pieces, without which a client would read them as one."""
_SLICES_PER_SECOND: Final = 50
"""The pieces that a bandwidth sends in a second, as far as there are so many bytes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pieces in which bytes are sent (`split`), and the bytes of a second (`bandwidth`)."""

    piece: int | None = None
    bandwidth: int | None = None

    def with_effects(self, effects: Effects) -> Pace:
        """Return the pace with those of a fault; of two, the slower one and the smaller pieces."""
        return Pace(_least(self.piece, effects.split), _least(self.bandwidth, effects.bandwidth))

    def steps(self, data: bytes) -> Iterator[Step]:
        """Return the steps that send `data`."""
        if self.piece is None and self.bandwidth is None:
            if data:
                yield Send(data)
            return
        size = self.piece or len(data)
        if self.bandwidth is not None:
            size = min(size, max(1, self.bandwidth // _SLICES_PER_SECOND))
        for start in range(0, len(data), size or 1):
            piece = data[start : start + size]
            if self.bandwidth is not None:
                yield Wait(len(piece) / self.bandwidth)
            elif start:
                yield Wait(_GAP)
            yield Send(piece)


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def wait_of(effects: Effects, registry: FaultRegistry) -> float:
    """Return the seconds that a fault delays."""
    return effects.delay + (effects.jitter * registry.random() if effects.jitter else 0.0)


def reply_steps(
    reply: bytes, hits: Sequence[Hit], registry: FaultRegistry, *, pace: Pace | None = None
) -> Iterator[Step]:
    """Return the steps that send a reply on which these faults fire."""
    data = edited(reply, [hit.effects for hit in hits])
    return _walk(data, sorted(_marks(data, hits), key=lambda mark: mark.offset), registry, pace or Pace())


@dataclass(frozen=True, slots=True)
class _Mark:
    """Something that happens when `offset` bytes have been sent."""

    offset: int
    hit: Hit | None = None
    end: End | None = None


def _marks(data: bytes, hits: Sequence[Hit]) -> Iterator[_Mark]:
    for hit in hits:
        effects = hit.effects
        yield _Mark(hit.offset, hit=hit)
        end = end_of(effects)
        if end is not None:
            yield _Mark(min(len(data), hit.offset + (effects.cut or 0)), end=end)


def end_of(effects: Effects) -> End | None:
    """Return how a fault ends the connection, None if it does not."""
    if effects.reset:
        return End.RESET
    if effects.half_open:
        return End.SILENCE
    return None if effects.cut is None else End.CLOSE


def _walk(data: bytes, marks: Sequence[_Mark], registry: FaultRegistry, pace: Pace) -> Iterator[Step]:
    sent = 0
    for mark in marks:
        yield from pace.steps(data[sent : mark.offset])
        sent = max(sent, mark.offset)
        if mark.end is not None:
            yield mark.end
            return
        assert mark.hit is not None
        effects = mark.hit.effects
        if not _was_done(mark.hit):
            seconds = wait_of(effects, registry)
            if seconds:
                yield Wait(seconds)
        if effects.garbage is not None:
            yield from pace.steps(registry.random_bytes(effects.garbage))
            if mark.hit.fault.phase is Phase.REPLY:
                data = data[:sent]  # the garbage stands in place of the rest
        pace = pace.with_effects(effects)
    yield from pace.steps(data[sent:])


def _was_done(hit: Hit) -> bool:
    """Whether a fault has delayed the request already."""
    return hit.fault.phase not in {Phase.BEFORE_REPLY, Phase.REPLY}


def edited(reply: bytes, effects: Sequence[Effects]) -> bytes:
    """Return a reply as faults change it: cut short, with a bad checksum, a wrong header, or twice."""
    for each in effects:
        if each.truncate is not None:
            reply = _truncated(_plain(reply), each.truncate)
        if each.bad_checksum:
            reply = _with_bad_checksum(_plain(reply))
        if each.response_to is not None:
            reply = reply[:8] + struct.pack("<i", each.response_to) + reply[12:]
        if each.length is not None:
            reply = struct.pack("<i", each.length) + reply[4:]
    return reply * 2 if any(each.duplicate for each in effects) else reply


def _plain(reply: bytes) -> bytes:
    """Return a reply without compression, so that a fault meets its document."""
    wire = WireConnection()
    try:
        wire.receive_data(reply)
        envelope = wire.next_message()
    except RemoteProtocolError:
        return reply
    if not isinstance(envelope, Envelope) or envelope.compressor is None:
        return reply
    head = (envelope.request_id, envelope.response_to, envelope.op_code)
    return HEADER.pack(HEADER_SIZE + len(envelope.payload), *head) + envelope.payload


def _truncated(reply: bytes, count: int) -> bytes:
    kept = reply[: max(HEADER_SIZE, len(reply) - count)]
    return struct.pack("<i", len(kept)) + kept[4:]


def _with_bad_checksum(reply: bytes) -> bytes:
    """Return an OP_MSG with a checksum that is wrong in every bit; other messages have none."""
    size, request_id, response_to, op_code = HEADER.unpack_from(reply)
    if op_code != OpCode.MSG or size != len(reply):
        return reply
    (flags,) = _FLAGS.unpack_from(reply, _BODY_AT)
    payload = _FLAGS.pack(flags | CHECKSUM_PRESENT) + reply[_BODY_AT + _FLAGS.size :]
    if flags & CHECKSUM_PRESENT:
        payload = payload[:-4]
    right = checksum_of(payload, request_id=request_id, response_to=response_to)
    wrong = bytes(byte ^ 0xFF for byte in right)
    return HEADER.pack(HEADER_SIZE + len(payload) + 4, request_id, response_to, op_code) + payload + wrong
