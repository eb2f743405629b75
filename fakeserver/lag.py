"""How far behind a member is, and what it shows then: the data as they were at its last operation.

A deployment has one store. A member that falls behind keeps a fork of it, which costs nothing until the
collections in it are written to; one that has caught up shows the store itself and costs nothing at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fakeserver.oplog import gossip_of

if TYPE_CHECKING:
    from bson import Timestamp

    from fakeserver.catalog import Catalog
    from fakeserver.node import Node
    from fakeserver.oplog import ClusterTime, OpTime

_COPIES: Final = 20
"""A member that lags takes no more copies than this in the time of its lag, or one a second."""


class Position:
    """A member's place in the order of operations.

    It is held there for as long as there is a reason, or follows at a distance. A primary is never behind:
    whoever is elected catches up with all that was ever acknowledged, so nothing is rolled back.
    """

    def __init__(self, node: Node) -> None:
        self.applied: OpTime | None = None
        """The last operation that the member has, None while it has all."""
        self.delay = 0.0
        self._node = node
        self._reasons: set[str] = set()
        self._following: asyncio.Task[None] | None = None

    def hold(self, reason: str) -> None:
        """Apply nothing until this reason, and every other, is released."""
        self._reasons.add(reason)
        self.refresh()

    def release(self, reason: str) -> None:
        """Go on, unless there is another reason to be held."""
        self._reasons.discard(reason)
        self.refresh()

    def lag(self, seconds: float) -> None:
        """Apply each operation so many seconds after it was written; 0 catches up.

        Of writes in quick succession the later ones come up to a twentieth of that, or a second, too late.
        """
        self.delay = seconds
        self._stop_following()
        self.refresh()

    def refresh(self) -> None:
        """Do what the reasons, the delay and the member's role ask for; called when one of them changes."""
        behind = bool(self._reasons or self.delay) and not self._node.is_primary
        if not behind:
            self._stop_following()
            if self.applied is not None:
                self._show(None, self._node.cluster.catalog)
            return
        if self.applied is None:
            self._show(self._node.oplog.last, self._fork())
        if self._reasons:
            self._stop_following()
        elif self._following is None:
            self._following = self._node.spawn(self._follow(self.delay))

    async def _follow(self, seconds: float) -> None:
        """Copy the store whenever it has changed, and show each copy when its time has come."""
        clock, oplog = self._node.clock, self._node.oplog
        copied = self.applied
        while True:
            if oplog.last == copied:
                grown = asyncio.Event()
                number = oplog.grown.listen(grown.set)
                try:
                    await grown.wait()
                finally:
                    oplog.grown.ignore(number)
            copied = oplog.last
            now = clock.now()
            self._node.spawn(self._arrive(now + seconds, copied, self._fork()))
            await clock.sleep_until(now + min(seconds / _COPIES, 1.0))

    async def _arrive(self, at: float, optime: OpTime, copy: Catalog) -> None:
        following = self._following
        await self._node.clock.sleep_until(at)
        if following is not None and following is self._following:
            self._show(optime, copy)

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None

    def _fork(self) -> Catalog:
        return self._node.cluster.catalog.fork()

    def _show(self, optime: OpTime | None, catalog: Catalog) -> None:
        node, shared = self._node, self._node.cluster.cluster_time
        node.cluster.catch_up()
        self.applied = optime
        node.catalog = catalog
        node.cluster_time = shared if optime is None else TimeOfMember(shared, optime)
        node.cluster.replication.ring()
        node.oplog.grown.ring()


class TimeOfMember:
    """The deployment's cluster time, and as `operationTime` that of a member's last operation."""

    def __init__(self, shared: ClusterTime, applied: OpTime) -> None:
        self._shared = shared
        self._applied = applied.timestamp

    def advance(self, told: Timestamp) -> None:
        self._shared.advance(told)

    @property
    def latest(self) -> Timestamp:
        return self._shared.latest

    def fields(self) -> dict[str, Any]:
        return self._shared.fields() | {"operationTime": self._applied}

    def elements(self) -> bytes:
        return gossip_of(self._shared.latest, self._applied)


def committed(node: Node) -> Catalog:
    """Return the data as a majority has them, as far as this member has come (`Read Concern: majority`)."""
    shard = node.shard
    if shard is None:
        return node.catalog
    point = shard.majority()
    if node.applied <= point:
        return node.catalog
    return next(other.catalog for other in shard.nodes if other.applied == point)
