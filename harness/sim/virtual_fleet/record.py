"""The record of a run on the virtual tier: the numbers and the trace of the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from harness.sim.fleet import columns as c
from harness.sim.fleet.lists import note, ticks
from harness.sim.fleet.retries import took
from harness.sim.fleet.running import outcome_of, plain_world

if TYPE_CHECKING:
    from harness.sim.fleet.building import FleetPlan
    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.virtual_fleet.agenda import Agenda

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
