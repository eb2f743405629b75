"""The commit quorum of an index build: how many members must be ready before the index is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import whole
from fakeserver.storage.values.types import is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node

DEFAULT: Final = "votingMembers"
_MODES: Final = (DEFAULT, "majority")
_MOST_MEMBERS: Final = 50


def commit_quorum(node: Node, wanted: Any) -> Any:
    """Return the quorum of a build on a server, None where there is none.

    Raises `CommandError`: 9 for no quorum, 2 on a server that is in no replica set, 79 for a mode that the
    set does not have, 278 for more members than it has.
    """
    if wanted is not None:
        _check(wanted)
    if not node.is_replica_set_member:
        if wanted is not None and not node.is_mongos:
            raise CommandError(ErrorCode.BAD_VALUE, "Standalones can't specify commitQuorum")
        return None
    if wanted is None:
        return DEFAULT
    if type(wanted) is str:
        if wanted not in _MODES:
            raise CommandError(
                ErrorCode.UNKNOWN_REPL_WRITE_CONCERN,
                f"No write concern mode named '{wanted}' found in replica set configuration",
            )
        return wanted
    assert node.shard is not None
    members = sum(bool(member.member.spec.votes) for member in node.shard.data_bearing)
    if whole(wanted) > members:
        raise CommandError(
            ErrorCode.UNSATISFIABLE_COMMIT_QUORUM,
            f"Not enough data-bearing nodes; {members} can vote, the commit quorum is {whole(wanted)}",
        )
    return whole(wanted)


def _check(wanted: Any) -> None:
    if type(wanted) is str:
        return
    if not is_number(wanted):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "commitQuorum has to be a number or a string")
    if not 0 <= whole(wanted) <= _MOST_MEMBERS:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"commitQuorum has to be a non-negative number and not greater than {_MOST_MEMBERS}",
        )
