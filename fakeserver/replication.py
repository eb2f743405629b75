"""Who is primary of a replica set, and how that changes: state and rules, without any waiting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from bson import ObjectId

from fakeserver.waiting import Bell

if TYPE_CHECKING:
    from collections.abc import Sequence

_ELECTION_ID_PREFIX: Final = bytes.fromhex("7fffffff")
_NEVER: Final = float("-inf")


class Role(IntEnum):
    """A member's state, numbered as in `replSetGetStatus`."""

    PRIMARY = 1
    SECONDARY = 2
    RECOVERING = 3


@dataclass(slots=True, eq=False)
class Member:
    """One server of a deployment as the others see it.

    `process_id` and `counter` are its `topologyVersion`. Until `frozen_until`, an instant of the clock, it
    seeks no election.
    """

    id: int
    address: str
    process_id: ObjectId
    role: Role = Role.SECONDARY
    counter: int = 0
    frozen_until: float = _NEVER


class ReplicaSet:
    """The state that all members agree on. `changed` rings when what a hello tells has changed."""

    def __init__(self, name: str, set_id: ObjectId, members: Sequence[Member]) -> None:
        self.name = name
        self.id = set_id
        self.members = tuple(members)
        self.version = 1
        self.term = 0
        self.primary: Member | None = None
        self.changed = Bell()

    @property
    def election_id(self) -> ObjectId:
        """The current term's election, greater than all before it (`SDAM: electionId`)."""
        return ObjectId(_ELECTION_ID_PREFIX + self.term.to_bytes(8, "big"))

    def elect(self, member: Member) -> None:
        """Make `member` the primary of a new term; another primary steps down first."""
        if self.primary is not None:
            self.step_down()
        self.term += 1
        self.primary = member
        member.role = Role.PRIMARY
        member.frozen_until = _NEVER
        self._change()

    def step_down(self, *, frozen_until: float = _NEVER) -> Member:
        """Make the primary a secondary, which seeks no election until `frozen_until`.

        Raises `ValueError` if there is no primary.
        """
        if self.primary is None:
            raise ValueError("the set has no primary")
        member, self.primary = self.primary, None
        member.role = Role.SECONDARY
        member.frozen_until = frozen_until
        self._change()
        return member

    def maintain(self, member: Member, *, on: bool) -> None:
        """Move a secondary to RECOVERING, or back."""
        member.role = Role.RECOVERING if on else Role.SECONDARY
        self._change()

    def candidate(self, now: float) -> Member | None:
        """Return the member that would win an election now, or None."""
        able = (m for m in self.members if m.role is Role.SECONDARY and m.frozen_until <= now)
        return next(able, None)

    def next_thaw(self) -> float | None:
        """Return the earliest instant at which a frozen secondary may seek election, or None."""
        return min((m.frozen_until for m in self.members if m.role is Role.SECONDARY), default=None)

    def _change(self) -> None:
        for member in self.members:
            member.counter += 1
        self.changed.ring()
