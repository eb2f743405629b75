"""From a scenario to columns: sizes, places and first values, as parts of which a column is put together.

Parts (`so many times this value`) let one plan become lists or arrays without a list of millions in between.
Blocks are laid out in the order of `FleetPlan.__init__`: each notes where it begins, as the engine finds it
by that alone. Seconds become ticks here; limits of size raise `ValueError` with the field.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from driver.policy.backpressure import RETRY_TOKEN_CAPACITY
from harness.sim.fleet import columns as c
from harness.sim.fleet.scenario import Closed, Deploy, Diurnal, Spike
from harness.sim.fleet.strategies import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.sim.fleet.scenario import Arrivals, Scenario, Service

Part: TypeAlias = tuple[int, float]
"""So many times this value."""

_MOST_TICKS: Final = 2**31 - 2
_MOST_COUNTED_TICKS: Final = 2**22
"""Where those who have gone are counted by tick."""
_MOST_CLASSES: Final = 2**27
_MOST_TABLE: Final = 2**26
_FEW_SLOTS: Final = 2**17
_RATE_STEPS: Final = 1024
_CHECK: Final = 0.05
"""Seconds between two looks at a request whose time was decided when it began."""
_SLACK: Final = 1e-9
"""Of a tick: what the quotient of two decimal fractions is off."""
_NOTICES: Final = {"at once": c.AT_ONCE, "at a check": c.AT_A_CHECK, "never": c.NEVER}


class FleetPlan:
    """The columns of a scenario, in parts. Raises ValueError for a scenario that is too large."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.ticks = max(round(scenario.seconds / scenario.tick), 1)
        self.numbers = [0] * c.MEMBERS_AT
        self.reals = [0.0] * c.ZEROS_AT
        self.slots: list[Part] = []
        self._slots_size = 0
        self.check()
        self._scenario()
        self._servers()
        self._lists()
        self._members()
        self._strategies()
        self._arrivals()
        self._rest()

    def check(self) -> None:
        """Raise ValueError for what would not fit."""
        scenario, service = self.scenario, self.scenario.servers.service
        most = _MOST_TICKS if scenario.timeout is None else _MOST_COUNTED_TICKS
        if self.ticks > most:
            raise ValueError(
                f"Scenario.seconds are {self.ticks} ticks, and at most {most} can be: choose a longer tick"
            )
        if _looks(service) and self.ticks * scenario.servers.members > _MOST_CLASSES:
            raise ValueError(
                f"Scenario.seconds are {self.ticks} ticks for each member: with Service.recompute at most "
                f"{_MOST_CLASSES} in all can be, choose a longer tick"
            )

    def whole(self, seconds: float) -> int:
        """Return the ticks nearest to some seconds, at least one and none beyond the end."""
        return max(int(min(seconds / self.scenario.tick, self.ticks + 1) + 0.5), 1)

    def _scenario(self) -> None:
        own, numbers = self.scenario, self.numbers
        numbers[c.CLIENTS] = own.clients
        numbers[c.TICKS] = self.ticks
        numbers[c.SEED] = own.seed
        numbers[c.TIMEOUT] = self.ticks if own.timeout is None else self.whole(own.timeout)
        numbers[c.HAS_RINGS] = int(own.timeout is not None)
        numbers[c.IDLE_FIRST] = c.NOBODY
        numbers[c.WINDOW] = self.whole(own.window)
        numbers[c.WINDOWS] = -(-self.ticks // numbers[c.WINDOW])
        self.reals[c.TICK] = own.tick

    def _servers(self) -> None:
        servers, numbers, reals = self.scenario.servers, self.numbers, self.reals
        service = servers.service
        numbers[c.MEMBERS] = servers.members
        numbers[c.GATES] = servers.mongos or servers.members
        numbers[c.MONGOS] = int(servers.mongos > 0)
        numbers[c.SERVICE] = c.WORKS if service.workers else c.LOOKS if service.recompute else c.DECIDES
        numbers[c.PERIOD] = self.whole(service.recompute or _CHECK)
        numbers[c.ABANDONED] = _NOTICES[servers.abandoned]
        numbers[c.TICKETS] = servers.tickets or 0
        numbers[c.MOST_BACKLOG] = servers.backlog
        numbers[c.WORKERS] = service.workers
        numbers[c.EXPONENTIAL_SERVICE] = int(service.spread == "exponential")
        reals[c.WORK] = service.base / self.scenario.tick
        reals[c.REJECTION] = service.rejection * reals[c.WORK]
        requests, connections = servers.request_limit, servers.connection_limit
        numbers[c.LIMITS_REQUESTS] = int(requests is not None)
        numbers[c.LIMITS_CONNECTIONS] = int(connections is not None)
        numbers[c.REQUEST_DEPTH] = requests.queue if requests else 0
        numbers[c.CONNECTION_DEPTH] = connections.queue if connections else 0
        reals[c.REQUEST_RATE] = requests.rate if requests else 1.0
        reals[c.REQUEST_BURST] = requests.rate * requests.burst_seconds if requests else 1.0
        reals[c.CONNECTION_RATE] = connections.rate if connections else 1.0
        reals[c.CONNECTION_BURST] = connections.rate * connections.burst_seconds if connections else 1.0
        reals[c.TOLD] = (requests.told_backoff or 0.0) if requests else 0.0
        for _ in range(numbers[c.GATES]):
            reals.append(-reals[c.REQUEST_BURST] / reals[c.REQUEST_RATE])
            reals.append(-reals[c.CONNECTION_BURST] / reals[c.CONNECTION_RATE])

    def _lists(self) -> None:
        """Lay out what is by tick."""
        numbers, members = self.numbers, self.scenario.servers.members
        size = 1 << (self.ticks - 1).bit_length()
        if not numbers[c.HAS_RINGS]:
            size = min(size, _FEW_SLOTS)
        numbers[c.WHEEL] = size - 1
        self._lay([(size, c.NOBODY)])
        if numbers[c.SERVICE] == c.LOOKS:
            numbers[c.CLASSES_AT] = self._lay([(members * self.ticks, c.NOBODY)])
            numbers[c.GONE_AT] = self._lay([(members * self.ticks, 0)])
            phases: list[Part] = [(1, phase) for phase in range(numbers[c.PERIOD])]
            numbers[c.OLDEST_AT] = self._lay(phases * members)
        if numbers[c.HAS_RINGS]:
            numbers[c.LEAVING_AT] = self._lay([(members * size, 0)])
            numbers[c.MATURING_AT] = self._lay([(numbers[c.GATES] * size, 0)])
            numbers[c.BOUNDS_AT] = self._lay([(self.ticks, c.NOBODY)])
        table = list(service_table(self.scenario.servers.service, self.scenario.tick, self.ticks))
        numbers[c.TABLE_SIZE] = sum(count for count, _ in table)
        numbers[c.TABLE_AT] = self._lay(table)

    def _lay(self, parts: list[Part]) -> int:
        """Put parts at the end of the slots; return where they begin."""
        begin = self._slots_size
        self.slots += parts
        self._slots_size += sum(count for count, _ in parts)
        return begin

    def _members(self) -> None:
        own = [0] * c.MEMBER
        own[c.TICKET_QUEUE + c.FIRST_CLIENT] = own[c.BACKLOG_QUEUE + c.FIRST_CLIENT] = c.NOBODY
        self.numbers += own * max(self.scenario.servers.members, self.numbers[c.GATES])
        self.numbers[c.WORKERS_AT] = len(self.numbers)
        self.numbers += [0] * (self.numbers[c.WORKERS] * self.scenario.servers.members)

    def _strategies(self) -> None:
        fleet, numbers = self.scenario.fleet, self.numbers
        numbers[c.STRATEGIES] = len(fleet)
        numbers[c.STRATEGIES_AT] = len(numbers)
        numbers[c.REAL_STRATEGIES_AT] = len(self.reals)
        whole = sum(share for share, _ in fleet)
        for reached, (_, strategy) in zip(accumulate(share for share, _ in fleet), fleet, strict=True):
            own, reals = columns_of(strategy)
            reals[c.SHARE] = reached / whole
            numbers += own
            self.reals += reals
        numbers[c.RETRY_TOKENS_AT] = len(self.reals)
        self.reals[c.CAPACITY] = RETRY_TOKEN_CAPACITY
        for number in range(len(fleet)):
            strategy_at = numbers[c.STRATEGIES_AT] + number * c.STRATEGY
            if numbers[strategy_at + c.HAS_BUCKET]:
                numbers[strategy_at + c.BUCKET_AT] = len(self.reals)
                buckets = -(-self.scenario.clients // numbers[strategy_at + c.SHARING])
                self.reals += [RETRY_TOKEN_CAPACITY] * buckets
                numbers[c.BUCKETS] += buckets

    def _arrivals(self) -> None:
        arrivals, numbers, reals = self.scenario.arrivals, self.numbers, self.reals
        if isinstance(arrivals, Closed | Deploy):
            numbers[c.ARRIVALS] = c.DEPLOY if isinstance(arrivals, Deploy) else c.CLOSED
            reals[c.GAP] = arrivals.gap
            reals[c.WITHIN] = arrivals.within if isinstance(arrivals, Deploy) else 0.0
            return
        numbers[c.ARRIVALS] = c.OPEN
        rates = [
            rate_at(arrivals, (step + 0.5) * self.scenario.seconds / _RATE_STEPS)
            for step in range(_RATE_STEPS)
        ]
        highest = max(rates)
        reals[c.ARRIVAL_GAP] = 1 / (highest * self.scenario.tick)
        if min(rates) < highest:
            numbers[c.RATES] = _RATE_STEPS
            numbers[c.RATES_AT] = len(reals)
            reals += [rate / highest for rate in rates]

    def _rest(self) -> None:
        numbers, reals = self.numbers, self.reals
        numbers[c.OUTAGES] = len(self.scenario.outages)
        numbers[c.OUTAGES_AT] = len(numbers)
        numbers[c.NEXT_CHANGE] = self.ticks
        for outage in self.scenario.outages:
            whom = c.NOBODY if outage.member is None else outage.member
            start, end = self.whole(outage.start), self.whole(outage.end)
            numbers += [start, max(end, start + 1), whom, int(outage.kind == "crash")]
            numbers[c.NEXT_CHANGE] = min(numbers[c.NEXT_CHANGE], start)
        numbers[c.LATENCIES_AT] = len(numbers)
        numbers += [0] * c.LATENCY_BINS
        numbers[c.WINDOWS_AT] = numbers[c.WINDOW_AT] = len(numbers)
        numbers += [0] * (c.COUNTED * numbers[c.WINDOWS])
        numbers[c.LEVELS_AT] = numbers[c.LEVEL_AT] = len(reals)
        reals += [0.0] * (c.LEVELS * numbers[c.WINDOWS])


def _looks(service: Service) -> bool:
    return service.recompute > 0 and not service.workers


def rate_at(arrivals: Arrivals, seconds: float) -> float:
    """Return how many operations a second arrive from outside at an instant."""
    assert not isinstance(arrivals, Closed | Deploy)
    if isinstance(arrivals, Diurnal):
        return arrivals.rate * (1 + arrivals.swing * math.sin(2 * math.pi * seconds / arrivals.period))
    if isinstance(arrivals, Spike) and arrivals.start <= seconds < arrivals.end:
        return arrivals.rate * arrivals.factor
    return arrivals.rate


def service_table(service: Service, tick: float, end: int) -> Iterator[Part]:
    """Yield the ticks that a request takes, by the number of requests from 0 on, as runs of equal values.

    A server that looks answers at the first look at which the time is over, so its ticks are rounded up;
    those of a server that decides are rounded. The last value holds for any number above. Raises ValueError
    if it is too long.
    """
    looks = _looks(service)
    longest = end if looks else min(end, max(round(service.longest / tick), 1))
    # The longest time that is so many ticks is that of `ticks + most`.
    most = _SLACK if looks else 0.5
    value = min(max(math.ceil(service.base / tick - most), 1), longest)
    if service.workers or service.factor == 1.0:
        yield 1, value
        return
    growth = service.k / math.log(service.factor)
    begins = 0
    while value < longest:
        # The smallest number of requests that takes a tick more.
        fits = service.limit + growth * math.log((value + most) * tick / service.base)
        ends = max(math.floor(fits) + 1, begins)
        if ends > _MOST_TABLE:
            raise ValueError(
                f"Service.factor is {service.factor}, k {service.k}: the time grows too slowly to be tabled"
            )
        if ends > begins:
            yield ends - begins, value
        begins = ends
        value += 1
    yield 1, longest
