"""Servers and clients without bytes: a heap of events over the very objects that a live server decides by.

Asyncio, sockets and BSON are left out, so that 100,000 clients and more can be looked at. Where both can run
a scenario, they give the same answers at the same instants (a test compares them).
"""

from __future__ import annotations

import heapq
import itertools
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeserver.admission.rate_limiter import REJECTED, Reserved
from fakeserver.admission.tickets import Overflow
from fakeserver.waiting.bell import Bell
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.invocations import TicketPool
    from fakeserver.admission.tickets import Ticket

    Then: TypeAlias = Callable[[], None]
    Answer: TypeAlias = Callable[[int | None], None]
    """Hears how a request ended: the code of its error, None for success."""

REJECTION: Final = int(ErrorCode.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED)
OVERFLOW: Final = int(ErrorCode.ADMISSION_QUEUE_OVERFLOW)


class Simulation:
    """A clock that jumps from event to event. Events of one instant happen in the order they were made."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Then]] = []
        self._number = itertools.count()

    def __repr__(self) -> str:
        return f"<Simulation at {self.now}, {len(self._events)} events to come>"

    def at(self, when: float, then: Then) -> None:
        """Have `then` called at an instant; one that is past means now."""
        heapq.heappush(self._events, (max(when, self.now), next(self._number), then))

    def run(self, until: float = float("inf")) -> None:
        """Go on until nothing is to come, or until an instant."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, then = heapq.heappop(events)
            then()
        if until != float("inf"):
            self.now = max(self.now, until)


class SimulatedServer:
    """A server's admission control and its service times, and nothing else."""

    def __init__(self, model: Simulation, admission: AdmissionControl) -> None:
        self.admission = admission
        self._model = model
        self._probes = False

    def request(self, command: str, pool: TicketPool, answer: Answer) -> None:
        """Receive a request now, and tell `answer` how it ended when it has."""
        model, limiter = self._model, self.admission.requests
        if not self.admission.limits_requests:
            self._ingress(command, pool, answer)
            return
        verdict = limiter.acquire(model.now)
        if verdict is REJECTED:
            answer(REJECTION)
        elif isinstance(verdict, Reserved):
            reserved = verdict

            def mature() -> None:
                limiter.mature(reserved)
                self._ingress(command, pool, answer)

            model.at(reserved.ready_at, mature)
        else:
            self._ingress(command, pool, answer)

    def _ingress(self, command: str, pool: TicketPool, answer: Answer) -> None:
        holder = self.admission.ingress

        def go_on(ticket: Ticket) -> None:
            def done(code: int | None) -> None:
                holder.release(ticket, self._model.now)
                answer(code)

            self._execute(command, pool, done)

        self._take(holder.acquire, go_on, answer)

    def _execute(self, command: str, pool: TicketPool, answer: Answer) -> None:
        execution, service = self.admission.execution, self.admission.service

        def go_on(ticket: Ticket) -> None:
            def done() -> None:
                service.finish()
                execution.release(pool, ticket, self._model.now)
                answer(None)

            model = self._model
            began = model.now

            def look() -> None:
                due = service.look(command, began, model.now)
                if due > model.now:
                    model.at(due, look)
                else:
                    done()

            model.at(service.begin(command, began), look)

        self._take(partial(execution.acquire, pool), go_on, answer)
        self._probe_on_time()

    def _probe_on_time(self) -> None:
        """Probe when it is time, as long as somebody waits whom a probe may serve."""
        model, execution = self._model, self.admission.execution
        if self._probes or not execution.awaits_probe:
            return
        self._probes = True

        def probe() -> None:
            execution.catch_up(model.now)
            self._probes = False
            self._probe_on_time()

        model.at(execution.next_probe, probe)

    def _take(
        self, acquire: Callable[[float], Ticket], go_on: Callable[[Ticket], None], answer: Answer
    ) -> None:
        """Go on with a ticket, now or when it is handed out."""
        model = self._model
        try:
            ticket = acquire(model.now)
        except Overflow:
            answer(OVERFLOW)
            return
        if ticket.started is not None:
            go_on(ticket)
            return
        ticket.bell = Bell()
        ticket.bell.listen(lambda: model.at(model.now, lambda: go_on(ticket)))
