"""The way of a reply under faults: the steps in which its bytes are sent.

Everything here is decided without waiting; the layers perform the steps, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeserver.network.fault_effects import ConnectionEnd, edited
from fakeserver.network.faults import FaultPhase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fakeserver.network.fault_effects import FaultEffects
    from fakeserver.network.fault_registry import FaultRegistry, Hit


@dataclass(frozen=True, slots=True)
class Send:
    """Send bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait so many seconds behind the step before."""

    seconds: float


Step: TypeAlias = Send | Wait | ConnectionEnd

_GAP: Final = 0.0001
"""The seconds between two pieces, without which a client would read them as one."""
_SLICES_PER_SECOND: Final = 50
"""The pieces that a bandwidth sends in a second, as far as there are so many bytes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pieces in which bytes are sent (`split`), and the bytes of a second (`bandwidth`)."""

    piece: int | None = None
    bandwidth: int | None = None

    def with_effects(self, effects: FaultEffects) -> Pace:
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


def wait_of(effects: FaultEffects, registry: FaultRegistry) -> float:
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
    end: ConnectionEnd | None = None


def _marks(data: bytes, hits: Sequence[Hit]) -> Iterator[_Mark]:
    for hit in hits:
        effects = hit.effects
        yield _Mark(hit.offset, hit=hit)
        if effects.end is not None:
            yield _Mark(min(len(data), hit.offset + effects.cut), end=effects.end)


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
            if mark.hit.fault.phase is FaultPhase.REPLY:
                data = data[:sent]  # the garbage stands in place of the rest
        pace = pace.with_effects(effects)
    yield from pace.steps(data[sent:])


def _was_done(hit: Hit) -> bool:
    """Whether a fault has delayed the request already."""
    return hit.fault.phase not in {FaultPhase.BEFORE_REPLY, FaultPhase.REPLY}
