"""Reading and writing one file: the streams of GridFS (GridFS: Download, Upload)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self

from bson import Int64

from driver.errors import CorruptGridFSFileError, DriverError, GridFSStreamClosedError
from driver.operations.base import without_none

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from types import TracebackType

    from driver.cursor import Cursor
    from driver.gridfs.store import Store


# The layout of a file in its chunks: decisions without a server.


DEFAULT_CHUNK_SIZE_BYTES = 255 * 1024
"""So that a chunk's document fits into 256 KiB."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A file of `length` bytes in chunks of `chunk_size` bytes, of which only the last may be shorter."""

    length: int
    chunk_size: int

    @classmethod
    def of_file(cls, file: Mapping[str, Any]) -> Layout:
        """Return the layout that a files collection document describes. Raises CorruptGridFSFileError."""
        try:
            length, chunk_size = int(file["length"]), int(file["chunkSize"])
        except (KeyError, TypeError, ValueError):
            raise CorruptGridFSFileError(f"the file {file.get('_id')!r} has no length or chunkSize") from None
        if length < 0 or chunk_size <= 0:
            raise CorruptGridFSFileError(
                f"the file {file.get('_id')!r} cannot have {length} bytes in chunks of {chunk_size}"
            )
        return cls(length, chunk_size)

    @property
    def chunks(self) -> int:
        """How many chunks there are; an empty file has none."""
        return -(-self.length // self.chunk_size)

    def size_of(self, n: int) -> int:
        """Return the size in bytes of chunk `n`, which counts from 0."""
        return min(self.chunk_size, self.length - n * self.chunk_size)

    def check(self, chunk: Mapping[str, Any] | None, n: int) -> bytes:
        """Return the data of what came as chunk `n` (GridFS: File Download). Raises CorruptGridFSFileError.

        None says that no more chunks came.
        """
        if chunk is None or chunk.get("n") != n:
            raise CorruptGridFSFileError(f"chunk {n} of {self.chunks} is missing")
        data = bytes(chunk.get("data", b""))
        if len(data) != self.size_of(n):
            raise CorruptGridFSFileError(
                f"chunk {n} of {self.chunks} has {len(data)} bytes instead of {self.size_of(n)}"
            )
        return data


# Reading a file chunk by chunk.


class Writable(Protocol):
    """Where a download goes."""

    async def write(self, data: bytes, /) -> Any:
        """Take all bytes."""
        ...


class DownloadStream:
    """The bytes of a file, made by `GridFSBucket.open_download_stream`. Close it.

    `file` is the files collection document. Iterating yields the chunks. Chunks are asked for with the first
    bytes, and of an empty file never. Each is checked when it is read, not before.
    """

    def __init__(self, store: Store, file: Mapping[str, Any]) -> None:
        self.file = file
        self._layout = Layout.of_file(file)
        self._store = store
        self._cursor: Cursor | None = None
        self._next = 0
        self._buffer = bytearray()
        self._closed = False

    async def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer at the end of the file; all that is left for a negative size.

        Raises CorruptGridFSFileError for a chunk that is missing or has not its size, and DriverError.
        """
        while size < 0 or len(self._buffer) < size:
            chunk = await self._next_chunk()
            if not chunk:
                break
            self._buffer += chunk
        end = len(self._buffer) if size < 0 else size
        data = bytes(self._buffer[:end])
        del self._buffer[:end]
        return data

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return what is left of the chunk begun, or the next one."""
        data, self._buffer = bytes(self._buffer), bytearray()
        data = data or await self._next_chunk()
        if not data:
            raise StopAsyncIteration
        return data

    async def copy_to(self, destination: Writable) -> None:
        """Write what is left to a destination, which must take it in time. Raises DriverError."""
        async for chunk in self:
            async with self._store.in_time("a download's destination took its bytes"):
                await destination.write(chunk)

    async def aclose(self) -> None:
        """Ask for no more. Closing twice is allowed.

        Unlike a cursor's, its timeoutMS is for this too (Client Side Operations Timeout: GridFS API).
        """
        self._closed = True
        if self._cursor is not None:
            await self._cursor.aclose(deadline=self._store.deadline if self._store.deadline.is_set else None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _next_chunk(self) -> bytes:
        """Return the next chunk, or nothing at the end of the file."""
        if self._closed:
            raise GridFSStreamClosedError(f"the download of {self.file['_id']!r} is closed")
        if self._layout.length == 0:
            return b""
        if self._cursor is None:
            self._cursor = await self._store.find_chunks(self.file["_id"])
        chunk = await anext(self._cursor, None)
        if self._next == self._layout.chunks:
            # An empty one beyond the last is harmless: old drivers left such chunks.
            if chunk is not None and chunk.get("data"):
                raise CorruptGridFSFileError(f"there is a chunk {chunk.get('n')} of {self._layout.chunks}")
            return b""
        data = self._layout.check(chunk, self._next)
        self._next += 1
        return data


# Writing a file chunk by chunk.


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
