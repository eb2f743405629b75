r"""A history: the operations of a set in their order, and what they have made.

A deployment has one, which all members share: whoever has all operations shows its data, whoever is behind a
fork of them (`Position`). A second one begins where a member is elected that does not reach the newest
operations, or the primary that goes on to write them (`Shard.elect`). The new primary's history is the
deployment's from then on. It is the one that has new objects, made as of the last operation that both have:
on the old one requests are under way, transactions are open, and locks are held, all of which go on.

    operations    1  2  3  4  5        the old primary, which nobody tells of the election
                        \
                         4' 5' 6'      the new one: 3 is the last operation in common (`Point`)

What an old history has beyond that point is rolled back when its members return (`rollback`), and
when none of them is left, it is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fakeserver.storage.port.oplog import ClusterTime

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fakeserver.sessions.session import SessionCatalog
    from fakeserver.sessions.transactions import Transactions
    from fakeserver.storage.port.oplog import Oplog, OplogEntry, OpTime
    from fakeserver.storage.store.catalog import Catalog


class Point(NamedTuple):
    """The last operation that two histories have in common, and the data as they were then."""

    optime: OpTime
    catalog: Catalog


class Rollback(NamedTuple):
    """One rollback: what a member took back, and where it went."""

    number: int
    """Its number on this member, from 1 on (`rbid`)."""
    utc: float
    """When it was, in seconds since the Unix epoch."""
    common: OpTime
    """The last operation that was kept."""
    entries: Sequence[OplogEntry]
    """The operations that were not."""


class Owner:
    """A deployment or a server, with the parts of a history as its own attributes (`History.lend`)."""

    history: History
    oplog: Oplog
    cluster_time: Any
    """A `ClusterTime`, or that of a member which is behind."""
    sessions: SessionCatalog
    catalog: Catalog
    transactions: Transactions


class History:
    """One history; it is equal to no other."""

    def __init__(
        self, catalog: Catalog, oplog: Oplog, sessions: SessionCatalog, transactions: Transactions
    ) -> None:
        self.catalog = catalog
        self.oplog = oplog
        self.sessions = sessions
        self.transactions = transactions
        self.cluster_time = ClusterTime(oplog)
        self._points: dict[History, Point] = {}

    def lend(self, to: Any) -> None:
        """Give an `Owner` the parts of this history."""
        to.history = self
        to.catalog, to.oplog, to.cluster_time = self.catalog, self.oplog, self.cluster_time
        to.sessions, to.transactions = self.sessions, self.transactions

    def branch(self, point: Point) -> History:
        """Return a history that has this one's operations up to a point, and none of the later ones."""
        optime, catalog = point.optime, point.catalog.copy()
        oplog = self.oplog.until(optime)
        branch = History(catalog, oplog, self.sessions.until(optime), self.transactions.anew(catalog, oplog))
        branch.cluster_time.advance(self.cluster_time.latest)
        here = Point(optime, point.catalog.copy())
        for older, earlier in [*self._points.items(), (self, here)]:
            common = min(earlier, here, key=_optime)
            branch._points[older] = older._points[branch] = common  # noqa: SLF001 - another history
        return branch

    def common(self, other: History) -> Point:
        """Return the last operation that it has in common with another history of its set."""
        return self._points[other]

    def at(self, optime: OpTime) -> Catalog | None:
        """Return the data as of `optime`, if another history has left this one there, or this one another."""
        return next((point.catalog for point in self._points.values() if point.optime == optime), None)

    def keep(self, histories: Collection[History]) -> None:
        """Forget the points in common with others than these: no member has them any more."""
        self._points = {other: point for other, point in self._points.items() if other in histories}


def _optime(point: Point) -> OpTime:
    return point.optime
