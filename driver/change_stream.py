"""Change streams: cursors that go on after what a driver can mend (`Change Streams`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from driver.cursor import Cursor, Paging
from driver.errors import DriverError, InvalidArgumentError, InvalidReplyError
from driver.operations.change_streams import ResumePoint, watch
from driver.operations.options import checked
from driver.policy.classification import is_resumable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from driver.client import AsyncClient
    from driver.operations.base import Target
    from driver.session import ClientSession


class ChangeStream:
    """An asynchronous iterator over changes, in their order, none twice and none left out.

    After a resumable error it opens a new cursor where it stood, once for each error. Close it in the end.
    """

    def __init__(
        self,
        client: AsyncClient,
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
            tailable=True,
        )
        self._wire_version = 0
        self._cursor: Cursor | None = None

    @classmethod
    async def open(
        cls,
        client: AsyncClient,
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
        return self._cursor is not None and self._cursor.alive

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """The token with which a new stream goes on after what was handed out."""
        return self._point.token

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next event, however long it takes. Raises DriverError."""
        while self.alive:
            event = await self.try_next()
            if event is not None:
                return event
        await self.aclose()
        raise StopAsyncIteration

    async def try_next(self) -> dict[str, Any] | None:
        """Return the next event, or None if the server has none within `maxAwaitTimeMS`.

        A resumable error is answered with a new cursor, whose first batch is looked at. Raises DriverError.
        """
        if self._cursor is None:
            return None
        try:
            event = await self._cursor.try_next()
        except DriverError as error:
            if not is_resumable(error, self._wire_version):
                await self.aclose()
                raise
            event = await self._resume()
        return await self._note(event)

    async def aclose(self) -> None:
        """Close the stream, here and on the server. Closing twice is allowed."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await cursor.aclose()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _aggregate(self) -> None:
        """Open a cursor at the point that was reached."""
        client = self._client
        operation = watch(self._target, self._pipeline, self._point, everything=self._everything)
        reply = await client.executor.execute(operation, self.session, opens_cursor=True)
        self._wire_version = reply.wire_version
        self._point.opened(reply.document, self._wire_version)
        self._cursor = Cursor(client.executor, reply, self.session, self._paging, keeps_session=False)

    async def _resume(self) -> dict[str, Any] | None:
        if self._cursor is not None:
            await self._cursor.aclose()
        try:
            await self._aggregate()
        except DriverError:
            await self.aclose()
            raise
        return self._cursor.pop() if self._cursor is not None else None

    async def _note(self, event: dict[str, Any] | None) -> dict[str, Any] | None:
        cursor = self._cursor
        if cursor is None:
            return event
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
