"""Plays a scenario of a fleet in virtual time, as `harness.sim.fleet.simulate` does by an engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from driver.policy.backpressure import NoBudget, TokenBucket
from harness.sim.fleet import columns as c
from harness.sim.fleet.building import FleetPlan
from harness.sim.fleet.clients import draw_strategy
from harness.sim.fleet.scenario import Closed, Deploy
from harness.sim.fleet.strategies import Backpressure
from harness.sim.virtual_fleet.server import (
    GIVE_UP,
    MOST_TICKS,
    WINDOW,
    Agenda,
    FleetAnswer,
    FleetRecord,
    FleetServer,
    ServerPause,
)
from harness.sim.virtual_fleet.strategies import ClientDice, FollowingBackpressure, FollowingWaits, has_budget
from harness.sim.world import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.fleet.scenario import Scenario
    from harness.sim.virtual_fleet.strategies import Following
    from harness.sim.world import World


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
