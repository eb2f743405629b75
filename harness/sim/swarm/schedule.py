"""Schedules of a swarm: one run's deployment, clients, workload and faults, as a text that repeats it.

A schedule is a line of words. Words with `=` say what runs, in any order; those that are left out have the
values of `Schedule`. The others are faults:

    seed=7 topology=replicaset3 clients=2 operations=30 gap=120 work=insert,increment
    pause:node1@500+800            node1 is paused from 0.5 s to 1.3 s
    latency:node0:20~exponential@100+900

A fault is `kind:target:value@begins+lasts`, its instants in milliseconds of virtual time; `FAULTS` says what
target and value mean. Every draw is made of the seed and of its own place (client, number of the operation),
so a schedule from which a fault, a client or an operation was taken is otherwise the same run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mongowire.ports import Rng


# The kinds of fault: what each may be aimed at, the form of its value, and how it is drawn.


TOPOLOGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "single": ("node0",),
    "replicaset3": tuple(f"node{number}" for number in range(3)),
    "replicaset5": tuple(f"node{number}" for number in range(5)),
    "sharded": ("mongos0", "mongos1", *(f"shard01/node{number}" for number in range(3))),
    "load-balanced": ("mongos0", "mongos1", *(f"shard01/node{number}" for number in range(3))),
}
"""The deployments that are drawn, with the names of their servers."""

SHAPES: Final = ("constant", "uniform", "exponential", "heavy")
"""The distributions of a latency, each with the mean that the word before it says."""

FAIL_POINTS: Final = (
    *("close", "not-primary", "stepped-down", "shutdown", "host-unreachable", "block"),
    *("overloaded", "overloaded-final", "write-concern", "write-concern-shutdown"),
)
"""What a fail point does; `harness.sim.swarm.deeds` has the documents."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault: what its target and its value are, for which topologies, and how long it may last.

    `targets` is "server", "member" (of a set), "client" or "" for none; `value` a pattern, "" where it takes
    none. Durations are in milliseconds.
    """

    name: str
    targets: str
    value: str
    draw: Callable[[Dice], str]
    meaning: str
    shortest: int = 150
    longest: int = 2_000
    on: tuple[str, ...] = tuple(TOPOLOGIES)


class Dice:
    """Random choices among the parts of a schedule."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def number(self, least: int, most: int) -> int:
        return least + int(self._rng.random() * (most - least + 1))

    def one(self, among: Sequence[str]) -> str:
        return among[int(self._rng.random() * len(among))]

    def some(self, among: Sequence[str], least: int) -> tuple[str, ...]:
        """Return at least so many of them, in their order; any number is as likely as another."""
        count = self.number(least, len(among))
        picked = sorted(among, key=lambda _: self._rng.random())[:count]
        return tuple(each for each in among if each in picked)


_SETS: Final = ("replicaset3", "replicaset5", "sharded", "load-balanced")
_PERCENT: Final = r"(?:[1-9]\d?|100)%"
_MS: Final = r"[1-9]\d{0,4}"
_SECONDS: Final = r"-?[1-9]\d{0,5}"


def _share(dice: Dice) -> str:
    return f"{dice.one(('5', '10', '20', '40', '80'))}%"


def _delay(dice: Dice) -> str:
    return dice.one(("2", "5", "10", "20", "50", "200"))


def _skew(dice: Dice) -> str:
    return dice.one(("-3600", "-60", "-1", "1", "60", "3600"))


