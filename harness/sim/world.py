"""One run in virtual time: a clock, random numbers and a network of its own, and nothing left at its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.sim.clock import Spinning, VirtualClock, VirtualLoop, who_runs
from harness.sim.guard import GuardInterrupted, guarded
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
    wall_limit: float | None = None,
) -> T:
    """Run `main` from the instant 0 on a loop of its own and return its result.

    Tasks that it leaves behind are cancelled and drained. Raises `NothingScheduled` when every task waits
    for what no timer will bring, and `Spinning` when they never come to an end at one instant, or when the
    run takes longer than `wall_limit`, in seconds of the wall clock.
    """
    loop = VirtualLoop()

    def run() -> T:
        return _run_on(loop, main(World.new(seed=seed, latency=latency, jitter=jitter)))

    return run() if wall_limit is None else guarded(run, wall_limit, lambda: who_runs(loop))


def _run_on(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and close the loop. What comes of tearing down a run that spins adds nothing to that."""
    spun: BaseException | None = None
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                return runner.run(main)
            except (Spinning, GuardInterrupted) as found:
                spun = found
                loop.set_exception_handler(lambda *_: None)
                raise
    except BaseException:
        if spun is None:
            raise
        raise spun from None
