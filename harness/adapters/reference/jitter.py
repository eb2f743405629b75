"""The random numbers of a client of the reference driver whose jitter a scenario sets.

The driver draws its jitter from two generators of its own: `jitter` for overload retries, `transactions` for
withTransaction. These are replaced. All others (ids, nonces, server selection) stay as they are, so that a
scenario that sets the jitter changes nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mongowire.system import SeededRng

if TYPE_CHECKING:
    from harness.adapters.base import ClientSpec
    from mongowire.ports import Rng

_OF_BACKOFFS: Final = ("jitter", "transactions")


def with_jitter(rng: Rng, spec: ClientSpec) -> Rng:
    """Return the random numbers of a client: `rng`, with the jitter that its specification sets, if any."""
    if spec.jitter is not None:
        return _SetJitter(rng, FixedRng(spec.jitter, rng))
    return rng if spec.jitter_seed is None else _SetJitter(rng, SeededRng(spec.jitter_seed))


@dataclass(frozen=True, slots=True)
class _SetJitter:
    """A client's generator, below which those of backoffs are spawned from `jitter`."""

    rng: Rng
    jitter: Rng

    def random(self) -> float:
        return self.rng.random()

    def randbytes(self, n: int) -> bytes:
        return self.rng.randbytes(n)

    def spawn(self, actor: str) -> Rng:
        if actor in _OF_BACKOFFS:
            return self.jitter.spawn(actor)
        # A process that was forked off spawns all its generators below one of its own.
        return _SetJitter(self.rng.spawn(actor), self.jitter)


@dataclass(frozen=True, slots=True)
class FixedRng:
    """A generator whose every number is `value`, also 1, which no other generator returns."""

    value: float
    rng: Rng

    def random(self) -> float:
        return self.value

    def randbytes(self, n: int) -> bytes:
        return self.rng.randbytes(n)

    def spawn(self, actor: str) -> Rng:
        return FixedRng(self.value, self.rng.spawn(actor))
