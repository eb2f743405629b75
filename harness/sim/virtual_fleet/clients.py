"""A client of the virtual tier: a coroutine that waits, asks, gives up, and asks again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.sim.fleet import columns as c
from harness.sim.fleet.scenario import Deploy
from harness.sim.virtual_fleet.agenda import GIVE_UP
from harness.sim.virtual_fleet.server import FleetAnswer

if TYPE_CHECKING:
    from harness.sim.fleet.scenario import Closed
    from harness.sim.virtual_fleet.agenda import Agenda
    from harness.sim.virtual_fleet.dice import ClientDice
    from harness.sim.virtual_fleet.record import FleetRecord
    from harness.sim.virtual_fleet.server import FleetServer
    from harness.sim.virtual_fleet.strategies import Following


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
