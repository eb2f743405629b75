"""Who is primary of a replica set, and how that changes: state and rules, without any waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from fakeserver.spec import MemberSpec
from fakeserver.waiting import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ELECTION_ID_PREFIX: Final = bytes.fromhex("7fffffff")
_NEVER: Final = float("-inf")


class Role(IntEnum):
    """A member's state, numbered as in `replSetGetStatus`."""

    STARTUP = 0
    """It belongs to no set yet."""
    PRIMARY = 1
    SECONDARY = 2
    RECOVERING = 3
    ARBITER = 7
    DOWN = 8
    """How the others see a member that they do not reach; no member sees itself so."""
    REMOVED = 10


@dataclass(slots=True, eq=False)
class Member:
    """One server of a deployment as the others see it.

    `process_id` and `counter` are its `topologyVersion`. Until `frozen_until`, an instant of the clock, it
    seeks no election. `alive` says whether its process runs and is not paused; members of one `island` reach
    one another.
    """

    id: int
    address: str
    process_id: ObjectId
    role: Role = Role.SECONDARY
    counter: int = 0
    frozen_until: float = _NEVER
    spec: MemberSpec = field(default_factory=MemberSpec)
    alive: bool = True
    island: int = 0

    def reaches(self, other: Member) -> bool:
        """Say whether both run, with a network between them."""
        return self.alive and other.alive and self.island == other.island


def _equally_far(_member: Member) -> int:
    return 0


class ReplicaSet:
    """The state that all members agree on. `changed` rings when what a hello tells has changed.

    Where `applied` is asked for it returns how far a member has come, as something that can be compared.
    """

    def __init__(self, name: str, set_id: ObjectId, members: Sequence[Member]) -> None:
        self.name = name
        self.id = set_id
        self.version = 1
        self.term = 0
        self.primary: Member | None = None
        self.changed = Bell()
        self._have(members)

    def _have(self, members: Sequence[Member]) -> None:
        self.members = tuple(members)
        data_bearing = [member for member in members if not member.spec.arbiter]
        self.voters = sum(member.spec.votes for member in members)
        """How many votes there are."""
        self.majority = self.voters // 2 + 1
        """How many votes it takes to elect a primary."""
        self.write_majority = min(self.majority, sum(member.spec.votes for member in data_bearing))
        """How many members with a vote must have a write before it is a majority's."""

    @property
    def election_id(self) -> ObjectId:
        """The current term's election, greater than all before it (`SDAM: electionId`)."""
        return ObjectId(_ELECTION_ID_PREFIX + self.term.to_bytes(8, "big"))

    def has_majority(self, member: Member) -> bool:
        """Say whether a member and those that it reaches can elect a primary."""
        votes = sum(other.spec.votes for other in self.members if member.reaches(other))
        return member in self.members and votes >= self.majority

    # Elections.

    def elect(self, member: Member) -> None:
        """Make `member` the primary of a new term; another primary steps down first."""
        if self.primary is not None:
            self.step_down()
        self.term += 1
        self.primary = member
        member.role = Role.PRIMARY
        member.frozen_until = _NEVER
        self.announce()

    def step_down(self, *, frozen_until: float = _NEVER) -> Member:
        """Make the primary a secondary, which seeks no election until `frozen_until`.

        Raises `ValueError` if there is no primary.
        """
        if self.primary is None:
            raise ValueError("the set has no primary")
        member, self.primary = self.primary, None
        member.role = Role.SECONDARY
        member.frozen_until = frozen_until
        self.announce()
        return member

    def maintain(self, member: Member, *, on: bool) -> None:
        """Move a secondary to RECOVERING, or back."""
        member.role = Role.RECOVERING if on else Role.SECONDARY
        self.announce()

    def candidate(
        self, now: float, applied: Callable[[Member], Any] = _equally_far, *, above: float = 0.0
    ) -> Member | None:
        """Return the secondary that would win an election now, or None.

        It is one that has come as far as any other; of several the one of the highest priority, and of these
        the first. Only a priority `above` that of a primary lets it stand against one (`priority takeover`).
        """
        able = [member for member in self._able(above) if member.frozen_until <= now]
        return max(able, key=lambda member: (applied(member), member.spec.rank), default=None)

    def next_thaw(self, *, above: float = 0.0) -> float | None:
        """Return the earliest instant at which a secondary may seek election, or None where none will."""
        return min((member.frozen_until for member in self._able(above)), default=None)

    def _able(self, above: float) -> Iterator[Member]:
        """Iterate over the secondaries that would be elected if they were not frozen."""
        for member in self.members:
            if member.role is Role.SECONDARY and member.spec.rank > above and self.has_majority(member):
                yield member

    # The configuration.

    def reconfigure(self, members: Sequence[Member], *, version: int | None = None) -> None:
        """Have these members from now on, and be at the next version, or the one given.

        A member that has left is REMOVED, one that joins a secondary, or an arbiter.
        """
        for member in self.members:
            if member not in members:
                member.role = Role.REMOVED
                member.counter += 1
        for member in members:
            if member.role in {Role.STARTUP, Role.REMOVED}:
                member.role = Role.ARBITER if member.spec.arbiter else Role.SECONDARY
        if self.primary is not None and self.primary not in members:
            self.primary = None
        self._have(members)
        self.version = self.version + 1 if version is None else version
        self.announce()

    def announce(self) -> None:
        """Let every member's hello tell something new."""
        for member in self.members:
            member.counter += 1
        self.changed.ring()