_KINDS: Final = (
    FaultKind(
        "latency",
        "server",
        rf"{_MS}~(?:{'|'.join(SHAPES)})",
        lambda dice: f"{_delay(dice)}~{dice.one(SHAPES)}",
        "a mean in milliseconds and a distribution, as 20~exponential",
    ),
    FaultKind(
        "drop", "server", _PERCENT, _share, "a share of the packets, which are sent again later, as 10%"
    ),
    FaultKind("reset", "server", _PERCENT, _share, "a share of the requests or replies, as 10%"),
    FaultKind(
        "half-open", "server", _PERCENT, _share, "a share of the requests, from which on all is lost, as 5%"
    ),
    FaultKind(
        "partition",
        "server",
        "members|clients|resets|all",
        lambda dice: dice.one(("members", "clients", "resets", "all")),
        "whom it is cut off from: members, clients, resets (clients, by resets) or all",
        on=_SETS,
    ),
    FaultKind("pause", "server", "", lambda _: "", "none", longest=1_800),
    FaultKind("crash", "server", "", lambda _: "", "none"),
    FaultKind(
        "restart", "server", r"\d{1,4}", lambda dice: dice.one(("0", "100", "300")), "quiesce mode, in ms"
    ),
    FaultKind("step-down", "", "", lambda _: "", "none", on=_SETS),
    FaultKind("elect", "member", "", lambda _: "", "none", on=_SETS),
    FaultKind("lag", "member", _MS, lambda dice: dice.one(("50", "200", "800")), "milliseconds", on=_SETS),
    FaultKind("hold", "member", "", lambda _: "", "none", on=_SETS, longest=800),
    FaultKind(
        "fail-point",
        "server",
        rf"(?:{'|'.join(FAIL_POINTS)})~{_PERCENT}",
        lambda dice: f"{dice.one(FAIL_POINTS)}~{dice.one(('20', '40', '70', '100'))}%",
        "an effect and a share of the commands, as close~10%",
    ),
    FaultKind("requests", "server", _MS, lambda dice: dice.one(("2", "5", "20")), "requests a second, as 20"),
    FaultKind(
        "connections", "server", _MS, lambda dice: dice.one(("1", "4", "20")), "connections a second, as 4"
    ),
    FaultKind(
        "tickets", "member", _MS, lambda dice: dice.one(("1", "2", "4")), "tickets to read, and to write"
    ),
    FaultKind("slow", "server", _MS, _delay, "milliseconds for each request"),
    FaultKind("skew", "client", _SECONDS, _skew, "seconds by which its date is wrong, as -60"),
    FaultKind("server-skew", "server", _SECONDS, _skew, "seconds by which its date is wrong, as -60"),
    FaultKind(
        "storm", "server", r"[1-9]\d{0,2}", lambda dice: dice.one(("5", "20", "40")), "connections, as 20"
    ),
)

APART: Final = FaultKind(
    "rollback",
    "",
    "",
    lambda _: "",
    "none",
    on=("replicaset3", "replicaset5"),
    longest=1_200,
)
"""The kind that is drawn apart from the others."""

FAULTS: Final[Mapping[str, FaultKind]] = {kind.name: kind for kind in (*_KINDS, APART)}
"""The kinds of fault by name."""


WORK: Final = (
    *("insert", "delete", "push", "read_list", "increment", "write", "swap", "read"),
    *("mark", "transfer", "read_accounts", "stream", "batch", "scan"),
)
"""The kinds of work: those of operations (`harness.sim.swarm.history`), and change streams."""

ON_A_SET: Final = frozenset({"mark", "transfer", "read_accounts", "stream"})
"""The work that needs a replica set, or shards."""

EDITIONS: Final = ("2026-02-20", "2026-07-08")
READS: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
LEVELS: Final = ("default", "local", "majority")
CONCERNS: Final = ("1", "majority")
MONITORING: Final = ("auto", "poll", "stream")

MOST_CLIENTS: Final = 50
_MOST_OPERATIONS: Final = 2_000
_LONGEST: Final = 60_000


