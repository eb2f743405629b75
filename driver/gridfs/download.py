"""Reading a file chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from driver.errors import CorruptGridFSFileError, GridFSStreamClosedError
from driver.gridfs.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from driver.cursor import Cursor
    from driver.gridfs.store import Store


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
