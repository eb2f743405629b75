"""The time that a command takes on a server that can be overloaded: a load for the limiters to defend.

Up to a limit of concurrent commands the time is constant, beyond it it grows exponentially, as a database's
does when requests contend for the same few resources; or there is a number of workers, each busy with one
command at a time. The time is fixed when a command begins, or looked at again every so often, with the
concurrency of then: a command that began alone takes longer when others join it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParameters:
    """The settings of the model; times are seconds.

    `base` is a command's time on an idle server (0: the model is off), multiplied by its weight.
    Beyond `concurrency_limit` at a time, a command takes `base · factor^((concurrency - limit) / k)`, at
    most `longest`. With `workers` above 0 the time does not grow; commands wait for a free worker instead.
    With `recompute` above 0 a command ends at the first multiple of it, counted from its beginning, at which
    it has taken as long as the concurrency of that moment asks for; workers have no use for it.
    """

    base: float = 0.0
    concurrency_limit: int = 30
    factor: float = 2.0
    k: float = 10.0
    longest: float = 60.0
    workers: int = 0
    recompute: float = 0.0
    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def best_concurrency(self) -> float:
        """Return how many commands at a time get the most done in a second.

        Commands a second are `c / (base · factor^((c - limit) / k))`: the most at `k / ln(factor)`, or at
        the limit where that is more.
        """
        if self.workers:
            return self.workers
        if self.factor <= 1:
            return math.inf
        return max(self.k / math.log(self.factor), self.concurrency_limit)

    def throughput(self, concurrency: float) -> float:
        """Return how many commands of weight 1 are done in a second with so many at a time."""
        if self.workers:
            return min(concurrency, self.workers) / self.base
        return concurrency / self.seconds(concurrency)

    def seconds(self, concurrency: float, weight: float = 1.0) -> float:
        """Return how long a command takes that makes so many at a time, itself among them."""
        beyond = max(concurrency - self.concurrency_limit, 0) / self.k
        if beyond == 0:
            return self.base * weight
        # As a sum of logarithms: the power alone may be beyond any number.
        exponent = math.log(self.base * weight) + beyond * math.log(self.factor)
        return min(math.exp(min(exponent, math.log(self.longest))), self.longest)

    def weight(self, command: str) -> float:
        """Return how much more than others a command takes."""
        return self.weights.get(command, 1.0)


_SLACK: Final = 1e-9
"""What sums of seconds lose: a look that is due at an instant happens at it."""


class ServiceModel:
    """The commands at work now, and when each is done."""

    def __init__(self, parameters: ServiceParameters) -> None:
        self.parameters = parameters
        self.concurrency = 0
        self.peak = 0
        """The most commands that were at work at a time so far."""
        self._free_at: list[float] = []

    def __repr__(self) -> str:
        return f"<ServiceModel {self.concurrency} at work, {self.parameters}>"

    def begin(self, command: str, now: float) -> float:
        """Begin a command; return the instant at which to `look` whether it is done.

        `finish` is due when it is, or earlier.
        """
        self.concurrency += 1
        self.peak = max(self.peak, self.concurrency)
        own = self.parameters
        weight = own.weight(command)
        if own.recompute and not own.workers:
            return now + own.recompute
        if not own.workers:
            return now + own.seconds(self.concurrency, weight)
        while len(self._free_at) > own.workers:
            heappop(self._free_at)
        starts = max(heappop(self._free_at), now) if len(self._free_at) == own.workers else now
        done = starts + own.base * weight
        heappush(self._free_at, done)
        return done

    def look(self, command: str, began: float, now: float) -> float:
        """Look, when it is due, at a command that began at `began`: return `now` if it is done.

        Otherwise return the instant of the next look.
        """
        own, passed = self.parameters, now - began + _SLACK
        if own.workers or not own.recompute or passed >= own.seconds(self.concurrency, own.weight(command)):
            return now
        # Counted from the beginning: a sum of many small steps would drift.
        return began + (math.floor(passed / own.recompute) + 1) * own.recompute

    def finish(self) -> None:
        """End a command."""
        self.concurrency -= 1
