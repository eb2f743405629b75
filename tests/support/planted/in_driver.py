"""Wrong drivers: each breaks one rule of the specifications in the reference driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import driver.execute
import driver.message
import driver.sdam.topology
from driver.cmap.pool import Lease
from driver.cmap.state import Generations, PoolState
from driver.concerns import WriteConcern
from driver.cursor import Cursor
from driver.errors import ServerError
from driver.execute import Executor
from driver.operations.cursors import ResumePoint
from driver.policy.backpressure import Backoff, TokenBucket
from driver.policy.retry import RetryPolicy
from driver.sdam.monitor import Monitor
from driver.session import ClientSession, ServerSessionPool
from driver.transaction import Transaction
from mongowire.codes import Label
from planted.fault import Planted, replacing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.errors import DriverError
    from driver.policy.retry import RetryState
    from driver.run import Run

_LATE: Final = 3.0
"""Seconds."""


def _new_number(message: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: Executor, run: Run, max_time_ms: int | None) -> Any:
        if run.transaction is None:
            run.transaction_number = None
        return message(self, run, max_time_ms)

    return wrong


def _nothing_written(label: Callable[..., None]) -> Callable[..., None]:
    def wrong(error: DriverError, server: Any) -> None:
        label(error, server)
        error.add_label(Label.NO_WRITES_PERFORMED)

    return wrong


def _commit(_abort: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def wrong(self: ClientSession, **_options: Any) -> None:
        await self.commit_transaction()

    return wrong


def _anytime(_after: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _session: {}


def _from_now(_start: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _point: {}


def _never_stale(_outdate: Callable[..., bool]) -> Callable[..., bool]:
    return lambda _generations, _member: False


def _one_more(_may_connect: Callable[..., bool]) -> Callable[..., bool]:
    def wrong(self: PoolState) -> bool:
        return self.total <= self.options.max_size and self.pending <= self.options.max_connecting

    return wrong


def _late(round_trip: Callable[..., Any]) -> Callable[..., Any]:
    async def wrong(self: Executor, run: Run, *arguments: Any) -> Any:
        kept = run.deadline
        run.deadline = replace(kept, at=kept.at + _LATE)
        try:
            return await round_trip(self, run, *arguments)
        finally:
            run.deadline = kept

    return wrong


def _another_retry(following: Callable[..., RetryState]) -> Callable[..., RetryState]:
    def wrong(self: RetryPolicy, state: RetryState, failure: Any) -> RetryState:
        found = following(self, replace(state, allowed=state.allowed - (state.attempt > 0)), failure)
        return replace(found, allowed=found.allowed + 1)

    return wrong


def _ten_times(before: Callable[..., float]) -> Callable[..., float]:
    return lambda *arguments, **options: 10 * before(*arguments, **options)


def _a_minute(wait: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def wrong(self: Monitor) -> None:
        if self._description.is_known:
            await wait(self)
        else:
            clock = self._ports.clock
            await clock.sleep_until(clock.now() + 60.0)

    return wrong


def _keeps(leave: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: Lease, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or self.connection.healthy:
            leave(self, kind, error, trace)

    return wrong


def _not_released(_release: Callable[..., None]) -> Callable[..., None]:
    return lambda *_arguments: None


def _not_killed(aclose: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def wrong(self: Cursor, **options: Any) -> None:
        self.id = 0
        await aclose(self, **options)

    return wrong


def _for_nothing(_consume: Callable[..., bool]) -> Callable[..., bool]:
    return lambda _bucket, _tokens: True


def _stays_clean(_mark: Callable[..., None]) -> Callable[..., None]:
    return lambda _session: None


def _newest(_worse: Callable[..., DriverError]) -> Callable[..., DriverError]:
    return lambda _previous, current: current


def _not_pinned(_pin: Callable[..., None]) -> Callable[..., None]:
    return lambda *_arguments: None


def _not_cleared(reaction: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(error: DriverError, *arguments: Any, **options: Any) -> Any:
        asked = reaction(error, *arguments, **options)
        return replace(asked, clear_pool=asked.clear_pool and isinstance(error, ServerError))

    return wrong


def _without_level(read_concern: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*arguments: Any) -> dict[str, Any]:
        concern = {**read_concern(*arguments)}
        if concern.get("level") == "majority":
            del concern["level"]
        return concern

    return wrong


def _of_one(to_document: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def wrong(self: WriteConcern) -> dict[str, Any]:
        document = to_document(self)
        return {**document, "w": 1} if document.get("w") == "majority" else document

    return wrong


def _less(more: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def wrong(self: Cursor, *arguments: Any) -> None:
        await more(self, *arguments)
        if self.buffered:
            self.pop()

    return wrong


FAULTS: Final = (
    Planted(
        "dirty-sessions",
        "driver",
        "a server session in which a command was lost goes back to the pool",
        "dirty",
        replacing(ClientSession, "mark_dirty", _stays_clean),
    ),
    Planted(
        "newest-error",
        "driver",
        "of the errors of an operation the newest one is raised, whatever it says",
        "errors",
        replacing(driver.execute, "worse", _newest),
    ),
    Planted(
        "no-pin",
        "driver",
        "the commands of a transaction go to any mongos",
        "pins",
        replacing(Transaction, "pin", _not_pinned),
    ),
    Planted(
        "pool-not-cleared",
        "driver",
        "a pool is not cleared when a connection is lost under a command",
        "pools",
        replacing(driver.sdam.topology, "reaction", _not_cleared),
    ),
    Planted(
        "no-majority-read",
        "driver",
        "readConcern: majority is not sent",
        "majority",
        replacing(driver.message, "_read_concern", _without_level),
    ),
    Planted(
        "no-majority-write",
        "driver",
        "w: majority is sent as w: 1",
        "majority",
        replacing(WriteConcern, "to_document", _of_one),
    ),
    Planted(
        "short-batches",
        "driver",
        "the first document of each further batch of a cursor is lost",
        "scans",
        replacing(Cursor, "_more", _less),
    ),
    Planted(
        "new-number",
        "driver",
        "a retry of a write has a transaction number of its own",
        "acknowledged",
        replacing(Executor, "_message", _new_number),
    ),
    Planted(
        "nothing-written",
        "driver",
        "every error of a retryable write says that nothing was written",
        "failed",
        replacing(driver.execute, "label_write_error", _nothing_written),
    ),
    Planted(
        "commit-after-error",
        "driver",
        "a transaction whose callback failed is committed, not aborted",
        "transactions",
        replacing(ClientSession, "abort_transaction", _commit),
    ),
    Planted(
        "no-after-cluster-time",
        "driver",
        "reads of causally consistent sessions do not say what they come after",
        "sessions",
        replacing(driver.message, "_after", _anytime),
    ),
    Planted(
        "stream-from-now",
        "driver",
        "a change stream is resumed without its token",
        "streams",
        replacing(ResumePoint, "start", _from_now),
    ),
    Planted(
        "stale-connections",
        "driver",
        "a pool that was cleared lends its old connections",
        "pools",
        replacing(Generations, "outdate", _never_stale),
    ),
    Planted(
        "one-more-connection",
        "driver",
        "pools have one connection more than maxPoolSize, and establish one more than maxConnecting",
        "pools",
        replacing(PoolState, "_may_connect", _one_more),
    ),
    Planted(
        "reads-past-deadline",
        "driver",
        "a reply is waited for three seconds beyond timeoutMS",
        "deadlines",
        replacing(Executor, "_round_trip", _late),
    ),
    Planted(
        "one-more-retry",
        "driver",
        "a command is retried once more than its edition allows",
        "attempts",
        replacing(RetryPolicy, "_following", _another_retry),
    ),
    Planted(
        "long-backoff",
        "driver",
        "a backoff is ten times as long as its edition says",
        "waits",
        replacing(Backoff, "before", _ten_times),
    ),
    Planted(
        "looks-each-minute",
        "driver",
        "a server that was lost is looked for each minute only, whatever waits for it",
        "recovery",
        replacing(Monitor, "_wait", _a_minute),
    ),
    Planted(
        "connection-kept",
        "driver",
        "the connection of a command that lost it is not given back",
        "leftovers",
        replacing(Lease, "__exit__", _keeps),
    ),
    Planted(
        "sessions-lost",
        "driver",
        "a session that has ended is neither used again nor ended on the server",
        "leftovers",
        replacing(ServerSessionPool, "release", _not_released),
    ),
    Planted(
        "cursors-lost",
        "driver",
        "a cursor that is closed is not closed on the server",
        "leftovers",
        replacing(Cursor, "aclose", _not_killed),
    ),
    Planted(
        "free-retries",
        "driver",
        "a retry after an overload takes no token",
        "tokens",
        replacing(TokenBucket, "consume", _for_nothing),
    ),
)
"""All wrong drivers."""
