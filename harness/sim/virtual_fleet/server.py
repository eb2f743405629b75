"""The server of the virtual tier: the fake's own admission and service times, for each request at work.

Requests that began a whole number of looks apart are looked at in the same ticks. They are a round: a task
looks at the oldest of it and, only if that is done, at the next. One that came later cannot be done before
it, so a server that is buried under requests costs a look at one of each round, not at all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from fakeserver.admission.rate_limiter import REJECTED, RateLimiter
from fakeserver.admission.service_model import ServiceModel, ServiceParameters
from harness.sim.fleet import columns as c
from harness.sim.virtual_fleet.agenda import LEAVE, LOOK, OUTAGES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from harness.sim.fleet.scenario import Servers
    from harness.sim.virtual_fleet.agenda import Agenda
    from harness.sim.virtual_fleet.record import FleetRecord

_COMMAND: Final = "find"


class FleetAnswer(Enum):
    """The end of a request."""

    OK = "ok"
    REJECTED = "rejected"


@dataclass(eq=False)
class FleetRequest:
    """A client's request; its `answer` comes, or does not. `gone` says that nobody waits for it any more."""

    client: int
    sent: int
    answer: asyncio.Future[FleetAnswer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    gone: bool = False
    begun: int = 0
    number: int = 0
    """Its place among those that are looked at in one tick."""
    at_work: bool = False


@dataclass(frozen=True)
class ServerPause:
    """The server stands still from a tick until another."""

    start: int
    end: int


class FleetServer:
    """One server that may stand still; times are ticks."""

    def __init__(self, servers: Servers, agenda: Agenda, record: FleetRecord) -> None:
        own, limit = servers.service, servers.request_limit
        self._servers = servers
        self._agenda = agenda
        self._record = record
        self._service = ServiceModel(
            ServiceParameters(
                base=own.base / record.tick,
                concurrency_limit=own.limit,
                factor=own.factor,
                k=own.k,
                longest=record.ticks,
                recompute=record.whole(own.recompute),
            )
        )
        self._limiter: RateLimiter | None = None
        if limit is not None:
            self._limiter = RateLimiter(
                "requests", rate=limit.rate, burst_seconds=limit.burst_seconds, now=0.0
            )
        self._backlog: list[FleetRequest] = []
        self._kept = 0
        """How many in the backlog have gone."""
        self._paused_until = 0
        self._rounds: dict[int, deque[FleetRequest]] = {}
        """The requests at work, the oldest first, by the tick of a period at which they are looked at."""
        self._peak = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_paused(self) -> bool:
        """Whether it stands still."""
        return self._paused_until > self._agenda.now

    # The clients' side.

    def receive(self, client: int) -> FleetRequest:
        """Take a request; it waits while the server stands still."""
        request = FleetRequest(client, self._agenda.now)
        if self.is_paused:
            self._backlog.append(request)
        else:
            self._admit(request)
        return request

    def hang_up(self, request: FleetRequest) -> None:
        """Lose a client; what becomes of its request is `Servers.abandoned`."""
        request.gone = True
        self._record.note(request.client, c.GONE)
        notices = self._servers.abandoned
        if request in self._backlog:
            if notices == "at once" or self._kept >= self._servers.backlog:
                self._backlog.remove(request)
            else:
                self._kept += 1
        elif notices == "at once":
            request.at_work = False
            self._service.finish()
        elif notices == "at a check":
            request.at_work = False
            self._spawn(self._leave(request))

    # Outages.

    async def stand_still(self, pauses: Sequence[ServerPause]) -> None:
        """Stand still and go on, as often as that is asked for."""
        for tick in sorted({tick for pause in pauses for tick in (pause.start, pause.end)}):
            await self._agenda.reach(tick, OUTAGES)
            for pause in pauses:
                if pause.start == tick:
                    self._paused_until = max(self._paused_until, pause.end)
                elif pause.end == tick and not self.is_paused:
                    self._go_on()

    def _go_on(self) -> None:
        """Let in what waits, in the order in which it came."""
        waited, self._backlog, self._kept = self._backlog, [], 0
        for request in waited:
            if not request.gone:
                self._record.waited(request.sent)
                self._admit(request)
            elif self._servers.abandoned == "never":
                self._admit(request)

    # Work.

    def _admit(self, request: FleetRequest) -> None:
        """Ask the limiter, and begin."""
        now = self._agenda.now * self._record.tick
        if self._limiter is not None and self._limiter.acquire(now) is REJECTED:
            if not request.gone:
                request.answer.set_result(FleetAnswer.REJECTED)
            return
        request.begun, request.number, request.at_work = self._agenda.now, self._agenda.number(), True
        due = int(self._service.begin(_COMMAND, request.begun))
        self._peak = max(self._peak, self._service.concurrency)
        phase = due % self._period
        if phase in self._rounds:
            self._rounds[phase].append(request)
        else:
            self._rounds[phase] = deque([request])
            self._spawn(self._look_round(phase, due))

    @property
    def _period(self) -> int:
        return round(self._service.parameters.recompute)

    async def _look_round(self, phase: int, due: int) -> None:
        """Look at the requests of a round now and then, until none is left."""
        waiting = self._rounds[phase]
        while waiting:
            request = waiting[0]
            if request.at_work:
                await self._agenda.reach(due, LOOK, request.number)
            if request.at_work and (self.is_paused or self._service.look(_COMMAND, request.begun, due) > due):
                due += self._period
                continue
            waiting.popleft()
            if request.at_work:
                self._finish(request)
        del self._rounds[phase]

    def _finish(self, request: FleetRequest) -> None:
        request.at_work = False
        self._complete()
        if not request.gone:
            request.answer.set_result(FleetAnswer.OK)

    async def _leave(self, request: FleetRequest) -> None:
        """Notice at the next look that a client has gone."""
        period = round(self._service.parameters.recompute)
        due = request.begun + ((self._agenda.now - request.begun) // period + 1) * period
        await self._agenda.reach(due, LEAVE)
        if self.is_paused:
            await self._agenda.reach(self._paused_until, LEAVE)
        self._complete()

    def _complete(self) -> None:
        self._record.note(c.NO_CLIENT, c.COMPLETED)
        self._service.finish()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # How things stand.

    def reset_peak(self) -> int:
        """Return the most requests at work at a time since the last call, and begin anew."""
        peak, self._peak = self._peak, self._service.concurrency
        return peak

    def levels(self) -> tuple[float, float, float, float]:
        """Return the requests at work, the ticks that one takes now, those that wait, and the tokens."""
        tokens = 0.0
        if self._limiter is not None:
            tokens = self._limiter.available((self._agenda.now + 1) * self._record.tick)
        at_work = self._service.concurrency
        return at_work, self._service.parameters.seconds(at_work), len(self._backlog), tokens
