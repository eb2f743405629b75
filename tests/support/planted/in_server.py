"""Wrong servers: each does one thing that the fake deployment must not do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import fakeserver.stages.concerns
import fakeserver.stages.execution
import fakeserver.stages.replying
from fakeserver.admission.rate_limiter import TokenBucket
from fakeserver.change_streams.stream import ChangeStream
from fakeserver.change_streams.tokens import StreamPosition
from fakeserver.commands.context import CommandContext
from fakeserver.deployment.node import Node
from fakeserver.deployment.replication.position import Position
from fakeserver.deployment.shard import Shard
from fakeserver.request.pipeline import PASS
from fakeserver.sessions.cursors import CursorStore
from fakeserver.sessions.session import RetryableWrite, SessionCatalog
from fakeserver.sessions.transactions import Transactions
from mongowire.codes import Label
from planted.fault import Planted, replacing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.deployment.server import OpenConnection
    from fakeserver.request.context import RequestContext
    from fakeserver.sessions.transactions import Transaction
    from fakeserver.storage.port.oplog import Written
    from fakeserver.storage.store.catalog import Catalog

_LATE: Final = 20.0
"""Seconds: more than a client waits for anything."""


def _not_executed(_executed: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _self, _statement: None


def _nothing_written(labels: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def wrong(facts: Any) -> list[str]:
        found = labels(facts)
        says_so = Label.NO_WRITES_PERFORMED in found or facts.write_concern_code is None
        return found if says_so else [*found, Label.NO_WRITES_PERFORMED]

    return wrong


def _first_change(commit: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: Transactions, transaction: Transaction) -> None:
        del transaction.changes[1:]
        commit(self, transaction)

    return wrong


def _stays_behind(refresh: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: Position) -> None:
        if self.applied is None or self._node.is_primary:
            refresh(self)

    return wrong


def _at_once(enter: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: CommandContext, written: Written) -> None:
        enter(self, written)
        if self.transaction is not None and written.ns.collection != "$cmd":
            self.node.cluster.catalog.engine.put(written.ns, written.change)

    return wrong


def _does_not_wait(wait: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(request: RequestContext, concern: dict[str, Any], level: str, now: float) -> Any:
        return wait(request, concern, level, now) if level == "linearizable" else PASS

    return wrong


def _from_copy(as_of: Callable[..., Catalog]) -> Callable[..., Catalog]:
    copies: WeakKeyDictionary[Node, Catalog] = WeakKeyDictionary()

    def wrong(request: RequestContext) -> Catalog:
        found = as_of(request)
        if ((request.command or {}).get("readConcern") or {}).get("level") != "linearizable":
            return found
        older = copies.get(request.node, found)
        copies[request.node] = found.fork()
        return older

    return wrong


def _one_before(begin: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: ChangeStream, *arguments: Any, after: StreamPosition | None, **options: Any) -> None:
        begin(self, *arguments, after=after, **options)
        if after is not None and after.is_event:
            self._after, self._expected = StreamPosition.mark(after.timestamp), None

    return wrong


def _late_election(seek: Callable[..., None]) -> Callable[..., None]:
    return lambda shard, at: seek(shard, at + _LATE)


def _late_end(forget: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: Node, connection: OpenConnection) -> None:
        asyncio.get_running_loop().call_later(_LATE, forget, self, connection)

    return wrong


def _nothing(_function: Callable[..., None]) -> Callable[..., None]:
    return lambda *_arguments: None


def _not_closed(_kill: Callable[..., bool]) -> Callable[..., bool]:
    return lambda store, identity: identity in store.cursors


def _for_nothing(try_acquire: Callable[..., bool]) -> Callable[..., bool]:
    def wrong(self: TokenBucket, now: float, tokens: float = 1) -> bool:
        admitted = try_acquire(self, now, tokens)
        if admitted:
            self.give_back(tokens)
        return admitted

    return wrong


def _newest_data(as_of: Callable[..., Catalog]) -> Callable[..., Catalog]:
    def wrong(request: RequestContext) -> Catalog:
        level = ((request.command or {}).get("readConcern") or {}).get("level")
        return request.node.catalog if level == "majority" else as_of(request)

    return wrong


def _met(_is_met: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *_arguments: True


FAULTS: Final = (
    Planted(
        "majority-read-ignored",
        "server",
        "a read of level majority returns the newest data",
        "majority",
        replacing(fakeserver.stages.execution, "_as_of", _newest_data),
    ),
    Planted(
        "majority-write-ignored",
        "server",
        "no write concern is waited for",
        "majority",
        replacing(fakeserver.stages.concerns, "_is_met", _met),
    ),
    Planted(
        "executes-again",
        "server",
        "a retryable write that was executed is executed again",
        "acknowledged",
        replacing(RetryableWrite, "executed", _not_executed),
    ),
    Planted(
        "nothing-written-server",
        "server",
        "an error of a write concern says that nothing was written",
        "failed",
        replacing(fakeserver.stages.replying, "labels", _nothing_written),
    ),
    Planted(
        "first-change-only",
        "server",
        "a commit applies the first write of its transaction only",
        "transactions",
        replacing(Transactions, "commit", _first_change),
    ),
    Planted(
        "stays-behind",
        "server",
        "a member that has fallen behind never catches up, unless it is elected",
        "members",
        replacing(Position, "refresh", _stays_behind),
    ),
    Planted(
        "dirty-writes",
        "server",
        "writes of a transaction are seen before it commits, and stay when it aborts",
        "reads",
        replacing(CommandContext, "_enter", _at_once),
    ),
    Planted(
        "does-not-wait",
        "server",
        "a member that is behind does not wait for afterClusterTime",
        "sessions",
        replacing(fakeserver.stages.concerns, "_wait_for_times", _does_not_wait),
    ),
    Planted(
        "linearizable-from-copy",
        "server",
        "a linearizable read is answered as of the one before it",
        "registers",
        replacing(fakeserver.stages.execution, "_as_of", _from_copy),
    ),
    Planted(
        "stream-repeats",
        "server",
        "a change stream that is resumed begins with the event of its token",
        "streams",
        replacing(ChangeStream, "__init__", _one_before),
    ),
    Planted(
        "late-election",
        "server",
        "a replica set that has lost its primary elects another twenty seconds late",
        "recovery",
        replacing(Shard, "_seek_election", _late_election),
    ),
    Planted(
        "connections-kept",
        "server",
        "a server holds on to connections for twenty seconds after their end",
        "leftovers",
        replacing(Node, "forget", _late_end),
    ),
    Planted(
        "sessions-kept",
        "server",
        "a session that its client has ended does not end",
        "leftovers",
        replacing(SessionCatalog, "end", _nothing),
    ),
    Planted(
        "cursors-kept",
        "server",
        "a cursor that is closed stays open",
        "leftovers",
        replacing(CursorStore, "kill", _not_closed),
    ),
    Planted(
        "free-admission",
        "server",
        "a request that a rate limiter admits takes no token",
        "tokens",
        replacing(TokenBucket, "try_acquire", _for_nothing),
    ),
)
"""All wrong servers."""
