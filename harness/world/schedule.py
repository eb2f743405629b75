"""Schedules: the disturbances of one run of a case, as a short text that repeats them.

A schedule is a list of perturbations, and each is a word:

    to:node1=20ms          what clients send to node1 arrives 20 ms late
    from:node1:2=20ms      so does what node1 sends on the second connection that it accepts in this run
    from:node1:2:3=20ms    the third packet of that connection alone, and what is behind it
    start:4=20ms           the fourth task that the driver or the scenario starts begins 20 ms late
    seeds=2,0,1            the connection string names the third server first, then the first two

Nothing overtakes on a connection, as on TCP. A task that is 0 ms late begins after all that is ready now.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from mongowire.ports import Rng


STEPS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""The delays that are drawn and tried, in milliseconds."""

_EVERY_PACKET: Final = 20
"""The longest delay, in milliseconds, that is drawn for every packet of a server or a connection: delays of
many packets add up, and a case would time out for that reason alone."""

_CONNECTIONS, _PACKETS, _STARTS = 4, 8, 16
"""How far the numbers of connections, packets and tasks go that are drawn: most cases have no more."""

_MESSAGE: Final = re.compile(
    r"(?P<way>to|from):(?P<server>[a-z]+\d+)(?::(?P<connection>[1-9]\d*)(?::(?P<packet>[1-9]\d*))?)?"
    r"=(?P<ms>\d+)ms"
)
_START: Final = re.compile(r"start:(?P<number>[1-9]\d*)=(?P<ms>\d+)ms")
_SEEDS: Final = re.compile(r"seeds=(?P<order>\d+(?:,\d+)*)")


class FlakeScheduleError(ValueError):
    """A text is no schedule, or not for these servers; the message names the word and the right form."""


class Way(StrEnum):
    """The two directions of a connection."""

    TO = "to"
    FROM = "from"


@dataclass(frozen=True, slots=True)
class Late:
    """Packets to or from a server are late: all, those of one connection, or one packet.

    Connections are those that the server accepts during the case, and count from 1, as packets do.
    """

    way: Way
    server: str
    connection: int | None
    packet: int | None
    ms: int

    def __str__(self) -> str:
        site = [self.way.value, self.server, *(str(n) for n in (self.connection, self.packet) if n)]
        return f"{':'.join(site)}={self.ms}ms"

    @property
    def site(self) -> tuple[object, ...]:
        """The place that is disturbed, whatever the delay."""
        return (self.way, self.server, self.connection, self.packet)

    def smaller(self) -> Iterator[Late]:
        """Yield the same for one connection or packet alone, then with shorter delays, the shortest first."""
        if self.connection is None:
            yield from (replace(self, connection=number + 1) for number in range(_CONNECTIONS))
        elif self.packet is None:
            yield from (replace(self, packet=number + 1) for number in range(_PACKETS))
        yield from (replace(self, ms=ms) for ms in STEPS if 0 < ms < self.ms)

    def described(self) -> str:
        """Return a sentence."""
        on = "" if self.connection is None else f" on its {_ordinal(self.connection)} connection"
        what = "all packets" if self.packet is None else f"the {_ordinal(self.packet)} packet"
        return f"{what} {self.way.value} {self.server}{on} {'are' if self.packet is None else 'is'} late"


@dataclass(frozen=True, slots=True)
class Start:
    """A task of the driver or of the scenario begins late; tasks count from 1, as they are created."""

    number: int
    ms: int

    def __str__(self) -> str:
        return f"start:{self.number}={self.ms}ms"

    @property
    def site(self) -> tuple[object, ...]:
        """The place that is disturbed, whatever the delay."""
        return ("start", self.number)

    def smaller(self) -> Iterator[Start]:
        """Yield the same with shorter delays, the shortest first."""
        return (replace(self, ms=ms) for ms in STEPS if ms < self.ms)

    def described(self) -> str:
        """Return a sentence."""
        return f"the {_ordinal(self.number)} task begins late"


@dataclass(frozen=True, slots=True)
class Seeds:
    """Connection strings name the servers in another order: by their numbers, from 0."""

    order: tuple[int, ...]

    def __str__(self) -> str:
        return f"seeds={','.join(map(str, self.order))}"

    @property
    def site(self) -> tuple[object, ...]:
        """The place that is disturbed."""
        return ("seeds",)

    def smaller(self) -> Iterator[Seeds]:
        """Yield nothing: an order has no size."""
        return iter(())

    def described(self) -> str:
        """Return a sentence."""
        return "the connection string names its servers in another order"


Perturbation: TypeAlias = Late | Start | Seeds


