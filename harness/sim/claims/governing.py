"""A policy of `pushbackd govern` in a closed loop with a simulated server: the same rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.overload.policy.readings import Reading
from harness.sim.fleet import columns as c
from harness.sim.fleet.outcome import COUNTS

if TYPE_CHECKING:
    from harness.overload.policy.policies import Policy, Settings
    from harness.sim.fleet.columns import FleetWorld

INTERVAL: Final = 0.25
"""Seconds between two readings, as `pushbackd govern` has them."""

_REJECTED: Final = COUNTS.index("rejected")
_COMPLETED: Final = COUNTS.index("completed")


class SimulatedGovernor:
    """Reads the columns of a server as `Governor` reads a status, and sets its limits by a policy.

    A fleet with several members has one policy for all, and each of them the limits.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._reading: Reading | None = None

    def step(self, world: FleetWorld) -> None:
        """Look once; from the second look on decide, and set."""
        before, self._reading = self._reading, _reading(world)
        sample = None if before is None else self._reading.since(before)
        if sample is not None:
            _set(world, self._policy.decide(sample, self._reading.uptime))


def _reading(world: FleetWorld) -> Reading:
    numbers, tick = world.numbers, world.reals[c.TICK]
    members = [c.MEMBERS_AT + member * c.MEMBER for member in range(int(numbers[c.MEMBERS]))]
    at_work = sum(int(numbers[own + c.CONCURRENCY]) for own in members)
    finished = _total(world, _COMPLETED)
    return Reading(
        uptime=int(numbers[c.NOW]) * tick,
        admitted=finished + at_work,
        rejected=_total(world, _REJECTED),
        finished=finished,
        arrived=finished + at_work,
        time_queued=int(numbers[c.WAITED]) * tick,
        queue_length=sum(int(numbers[own + c.TICKET_QUEUE + c.LENGTH]) for own in members),
    )


def _total(world: FleetWorld, place: int) -> int:
    """Return the sum of a column of counts so far."""
    numbers = world.numbers
    begin = int(numbers[c.WINDOWS_AT]) + place
    return sum(int(numbers[begin + row * c.COUNTED]) for row in range(int(numbers[c.WINDOWS])))


def _set(world: FleetWorld, settings: Settings) -> None:
    """Set the limits as the server would that got these parameters."""
    parameters, reals = settings.parameters(), world.reals
    reals[c.REQUEST_RATE] = float(settings.request_rate)
    reals[c.REQUEST_BURST] = settings.request_rate * parameters["ingressRequestAdmissionBurstCapacitySecs"]
    if settings.connection_rate is not None:
        burst = parameters["ingressConnectionEstablishmentBurstCapacitySecs"]
        reals[c.CONNECTION_RATE] = float(settings.connection_rate)
        reals[c.CONNECTION_BURST] = settings.connection_rate * burst
