"""The network of a swarm: memory, with drawn latencies, packets that are lost, and dates that are wrong."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final

from harness.world.clock import VirtualClock
from harness.world.network import MemoryNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.world.network import Address
    from mongowire.ports import Clock, Rng

_FIRST_RETRANSMISSION: Final = 0.2
"""Seconds after which TCP sends a packet again that was lost; each further time takes twice as long."""
_MOST_LOSSES: Final = 3
"""How often one packet is lost at most, so that a drop delays by less than two seconds."""
_HEAVY_TAIL: Final = 1.5
"""The exponent of the Pareto distribution, whose mean is three times its minimum."""
_LONGEST: Final = 1.0
"""Seconds that a latency takes at most: a single packet may not outlast the schedule."""

LONGEST_DELAY: Final = 2 * (_LONGEST + _FIRST_RETRANSMISSION * (2**_MOST_LOSSES - 1))
"""Seconds by which a packet is late at most, where two faults meet."""


def delay_of(shape: str, mean: float, draw: Callable[[], float]) -> float:
    """Return seconds of a distribution with a mean in seconds; `draw` gives numbers from 0 to 1."""
    if shape == "uniform":
        return 2 * mean * draw()
    if shape == "exponential":
        return min(_LONGEST, -mean * log(1 - draw()))
    if shape == "heavy":
        return min(_LONGEST, mean / 3 * float((1 - draw()) ** (-1 / _HEAVY_TAIL)))
    return mean


@dataclass(frozen=True, slots=True)
class PacketDisturbance:
    """The disturbance of packets to and from one server: a latency on top, and a share that is lost."""

    shape: str = "constant"
    mean: float = 0.0
    lost: float = 0.0

    def delay(self, draw: Callable[[], float]) -> float:
        """Return the seconds by which the next packet is late."""
        late = delay_of(self.shape, self.mean, draw) if self.mean else 0.0
        if self.lost:
            again = _FIRST_RETRANSMISSION
            for _ in range(_MOST_LOSSES):
                if draw() >= self.lost:
                    break
                late, again = late + again, 2 * again
        return late


class DisturbedMemory(MemoryNetwork):
    """A network in memory whose links to single servers are disturbed for a while.

    Nothing overtakes on a connection, as on TCP: a packet that is late holds up those behind it.
    """

    def __init__(self, clock: Clock, rng: Rng) -> None:
        super().__init__(clock, rng)
        self._draw = rng.spawn("disturbances").random
        self._disturbances: dict[Address, list[PacketDisturbance]] = {}

    @contextmanager
    def disturbed(self, server: Address, disturbance: PacketDisturbance) -> Iterator[None]:
        """Disturb what is sent to and from a server while the block runs."""
        of_server = self._disturbances.setdefault(server, [])
        of_server.append(disturbance)
        try:
            yield
        finally:
            of_server.remove(disturbance)

    def arrival(self, server: Address) -> float:
        at = super().arrival(server)
        for disturbance in self._disturbances.get(server, ()):
            at += disturbance.delay(self._draw)
        return at


class SkewedClock(VirtualClock):
    """The virtual time, with a date that is wrong by `skew` seconds."""

    skew = 0.0

    def utc(self) -> float:
        return super().utc() + self.skew


class PrimaryClock(VirtualClock):
    """The date of a deployment: that of its primary, which gives operations their times."""

    date: Callable[[], float] | None = None
    """The primary's date, None before there is one."""

    def utc(self) -> float:
        return super().utc() if self.date is None else self.date()
