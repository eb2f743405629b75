"""How many operations may be in the storage engine at a time (`Execution Control`).

Reads and writes have a pool of tickets each. Their sizes are fixed, or found by throughput probing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from fakeserver.admission.throughput_probing import (
    Observation,
    Pools,
    ProbingParameters,
    ThroughputProbing,
)
from fakeserver.admission.tickets import UNLIMITED, Priority, TicketHolder

if TYPE_CHECKING:
    from fakeserver.admission.tickets import Ticket

Pool: TypeAlias = Literal["read", "write"]
FIXED: Final = "fixedConcurrentTransactions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionParameters:
    """The server parameters of execution control. `interval` is the seconds between two probes."""

    algorithm: str = "throughputProbing"
    fixed: Pools = field(default_factory=lambda: Pools(128, 128))
    max_queue_depth: Pools = field(default_factory=lambda: Pools(UNLIMITED, UNLIMITED))
    probing: ProbingParameters = field(default_factory=ProbingParameters)
    interval: float = 0.1


class ExecutionControl:
    """The two pools, and the search for their sizes, which goes on when something happens: no timer runs."""

    def __init__(self, parameters: ExecutionParameters, *, cores: int, now: float) -> None:
        self.parameters = parameters
        self.probing = ThroughputProbing(parameters.probing, cores=cores)
        tickets = parameters.fixed if self._is_fixed else self.probing.tickets
        self.read = TicketHolder(tickets.read, max_queue_depth=parameters.max_queue_depth.read)
        self.write = TicketHolder(tickets.write, max_queue_depth=parameters.max_queue_depth.write)
        self._observed_at = now
        self._finished = 0

    def __repr__(self) -> str:
        return f"<ExecutionControl read {self.read!r}, write {self.write!r}>"

    @property
    def _is_fixed(self) -> bool:
        return self.parameters.algorithm == FIXED

    def reconfigure(self, parameters: ExecutionParameters, now: float) -> None:
        """Take changed parameters into account; fixed sizes hold at once."""
        self.parameters = parameters
        self.probing.parameters = parameters.probing
        self.read.max_queue_depth = parameters.max_queue_depth.read
        self.write.max_queue_depth = parameters.max_queue_depth.write
        if self._is_fixed:
            self._resize(parameters.fixed, now)

    def acquire(self, pool: Pool, now: float, priority: Priority = Priority.NORMAL) -> Ticket:
        """Take a ticket of a pool, or queue for one. Raises `Overflow`."""
        self.probe(now)
        return self.holder(pool).acquire(now, priority)

    def use_at_once(self, pool: Pool, now: float) -> bool:
        """Take a ticket and give it back in the same instant, if there is one to be had without waiting."""
        if now - self._observed_at >= self.parameters.interval:
            self.probe(now)
        return (self.read if pool == "read" else self.write).use_at_once()

    def release(self, pool: Pool, ticket: Ticket, now: float) -> None:
        """Give a ticket back; whoever waited longest has it then, and its bell rings."""
        self.holder(pool).release(ticket, now)
        self.probe(now)

    def holder(self, pool: Pool) -> TicketHolder:
        """Return the tickets for reads or for writes."""
        return self.read if pool == "read" else self.write

    def probe(self, now: float) -> None:
        """Observe what was done, if it is time, and resize the pools."""
        seconds = now - self._observed_at
        if seconds < self.parameters.interval:
            return
        self._observed_at = now
        finished = self.read.finished + self.write.finished
        done, self._finished = finished - self._finished, finished
        if self._is_fixed:
            return
        peak = Pools(self.read.peak, self.write.peak)
        if self.probing.is_stable:
            self.read.reset_peak()
            self.write.reset_peak()
        self._resize(self.probing.probe(Observation(done, seconds, peak)), now)

    def _resize(self, tickets: Pools, now: float) -> None:
        self.read.resize(tickets.read, now)
        self.write.resize(tickets.write, now)

    def stats(self) -> dict[str, Any]:
        """Return `queues.execution`."""
        return {
            "totalDeprioritizations": 0,
            "read": self.read.stats(),
            "write": self.write.stats(),
            "monitor": self.probing.stats(),
        }
