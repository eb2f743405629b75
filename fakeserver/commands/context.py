"""What a command's handler may touch."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson import Timestamp

from mongowire import ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import ObjectId

    from fakeserver.catalog import Catalog
    from fakeserver.commands.cursors import CursorStore
    from fakeserver.connection import ConnectionState
    from fakeserver.node import Node
    from fakeserver.request import RequestContext
    from fakeserver.storage.engine import Changed, Namespace


_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC


class StatementLog(Protocol):
    """The record that makes a retried write answer with its first result.

    Retryable Writes, server side: per session and transaction number, one record per executed statement.
    """

    def executed(self, statement: int) -> Mapping[str, Any] | None:
        """Return what statement `statement` answered when it was applied, or None if it was not yet."""
        ...

    def record(self, statement: int, result: Mapping[str, Any]) -> None:
        """Remember the result of a statement that was applied."""
        ...

    def before_write(self, statement: int) -> None:
        """Give `onPrimaryTransactionalWrite` its chance; raises to fail or to hang up instead of writing."""
        ...


@dataclass(slots=True)
class CommandContext:
    """One running command: the node it runs on, who asked, and the services it may use.

    `now` is the instant of the clock (seconds) at which the handler is called, `request.arrived` the one at
    which the request came; handlers never ask for time. `statements` is None unless the command is a
    retryable write.
    """

    node: Node
    connection: ConnectionState
    db: str
    now: float
    catalog: Catalog
    cursors: CursorStore
    request: RequestContext
    session_id: bytes | None = None
    statements: StatementLog | None = None
    retried: list[int] | None = None

    def object_id(self) -> ObjectId:
        """Return a new ObjectId, made from the node's clock and dice."""
        return ids.object_id(self.node.clock, self.node.rng)

    def utc(self) -> dt.datetime:
        """Return the date and time as BSON has them: UTC, to the millisecond."""
        return _EPOCH + dt.timedelta(milliseconds=int(self.node.clock.utc() * 1000))

    def timestamp(self) -> Timestamp:
        """Return the time of the operation that is about to be written."""
        last = self.node.oplog.last
        seconds = int(self.node.clock.utc())
        return (
            Timestamp(seconds, 1) if seconds > last.seconds else Timestamp(last.seconds, last.increment + 1)
        )

    def applied(self, ns: Namespace, change: Changed) -> None:
        """Enter a change of data in the oplog: the operation time moves on."""
        self.node.oplog.append(ns, change)

    def check_out_cursor(self) -> None:
        """Give `failGetMoreAfterCursorCheckout` its chance, once a getMore has its cursor.

        Raises `CommandError`, upon which the cursor is to be destroyed.
        """
        fail_points = self.node.fail_points
        if fail_points.any_active:
            failure = fail_points.get_more_failure(self.node.target_of(self.request))
            if failure is not None:
                raise failure
