"""The default concerns, for commands without one (`Read and Write Concern: default concerns`).

They belong to the whole deployment: a replica set, or a cluster, whose config servers keep them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_50
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from bson import Timestamp

    from fakeserver.deployment.replication.state import ReplicaSet
    from fakeserver.idl.generic_arguments import WriteConcern
    from fakeserver.profile import Profile

DOCUMENT_ID: Final = "ReadWriteConcernDefaults"
"""The `_id` of the document in `config.settings` that keeps them."""

_LOCAL: Final[Mapping[str, Any]] = {"level": "local"}


@dataclass(slots=True)
class DefaultConcerns:
    """The defaults that `setDefaultRWConcern` set, None where none was."""

    read: Mapping[str, Any] | None = None
    write: Mapping[str, Any] | None = None
    updated_at: Timestamp | None = None
    updated_on: dt.datetime | None = field(default=None)

    @property
    def document(self) -> dict[str, Any]:
        """The document in `config.settings`, without its `_id`."""
        shown: dict[str, Any] = {}
        if self.read is not None:
            shown["defaultReadConcern"] = dict(self.read)
        if self.write is not None:
            shown["defaultWriteConcern"] = dict(self.write)
        if self.updated_at is not None:
            shown |= {"updateOpTime": self.updated_at, "updateWallClockTime": self.updated_on}
        return shown

    def describe(self, *, implicit_majority: bool) -> dict[str, Any]:
        """Return the reply of `getDefaultRWConcern`, without the time of this server."""
        shown = {"defaultReadConcern": dict(_LOCAL), **self.document}
        if self.write is None and implicit_majority:
            shown["defaultWriteConcern"] = {"w": "majority", "wtimeout": 0}
        shown["defaultWriteConcernSource"] = "implicit" if self.write is None else "global"
        shown["defaultReadConcernSource"] = "implicit" if self.read is None else "global"
        return shown


def implies_majority(replica_set: ReplicaSet, profile: Profile) -> bool:
    """Return whether writes without a concern wait for a majority.

    They do not before 5.0, and not in a set whose arbiters leave no more data-bearing voters than a majority:
    there, one member that fails would block every write.
    """
    if profile.max_wire_version < WIRE_50:
        return False
    voters = [member.spec for member in replica_set.members if member.spec.votes]
    bearing = sum(not spec.arbiter for spec in voters)
    return bearing == len(voters) or bearing > len(voters) // 2 + 1


def unmet_for_good(concern: WriteConcern, data_bearing: int) -> CommandError | None:
    """Return why a set of so many members with data can never satisfy a concern (100 or 79), else None."""
    if isinstance(concern.w, int):
        if concern.w <= data_bearing:
            return None
        return CommandError(ErrorCode.UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes")
    if concern.w == "majority":
        return None
    return CommandError(
        ErrorCode.UNKNOWN_REPL_WRITE_CONCERN,
        f"No write concern mode named '{concern.w}' found in replica set configuration",
    )
