"""The state of a replica set: its members, its term, its primary, and the rules by which they change.

Nothing waits here: `deployment.shard` knows the servers and the time, and asks.

A real set agrees by heartbeats and votes, over a time in which two members may both believe to be primary.
Here all members look at one `ReplicaSet`, and an election is a single step. What clients can observe of it
follows:

    term         one more at each election; with `electionId`, greater than all before it, clients tell an old
                 primary from a new one
    majority     of the votes, not of the members. Without one a member is not elected, and a primary steps
                 down: at once, or, as a server does, when it has not heard of a majority for a while. Until
                 then there may be a primary of an earlier term beside that of the set (docs/adr/0019)
    candidate    one of those that have come farthest, for a real voter refuses a candidate that is behind it;
                 of these the one of the highest priority. A member that comes back or catches up with a
                 higher priority than the primary's takes over (priority takeover). One that has operations
                 which the set has not is no candidate before it has rolled them back
    frozen       after a step-down or `replSetFreeze` a member seeks no election until an instant

Every change increments all members' `topologyVersion` counters, and rings the bell for which awaitable hellos
wait: a real member announces what it has learnt from others too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from fakeserver.deployment.spec import MemberSpec
from fakeserver.waiting.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ELECTION_ID_PREFIX: Final = bytes.fromhex("7fffffff")
_NEVER: Final = float("-inf")
ALONE: Final = -1
"""The island of a primary whose writes reach nobody for a while (`rollback`)."""


class Role(IntEnum):
    """The state of a member, numbered as in `replSetGetStatus`."""

    STARTUP = 0
    """It belongs to no set yet."""
    PRIMARY = 1
    SECONDARY = 2
    RECOVERING = 3
    ARBITER = 7
    DOWN = 8
    """The state in which others see a member that they do not reach; no member sees itself so."""
    ROLLBACK = 9
    """It goes back to the last operation that it has in common with the primary."""
    REMOVED = 10


@dataclass(slots=True, eq=False)
class Member:
    """One server of a deployment as the others see it."""

    id: int
    """Its `_id` in the configuration."""
    address: str
    process_id: ObjectId
    """The process of its `topologyVersion`: another one after each start."""
    role: Role = Role.SECONDARY
    counter: int = 0
    """The counter of its `topologyVersion`."""
    frozen_until: float = _NEVER
    """The instant before which it seeks no election."""
    spec: MemberSpec = field(default_factory=MemberSpec)
    """Its configuration: votes, priority, tags and the like."""
    alive: bool = True
    """Its process runs and is not paused."""
    island: int = 0
    """The part of the network that it is in; members of one island reach one another."""
    term: int = 0
    """The newest term that it has heard of; of a primary, its own."""
    diverged: bool = False
    """It has operations that the set has given up, and has to roll them back."""

    def reaches(self, other: Member) -> bool:
        """Say whether both run, with a network between them."""
        return self.alive and other.alive and self.island == other.island


def _equally_far(_member: Member) -> int:
    return 0


class ReplicaSet:
    """The state that all members agree on.

    Functions that take `applied` call it for a member's last operation, which can be compared.
    """

    def __init__(self, name: str, set_id: ObjectId, members: Sequence[Member]) -> None:
        self.name = name
        self.id = set_id
        self.version = 1
        self.term = 0
        self.primary: Member | None = None
        """The primary of the newest term."""
        self.changed = Bell()
        """Rings when a member's hello has changed."""
        self._have(members)

    def _have(self, members: Sequence[Member]) -> None:
        self.members = tuple(members)
        data_bearing = [member for member in members if not member.spec.arbiter]
        self.voters = sum(member.spec.votes for member in members)
        """The number of votes in the set."""
        self.majority = self.voters // 2 + 1
        """The number of votes that elect a primary."""
        # Arbiters vote and hold no data. Beside two of them, one other member is elected with two votes, but
        # no two members could ever have a write; so the smaller number counts (`writeMajorityCount`).
        self.write_majority = min(self.majority, sum(member.spec.votes for member in data_bearing))
        """The number of voting members that must have a write before it is a majority's."""

    def primary_seen_by(self, member: Member) -> Member | None:
        """Return the primary that a member reaches, itself perhaps: of two, that of the newer term."""
        seen = [each for each in (self.primary, *self.deposed) if each is not None and each.reaches(member)]
        return seen[0] if seen else None

    @property
    def deposed(self) -> list[Member]:
        """The primaries of earlier terms, who have not heard yet that there is a newer one."""
        return [each for each in self.members if each.role is Role.PRIMARY and each is not self.primary]

    def has_majority(self, member: Member) -> bool:
        """Say whether a member and those within its reach have enough votes to elect a primary."""
        votes = sum(other.spec.votes for other in self.members if member.reaches(other))
        return member in self.members and votes >= self.majority

    # Elections.

    def elect(self, member: Member) -> None:
        """Make `member` the primary of a new term; another primary that it reaches steps down first."""
        if self.primary is not None and (self.primary is member or self.primary.reaches(member)):
            self.step_down()
        self.term += 1
        self.primary = member
        member.role = Role.PRIMARY
        member.frozen_until = _NEVER  # an election that a test forces ends a freeze
        self.spread_term()
        self.announce()

    def spread_term(self) -> None:
        """Have those who reach the primary hear of its term."""
        for member in self.members:
            if self.primary is not None and (member is self.primary or self.primary.reaches(member)):
                member.term = self.term

    def step_down(self, member: Member | None = None, *, frozen_until: float = _NEVER) -> Member:
        """Make the primary, or one of an earlier term, a secondary, until `frozen_until` no candidate.

        Raises `ValueError` if there is no primary.
        """
        member = self.primary if member is None else member
        if member is None:
            raise ValueError("the set has no primary")
        if member is self.primary:
            self.primary = None
        member.role = Role.SECONDARY
        member.frozen_until = frozen_until
        self.announce()
        return member

    def maintain(self, member: Member, *, on: bool) -> None:
        """Move a secondary to RECOVERING (`replSetMaintenance`), or back."""
        member.role = Role.RECOVERING if on else Role.SECONDARY
        self.announce()

    def roll_back(self, member: Member, *, on: bool) -> None:
        """Move a secondary that has diverged to ROLLBACK, or back."""
        member.role = Role.ROLLBACK if on else Role.SECONDARY
        self.announce()

    def candidate(
        self, now: float, applied: Callable[[Member], Any] = _equally_far, *, above: float = 0.0
    ) -> Member | None:
        """Return the secondary that would win an election now, or None.

        It has come as far as any other; of several it is the one of the highest priority, and of these the
        first. `above` is the priority of the present primary: only a higher one takes over.
        """
        able = [member for member in self._able(above) if member.frozen_until <= now]
        return max(able, key=lambda member: (applied(member), member.spec.rank), default=None)

    def next_thaw(self, *, above: float = 0.0) -> float | None:
        """Return the earliest instant at which a secondary may seek election, or None where none will."""
        return min((member.frozen_until for member in self._able(above)), default=None)

    def _able(self, above: float) -> Iterator[Member]:
        """Iterate over the secondaries that would be elected if they were not frozen."""
        for member in self.members:
            able = member.role is Role.SECONDARY and member.spec.rank > above and not member.diverged
            if able and self.has_majority(member):
                yield member

    # The configuration.

    def reconfigure(self, members: Sequence[Member], *, version: int | None = None) -> None:
        """Replace the members; the configuration's version becomes `version`, by default the next one.

        A member that has left is REMOVED, one that joins a secondary, or an arbiter.
        """
        for member in self.members:
            if member not in members:
                member.role = Role.REMOVED
                member.counter += 1  # `announce` reaches present members only
        for member in members:
            if member.role in {Role.STARTUP, Role.REMOVED}:
                member.role = Role.ARBITER if member.spec.arbiter else Role.SECONDARY
        if self.primary is not None and self.primary not in members:
            self.primary = None
        self._have(members)
        self.version = self.version + 1 if version is None else version
        self.announce()

    def election_of(self, member: Member) -> ObjectId:
        """Return the election of a primary, greater than all before it (`SDAM: electionId`)."""
        return ObjectId(_ELECTION_ID_PREFIX + member.term.to_bytes(8, "big"))

    def announce(self) -> None:
        """Increment every member's `topologyVersion`, and wake the hellos that await a change."""
        for member in self.members:
            member.counter += 1
        self.changed.ring()
