"""Search for the number of tickets that gets the most done (`Throughput Probing`).

The model: one number, the stable concurrency, shared out between reads and writes by `read_write_ratio`; and
a trial, up or down, which is what the last probe changed. A probe takes place once an interval:

    STABLE ── tickets exhausted, below the maximum ──> UP ────┐
       │ └── otherwise, above the minimum ──────────> DOWN ───┤
       ^                                                      │
       └── more was done than before: move towards the trial ─┘
           otherwise: return to the stable concurrency

A trial lasts one probe and always ends in STABLE: throughput is only comparable with the interval directly
before, since the load changes too. The stable concurrency moves towards a trial that paid by a moving
average (weight 0.2) and not onto it, because one interval may have been lucky.

Reasons for what looks odd:

* Throughput counts tickets given back, of both pools together: what matters is what the storage engine
  finishes, and a trial changes both pools.
* Growing asks for exhaustion, the peak of tickets out since the last stable probe. More tickets than are
  ever used change nothing, and would only wait to be used in an overload.
* The specification computes with real numbers. Tickets are whole: a pool that a step is too small for moves
  by one, as on a server, or a small pool would never grow.
* As specified, fewer tickets are tried only where they are not exhausted, or where both pools together are
  at the maximum: under a load that never lets up, concurrency below the maximum only ever grows. Newer
  servers compare pool by pool (`compares_pools`): a pool that is exhausted, and below its maximum, has more
  tried, and fewer are tried where the most that were out in a pool were more than the minimum.
* The maximum bounds each pool, but growth stops where both together reach it: the pseudocode compares
  `getCurrentConcurrency()`, a sum, with the maximum of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from bson import Int64

from fakeserver.admission.rate_limiter import weighted

_POOLS: Final = 2


class ProbingState(Enum):
    """The trial that the last probe began."""

    STABLE = "kStable"
    UP = "kUp"
    DOWN = "kDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingParameters:
    """The server parameters `throughputProbing…`.

    The bounds of concurrency hold for each pool; the maximum is also where both together no longer grow.
    """

    initial_concurrency: int = 0
    """Of both pools together; 0 for two for each core."""
    min_concurrency: int = 4
    max_concurrency: int = 128
    read_write_ratio: float = 0.5
    moving_average_weight: float = 0.2
    step_multiple: float = 0.1
    compares_pools: bool = False
    """Compare each pool with the bounds, as newer servers do, and not both together."""

    def initial(self, cores: int) -> float:
        """Return the stable concurrency to begin with."""
        if self.initial_concurrency:
            return self.initial_concurrency
        return clamp(cores * 2, self.min_concurrency * _POOLS, self.max_concurrency * _POOLS)


@dataclass(frozen=True, slots=True)
class TicketCounts:
    """A number for the read tickets and one for the write tickets."""

    read: int
    write: int

    @property
    def total(self) -> int:
        return self.read + self.write


@dataclass(frozen=True, slots=True)
class Observation:
    """The interval since the last probe: operations finished in `seconds`, and the most tickets out."""

    finished: int
    seconds: float
    peak: TicketCounts

    @property
    def throughput(self) -> float:
        """Operations per second."""
        return self.finished / self.seconds


class ThroughputProbing:
    """The state of the search."""

    def __init__(self, parameters: ProbingParameters, *, cores: int) -> None:
        self.parameters = parameters
        self.state = ProbingState.STABLE
        self.stable_concurrency = parameters.initial(cores)
        """The best total of both pools so far. A real number, or small steps would be lost in rounding."""
        self.stable_throughput = 0.0
        """Operations a second before the trial, which a trial has to exceed."""
        self.tickets = self._share(1)
        """The sizes of the two pools at present: the stable concurrency's, or a trial's."""
        self._probed = dict.fromkeys(ProbingState, 0)
        """Probes, by the state that each found."""
        self._trail = (ProbingState.STABLE, ProbingState.STABLE)
        """The states that the last two probes found: one cycle, which `repeat` counts again."""
        self._times_decreased = 0
        """Trials down that paid."""
        self._times_increased = 0
        """Trials up that paid."""
        self._total_decreased = 0.0
        """Stable concurrency taken away by trials down."""
        self._total_increased = 0.0
        """Stable concurrency added by trials up."""

    def __repr__(self) -> str:
        return f"<ThroughputProbing {self.state.name} around {self.stable_concurrency:.2f}: {self.tickets}>"

    @property
    def is_stable(self) -> bool:
        """Whether no trial is under way."""
        return self.state is ProbingState.STABLE

    @property
    def situation(self) -> tuple[object, ...]:
        """Everything that the next probe depends on besides its observation."""
        return self.state, self.stable_concurrency, self.stable_throughput, self.tickets

    def probe(self, seen: Observation) -> TicketCounts:
        """Learn from an interval, and return the sizes of the pools for the next one."""
        self._trail = (self._trail[1], self.state)
        self._probed[self.state] += 1
        if self.is_stable:
            self._probe_stable(seen)
        else:
            self._settle(seen.throughput)
        return self.tickets

    def repeat(self, times: int) -> None:
        """Count the last two probes so many times more: intervals in which nothing is done are all alike."""
        for state in self._trail:
            self._probed[state] += times

    def _probe_stable(self, seen: Observation) -> None:
        self.stable_throughput = seen.throughput
        step = self.parameters.step_multiple
        if self._can_grow(seen.peak):
            self.state = ProbingState.UP
            self.tickets = self._moved(1 + step, one=1)
        elif self._can_shrink(seen.peak):
            self.state = ProbingState.DOWN
            self.tickets = self._moved(1 - step, one=-1)

    def _can_grow(self, peak: TicketCounts) -> bool:
        tickets, most = self.tickets, self.parameters.max_concurrency
        exhausted = peak.read >= tickets.read, peak.write >= tickets.write
        if self.parameters.compares_pools:
            return (exhausted[0] and tickets.read < most) or (exhausted[1] and tickets.write < most)
        return any(exhausted) and tickets.total < most

    def _can_shrink(self, peak: TicketCounts) -> bool:
        # The minimum is each pool's, so the larger pool is compared with it: a sum always exceeds it.
        seen = peak if self.parameters.compares_pools else self.tickets
        return max(seen.read, seen.write) > self.parameters.min_concurrency

    def _settle(self, throughput: float) -> None:
        """End a trial: if it paid, the stable concurrency moves towards it, and the pools return to that."""
        # More, not as much: fewer tickets for the same throughput are not taken, and neither are more.
        if throughput > self.stable_throughput:
            self.stable_throughput = throughput
            before = self.stable_concurrency
            self.stable_concurrency = weighted(
                before, self.tickets.total, self.parameters.moving_average_weight
            )
            change = self.stable_concurrency - before
            if self.state is ProbingState.UP:
                self._times_increased += 1
                self._total_increased += change
            else:
                self._times_decreased += 1
                self._total_decreased -= change
        self.state = ProbingState.STABLE
        self.tickets = self._share(1)

    def _share(self, step: float) -> TicketCounts:
        limits, concurrency = self.parameters, self.stable_concurrency * step
        bounds = limits.min_concurrency, limits.max_concurrency
        return TicketCounts(
            clamp(_rounded(concurrency * limits.read_write_ratio), *bounds),
            clamp(_rounded(concurrency * (1 - limits.read_write_ratio)), *bounds),
        )

    def _moved(self, step: float, *, one: int) -> TicketCounts:
        """Share out a step up or down; a pool that it is too small for moves by `one`."""
        limits, tickets, moved = self.parameters, self.tickets, self._share(step)

        def at_least_one(new: int, old: int) -> int:
            return clamp(new + one if new == old else new, limits.min_concurrency, limits.max_concurrency)

        return TicketCounts(at_least_one(moved.read, tickets.read), at_least_one(moved.write, tickets.write))

    def stats(self) -> dict[str, Any]:
        """Return `queues.execution.monitor`."""
        return {
            "timesDecreased": Int64(self._times_decreased),
            "timesIncreased": Int64(self._times_increased),
            "totalAmountDecreased": Int64(int(self._total_decreased)),
            "totalAmountIncreased": Int64(int(self._total_increased)),
            "timesProbedStable": Int64(self._probed[ProbingState.STABLE]),
            "timesProbedUp": Int64(self._probed[ProbingState.UP]),
            "timesProbedDown": Int64(self._probed[ProbingState.DOWN]),
        }


def clamp(value: int, lowest: int, highest: int) -> int:
    """Return the number of `lowest` … `highest` that is nearest to `value`."""
    return max(lowest, min(value, highest))


def _rounded(value: float) -> int:
    """Round half away from zero, as the server's language does."""
    return int(value + 0.5)
