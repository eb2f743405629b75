"""Rollback: a member goes back to the last operation that it has in common with the primary.

A member that returns with a history of its own (`history`) finds out what it has alone, and

    closes its clients' connections, and is in the state ROLLBACK, in which it answers no reads
    has the cursors that were open answer 175
    keeps what it takes back: in its log, and where it can be read, `local.pushbackd.rollback`. A server
        writes files beside its data
    shows the data as of the common operation, with sessions and transactions as of then
    is a secondary again, and catches up

What a majority has is on both histories, and never taken back: whoever is elected has it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from fakeserver.deployment.records.events import ServerChanged
from fakeserver.deployment.replication.history import Rollback
from fakeserver.deployment.replication.state import ALONE, Role
from fakeserver.deployment.server import Server
from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fakeserver.deployment.replication.history import History
    from fakeserver.deployment.replication.position import Position
    from fakeserver.deployment.replication.state import ReplicaSet
    from fakeserver.deployment.spec import ClusterSpec
    from fakeserver.sessions.cursors import CursorStore
    from fakeserver.storage.port.oplog import OpTime
    from mongowire.ports import Clock

_REASON: Final = "rolls back"
_REOPENED: Final = "the catalog was closed and reopened"
"""What a server says of a cursor that was open before."""
_SECONDS: Final = 0.5
"""The time that a rollback takes; a server's is mostly a second or two."""


class Returning(Server, Protocol):
    """A server that may have to roll back."""

    position: Position
    cursors: CursorStore

    @property
    def applied(self) -> OpTime: ...


class RollbackHome(Protocol):
    """The replica set that it returns to."""

    replica_set: ReplicaSet

    @property
    def cluster(self) -> HomeDeployment: ...

    @property
    def primary(self) -> Returning | None: ...

    def settle(self) -> None: ...

    def hold_election(self) -> None: ...

    def rejoined(self, node: Any) -> None: ...

    def keep_primary(self, node: Any) -> None: ...

    def give_up(self, node: Any) -> None: ...


class HomeDeployment(Protocol):
    """The deployment of the set."""

    spec: ClusterSpec
    clock: Clock
    history: History

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> object: ...


def roll_back(shard: RollbackHome, node: Returning) -> None:
    """Begin the rollback of a member that reaches the primary, if it has not begun."""
    if node.position.returns:
        return
    node.position.returns = True
    shard.cluster.spawn(_roll_back(shard, node))


async def _roll_back(shard: RollbackHome, node: Returning) -> None:
    clock, member = shard.cluster.clock, node.member
    try:
        # It is a secondary and looks for a member to follow. What waits on the old primary hears meanwhile
        # that it has stepped down, before connections end.
        await clock.sleep_until(clock.now() + shard.cluster.spec.election_delay)
        primary = shard.primary
        reaches_primary = primary is not None and primary.member.reaches(member)
        if node.stopped or not member.diverged or not reaches_primary:
            return
        _go_back(shard, node)
        await clock.sleep_until(clock.now() + _SECONDS)
    finally:
        node.position.returns = False
    if node.role is Role.ROLLBACK:
        shard.replica_set.roll_back(member, on=False)
        node.record(ServerChanged("rolled back", ""))
    node.position.release(_REASON)
    shard.settle()


def _go_back(shard: RollbackHome, node: Returning) -> None:
    """Take back what the member has alone."""
    history = shard.cluster.history
    common = node.history.common(history)
    entries = [each for each in node.history.oplog.since(common.optime) if each.optime <= node.applied]
    done = node.position.rollbacks
    rollback = Rollback(node.position.rolled_back + 1, node.clock.utc(), common.optime, entries)
    done.append(rollback)
    node.position.rolled_back = rollback.number
    shard.replica_set.roll_back(node.member, on=True)
    _tell(node, rollback)
    for connection in list(node.connections.values()):
        connection.close("rolls back")
    node.cursors.invalidate_all(CommandError(ErrorCode.QUERY_PLAN_KILLED, _REOPENED))
    history.lend(node)
    node.position.go_back(common.optime, common.catalog.copy(), _REASON)
    shard.rejoined(node)


def _tell(node: Returning, rollback: Rollback) -> None:
    """Enter a rollback in the journal and in the log."""
    common = rollback.common.timestamp
    count = len(rollback.entries)
    node.record(ServerChanged("rolls back", f"{count} operations after ({common.time}, {common.inc})"))
    states = {"newState": "ROLLBACK", "oldState": "SECONDARY"}
    node.log.write("REPL", 21358, "Replica set state transition", context="BackgroundSync", attr=states)
    namespaces = Counter(str(written.ns) for entry in rollback.entries for written in entry.changes)
    summary = {
        "rbid": rollback.number,
        "commonPoint": rollback.common.document,
        "lastOptimeRolledBack": rollback.entries[-1].optime.document if rollback.entries else None,
        "totalEntriesRolledBackIncludingNoops": count,
        "affectedNamespaces": dict(namespaces),
    }
    context = "BackgroundSync"
    node.log.write("ROLLBACK", 21612, "Rollback summary", severity="W", context=context, attr=summary)


def isolate(shard: RollbackHome, node: Returning, seconds: float) -> None:
    """Have a rollback: cut a primary off from its set, elect another `seconds` later, and let it return.

    Clients reach it all the time. What it writes meanwhile, and what it has alone by then, is rolled back.
    Raises `ValueError` for a server that is no primary, and where nobody else could be elected.
    """
    if shard.cluster.spec.is_sharded:
        raise ValueError(f"{node.name} is a shard's: shards share one history, and nothing is rolled back")
    if shard.primary is not node:
        raise ValueError(f"{node.name} is {node.role.name}, and only the PRIMARY of a set can be left behind")
    member, clock = node.member, shard.cluster.clock
    home, until = member.island, clock.now() + seconds
    others = [each for each in shard.replica_set.members if each is not member and each.reaches(member)]
    member.island = ALONE
    if not any(each.spec.is_electable and shard.replica_set.has_majority(each) for each in others):
        member.island = home
        raise ValueError(f"without {node.name} no member could be elected, and nothing is rolled back")
    for each in others:
        each.frozen_until = max(each.frozen_until, until)
    node.record(ServerChanged("alone", f"for {seconds:g} s"))
    shard.keep_primary(node)
    shard.settle()

    async def end() -> None:
        await clock.sleep_until(until)
        # Another island: it was healed, or is in another partition by now.
        if member.island == ALONE:
            if shard.primary is node:
                shard.hold_election()
            member.island = home
            shard.settle()
        shard.give_up(node)

    shard.cluster.spawn(end())
