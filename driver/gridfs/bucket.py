"""A bucket: files of any size in a database (GridFS)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from driver.errors import GridFSFileNotFoundError, InvalidArgumentError, RevisionNotFoundError
from driver.gridfs.store import Store
from driver.gridfs.streams import (
    DEFAULT_CHUNK_SIZE_BYTES,
    DownloadStream,
    Readable,
    UploadOptions,
    UploadStream,
    Writable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import ObjectId

    from driver.concerns import ReadConcern, ReadPreference, WriteConcern
    from driver.cursor import Cursor
    from driver.database import Database


Source: TypeAlias = bytes | Readable


class GridFSBucket:
    """The files in `<bucket_name>.files` and `<bucket_name>.chunks` of a database.

    A filename may have several files, its revisions; the upload date is their order. Concerns and read
    preference are the database's unless passed. There is no MD5 of files, and GridFS takes no part in
    transactions. Raises InvalidArgumentError for a chunk size below 1.

    A `timeout_ms` is for all that an operation does: for a stream, from when it is opened until it is closed;
    for an upload from a source or a download to a destination, the time that these take too.
    """

    def __init__(
        self,
        database: Database,
        *,
        bucket_name: str = "fs",
        chunk_size_bytes: int = DEFAULT_CHUNK_SIZE_BYTES,
        read_preference: ReadPreference | None = None,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
    ) -> None:
        self._chunk_size = _checked_size(chunk_size_bytes)
        self._store = Store(
            database,
            bucket_name,
            read_preference=read_preference,
            read_concern=read_concern,
            write_concern=write_concern,
        )

    # --- upload ---

    def open_upload_stream(self, filename: str, options: UploadOptions | None = None) -> UploadStream:
        """Return a stream to write a new file to; the stream's `id` is the file's."""
        return self.open_upload_stream_with_id(self._store.client.new_id(), filename, options)

    def open_upload_stream_with_id(
        self, file_id: Any, filename: str, options: UploadOptions | None = None
    ) -> UploadStream:
        """Return a stream to write a new file of this id to."""
        chosen = options or UploadOptions()
        size = self._chunk_size if chosen.chunk_size_bytes is None else _checked_size(chosen.chunk_size_bytes)
        return UploadStream(self._store.timed(chosen.timeout_ms), file_id, filename, size, chosen)

    async def upload_from_stream(
        self, filename: str, source: Source, options: UploadOptions | None = None
    ) -> ObjectId:
        """Read a source to its end into a new file, and return its id.

        An error of the source aborts the upload. Raises DriverError, and what the source raises.
        """
        file_id = self._store.client.new_id()
        await self.upload_from_stream_with_id(file_id, filename, source, options)
        return file_id

    async def upload_from_stream_with_id(
        self, file_id: Any, filename: str, source: Source, options: UploadOptions | None = None
    ) -> None:
        """Read a source to its end into a new file of this id."""
        async with self.open_upload_stream_with_id(file_id, filename, options) as stream:
            if isinstance(source, bytes):
                await stream.write(source)
            else:
                await stream.copy_from(source)

    # --- download ---

    async def open_download_stream(self, file_id: Any, *, timeout_ms: int | None = None) -> DownloadStream:
        """Return a stream to read a file from. Raises GridFSFileNotFoundError."""
        store = self._store.timed(timeout_ms)
        return DownloadStream(store, await store.find_file(file_id))

    async def open_download_stream_by_name(
        self, filename: str, *, revision: int = -1, timeout_ms: int | None = None
    ) -> DownloadStream:
        """Return a stream to read a revision from: 0 is the oldest file of this name, -1 the newest.

        Raises GridFSFileNotFoundError, and RevisionNotFoundError if the name has too few revisions.
        """
        store = self._store.timed(timeout_ms)
        file = await store.find_revision(filename, revision)
        if file is not None:
            return DownloadStream(store, file)
        if revision not in (0, -1) and await store.find_revision(filename, 0) is not None:
            raise RevisionNotFoundError(f"the file {filename!r} has no revision {revision}")
        raise GridFSFileNotFoundError.of_name(filename)

    async def download_to_stream(
        self, file_id: Any, destination: Writable, *, timeout_ms: int | None = None
    ) -> None:
        """Write a file's bytes to a destination, which stays open. Raises DriverError."""
        async with await self.open_download_stream(file_id, timeout_ms=timeout_ms) as stream:
            await stream.copy_to(destination)

    async def download_to_stream_by_name(
        self, filename: str, destination: Writable, *, revision: int = -1, timeout_ms: int | None = None
    ) -> None:
        """Write a revision's bytes to a destination, which stays open. Raises DriverError."""
        opened = await self.open_download_stream_by_name(filename, revision=revision, timeout_ms=timeout_ms)
        async with opened as stream:
            await stream.copy_to(destination)

    # --- files ---

    async def find(self, filter_: Mapping[str, Any] | None = None, **options: Any) -> Cursor:
        """Return a cursor over files collection documents; options are those of `Collection.find`.

        A filter names their fields: `filename`, `length`, `uploadDate`, `metadata.owner`.
        """
        return await self._store.find_files(filter_ or {}, options)

    async def delete(self, file_id: Any, *, timeout_ms: int | None = None) -> None:
        """Delete a file, and chunks of this id even if there is no file.

        Raises GridFSFileNotFoundError, and DriverError.
        """
        store = self._store.timed(timeout_ms)
        found = await store.delete_file(file_id)
        await store.delete_chunks(file_id)
        if not found:
            raise GridFSFileNotFoundError.of_id(file_id)

    async def delete_by_name(self, filename: str, *, timeout_ms: int | None = None) -> None:
        """Delete all revisions. Raises GridFSFileNotFoundError."""
        store = self._store.timed(timeout_ms)
        file_ids = await store.find_ids(filename)
        if not file_ids:
            raise GridFSFileNotFoundError.of_name(filename)
        await store.delete_all(file_ids)

    async def rename(self, file_id: Any, new_filename: str, *, timeout_ms: int | None = None) -> None:
        """Give a file another name. Raises GridFSFileNotFoundError."""
        if not await self._store.timed(timeout_ms).rename(
            {"_id": {"$eq": file_id}}, new_filename, many=False
        ):
            raise GridFSFileNotFoundError.of_id(file_id)

    async def rename_by_name(
        self, filename: str, new_filename: str, *, timeout_ms: int | None = None
    ) -> None:
        """Give all revisions another name. Raises GridFSFileNotFoundError."""
        store = self._store.timed(timeout_ms)
        if not await store.rename({"filename": filename}, new_filename, many=True):
            raise GridFSFileNotFoundError.of_name(filename)

    async def drop(self, *, timeout_ms: int | None = None) -> None:
        """Drop the bucket with all its files."""
        await self._store.timed(timeout_ms).drop()


def _checked_size(chunk_size_bytes: int) -> int:
    if chunk_size_bytes < 1:
        raise InvalidArgumentError(f"a chunk cannot have {chunk_size_bytes} bytes")
    return chunk_size_bytes
