"""The limit on operations in the storage engine at a time (`Execution Control`).

Reads and writes have a pool of tickets each. Their sizes are fixed, or found by throughput probing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.admission.throughput_probing import (
    Observation,
    ProbingParameters,
    ThroughputProbing,
    TicketCounts,
)
from fakeserver.admission.ticket_sizes import DEFAULT, FIXED, PROBING
from fakeserver.admission.tickets import UNLIMITED, Priority, TicketHolder

if TYPE_CHECKING:
    from fakeserver.admission.invocations import TicketPool
    from fakeserver.admission.tickets import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionParameters:
    """The server parameters of execution control. `interval` is the seconds between two probes."""

    algorithm: str = PROBING
    """What is in force, which sizes that are set may have changed."""
    fixed: TicketCounts = field(default_factory=lambda: TicketCounts(DEFAULT, DEFAULT))
    max_queue_depth: TicketCounts = field(default_factory=lambda: TicketCounts(UNLIMITED, UNLIMITED))
    probing: ProbingParameters = field(default_factory=ProbingParameters)
    interval: float = 0.1


_CYCLE: Final = 2
"""The probes of a trial: one that sets it off, one that ends it."""


class ExecutionControl:
    """The two pools, and the search for their sizes.

    A probe takes place at every interval since the beginning. No timer is needed for it: whoever takes a
    ticket, gives one back or asks has the probes of the meantime made first, each with what was done in its
    interval. Only who waits for a ticket may be served by a probe itself, and has to look at `next_probe`.
    """

    def __init__(self, parameters: ExecutionParameters, *, cores: int, now: float) -> None:
        self.parameters = parameters
        self.probing = ThroughputProbing(parameters.probing, cores=cores)
        tickets = parameters.fixed if self.is_fixed else self.probing.tickets
        self.read = TicketHolder(tickets.read, max_queue_depth=parameters.max_queue_depth.read)
        self.write = TicketHolder(tickets.write, max_queue_depth=parameters.max_queue_depth.write)
        self._began = now
        self._probes = 0
        """Probes since `_began`: their instants are multiples of the interval, whoever asks and whenever."""
        self._finished = 0

    def __repr__(self) -> str:
        return f"<ExecutionControl read {self.read!r}, write {self.write!r}>"

    @property
    def is_fixed(self) -> bool:
        """Whether the pools have the sizes that are set, and nothing probes for others."""
        return self.parameters.algorithm == FIXED

    @property
    def next_probe(self) -> float:
        """The instant of the next probe."""
        return self._began + (self._probes + 1) * self.parameters.interval

    @property
    def awaits_probe(self) -> bool:
        """Whether somebody waits for a ticket that a probe may bring."""
        return not self.is_fixed and bool(self.read.queued or self.write.queued)

    @property
    def progress(self) -> int:
        """A number that grows with every ticket that is handed out or given back."""
        return self.read.moved + self.write.moved

    def reconfigure(self, parameters: ExecutionParameters, now: float) -> None:
        """Take changed parameters into account; fixed sizes hold at once, probes go on from `now`."""
        self.catch_up(now)
        if (parameters.interval, parameters.algorithm) != (
            self.parameters.interval,
            self.parameters.algorithm,
        ):
            self._began, self._probes = now, 0
        self.parameters = parameters
        self.probing.parameters = parameters.probing
        self.read.max_queue_depth = parameters.max_queue_depth.read
        self.write.max_queue_depth = parameters.max_queue_depth.write
        if self.is_fixed:
            self._resize(parameters.fixed, now)

    def acquire(self, pool: TicketPool, now: float, priority: Priority = Priority.NORMAL) -> Ticket:
        """Take a ticket of a pool, or queue for one. Raises `Overflow`."""
        self.catch_up(now)
        return self.holder(pool).acquire(now, priority)

    def use_at_once(self, pool: TicketPool, now: float, *, exempt: bool = False) -> bool:
        """Take a ticket and give it back in the same instant, if there is one to be had without waiting."""
        self.catch_up(now)
        holder = self.read if pool == "read" else self.write
        if exempt:
            holder.pass_by()
            return True
        return holder.use_at_once()

    def release(self, pool: TicketPool, ticket: Ticket, now: float) -> None:
        """Give a ticket back; whoever waited longest has it then, and its bell rings."""
        self.catch_up(now)
        self.holder(pool).release(ticket, now)

    def holder(self, pool: TicketPool) -> TicketHolder:
        """Return the tickets for reads or for writes."""
        return self.read if pool == "read" else self.write

    def catch_up(self, now: float) -> None:
        """Make the probes whose time has come."""
        if now < self._began + (self._probes + 1) * self.parameters.interval:
            return
        if self.is_fixed:
            # Counted all the same, so that probing goes on at the next multiple and not in the past.
            self._probes = int((now - self._began) / self.parameters.interval)
            return
        while now >= self.next_probe:
            quiet = self.read.finished + self.write.finished == self._finished
            before = self._settled() if quiet else None
            for _ in range(_CYCLE):
                if now >= self.next_probe:
                    self._probe()
            if quiet and before == self._settled():
                # While nothing is done, every trial is like the last one: a server that was quiet for a day
                # counts 864,000 probes without making them.
                left = int((now - self.next_probe) / self.parameters.interval) // _CYCLE
                self.probing.repeat(max(left, 0))
                self._probes += max(left, 0) * _CYCLE

    def _settled(self) -> tuple[object, ...]:
        return self.probing.situation, self.progress, self.read.peak, self.write.peak

    def _probe(self) -> None:
        at = self.next_probe
        self._probes += 1
        finished = self.read.finished + self.write.finished
        done, self._finished = finished - self._finished, finished
        peak = TicketCounts(self.read.peak, self.write.peak)
        if self.probing.is_stable:
            # Exhaustion is judged by the peak since the last stable probe, the trial's interval included.
            self.read.reset_peak()
            self.write.reset_peak()
        self._resize(self.probing.probe(Observation(done, self.parameters.interval, peak)), at)

    def _resize(self, tickets: TicketCounts, now: float) -> None:
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
