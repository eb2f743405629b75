"""Plans of offered load, in requests a second: a plan is data, its arrivals are random.

Arrivals are those of many users who know nothing of one another: a Poisson process, whose rate follows the
plan. A process of even gaps would flatter a server, for it never asks twice at once. Seconds count from the
beginning of the plan. The three makers (`step`, `ramp`, `spike`) divide the same number of seconds, so that
figures of one report can stand side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mongowire.ports import Rng


@dataclass(frozen=True, slots=True)
class Phase:
    """Some `seconds` in which the offered load goes from `first` to `last` requests a second, evenly."""

    seconds: float
    first: float
    last: float

    @classmethod
    def steady(cls, seconds: float, rate: float) -> Phase:
        """Return a phase in which it does not change."""
        return cls(seconds, rate, rate)

    def rate(self, at: float) -> float:
        """Return the offered load so many seconds after the beginning."""
        return self.first + (self.last - self.first) * at / self.seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """Phases, one after the other."""

    name: str
    phases: tuple[Phase, ...]

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    def rate(self, at: float) -> float:
        """Return the offered load at an instant of the plan, 0 after its end."""
        for phase in self.phases:
            if at < phase.seconds:
                return phase.rate(at)
            at -= phase.seconds
        return 0.0

    def arrivals(self, rng: Rng) -> Iterator[float]:
        """Return the instants, from 0 on, at which requests arrive: a Poisson process, thinned."""
        # Thinning: candidates come at the highest rate of the plan, and each stays with the share of its
        # instant.
        most = max(max(phase.first, phase.last) for phase in self.phases)
        at, end = 0.0, self.seconds
        while True:
            at -= math.log(1 - rng.random()) / most
            if at >= end:
                return
            if rng.random() * most < self.rate(at):
                yield at

    def serveable(self, capacity: float, start: float, end: float, *, pieces: int = 100) -> float:
        """Return how many requests a server of some capacity could have served from `start` to `end`.

        Nothing carries over: what was too much at one instant would have come too late at the next.
        """
        width = (end - start) / pieces
        edges = [start + width * number for number in range(pieces + 1)]
        return sum(min(self.rate((one + other) / 2), capacity) * width for one, other in pairwise(edges))


def step(calm: float, busy: float, *, seconds: float) -> Plan:
    """Return a load that doubles, or worse, from one instant to the next, and stays."""
    return Plan("step", (Phase.steady(seconds / 4, calm), Phase.steady(seconds * 3 / 4, busy)))


def ramp(calm: float, busy: float, *, seconds: float) -> Plan:
    """Return a load that grows little by little, and then stays."""
    grows = Phase(seconds / 2, calm, busy)
    return Plan("ramp", (Phase.steady(seconds / 8, calm), grows, Phase.steady(seconds * 3 / 8, busy)))


def spike(calm: float, busy: float, *, seconds: float) -> Plan:
    """Return a load that is high for a while, and goes back to what it was."""
    return Plan(
        "spike",
        (
            Phase.steady(seconds / 4, calm),
            Phase.steady(seconds / 2, busy),
            Phase.steady(seconds / 4, calm),
        ),
    )
