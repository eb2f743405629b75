"""Writing a file chunk by chunk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self

from bson import Int64

from driver.errors import DriverError, GridFSStreamClosedError
from driver.operations.base import without_none

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from types import TracebackType

    from driver.gridfs.store import Store


class Readable(Protocol):
    """Where an upload comes from, such as `asyncio.StreamReader`."""

    async def read(self, n: int, /) -> bytes:
        """Return at most `n` bytes; none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """GridFS: GridFSUploadOptions. What is None is left out of the file's document.

    `chunk_size_bytes` is the bucket's unless set. `content_type` and `aliases` are deprecated; `metadata`
    is for both. `timeout_ms` is for the whole upload, from when its stream is opened.
    """

    chunk_size_bytes: int | None = None
    metadata: Mapping[str, Any] | None = None
    content_type: str | None = None
    aliases: Sequence[str] | None = None
    timeout_ms: int | None = None


class _State(Enum):
    OPEN = "open"
    CLOSED = "closed"
    ABORTED = "aborted"
    FAILED = "failed"


class UploadStream:
    """A new file, made by `GridFSBucket.open_upload_stream`. There is no file until the stream is closed.

    A chunk is sent as soon as it is full. Leaving an `async with` closes the stream, or aborts it when the
    block raised. After a command that failed the chunks sent so far are left behind, because what kept the
    command from its server would keep a clean-up from it too (GridFS: Operation Failure); `abort` tries.
    """

    def __init__(
        self, store: Store, file_id: Any, filename: str, chunk_size: int, options: UploadOptions
    ) -> None:
        self.id = file_id
        self.filename = filename
        self.chunk_size = chunk_size
        self._store = store
        self._options = options
        self._buffer = bytearray()
        self._chunks = 0
        self._length = 0
        self._state = _State.OPEN

    async def write(self, data: bytes) -> int:
        """Take bytes, send what chunks they fill, and return their number.

        Raises GridFSStreamClosedError once the stream was closed or aborted or has failed, and DriverError.
        """
        self._check_open()
        self._buffer += data
        while len(self._buffer) >= self.chunk_size:
            await self._flush()
        return len(data)

    async def copy_from(self, source: Readable) -> None:
        """Read a source to its end, which must come in time. Raises what both sides raise."""
        while True:
            async with self._store.in_time("an upload's source was read"):
                data = await source.read(self.chunk_size)
            if not data:
                return
            await self.write(data)

    async def aclose(self) -> None:
        """Send what is left, and make the file. Closing twice is allowed. Raises DriverError."""
        if self._state is _State.CLOSED:
            return
        self._check_open()
        if self._buffer:
            await self._flush()
        await self._send(self._store.insert_file(self._file()))
        self._state = _State.CLOSED

    async def abort(self) -> None:
        """Delete the chunks that were sent. Raises GridFSStreamClosedError if there is a file already.

        Aborting twice is allowed. Raises DriverError for chunks that could not be deleted.
        """
        if self._state is _State.CLOSED:
            self._check_open()
        elif self._state is not _State.ABORTED:
            self._state = _State.ABORTED
            await self._store.delete_chunks(self.id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.aclose()
        elif self._state is _State.OPEN:
            with suppress(DriverError):  # the block's own error says more
                await self.abort()

    async def _flush(self) -> None:
        data = bytes(self._buffer[: self.chunk_size])
        await self._send(self._store.insert_chunk(self.id, self._chunks, data))
        del self._buffer[: self.chunk_size]
        self._chunks += 1
        self._length += len(data)

    async def _send(self, command: Coroutine[Any, Any, None]) -> None:
        try:
            await command
        except DriverError:
            self._state = _State.FAILED
            raise

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise GridFSStreamClosedError(f"the upload of {self.filename!r} is {self._state.value}")

    def _file(self) -> dict[str, Any]:
        """Return the files collection document (GridFS: File Upload)."""
        options = self._options
        return {
            "_id": self.id,
            "length": Int64(self._length),
            "chunkSize": self.chunk_size,
            "uploadDate": datetime.fromtimestamp(self._store.client.clock.utc(), UTC),
            "filename": self.filename,
            **without_none(
                {
                    "contentType": options.content_type,
                    "aliases": options.aliases,
                    "metadata": options.metadata,
                }
            ),
        }
