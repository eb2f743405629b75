"""Cursors: batches of documents, asked for when they are needed."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from driver.cmap.member import ConnectionUse
from driver.errors import DriverError, NetworkError, ServerError
from driver.operations.cursors import get_more, kill_cursors
from driver.operations.options import NON_TAILABLE, TimeoutMode, mode_of, timeout_of
from driver.policy.deadline import earlier
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from driver.concerns import ReadPreference
    from driver.execute import Executor
    from driver.operations.base import Operation
    from driver.policy.deadline import Deadline
    from driver.run import Reply
    from driver.session import ClientSession
    from driver.views import ViewedClient

CLOSED_BY_SERVER = frozenset({ErrorCode.CURSOR_NOT_FOUND, ErrorCode.CURSOR_KILLED})


@dataclass(frozen=True, slots=True)
class Paging:
    """What a cursor says when it asks for more; `limit` counts all documents, 0 for no limit.

    `timeout_mode` says whether timeoutMS is for the cursor's life or for each call.
    """

    read_preference: ReadPreference | None = None
    batch_size: int | None = None
    limit: int = 0
    max_await_time_ms: int | None = None
    comment: Any = None
    cursor_type: str = NON_TAILABLE
    timeout_mode: TimeoutMode = TimeoutMode.LIFETIME

    @classmethod
    def of(cls, options: Mapping[str, Any], read_preference: ReadPreference | None) -> Paging:
        """Return how a cursor asks for more, from the options of its query."""
        cursor_type = options.get("cursorType") or NON_TAILABLE
        return cls(
            read_preference,
            options.get("batchSize"),
            abs(options.get("limit") or 0),
            options.get("maxAwaitTimeMS"),
            options.get("comment"),
            cursor_type=cursor_type,
            timeout_mode=mode_of(options.get("timeoutMode"), cursor_type),
        )

    @property
    def tailable(self) -> bool:
        """Whether a cursor without a document may have one later."""
        return self.cursor_type != NON_TAILABLE


class Cursor:
    """An asynchronous iterator over the documents of a query. Close it, or read it to its end.

    The implicit session of the query stays with the cursor until then, unless others need it longer, and so
    does its connection behind a load balancer (Load Balancers: Cursors), even after an error. After a
    time-out nothing more is to be had of it, as what the server sent may be lost: close it, which begins
    timeoutMS anew.
    """

    def __init__(
        self,
        executor: Executor,
        reply: Reply,
        session: ClientSession,
        paging: Paging | None = None,
        *,
        keeps_session: bool = True,
    ) -> None:
        cursor = reply["cursor"]
        self.id = int(cursor["id"])
        self.address = reply.address
        self.database, _, self.collection = str(cursor["ns"]).partition(".")
        self.session = session
        self._lease = reply.lease
        self._executor = executor
        self._keeps_session = keeps_session
        self._deadline = reply.deadline
        self._timed_out = False
        self._paging = paging or Paging()
        self.post_batch_resume_token: Mapping[str, Any] | None = cursor.get("postBatchResumeToken")
        self._batch: deque[dict[str, Any]] = deque(cursor["firstBatch"])
        self._received = len(self._batch)
        self._release_when_done()

    @classmethod
    async def open(
        cls, client: ViewedClient, operation: Operation, session: ClientSession | None, paging: Paging
    ) -> Self:
        """Run an operation whose reply holds a cursor; an implicit session lives as long as the cursor."""
        if session is not None:
            async with client.session_for(session) as used:
                reply = await client.executor.execute(operation, used, opens_cursor=True)
                return cls(client.executor, reply, used, paging)
        implicit = client.implicit_session()
        try:
            reply = await client.executor.execute(operation, implicit, opens_cursor=True)
            return cls(client.executor, reply, implicit, paging)
        except BaseException:
            implicit.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether another document may come."""
        return bool(self._batch) or (self.id != 0 and not self._timed_out)

    def __aiter__(self) -> Cursor:
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next document, asking for batches until there is one."""
        document = await (self.try_next() if self._paging.tailable else self.next())
        if document is None:
            raise StopAsyncIteration
        return document

    async def next(self) -> dict[str, Any] | None:
        """Return the next document, however many requests it takes, or None at the end.

        timeoutMS is for all of the requests together.
        """
        deadline = self.deadline_of_call()
        while self.alive:
            document = await self.try_next(deadline=deadline)
            if document is not None:
                return document
        return None

    async def try_next(self, *, deadline: Deadline | None = None) -> dict[str, Any] | None:
        """Return the next document, or None after at most one request brought none."""
        if not self._batch and self.alive:
            await self._more(deadline or self.deadline_of_call())
        return self.pop()

    def deadline_of_call(self) -> Deadline:
        """Return when a call that begins now must be done (Client Side Operations Timeout: Cursors)."""
        if self._paging.timeout_mode is TimeoutMode.LIFETIME:
            return self._deadline
        return earlier(self._deadline.refreshed(self._executor.clock.now()), self.session.deadline)

    @property
    def buffered(self) -> int:
        """How many documents are here already."""
        return len(self._batch)

    def pop(self) -> dict[str, Any] | None:
        """Return the next document that is here already, or None."""
        return self._batch.popleft() if self._batch else None

    async def to_list(self) -> list[dict[str, Any]]:
        """Return all that is left, and close the cursor."""
        try:
            return [document async for document in self]
        finally:
            await self.aclose()

    async def aclose(self, *, timeout_ms: int | None = None, deadline: Deadline | None = None) -> None:
        """Forget the documents, and the cursor on the server. Errors of that are nobody's business.

        timeoutMS begins anew, whether it is passed here or was passed to what opened the cursor, unless this
        is part of a call with a `deadline`.
        """
        timeout = timeout_of(deadline or timeout_ms, self._deadline.timeout)
        self._batch.clear()
        cursor_id, self.id = self.id, 0
        if cursor_id:
            deadline = timeout.start(self._executor.clock.now())
            operation = kill_cursors(self.database, self.collection, cursor_id, address=self.address)
            with suppress(DriverError):
                await self._executor.execute(operation, self.session, lease=self._lease, deadline=deadline)
        self._release_when_done()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _more(self, deadline: Deadline) -> None:
        operation = get_more(
            self.database,
            self.collection,
            self.id,
            address=self.address,
            read_preference=self._paging.read_preference,
            batch_size=self._next_batch_size(),
            max_time_ms=self._paging.max_await_time_ms,
            comment=self._paging.comment,
        )
        try:
            reply = await self._executor.execute(
                operation, self.session, lease=self._lease, deadline=deadline
            )
        except DriverError as error:
            await self._after_error(error)
            raise
        cursor = reply["cursor"]
        self.id = int(cursor["id"])
        self.post_batch_resume_token = cursor.get("postBatchResumeToken")
        self._batch.extend(cursor["nextBatch"])
        self._received += len(cursor["nextBatch"])
        self._release_when_done()

    async def _after_error(self, error: DriverError) -> None:
        """Close a cursor that failed, here and, unless it is gone there already, on the server.

        One that is pinned to a connection keeps it until whoever reads the cursor closes it. There is no time
        for it after a time-out: the caller gets control back.
        """
        if error.timed_out:
            # The batch may have been sent and lost, so that the next one would leave a gap.
            self._timed_out = True
            return
        gone = isinstance(error, NetworkError) or (
            isinstance(error, ServerError) and error.code in CLOSED_BY_SERVER
        )
        if gone:
            self.id = 0
        if self._lease is None:
            await self.aclose()

    def _next_batch_size(self) -> int | None:
        limit = self._paging.limit
        # Find, getMore and killCursors: with a limit, the last batch is asked for no larger than what is
        # left.
        if not limit:
            return self._paging.batch_size or None
        left = limit - self._received
        return min(left, self._paging.batch_size) if self._paging.batch_size else left

    def _release_when_done(self) -> None:
        if self.id == 0 and self._lease is not None:
            self._lease.release(ConnectionUse.CURSOR)
            self._lease = None
        if self.id == 0 and self.session.implicit and self._keeps_session:
            self.session.end()
