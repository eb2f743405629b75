"""The kinds of fault: what each may be aimed at, the form of its value, and how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mongowire.ports import Rng

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
