"""The oracle of the fleets: clients and server as coroutines in virtual time, over the real objects.

The columns of `harness.sim.fleet` hold the decisions of driver and server once more, as arithmetic on rows of
numbers. Here the same scenario is played by what they stand for: a coroutine for each client, which asks,
waits and gives up, with `driver.policy` for its retries; a task for each request at the server, with the
fake's own `RateLimiter` and `ServiceModel`. The dice are the same, so the course is the same, event by event.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from driver.editions import EDITIONS
from driver.policy.backpressure import NoBudget, TokenBucket
from driver.policy.retry import (
    Decision,
    Failure,
    GiveUp,
    RetryAt,
    RetryPolicy,
    RetryState,
    deposit_of_failure,
    deposit_of_success,
)
from fakeserver.admission.rate_limiter import REJECTED, RateLimiter
from fakeserver.admission.service_model import ServiceModel, ServiceParameters
from harness.sim.fleet import columns as c
from harness.sim.fleet.building import FleetPlan
from harness.sim.fleet.clients import ClientDice, draw_strategy
from harness.sim.fleet.lists import note, ticks
from harness.sim.fleet.retries import took
from harness.sim.fleet.running import outcome_of, plain_world
from harness.sim.fleet.scenario import Closed, Deploy
from harness.sim.fleet.strategies import Backpressure, Exponential, Fixed, NoRetry
from harness.world.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.fleet.scenario import Scenario, Servers
    from harness.sim.fleet.strategies import Strategy
    from harness.world.virtual import World
    from mongowire.ports import Clock


# Strategies of the virtual tier after a failure: the driver's own policy objects.


class Following(Protocol):
    """A client's strategy, followed through its operations."""

    def begin(self, gap: float | None) -> None:
        """Begin an operation; `gap` are the seconds that the client waited for it."""

    def succeed(self) -> None:
        """End it well."""

    def fail(self, *, overloaded: bool) -> float | None:
        """Return the seconds before the next attempt, None where there is none."""


class FollowingWaits:
    """The strategies of an application: none, a fixed interval, exponential backoff."""

    def __init__(self, strategy: NoRetry | Fixed | Exponential, dice: ClientDice) -> None:
        self._strategy = strategy
        self._dice = dice
        self._last: float | None = None

    def begin(self, gap: float | None) -> None:
        own = self._strategy
        self._last = gap if isinstance(own, Exponential) and own.from_gap else None

    def succeed(self) -> None:
        """Owe nobody anything."""

    def fail(self, *, overloaded: bool) -> float | None:
        own = self._strategy
        if isinstance(own, NoRetry):
            return None
        if isinstance(own, Fixed):
            return own.interval
        if self._last is None:
            self._last = own.minimum
        else:
            wait = min(self._last * own.factor, own.maximum)
            self._last = wait + self._dice.normal() * (own.jitter * (wait if own.relative else 1.0))
        return self._last


class FollowingBackpressure:
    """The reference driver's policy and its budget, which clients may share."""

    def __init__(
        self, strategy: Backpressure, dice: ClientDice, budget: TokenBucket | NoBudget, told: float | None
    ) -> None:
        policy, own = RetryPolicy.of(EDITIONS[strategy.edition]), strategy
        self._policy = replace(
            policy,
            max_adaptive_retries=policy.max_adaptive_retries if own.retries is None else own.retries,
            honours_base_backoff=(
                policy.honours_base_backoff
                if own.honours_server_backoff is None
                else own.honours_server_backoff
            ),
        )
        self._jitters = strategy.jitter
        self._dice = dice
        self._budget = budget
        self._told = told
        self._state = RetryState.initial(timed=False)

    def begin(self, gap: float | None) -> None:
        self._state = RetryState.initial(timed=False)

    def succeed(self) -> None:
        self._budget.deposit(deposit_of_success(self._state))

    def fail(self, *, overloaded: bool) -> float | None:
        failure = Failure(overloaded, retryable=True, base_backoff=self._told)
        self._budget.deposit(deposit_of_failure(self._state, failure))

        decision = self._decide(failure, jitter=1.0)
        if isinstance(decision, RetryAt) and overloaded and self._jitters:
            # Asked twice, as dice are rolled for a wait that there is, and only then.
            decision = self._decide(failure, jitter=self._dice.jitter())
        if isinstance(decision, GiveUp) or not self._budget.consume(decision.cost):
            return None
        self._state = decision.state
        return decision.backoff

    def _decide(self, failure: Failure, *, jitter: float) -> Decision:
        return self._policy.decide(self._state, failure, now=0.0, deadline=math.inf, jitter=jitter)


