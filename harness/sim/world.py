"""One run in virtual time: a clock, dice and a network that begin anew, and an end that leaves nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.sim.clock import VirtualClock, VirtualLoop
from harness.sim.network import DEFAULT_LATENCY, MemoryNetwork
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """The three ports of one run."""

    clock: VirtualClock
    rng: SeededRng
    network: MemoryNetwork

    @classmethod
    def new(cls, *, seed: int | str = 0, latency: float = DEFAULT_LATENCY, jitter: float = 0.0) -> World:
        """Return ports that share `seed`; `latency` and `jitter` are seconds."""
        clock = VirtualClock()
        rng = SeededRng(seed)
        return cls(clock, rng, MemoryNetwork(clock, rng.spawn("network"), latency=latency, jitter=jitter))


def run_virtual(
    main: Callable[[World], Coroutine[Any, Any, T]],
    *,
    seed: int | str = 0,
    latency: float = DEFAULT_LATENCY,
    jitter: float = 0.0,
) -> T:
    """Run `main` from the instant 0 on a loop of its own and return its result.

    Tasks that it leaves behind are cancelled and drained. Raises `NothingScheduled` when every task waits
    for what no timer will bring.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main(World.new(seed=seed, latency=latency, jitter=jitter)))
