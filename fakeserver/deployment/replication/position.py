"""The position of a member in the oplog, and its data as they were at its last operation.

A history has one store (`history`), and nearly always a deployment has one history. A member that
falls behind keeps a fork of it, which costs nothing until the collections in it are written to; one that has
caught up shows the store itself and costs nothing at all.

A real secondary applies the oplog entry by entry. Here nothing is applied: a member that follows at a
distance takes a fork whenever the store has changed, and shows it when the delay has passed. So the fork, not
the entry, is the unit of its progress, and the number of forks in the time of one lag is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fakeserver.storage.port.oplog import gossip_of

if TYPE_CHECKING:
    from bson import Timestamp

    from fakeserver.deployment.replication.history import Rollback
    from fakeserver.deployment.server import Server
    from fakeserver.storage.port.oplog import ClusterTime, OpTime
    from fakeserver.storage.store.catalog import Catalog

_ROLLBACKS: Final = 100
"""So many of its rollbacks a member remembers."""
_COPIES: Final = 20
"""A member that lags takes no more copies than this in the time of its lag, or one a second."""


class Position:
    """The position of one member: up to date, held at an operation, or following at a distance.

    It is held for as long as there is a reason, and a reason outweighs a delay. A primary is never behind: by
    its election it catches up with its history, or begins one with what it has.
    """

    def __init__(self, node: Server) -> None:
        self.applied: OpTime | None = None
        """The last operation that the member has, None while it has all."""
        self.delay = 0.0
        """The seconds by which it follows."""
        self.rollbacks: deque[Rollback] = deque(maxlen=_ROLLBACKS)
        """What it has rolled back, the newest last."""
        self.rolled_back = 0
        """The number of its rollbacks (`rbid`)."""
        self.returns = False
        """It is about to roll back."""
        self._node = node
        self._reasons: set[str] = set()
        """The reasons for which it applies nothing."""
        self._following: asyncio.Task[None] | None = None
        """The task that copies the store, while the member follows at a distance."""

    def hold(self, reason: str) -> None:
        """Apply nothing until this reason, and every other, is released."""
        self._reasons.add(reason)
        self.refresh()

    def release(self, reason: str) -> None:
        """Go on, unless there is another reason to be held."""
        self._reasons.discard(reason)
        self.refresh()

    def lag(self, seconds: float) -> None:
        """Apply each operation `seconds` after it was written; 0 catches up.

        Of writes in quick succession the later ones come up to a twentieth of that, or a second, too late.
        """
        self.delay = seconds
        self._stop_following()
        self.refresh()

    def reset(self, delay: float) -> None:
        """Forget every reason to be held, show the store as it is, and follow it by `delay` seconds."""
        if self.applied is None and self.delay == delay and not self._reasons:
            return
        self._reasons.clear()
        self.lag(0.0)
        if delay:
            self.lag(delay)

    def go_back(self, optime: OpTime, catalog: Catalog, reason: str) -> None:
        """Show the data as of an earlier operation, and apply nothing until `reason` is released."""
        self._reasons.add(reason)
        self._stop_following()
        self._show(optime, catalog)

    def move(self) -> None:
        """Go on in another history, which has all operations that the member has."""
        self._stop_following()
        node = self._node
        self._show(self.applied, node.history.catalog if self.applied is None else node.catalog)
        self.refresh()

    def refresh(self) -> None:
        """Bring the position in line with the reasons, the delay and the member's role after a change."""
        behind = bool(self._reasons or self.delay) and not self._node.is_primary
        if not behind:
            self._stop_following()
            if self.applied is not None:
                self._show(None, self._node.history.catalog)
            return
        if self.applied is None:
            self._show(self._node.oplog.last, self._fork())
        if self._reasons:
            # Copies that are on their way are dropped too: they are newer than the hold.
            self._stop_following()
        elif self._following is None:
            self._following = self._node.spawn(self._follow(self.delay))

    async def _follow(self, seconds: float) -> None:
        """Copy the store whenever it has changed, and show each copy when its time has come."""
        clock, oplog = self._node.clock, self._node.oplog
        copied = self.applied
        while True:
            # Members that show a copy ring too: what they have shown is no reason for another.
            while oplog.last == copied:
                grown = asyncio.Event()
                number = oplog.grown.listen(grown.set)
                try:
                    await grown.wait()
                finally:
                    oplog.grown.ignore(number)
            copied = oplog.last
            now = clock.now()
            # Shown by a task of its own: several copies are on their way when a lag is long.
            self._node.spawn(self._arrive(now + seconds, copied, self._fork(), self._following))
            await clock.sleep_until(now + min(seconds / _COPIES, 1.0))

    async def _arrive(self, at: float, optime: OpTime, copy: Catalog, by: asyncio.Task[None] | None) -> None:
        await self._node.clock.sleep_until(at)
        # Another follower, or none, means that the member was held, or its delay changed, after the copy. Of
        # two copies that are due, as on a busy machine, either may come first. A member that went back would
        # take from a majority what it has counted.
        if by is not None and by is self._following and self.applied is not None and optime > self.applied:
            self._show(optime, copy)

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None

    def _fork(self) -> Catalog:
        return self._node.history.catalog.copy()

    def _show(self, optime: OpTime | None, catalog: Catalog) -> None:
        node, shared = self._node, self._node.history.cluster_time
        node.cluster.catch_up()
        self.applied = optime
        node.catalog = catalog
        node.cluster_time = shared if optime is None else TimeOfMember(shared, optime)
        # Write concerns and causal reads wait for the first bell, tailable cursors for the second.
        node.cluster.replication.ring()
        node.oplog.grown.ring()


class TimeOfMember:
    """The deployment's cluster time, and as `operationTime` that of a member's last operation."""

    def __init__(self, shared: ClusterTime, applied: OpTime) -> None:
        self._shared = shared
        self._applied = applied.timestamp

    def advance(self, time: Timestamp) -> None:
        self._shared.advance(time)

    @property
    def latest(self) -> Timestamp:
        return self._shared.latest

    def fields(self) -> dict[str, Any]:
        return self._shared.fields() | {"operationTime": self._applied}

    def elements(self) -> bytes:
        return gossip_of(self._shared.latest, self._applied)
