"""The faults of bytes of one deployment: which of them fire, decided without waiting.

A layer asks at each phase that its connection reaches. Faults are asked in the order in which they were
added, and all that fire act together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fakeserver.deployment.replication.state import Role
from fakeserver.network.faults import Fault, FaultPhase, parse_fault
from mongowire.documents.errors import ControlError, unknown
from mongowire.documents.occurrence import OccurrenceCount

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fakeserver.deployment.server import Server
    from fakeserver.network.fault_effects import FaultEffects
    from mongowire.ports import Rng


class Hit(NamedTuple):
    """A fault that fires; `offset` is the byte of the reply at which it acts."""

    fault: Fault
    offset: int = 0

    @property
    def effects(self) -> FaultEffects:
        """Its effects."""
        return self.fault.effects


class FaultPlace(NamedTuple):
    """The connection, and the message on it, that a fault may fire on.

    `command` is None where it is not known yet. `bytes_seen` are the bytes of a body that were there before,
    and those that are there now; `named_at` are those that it took to know the command.
    """

    node: Server
    connection: int
    app_name: str = ""
    command: str | None = None
    bytes_seen: tuple[int, int] = (-1, 0)
    named_at: int = 0


@dataclass(slots=True)
class _Entry:
    """A fault, and what has become of it: how often its filters matched, and how often it fired."""

    fault: Fault
    count: OccurrenceCount

    @classmethod
    def of(cls, fault: Fault, now: float) -> _Entry:
        return cls(fault, OccurrenceCount(fault.occurrence, fault.occurrence.ends(now, 0.0)))


class FaultRegistry:
    """The faults of a deployment, by id. `rng` decides for those with a probability, by the fault's id."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._dice = rng.spawn("bytes")
        """The random numbers of garbage and jitter."""
        self._entries: dict[str, _Entry] = {}
        self._rngs: dict[str, Rng] = {}
        self._added = 0
        self.phases: frozenset[FaultPhase] = frozenset()
        """The phases at which some fault may act."""

    def __repr__(self) -> str:
        return f"<FaultRegistry of {', '.join(self._entries) or 'nothing'}>"

    @property
    def active(self) -> bool:
        """Whether there is any fault that may fire."""
        return bool(self.phases)

    def add(
        self, document: Mapping[str, Any], *, now: float, nodes: Collection[str], commands: Collection[str]
    ) -> Fault:
        """Add a fault, and return it. Raises `ControlError`, also for a name that is taken."""
        number = self._added + 1
        while f"fault{number}" in self._entries:
            number += 1
        fault = parse_fault(document, default_id=f"fault{number}", nodes=nodes, commands=commands)
        if fault.id in self._entries:
            raise ControlError(
                f"there is a fault {fault.id!r}; remove it, or choose another name", path=("name",)
            )
        self._added = number if "name" not in document else self._added
        self._entries[fault.id] = _Entry.of(fault, now)
        self._rngs[fault.id] = self._rng.spawn(fault.id)
        self._settle(now)
        return fault

    def remove(self, fault_id: str) -> Fault:
        """Remove a fault, and return it. Raises `ControlError`."""
        entry = self._entries.pop(fault_id, None)
        if entry is None:
            if not self._entries:
                raise ControlError(f"there is no fault {fault_id!r}, and no other")
            raise unknown("fault", fault_id, self._entries)
        self.phases = frozenset(each.fault.phase for each in self._entries.values())
        return entry.fault

    def clear(self) -> None:
        """Remove every fault, and number the next ones from 1."""
        self.restore((), 0.0)

    def restore(self, faults: Sequence[Fault], now: float) -> None:
        """Have these faults and no others, as if they were added just now."""
        self._entries = {fault.id: _Entry.of(fault, now) for fault in faults}
        self._rngs = {fault.id: self._rng.spawn(fault.id) for fault in faults}
        self._dice = self._rng.spawn("bytes")
        self._added = 0
        self._settle(now)

    def kept(self) -> tuple[Fault, ...]:
        """Return the faults, as `restore` takes them."""
        return tuple(entry.fault for entry in self._entries.values())

    def documents(self, now: float) -> list[dict[str, Any]]:
        """Return the faults as they were given, each with its id and how often it fired."""
        return [
            {
                "id": entry.fault.id,
                **entry.fault.document,
                "hits": entry.count.hits,
                "over": entry.count.is_over(now),
            }
            for entry in self._entries.values()
        ]

    def counts(self) -> list[tuple[Fault, OccurrenceCount]]:
        """Return the faults, each with how often its filters matched and how often it fired."""
        return [(entry.fault, entry.count) for entry in self._entries.values()]

    def fires(self, phase: FaultPhase, place: FaultPlace, now: float) -> list[Hit]:
        """Return the faults that fire at a phase, and count them."""
        if phase not in self.phases:
            return []
        hits = []
        for entry in self._entries.values():
            fault = entry.fault
            if fault.phase is not phase or entry.count.is_over(now) or not _is_meant(fault, place):
                continue
            if entry.count.chooses(self._rngs[fault.id].random):
                entry.count.hits += 1
                hits.append(Hit(fault, fault.byte if phase is FaultPhase.REPLY else 0))
        if any(entry.count.is_over(now) for entry in self._entries.values()):
            self._settle(now)
        return hits

    def random_bytes(self, count: int) -> bytes:
        """Return random bytes for garbage."""
        return self._dice.randbytes(count)

    def random(self) -> float:
        """Return a random number for jitter."""
        return self._dice.random()

    def _settle(self, now: float) -> None:
        self.phases = frozenset(
            entry.fault.phase for entry in self._entries.values() if not entry.count.is_over(now)
        )


def _is_meant(fault: Fault, place: FaultPlace) -> bool:
    if fault.connection not in {None, place.connection}:
        return False
    if fault.app_name not in {None, place.app_name}:
        return False
    if fault.commands and (place.command is None or place.command not in fault.commands):
        return False
    if not _has_reached(fault, place):
        return False
    return fault.node is None or _is_named(place.node, fault.node)


def _has_reached(fault: Fault, place: FaultPlace) -> bool:
    """Whether a message has just come to the fault's byte; a reply shorter than that never does."""
    before, there = place.bytes_seen
    if fault.phase is FaultPhase.REPLY:
        return fault.byte <= there
    if fault.phase is not FaultPhase.REQUEST_BODY:
        return True
    at = max(fault.byte, place.named_at) if fault.commands else fault.byte
    return before < at <= there


def _is_named(node: Server, word: str) -> bool:
    if word == "primary":
        return node.is_primary and not node.is_mongos
    if word == "secondary":
        return node.role is Role.SECONDARY
    if word == "mongos":
        return node.is_mongos
    return word in {node.name, node.address}