def has_budget(strategy: Strategy) -> bool:
    """Return whether retries of a strategy are paid for."""
    if not isinstance(strategy, Backpressure):
        return False
    edition = EDITIONS[strategy.edition]
    return edition.has_token_bucket if strategy.token_bucket is None else strategy.token_bucket


def play(scenario: Scenario, *, on_progress: Callable[[float], None] | None = None) -> FleetOutcome:
    """Run a scenario, and return what was measured: what the engines measure, to the last event.

    `on_progress` hears the simulated seconds after each window. Raises `ValueError` for a scenario that has
    what is in the model alone.
    """
    check(scenario)
    return run_virtual(lambda world: _Play(scenario, world, on_progress).run(), seed=scenario.seed)


def check(scenario: Scenario) -> None:
    """Raise `ValueError`, with the name of the field, for what this tier does not have."""
    servers, limit = scenario.servers, scenario.servers.request_limit
    own = {
        "Scenario.arrivals": isinstance(scenario.arrivals, Closed | Deploy),
        "Servers.members": servers.members == 1,
        "Servers.mongos": not servers.mongos,
        "Servers.connection_limit": servers.connection_limit is None,
        "Servers.tickets": servers.tickets is None,
        "RequestLimit.queue": limit is None or not limit.queue,
        "Service.workers": not servers.service.workers,
        "Service.recompute": servers.service.recompute > 0,
        "Outage.kind": all(outage.kind == "pause" for outage in scenario.outages),
        "Scenario.seconds": scenario.seconds / scenario.tick < MOST_TICKS,
    }
    for name, can_run in own.items():
        if not can_run:
            raise ValueError(
                f"{name}: the virtual tier has one server that looks at its requests, clients that wait"
                f" between operations, and fewer than {MOST_TICKS} ticks"
            )