@dataclass(frozen=True, slots=True)
class FlakeSchedule:
    """The perturbations of one run; no two of one site."""

    perturbations: tuple[Perturbation, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.perturbations))

    def __len__(self) -> int:
        return len(self.perturbations)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The order of servers in connection strings; empty when it is the usual one."""
        return next((each.order for each in self.perturbations if isinstance(each, Seeds)), ())

    def only(self, words: Collection[str]) -> FlakeSchedule:
        """Return those perturbations that are among `words`."""
        return FlakeSchedule(tuple(each for each in self.perturbations if str(each) in words))

    def without(self, start: int, stop: int) -> FlakeSchedule:
        """Return the schedule without the perturbations from `start` (included) to `stop` (excluded)."""
        return FlakeSchedule(self.perturbations[:start] + self.perturbations[stop:])

    @property
    def longest_ms(self) -> int:
        """The longest delay in it, in milliseconds."""
        return max((each.ms for each in self.perturbations if not isinstance(each, Seeds)), default=0)

    def lengthened(self, ms: int) -> FlakeSchedule:
        """Return the schedule with all its delays as long as this."""
        longer = (each if isinstance(each, Seeds) else replace(each, ms=ms) for each in self.perturbations)
        return FlakeSchedule(tuple(longer))

    def smaller_at(self, index: int) -> Iterator[FlakeSchedule]:
        """Yield the schedule with smaller perturbations at an index."""
        before, after = self.perturbations[:index], self.perturbations[index + 1 :]
        taken = {each.site for each in (*before, *after)}
        for smaller in self.perturbations[index].smaller():
            if smaller.site not in taken:
                yield FlakeSchedule((*before, smaller, *after))

    def check(self, servers: Sequence[str]) -> None:
        """Raise `FlakeScheduleError` when it names servers other than these."""
        for each in self.perturbations:
            if isinstance(each, Late) and each.server not in servers:
                raise FlakeScheduleError(
                    f"'{each}': there is no {each.server}; there is {', '.join(servers)}"
                )
            if isinstance(each, Seeds) and sorted(each.order) != list(range(len(servers))):
                raise FlakeScheduleError(f"'{each}': it takes each number from 0 to {len(servers) - 1} once")


def parse(text: str) -> FlakeSchedule:
    """Read what `str` made of a schedule. Raises `FlakeScheduleError`."""
    by_site: dict[tuple[object, ...], Perturbation] = {}
    for word in text.split():
        perturbation = _perturbation(word)
        if perturbation.site in by_site:
            raise FlakeScheduleError(
                f"'{word}' and '{by_site[perturbation.site]}' have the same target: keep one of them"
            )
        by_site[perturbation.site] = perturbation
    return FlakeSchedule(tuple(by_site.values()))


def _perturbation(word: str) -> Perturbation:
    if found := _MESSAGE.fullmatch(word):
        connection, packet = (int(n) if n else None for n in found.group("connection", "packet"))
        return Late(Way(found["way"]), found["server"], connection, packet, int(found["ms"]))
    if found := _START.fullmatch(word):
        return Start(int(found["number"]), int(found["ms"]))
    if found := _SEEDS.fullmatch(word):
        return Seeds(tuple(map(int, found["order"].split(","))))
    raise FlakeScheduleError(
        f"'{word}' is no perturbation: write to:SERVER=MSms, from:SERVER:CONNECTION:PACKET=MSms,"
        " start:TASK=MSms or seeds=2,0,1"
    )


def draw(rng: Rng, servers: Sequence[str], *, max_delay_ms: int) -> FlakeSchedule:
    """Return a random schedule for a deployment; the same generator gives the same one."""
    drawn: dict[tuple[object, ...], Perturbation] = {}
    for perturbation in _draws(_Draw(rng, max_delay_ms), servers):
        drawn.setdefault(perturbation.site, perturbation)
    return FlakeSchedule(tuple(drawn.values()))


class _Draw:
    """Random choices among the parts of a schedule."""

    def __init__(self, rng: Rng, max_delay_ms: int) -> None:
        self._rng = rng
        self._max_delay_ms = max_delay_ms

    def chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def number(self, most: int) -> int:
        """Return a number from 1 to `most`."""
        return 1 + int(self._rng.random() * most)

    def delay(self, *, least: int = 1, most: int | None = None) -> int:
        """Return a delay in milliseconds. Each step is as likely as any other, so short ones are frequent."""
        top = self._max_delay_ms if most is None else min(most, self._max_delay_ms)
        steps = [ms for ms in STEPS if least <= ms <= top] or [top]
        return steps[self.number(len(steps)) - 1]

    def order(self, count: int) -> tuple[int, ...]:
        return tuple(sorted(range(count), key=lambda _: self._rng.random()))


def _draws(draw: _Draw, servers: Sequence[str]) -> Iterator[Perturbation]:
    """Yield the perturbations of one schedule; of two at the same site, the first counts."""
    order = draw.order(len(servers))
    if order != tuple(sorted(order)):
        yield Seeds(order)
    for server in servers:
        for way in Way:
            if draw.chance(1 / 3):
                yield Late(way, server, None, None, draw.delay(most=_EVERY_PACKET))
        if draw.chance(
            1 / 2
        ):  # the reply to the monitor's handshake: servers are discovered in another order
            yield Late(Way.FROM, server, 1, 1, draw.delay())
        for way in Way:
            if draw.chance(1 / 3):
                yield Late(way, server, draw.number(_CONNECTIONS), None, draw.delay(most=_EVERY_PACKET))
            for _ in range(2):
                connection, packet = draw.number(_CONNECTIONS), draw.number(_PACKETS)
                yield Late(way, server, connection, packet, draw.delay())
    for _ in range(draw.number(6)):
        yield Start(draw.number(_STARTS), draw.delay(least=0))


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in {11, 12, 13} else 0, "th")
    return f"{number}{ending}"


# Decides how late each packet and each task of one run is, by its schedule. It waits for nothing itself.
#
# A schedule counts: the third packet on the second connection of a server, the fourth task. For the same
# schedule to mean the same in every run, all that is counted must come from the case:
#
# - Connections and tasks count from the moment the case begins. The harness's own connections are made
# before,   and packets after its end (`end`) are on time.
# - Tasks of the fake servers are neither counted nor late. Real servers are other processes, which are late
# by   their packets, and a later version of the fake server may start other tasks.
# - Tasks of an adapter are left alone too: they translate calls, and no thread of a driver corresponds to
# them.
#
# Delays add up. A packet is subject to three sites (its server, its connection, itself), each with at most
# one perturbation. A sum keeps the search for a smaller schedule simple: without a perturbation no packet is
# later than with it. Nothing overtakes on a connection, so a late packet delays those behind it (`link`), as
# on TCP.
#
# What each perturbation met is written down (`effects`). A drawn schedule names many packets that never
# exist; the search for the smallest one starts without them, and a report names the command behind "the third
# packet".


_EXEMPT: Final = ("fakeserver", "harness.adapters")
"""Packages whose tasks are neither counted nor late."""


class Disturbance:
    """The schedule of one run; `names` are the servers by their ports."""

    def __init__(self, schedule: FlakeSchedule, names: Mapping[int, str]) -> None:
        self._names = names
        self._by_site = {each.site: each for each in schedule.perturbations}
        self._effects: dict[Perturbation, Counter[str]] = {}
        self._accepted: Counter[str] = Counter()
        self._started = 0
        self._over = False
        if schedule.seeds:
            self._note(self._by_site["seeds",], "")

    def accept(self, port: int) -> tuple[str, int] | None:
        """Return the server and the number of a new connection; None when it is not disturbed."""
        name = self._names.get(port)
        if name is None or self._over:
            return None
        self._accepted[name] += 1
        return name, self._accepted[name]

    def packet(self, way: Way, connection: tuple[str, int], number: int, content: str) -> float:
        """Return how late a connection's packet is, in seconds."""
        server, nth = connection
        sites = ((way, server, None, None), (way, server, nth, None), (way, server, nth, number))
        return sum(self._delay(site, content) for site in sites)

    def task(self, coroutine: Any) -> float | None:
        """Return how late a new task begins, in seconds; None when it is not disturbed."""
        frame = getattr(coroutine, "cr_frame", None)
        module = frame.f_globals.get("__name__", "") if frame is not None else ""
        if self._over or module.startswith(_EXEMPT):
            return None
        self._started += 1
        site = ("start", self._started)
        return self._delay(site, coroutine.__qualname__) if site in self._by_site else None

    def end(self) -> None:
        """Disturb nothing from now on: the case is over."""
        self._over = True

    def effects(self) -> Iterator[str]:
        """Yield each perturbation that took effect: its word, two spaces, and the packets or tasks it met."""
        for perturbation, met in self._effects.items():
            content = ", ".join(
                f"{name} x {count}" if count > 1 else name for name, count in met.items() if name
            )
            yield f"{perturbation}  {content}".rstrip()

    def _delay(self, site: tuple[object, ...], content: str) -> float:
        perturbation = self._by_site.get(site)
        if self._over or not isinstance(perturbation, Late | Start):
            return 0.0
        self._note(perturbation, content)
        return perturbation.ms / 1000

    def _note(self, perturbation: Perturbation, content: str) -> None:
        self._effects.setdefault(perturbation, Counter())[content] += 1
