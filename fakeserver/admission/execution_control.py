"""The limit on operations in the storage engine at a time (`Execution Control`).

Reads and writes have a pool of tickets each. Their sizes are fixed, or found by throughput probing.

A pool bounds the operations at work at a time, with a queue for the others (`TicketHolder`). The model: a
pool of `size` tickets, of which `out` are handed out. An operation is a `Ticket` that waits (`started` is
None), works, or is done. `acquire` hands one out or queues for it; `release`, `cancel` and `resize` end that,
and ring the bells of those who are served by it. A real server parks a thread for each waiter; here the shell
parks a request on its ticket's bell, and the decision stays without one.

The order is first come, first served, and strictly so: a newcomer queues even if a ticket is free while
somebody waits (`if self.out < self.size and not self._queue`). A server's semaphore lets a newcomer overtake
a waiter that has not woken up yet; that is a race, which a run that is to repeat cannot have.

The bounds:

* `max_queue_depth` bounds those who wait, not those at work. Beyond it `acquire` raises `Overflow`: the
  server's only rejection by tickets (433), since an unbounded queue answers nobody in time.
* A pool may shrink below what is out. No ticket is taken from an operation at work, because it cannot be
  stopped half done; `available` is negative until enough have come back, and is shown as 0.
* Exempt operations take no ticket and never wait, but are counted: killing what blocks a server, and
  replication, must not wait behind what blocks it (`Admission Priority`).

Two pairs of methods do the same without a `Ticket`, for commands that neither wait nor take time and are
most of all: `use_at_once` (taken and returned in one instant) and `take` / `give_back`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.admission.throughput_probing import (
    Observation,
    ProbingParameters,
    ThroughputProbing,
    TicketCounts,
)
from fakeserver.admission.ticket_sizes import DEFAULT, FIXED, PROBING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.admission.invocations import TicketPool
    from fakeserver.waiting.bell import Bell


UNLIMITED: Final = 2**31 - 1
"""A queue's depth that nobody set."""


class Priority(Enum):
    """The urgency of an operation (`Admission Priority`)."""

    NORMAL = "normal"
    EXEMPT = "exempt"
    """Reserved for what availability or observability hang on: it needs no ticket, but is counted."""


class Overflow(Exception):  # noqa: N818 - what happened to the queue
    """Raised by `TicketHolder.acquire` when as many wait as may."""


class Ticket:
    """One operation's claim on a ticket: it waits, works, or is done."""

    __slots__ = ("arrived", "bell", "priority", "started")

    def __init__(self, priority: Priority, arrived: float) -> None:
        self.priority = priority
        self.arrived = arrived
        """The instant of `acquire`."""
        self.started: float | None = None
        """The instant at which it was handed out, None while it is waited for."""
        self.bell: Bell | None = None
        """Rings when it is handed out, if the shell has set it."""

    @property
    def waited(self) -> float:
        """Seconds from arrival to start; 0 while it is waited for."""
        return 0.0 if self.started is None else self.started - self.arrived

    def __repr__(self) -> str:
        state = "waits" if self.started is None else f"works since {self.started}"
        return f"<Ticket {self.priority.value}, {state}>"


class QueueStats:
    """Counters of the operations of one priority. Times are seconds."""

    def __init__(self) -> None:
        self.added_to_queue = 0
        self.removed_from_queue = 0
        """Operations that left the queue with a ticket, or gave up."""
        self.canceled = 0
        """Operations that gave up."""
        self.started = 0
        self.finished = 0
        self.new_admissions = 0
        """Operations that asked and were not refused, counted on arrival."""
        self.time_queued = 0.0
        """Time of all waits that have ended."""
        self.time_processing = 0.0
        """Time from start to finish, of all operations that have finished."""

    def pass_by(self) -> None:
        """Count an operation that neither waits nor takes time."""
        self.new_admissions += 1
        self.started += 1
        self.finished += 1

    def document(self) -> dict[str, Any]:
        """Return them as `serverStatus` shows them."""
        return {
            "addedToQueue": Int64(self.added_to_queue),
            "removedFromQueue": Int64(self.removed_from_queue),
            "queueLength": Int64(self.added_to_queue - self.removed_from_queue),
            "startedProcessing": Int64(self.started),
            "processing": Int64(self.started - self.finished),
            "finishedProcessing": Int64(self.finished),
            "totalTimeProcessingMicros": Int64(round(self.time_processing * 1e6)),
            "canceled": Int64(self.canceled),
            "newAdmissions": Int64(self.new_admissions),
            "totalTimeQueuedMicros": Int64(round(self.time_queued * 1e6)),
        }


