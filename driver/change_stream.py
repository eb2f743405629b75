"""Change streams: cursors that go on after what a driver can mend (`Change Streams`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from driver.cursor import Cursor, Paging
from driver.errors import DriverError, InvalidArgumentError, InvalidReplyError
from driver.operations.cursors import ResumePoint, watch
from driver.operations.options import TimeoutMode, checked
from driver.policy.classification import is_resumable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from driver.operations.base import Target
    from driver.policy.deadline import Deadline
    from driver.session import ClientSession
    from driver.views import ViewedClient


class ChangeStream:
    """An asynchronous iterator over changes, in their order, none twice and none left out.

    After a resumable error it opens a new cursor where it stood, once for each error. Close it in the end.

    With timeoutMS, opening it and each call must be done in time, resuming included. After a call that was
    not, call again, and the stream goes on where it stood; or close it. If it never brought an event, close
    it and open another with a higher timeoutMS: the server has not the time to come to the end of its log.
    """

    def __init__(
        self,
        client: ViewedClient,
        target: Target,
        pipeline: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        session: ClientSession,
        *,
        everything: bool = False,
    ) -> None:
        self.session = session
        self._client = client
        self._target = target
        self._pipeline = tuple(pipeline)
        self._everything = everything
        self._point = ResumePoint(checked("watch", options))
        self._paging = Paging(
            target.concerns.read_preference,
            options.get("batchSize"),
            max_await_time_ms=options.get("maxAwaitTimeMS"),
            comment=options.get("comment"),
            cursor_type="tailableAwait",
            timeout_mode=TimeoutMode.ITERATION,
        )
        self._wire_version = 0
        self._interrupted = False
        self._cursor: Cursor | None = None

    @classmethod
    async def open(
        cls,
        client: ViewedClient,
        target: Target,
        pipeline: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        session: ClientSession | None,
        *,
        everything: bool = False,
    ) -> Self:
        """Return a stream whose cursor is open. Raises DriverError."""
        checked("watch", options)
        if session is not None and session.client is not client:
            raise InvalidArgumentError("a session belongs to the client that started it")
        used = session or client.implicit_session()
        stream = cls(client, target, pipeline, options, used, everything=everything)
        try:
            await stream._aggregate()
        except BaseException:
            stream._end()
            raise
        return stream

    @property
    def alive(self) -> bool:
        """Whether another event may come."""
        return self._cursor is not None and (self._interrupted or self._cursor.alive)

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """The token with which a new stream goes on after what was handed out."""
        return self._point.token

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next event, however long it takes. Raises DriverError."""
        event = await self.next()
        if event is None:
            await self.aclose()
            raise StopAsyncIteration
        return event

    async def next(self) -> dict[str, Any] | None:
        """Return the next event, however many requests it takes, or None at the end. Raises DriverError.

        timeoutMS is for all of the requests together.
        """
        deadline = None if self._cursor is None else self._cursor.deadline_of_call()
        while self.alive:
            event = await self.try_next(deadline=deadline)
            if event is not None:
                return event
        return None

    async def try_next(self, *, deadline: Deadline | None = None) -> dict[str, Any] | None:
        """Return the next event, or None if the server has none within `maxAwaitTimeMS`.

        A resumable error is answered with a new cursor, whose first batch is looked at. Raises DriverError.
        """
        if self._cursor is None:
            return None
        deadline = deadline or self._cursor.deadline_of_call()
        if self._interrupted:
            await self._resume(deadline)
        try:
            event = await self._cursor.try_next(deadline=deadline)
        except DriverError as error:
            event = await self._recover(error, deadline)
        return await self._note(event)

    async def _recover(self, error: DriverError, deadline: Deadline) -> dict[str, Any] | None:
        """Answer an error of the cursor: with a new one now, or in the next call, or with the end."""
        if error.timed_out:
            # The call's time is up, the stream is not: the next call opens the new cursor.
            self._interrupted = True
            raise error
        if not is_resumable(error, self._wire_version):
            await self.aclose()
            raise error
        await self._resume(deadline)
        return self._cursor.pop() if self._cursor is not None else None

    async def aclose(self, *, timeout_ms: int | None = None) -> None:
        """Close the stream, here and on the server. Closing twice is allowed."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await cursor.aclose(timeout_ms=timeout_ms)
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _aggregate(self, deadline: Deadline | None = None) -> None:
        """Open a cursor at the point that was reached."""
        client = self._client
        operation = watch(self._target, self._pipeline, self._point, everything=self._everything)
        reply = await client.executor.execute(operation, self.session, opens_cursor=True, deadline=deadline)
        self._wire_version = reply.wire_version
        self._point.opened(reply.document, self._wire_version)
        self._cursor = Cursor(client.executor, reply, self.session, self._paging, keeps_session=False)

    async def _resume(self, deadline: Deadline) -> None:
        """Open a new cursor within the call's deadline; if it is too late, the next call tries again."""
        if self._cursor is not None:
            await self._cursor.aclose(deadline=deadline)
        try:
            await self._aggregate(deadline)
        except DriverError as error:
            self._interrupted = error.timed_out
            if not error.timed_out:
                await self.aclose()
            raise
        self._interrupted = False

    async def _note(self, event: dict[str, Any] | None) -> dict[str, Any] | None:
        cursor = self._cursor
        if cursor is None:
            return event
        # The token of the batch is as far as the server has read: further than the token of the last event,
        # but only with that event handed out has the application seen as much.
        latest = None if cursor.buffered else cursor.post_batch_resume_token
        if event is None:
            self._point.passed(latest)
            return None
        try:
            self._point.reached(event, latest)
        except InvalidReplyError:
            await self.aclose()
            raise
        return event

    def _end(self) -> None:
        if self.session.implicit:
            self.session.end()