class _Play:
    """One run: a task for each client, one for the outages, and the windows."""

    def __init__(self, scenario: Scenario, world: World, on_progress: Callable[[float], None] | None) -> None:
        self._scenario = scenario
        self._plan = FleetPlan(scenario)
        self._agenda = Agenda(world.clock)
        self._record = FleetRecord(self._plan, self._agenda)
        self._server = FleetServer(scenario.servers, self._agenda, self._record)
        self._budgets: dict[tuple[int, int], TokenBucket] = self._buckets()
        self._on_progress = on_progress

    async def run(self) -> FleetOutcome:
        """Play to the end. What is under way then is cancelled with the loop."""
        clients = [self._client(number) for number in range(self._scenario.clients)]
        running = [client.run(self._server, self._agenda, self._record) for client in clients]
        tasks = [asyncio.create_task(each) for each in (*running, self._server.stand_still(self._pauses()))]
        numbers = self._plan.numbers
        for window in range(1, numbers[c.WINDOWS] + 1):
            end = min(window * numbers[c.WINDOW], self._plan.ticks)
            await self._agenda.reach(end - 1, WINDOW)
            self._record.close_window(self._server.levels(), self._retry_tokens(), self._server.reset_peak())
            if self._on_progress is not None:
                self._on_progress(end * self._scenario.tick)
        for task in tasks:
            if task.done():
                task.result()
        return self._record.outcome()

    def _pauses(self) -> list[ServerPause]:
        whole = self._plan.whole
        starts = [(whole(outage.start), whole(outage.end)) for outage in self._scenario.outages]
        return [ServerPause(start, max(end, start + 1)) for start, end in starts]

    def _client(self, number: int) -> VirtualClient:
        arrivals = self._scenario.arrivals
        assert isinstance(arrivals, Closed | Deploy)
        dice = ClientDice(self._scenario.seed, number)
        patience = self._plan.numbers[c.TIMEOUT]
        return VirtualClient(number, dice, self._following(number, dice), arrivals, patience)

    def _following(self, number: int, dice: ClientDice) -> Following:
        """Return what a client follows; its strategy is drawn as the model draws it."""
        drawn = draw_strategy(self._record.world, number)
        _, strategy = self._scenario.fleet[drawn]
        if not isinstance(strategy, Backpressure):
            return FollowingWaits(strategy, dice)
        limit = self._scenario.servers.request_limit
        budget = self._budgets.get((drawn, number // strategy.sharing), NoBudget())
        told = None if limit is None else limit.told_backoff
        return FollowingBackpressure(strategy, dice, budget, told)

    def _buckets(self) -> dict[tuple[int, int], TokenBucket]:
        """Return the drivers' budgets, by strategy and group of clients."""
        return {
            (place, group): TokenBucket()
            for place, (_, strategy) in enumerate(self._scenario.fleet)
            if isinstance(strategy, Backpressure) and has_budget(strategy)
            for group in range(-(-self._scenario.clients // strategy.sharing))
        }

    def _retry_tokens(self) -> float:
        count = len(self._budgets)
        return _sum(bucket.tokens / count for bucket in self._budgets.values())


def _sum(values: Iterator[float]) -> float:
    """Add one after the other, as the engines do: `sum` of Python 3.12 is more exact than that."""
    total = 0.0
    for value in values:
        total += value
    return total


# A client of the virtual tier: a coroutine that waits, asks, gives up, and asks again.


class VirtualClient:
    """One client, by its number; `patience` are the ticks after which it gives an attempt up."""

    def __init__(
        self, number: int, dice: ClientDice, following: Following, arrivals: Closed | Deploy, patience: int
    ) -> None:
        self._number = number
        self._dice = dice
        self._following = following
        self._arrivals = arrivals
        self._patience = patience

    async def run(self, server: FleetServer, agenda: Agenda, record: FleetRecord) -> None:
        """Wait and ask, for ever."""
        self._server, self._agenda, self._record = server, agenda, record
        gap = self._first_gap()
        while True:
            self._following.begin(gap)
            await self._sleep(gap)
            await self._operation()
            gap = self._arrivals.gap * self._dice.gap()

    def _first_gap(self) -> float:
        if isinstance(self._arrivals, Deploy):
            return self._arrivals.within * self._dice.start()
        return self._arrivals.gap * self._dice.gap()

    async def _sleep(self, seconds: float) -> None:
        await self._agenda.wake(self._agenda.now + self._record.wait_of(seconds))

    async def _operation(self) -> None:
        """Ask until there is an answer, or no more to try."""
        first = self._agenda.now
        self._note(c.OFFERED)
        while True:
            answer = await self._attempt()
            if answer is FleetAnswer.OK:
                self._note(c.OK)
                self._record.succeeded(first)
                self._following.succeed()
                return
            wait = self._following.fail(overloaded=answer is FleetAnswer.REJECTED)
            if wait is None:
                self._note(c.FAILED)
                return
            await self._sleep(wait)

    async def _attempt(self) -> FleetAnswer | None:
        """Ask once; return the answer, None where the client gave up."""
        self._note(c.ATTEMPTS)
        request = self._server.receive(self._number)
        agenda = self._agenda
        deadline = agenda.instant(agenda.now + self._patience, GIVE_UP, agenda.number())
        try:
            async with asyncio.timeout_at(deadline):
                answer = await request.answer
        except TimeoutError:
            self._note(c.TIMED_OUT)
            self._server.hang_up(request)
            return None
        if answer is FleetAnswer.REJECTED:
            self._note(c.REJECTED)
            self._note(c.ERRORS)
        return answer

    def _note(self, kind: int) -> None:
        self._record.note(self._number, kind)


# The server of the virtual tier: the fake's own admission and service times, for each request at work.
#
# Requests that began a whole number of looks apart are looked at in the same ticks. They are a round: a
# task looks at the oldest of it and, only if that is done, at the next. One that came later cannot be done
# before it, so a server that is buried under requests costs a look at one of each round, not at all of
# them.
#
# A virtual loop calls what is due at one instant together, and tasks that these wake come after all of
# them. The engine finishes with one client before it turns to the next. So each thing that happens has an
# instant to itself: the tick, then the place that its kind has in `engine.advance`, then its number.


OUTAGES: Final = 1 / 8
LEAVE: Final = 2 / 8
LOOK: Final = 3 / 8
GIVE_UP: Final = 4 / 8
WAKE: Final = 6 / 8
"""The end of its place: what was set last comes first."""
WINDOW: Final = 7 / 8

_STEP: Final = 2.0**-30
"""Between two numbers. A float tells them apart up to `MOST_TICKS`; an eighth has room for 134 million."""
MOST_TICKS: Final = 2**22


class Agenda:
    """The instants of a run on a clock whose second is a tick."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)

    @property
    def now(self) -> int:
        """The present tick."""
        return int(self._clock.now())

    def number(self) -> int:
        """Return the number of something that begins now."""
        return next(self._numbers)

    def instant(self, tick: int, place: float, number: int = 0) -> float:
        """Return the instant of something in a tick, after what has a smaller number."""
        return tick + place + number * _STEP

    async def reach(self, tick: int, place: float, number: int = 0) -> None:
        """Wait for such an instant."""
        await self._clock.sleep_until(self.instant(tick, place, number))

    async def wake(self, tick: int) -> None:
        """Wait until it is this client's turn in a tick: before those who waited for it already."""
        await self._clock.sleep_until(self.instant(tick, WAKE, -self.number()))


_SLACK: Final = 1e-9


class FleetRecord:
    """The measures of one run, in columns of which nothing but measures is used."""

    def __init__(self, plan: FleetPlan, agenda: Agenda) -> None:
        self.world = plain_world(plan)
        self.ticks = plan.ticks
        self.tick = plan.scenario.tick
        self.whole = plan.whole
        self._scenario = plan.scenario
        self._agenda = agenda

    def note(self, client: int, kind: int) -> None:
        """Take note of an event of now."""
        self.world.numbers[c.NOW] = self._agenda.now
        note(self.world, client, kind)

    def succeeded(self, first: int) -> None:
        """Take note of how long an operation took that began at a tick."""
        took(self.world, self._agenda.now - first)

    def waited(self, since: int) -> None:
        """Take note of a wait before the work on a request."""
        self.world.numbers[c.WAITED] += self._agenda.now - since

    def wait_of(self, seconds: float) -> int:
        """Return the ticks nearest to a wait, at least one."""
        return ticks(self.world, max(seconds, 0.0))

    def close_window(self, levels: tuple[float, float, float, float], retry_tokens: float, peak: int) -> None:
        """End a window: with the server's levels and peak, and the mean of the drivers' buckets."""
        numbers, reals = self.world.numbers, self.world.reals
        at_work, service, waiting, tokens = levels
        delay = min(math.ceil(service - _SLACK), self.ticks) * self.tick
        reals[numbers[c.LEVEL_AT] : numbers[c.LEVEL_AT] + c.LEVELS] = [
            *(at_work, delay, waiting, tokens, retry_tokens, peak)
        ]
        numbers[c.LEVEL_AT] += c.LEVELS
        numbers[c.WINDOW_AT] += c.COUNTED

    def outcome(self) -> FleetOutcome:
        """Return everything."""
        return outcome_of(self._scenario, self.world)


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
