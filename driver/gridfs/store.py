"""The two collections of GridFS: every command of a bucket is sent from here."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from driver.concerns import PRIMARY
from driver.errors import GridFSFileNotFoundError, OperationTimeoutError, ServerError
from driver.operations.options import timeout_of
from driver.policy.deadline import NEVER, UNSET
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from driver.collection import Collection
    from driver.concerns import ReadConcern, ReadPreference, WriteConcern
    from driver.cursor import Cursor
    from driver.database import Database
    from driver.policy.deadline import Deadline

    Document = Mapping[str, Any]

FILES_INDEX = {"filename": 1, "uploadDate": 1}
CHUNKS_INDEX = {"files_id": 1, "n": 1}


class Store:
    """The files collection and the chunks collection of one bucket.

    A file id goes into `$eq`, so that an id that is a pattern or a document matches nothing but itself
    (GridFS: TFileId Queries).
    """

    def __init__(
        self,
        database: Database,
        bucket_name: str,
        *,
        read_preference: ReadPreference | None = None,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
    ) -> None:
        self.client = database.client
        self._database = database
        self._files, self._chunks = (
            database.collection(
                f"{bucket_name}.{name}",
                read_preference=read_preference,
                read_concern=read_concern,
                write_concern=write_concern,
            )
            for name in ("files", "chunks")
        )
        self._indexes = _Indexes()
        self.deadline: Deadline = UNSET
        """When all that a timed copy does must be done."""

    @property
    def limit(self) -> dict[str, Any]:
        """The timeoutMS of every command of a timed copy."""
        return {"timeoutMS": self.deadline} if self.deadline.is_set else {}

    def timed(self, timeout_ms: int | None) -> Store:
        """Return the store for one operation that begins now, all of whose commands share a timeoutMS.

        Client Side Operations Timeout: GridFS API. Raises InvalidArgumentError.
        """
        timeout = timeout_of(timeout_ms, self._files.concerns.timeout)
        store = copy(self)
        store.deadline = self.client.executor.deadline_of(timeout, None)
        return store

    @asynccontextmanager
    async def in_time(self, what: str) -> AsyncIterator[None]:
        """End what waits for no server at the deadline too. Raises OperationTimeoutError."""
        at = self.deadline.at
        try:
            async with asyncio.timeout_at(None if at == NEVER else at) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise OperationTimeoutError(f"timeoutMS ran out while {what}") from error

    # --- reading ---

    async def find_files(self, filter_: Document, options: Mapping[str, Any]) -> Cursor:
        """Return a cursor over files collection documents."""
        return await self._files.find(filter_, **options)

    async def find_file(self, file_id: Any) -> dict[str, Any]:
        """Return a file's document. Raises GridFSFileNotFoundError."""
        file = await self._files.find_one({"_id": {"$eq": file_id}}, **self.limit)
        if file is None:
            raise GridFSFileNotFoundError.of_id(file_id)
        return file

    async def find_revision(self, filename: str, revision: int) -> dict[str, Any] | None:
        """Return the document of a revision, counted from the oldest (0) or from the newest (-1)."""
        direction, skip = (1, revision) if revision >= 0 else (-1, -revision - 1)
        return await self._files.find_one(
            {"filename": filename}, sort={"uploadDate": direction}, skip=skip, **self.limit
        )

    async def find_ids(self, filename: str) -> list[Any]:
        """Return the ids of all revisions."""
        cursor = await self._files.find({"filename": filename}, projection={"_id": 1}, **self.limit)
        return [file["_id"] for file in await cursor.to_list()]

    async def find_chunks(self, file_id: Any) -> Cursor:
        """Return a cursor over a file's chunks, in order."""
        return await self._chunks.find({"files_id": {"$eq": file_id}}, sort={"n": 1}, **self.limit)

    # --- writing ---

    async def insert_chunk(self, file_id: Any, n: int, data: bytes) -> None:
        """Insert one chunk."""
        await self._ensure_indexes()
        await self._chunks.insert_one({"files_id": file_id, "n": n, "data": data}, **self.limit)

    async def insert_file(self, file: Document) -> None:
        """Insert a file's document, which makes the file visible."""
        await self._ensure_indexes()
        await self._files.insert_one(file, **self.limit)

    async def delete_file(self, file_id: Any) -> bool:
        """Delete a file's document. Return False if it is known that there was none."""
        result = await self._files.delete_one({"_id": {"$eq": file_id}}, **self.limit)
        return bool(result.deleted_count) or not result.acknowledged

    async def delete_chunks(self, file_id: Any) -> None:
        """Delete all chunks of a file."""
        await self._chunks.delete_many({"files_id": {"$eq": file_id}}, **self.limit)

    async def delete_all(self, file_ids: Sequence[Any]) -> None:
        """Delete the documents of files, then their chunks, in one command each."""
        await self._files.delete_many({"_id": {"$in": file_ids}}, **self.limit)
        await self._chunks.delete_many({"files_id": {"$in": file_ids}}, **self.limit)

    async def rename(self, filter_: Document, new_filename: str, *, many: bool) -> bool:
        """Give one file, or all that match, a name. Return False if it is known that nothing matched."""
        update = self._files.update_many if many else self._files.update_one
        result = await update(filter_, {"$set": {"filename": new_filename}}, **self.limit)
        return bool(result.matched_count) or not result.acknowledged

    async def drop(self) -> None:
        """Drop both collections, that of the files first."""
        await self._files.drop(**self.limit)
        await self._chunks.drop(**self.limit)

    # --- indexes ---

    async def _ensure_indexes(self) -> None:
        """Before the first insert, create what indexes are missing, unless there are files already.

        GridFS: Before write operations. It is tried until it has succeeded once; uploads that begin together
        wait for one of them.
        """
        async with self._alone():
            if self._indexes.created:
                return
            # Asked of the primary: a secondary that lags would have the indexes built on a full collection.
            files = self._database.collection(self._files.name, read_preference=PRIMARY)
            if await files.find_one({}, projection={"_id": 1}, **self.limit) is None:
                await self._ensure_index(self._files, FILES_INDEX)
                await self._ensure_index(self._chunks, CHUNKS_INDEX, unique=True)
            self._indexes.created = True

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self.in_time("waiting for another upload to create the indexes"):
            await self._indexes.lock.acquire()
        try:
            yield
        finally:
            self._indexes.lock.release()

    async def _ensure_index(self, collection: Collection, keys: Document, **options: Any) -> None:
        """Create an index unless it is there; 1 and 1.0 are the same direction."""
        existing = [list(index["key"].items()) for index in await _indexes(collection, self.limit)]
        if list(keys.items()) not in existing:
            await collection.create_index(keys, **options, options=self.limit)


class _Indexes:
    """What the timed copies of a store share: whether the indexes are known to be there."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.created = False


async def _indexes(collection: Collection, limit: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return await (await collection.list_indexes(**limit)).to_list()
    except ServerError as error:
        if error.code != ErrorCode.NAMESPACE_NOT_FOUND:
            raise
        return []
