"""Trials are played on one of two clocks: over TCP in real time, or in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.overload.trial import Capacity
from harness.running import cancelling
from harness.sim import run_virtual
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from harness.overload.trial import Report, Trial

_LIVE_CONCURRENCY = 5


def capacity(*, live: bool) -> Capacity:
    """Return the capacity of a trial's server, half as much where clients and server share a machine."""
    return Capacity(concurrency=_LIVE_CONCURRENCY) if live else Capacity()


def play(trial: Trial, *, live: bool, seed: int = 0) -> Report:
    """Run a trial and return what came of it. Raises `Interrupted`."""
    if live:
        return cancelling.run(trial.run(network=TcpNetwork(), clock=SystemClock(), rng=SeededRng(seed)))
    with cancelling.cancelling():
        return run_virtual(
            lambda world: cancelling.heard(
                trial.run(network=world.network, clock=world.clock, rng=world.rng)
            ),
            seed=seed,
        )