class ScheduleError(ValueError):
    """A text is no schedule; the message names the word, and the right form."""


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """One fault. `target` and `value` are as its kind says; `at` and `lasts` are milliseconds."""

    kind: str
    target: str
    value: str
    at: int
    lasts: int

    def __str__(self) -> str:
        named = [self.kind, *([self.target] if self.target or self.value else []), self.value]
        return f"{':'.join(named).rstrip(':')}@{self.at}+{self.lasts}"

    @property
    def ends(self) -> int:
        """The instant of its end, in milliseconds."""
        return self.at + self.lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One run. Times are in milliseconds; `operations` are those of each client, the last one's number."""

    seed: int = 0
    topology: str = "replicaset3"
    clients: int = 1
    operations: int = 50
    first: int = 0
    """The operation that each client begins with; those before it are left out."""
    gap: int = 80
    """Milliseconds between the operations of a client, on average; one that takes longer delays the next."""
    workers: int = 1
    """Tasks that share a client, each with a session of its own or none; they take its operations in turn."""
    work: tuple[str, ...] = WORK
    edition: str = EDITIONS[0]
    pool: int = 10
    """maxPoolSize."""
    retry: bool = True
    """retryReads and retryWrites."""
    adaptive: bool = False
    """adaptiveRetries, and enableOverloadRetargeting."""
    timeout: int = 0
    """timeoutMS; 0 has socketTimeoutMS and waitQueueTimeoutMS instead."""
    monitoring: str = "auto"
    """serverMonitoringMode."""
    read: str = "primary"
    level: str = "default"
    concern: str = "majority"
    causal: bool = True
    """The workers' sessions are causally consistent; without, every operation has a session of its own."""
    bulk: bool = False
    """Some of the writes go by bulk writes."""
    unacknowledged: bool = False
    """Some of the writes have w: 0."""
    election: int = 0
    """Milliseconds for which a primary of a replica set goes on without a majority; with 0 it steps down at
    once, and nothing is rolled back."""
    faults: tuple[ScheduledFault, ...] = ()

    def __str__(self) -> str:
        words = [f"{field.name}={_text(getattr(self, field.name))}" for field in _WORDS]
        return " ".join([*words, *map(str, self.faults)])

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its faults, in alphabetical order."""
        return tuple(sorted({fault.kind for fault in self.faults}))

    @property
    def faults_end(self) -> float:
        """The instant, in seconds, at which the last fault has ended; 0 without any."""
        return max((fault.ends for fault in self.faults), default=0) / 1000

    def smaller(self) -> Iterator[Schedule]:
        """Yield schedules with fewer faults, clients, operations or kinds of work, the smallest first."""
        size = len(self.faults)
        while size:
            for start in range(0, len(self.faults), size):
                yield replace(self, faults=self.faults[:start] + self.faults[start + size :])
            size //= 2
        for clients in _fewer(self.clients):
            yield replace(self, clients=clients)
        for operations in _fewer(self.operations):
            yield replace(self, operations=operations)
        for first in (self.operations // 2, self.first + 5, self.first + 1):
            if self.first < first < self.operations:
                yield replace(self, first=first)
        if self.workers > 1:
            yield replace(self, workers=1)
        for kind in self.work if len(self.work) > 1 else ():
            yield replace(self, work=(kind,))
        for kind in self.work if len(self.work) > 1 else ():
            yield replace(self, work=tuple(each for each in self.work if each != kind))


def _fewer(count: int) -> tuple[int, ...]:
    """Return smaller numbers, from 1 to one less."""
    steps = {1, count // 4, count // 2, 3 * count // 4, count - 1}
    return tuple(sorted(each for each in steps if 0 < each < count))


_WORDS: Final = tuple(field for field in fields(Schedule) if field.name != "faults")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else str(value)


# Reading.

_NUMBER: Final = re.compile(r"\d{1,18}")
_FAULT: Final = re.compile(
    r"(?P<kind>[a-z-]+)(?::(?P<target>[a-z0-9/]*))?(?::(?P<value>\S*))?@(?P<at>\d{1,6})\+(?P<lasts>\d{1,6})"
)


def parse(text: str) -> Schedule:
    """Read what `str` made of a schedule. Raises `ScheduleError`."""
    values: dict[str, object] = {}
    faults: list[str] = []
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            faults.append(word)
        elif name not in _READERS:
            raise ScheduleError(f"'{word}': there is no {name}; there is {', '.join(_READERS)}")
        elif name in values:
            raise ScheduleError(f"'{word}': {name} is said twice")
        else:
            values[name] = _READERS[name](word, value)
    schedule = Schedule(**values)  # type: ignore[arg-type]  # each reader returns its field's type
    unfit = ON_A_SET.intersection(schedule.work) if schedule.topology == "single" else ()
    if unfit:
        raise ScheduleError(f"work={','.join(sorted(unfit))} needs a replica set: topology=replicaset3")
    return replace(schedule, faults=tuple(_fault(word, schedule) for word in faults))


def _fault(word: str, schedule: Schedule) -> ScheduledFault:
    found = _FAULT.fullmatch(word)
    if found is None:
        raise ScheduleError(f"'{word}' is no fault: write kind:target:value@begins+lasts in milliseconds")
    name, target, value = found["kind"], found["target"] or "", found["value"] or ""
    if name not in FAULTS:
        raise ScheduleError(f"'{word}': there is no fault {name}; there is {', '.join(FAULTS)}")
    kind = FAULTS[name]
    if schedule.topology not in kind.on:
        raise ScheduleError(f"'{word}': {name} is for {', '.join(kind.on)}, not for {schedule.topology}")
    targets = targets_of(kind, schedule)
    # A smaller schedule may have fewer clients.
    is_client = re.fullmatch(r"client\d+", target) is not None
    if target not in targets and not (kind.targets == "client" and is_client):
        wanted = ", ".join(targets) if targets != ("",) else "nothing"
        raise ScheduleError(f"'{word}': its target is {wanted}, not '{target}'")
    if re.fullmatch(kind.value, value) is None:
        raise ScheduleError(f"'{word}': '{value}' is no value of {name}: {kind.meaning}")
    return ScheduledFault(name, target, value, int(found["at"]), int(found["lasts"]))


def targets_of(kind: FaultKind, schedule: Schedule) -> tuple[str, ...]:
    """Return what a fault of a kind may be aimed at."""
    servers = TOPOLOGIES[schedule.topology]
    if kind.targets == "client":
        return tuple(f"client{number}" for number in range(schedule.clients))
    if kind.targets == "member":
        return tuple(name for name in servers if "node" in name)
    return servers if kind.targets == "server" else ("",)


def _number(least: int, most: int) -> Callable[[str, str], int]:
    def read(word: str, value: str) -> int:
        if _NUMBER.fullmatch(value) is None or not least <= int(value) <= most:
            raise ScheduleError(f"'{word}' needs a whole number from {least} to {most}")
        return int(value)

    return read


def _one_of(*values: str) -> Callable[[str, str], str]:
    def read(word: str, value: str) -> str:
        if value not in values:
            raise ScheduleError(f"'{word}' needs one of {', '.join(values)}")
        return value

    return read


def _switch(word: str, value: str) -> bool:
    return _one_of("on", "off")(word, value) == "on"


def _work(word: str, value: str) -> tuple[str, ...]:
    return tuple(_one_of(*WORK)(word, each) for each in value.split(","))


_READERS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "seed": _number(0, 2**53),
    "topology": _one_of(*TOPOLOGIES),
    "clients": _number(1, MOST_CLIENTS),
    "operations": _number(1, _MOST_OPERATIONS),
    "first": _number(0, _MOST_OPERATIONS),
    "gap": _number(1, _LONGEST),
    "workers": _number(1, 10),
    "work": _work,
    "edition": _one_of(*EDITIONS),
    "pool": _number(1, 100),
    "retry": _switch,
    "adaptive": _switch,
    "timeout": _number(0, _LONGEST),
    "monitoring": _one_of(*MONITORING),
    "read": _one_of(*READS),
    "level": _one_of(*LEVELS),
    "concern": _one_of(*CONCERNS),
    "causal": _switch,
    "bulk": _switch,
    "unacknowledged": _switch,
    "election": _number(0, _LONGEST),
}