class TicketHolder:
    """A pool of tickets with a queue, first come, first served.

    Whoever gets a `Ticket` from `acquire` looks at its `started`: None says that it has to wait until a
    `release` or a `resize` hands it out, and that it may give up with `cancel`.
    """

    def __init__(self, size: int, *, max_queue_depth: int = UNLIMITED) -> None:
        self.size = size
        self.max_queue_depth = max_queue_depth
        """Operations that may wait at a time; those at work are not among them."""
        self.out = 0
        """Tickets that are handed out; more than `size` after the pool shrank."""
        self.peak = 0
        """The most tickets that were out at a time since `reset_peak`. Throughput probing reads it."""
        self._queue: deque[Ticket] = deque()
        """Those who wait, in the order of arrival."""
        self._normal = QueueStats()
        self._exempt = QueueStats()

    def __repr__(self) -> str:
        return f"<TicketHolder {self.out} of {self.size} out, {self.queued} queued>"

    @property
    def available(self) -> int:
        """Tickets that are left; below zero while a pool that shrank waits for some to come back."""
        return self.size - self.out

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def finished(self) -> int:
        """Operations that have given their ticket back."""
        return self._normal.finished

    @property
    def moved(self) -> int:
        """Times that a ticket was handed out or given back."""
        return self._normal.started + self._normal.finished

    def pass_by(self) -> None:
        """Count an operation that needs no ticket and takes no time."""
        self._exempt.pass_by()

    def use_at_once(self) -> bool:
        """Take a ticket and give it back in the same instant, if there is one to be had without waiting."""
        if self.out >= self.size or self._queue:
            return False
        if self.peak <= self.out:
            self.peak = self.out + 1
        # `pass_by`, in place: this is a hot path.
        normal = self._normal
        normal.new_admissions += 1
        normal.started += 1
        normal.finished += 1
        return True

    def acquire(self, now: float, priority: Priority = Priority.NORMAL) -> Ticket:
        """Hand a ticket out, or queue for one. Raises `Overflow`."""
        ticket = Ticket(priority, now)
        if priority is Priority.EXEMPT:
            self._start(ticket, self._exempt, now)
        elif self.out < self.size and not self._queue:
            self._hand_out(ticket, now)
        elif len(self._queue) >= self.max_queue_depth:
            raise Overflow
        else:
            self._normal.added_to_queue += 1
            self._queue.append(ticket)
        (self._normal if ticket.priority is Priority.NORMAL else self._exempt).new_admissions += 1
        return ticket

    def take(self) -> bool:
        """Hand a ticket out, if there is one to be had without waiting; `give_back` returns it."""
        if self.out >= self.size or self._queue:
            return False
        self.out = out = self.out + 1
        self.peak = max(self.peak, out)
        normal = self._normal
        normal.new_admissions += 1
        normal.started += 1
        return True

    def give_back(self, started: float, now: float) -> Sequence[Ticket]:
        """Take a ticket back that was handed out at `started`; return those that wait no more."""
        self._normal.finished += 1
        self._normal.time_processing += now - started
        self.out -= 1
        return self._serve(now) if self._queue else ()

    def release(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Take a ticket back; return those that wait no more."""
        assert ticket.started is not None, "it was never handed out"
        if ticket.priority is Priority.NORMAL:
            return self.give_back(ticket.started, now)
        self._exempt.finished += 1
        self._exempt.time_processing += now - ticket.started
        return ()

    def cancel(self, ticket: Ticket, now: float) -> None:
        """Wait for a ticket no more."""
        self._queue.remove(ticket)
        self._normal.canceled += 1
        self._leave_queue(ticket, now)

    def resize(self, size: int, now: float) -> Sequence[Ticket]:
        """Change how many tickets there are; return those that wait no more.

        None is taken away from its holder: a smaller pool hands out none until enough came back.
        """
        self.size = size
        return self._serve(now)

    def reset_peak(self) -> int:
        """Return the most tickets that were out since the last call, and begin anew."""
        peak, self.peak = self.peak, self.out
        return peak

    def stats(self) -> dict[str, Any]:
        """Return its section of `serverStatus`."""
        return {
            "out": self.out,
            "available": max(self.available, 0),
            "totalTickets": self.size,
            "normalPriority": self._normal.document(),
            "exempt": self._exempt.document(),
        }

    def _serve(self, now: float) -> Sequence[Ticket]:
        """Hand free tickets to those who wait longest, so that none is free while somebody waits."""
        if not self._queue or self.available <= 0:
            return ()
        served: list[Ticket] = []
        while self._queue and self.available > 0:
            ticket = self._queue.popleft()
            self._leave_queue(ticket, now)
            self._hand_out(ticket, now)
            served.append(ticket)
            if ticket.bell is not None:
                ticket.bell.ring()
        return served

    def _leave_queue(self, ticket: Ticket, now: float) -> None:
        self._normal.removed_from_queue += 1
        self._normal.time_queued += now - ticket.arrived

    def _hand_out(self, ticket: Ticket, now: float) -> None:
        self.out += 1
        self.peak = max(self.peak, self.out)
        self._start(ticket, self._normal, now)

    def _start(self, ticket: Ticket, stats: QueueStats, now: float) -> None:
        ticket.started = now
        stats.started += 1


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
