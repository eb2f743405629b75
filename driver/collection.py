"""A collection: CRUD under the names of the specification."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from driver.change_stream import ChangeStream
from driver.concerns import Concerns, WriteConcern
from driver.cursor import Cursor, Paging
from driver.errors import DriverError, ServerError
from driver.operations import admin, bulk, reads, writes
from driver.operations.base import Target
from driver.operations.models import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
    with_id,
)
from driver.operations.options import checked
from driver.results import InsertManyResult, InsertOneResult
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from driver.database import Database
    from driver.operations.base import Operation
    from driver.operations.models import WriteModel
    from driver.results import BulkWriteResult, DeleteResult, UpdateResult
    from driver.run import Reply
    from driver.session import ClientSession

    Document = Mapping[str, Any]

MODEL_FIELDS = {
    "arrayFilters": "array_filters",
    "collation": "collation",
    "hint": "hint",
    "sort": "sort",
    "upsert": "upsert",
}


class Collection:
    """Made by `Database.collection`. Options of methods have the names of the specifications.

    With retryWrites, these are retryable writes: insert_one, update_one, replace_one, delete_one and
    find_one_and_…; and each command of insert_many and bulk_write that holds no update_many and no
    delete_many. Never: update_many, delete_many, aggregate with `$out` or `$merge`, and any write with
    `w: 0`. All commands are retried when the server is overloaded and says that it is safe.

    Every method takes `timeoutMS`, the milliseconds that all of it may take, 0 for no limit; or a
    `driver.policy.deadline.Deadline` that several calls share. Raises OperationTimeoutError.
    """

    def __init__(self, database: Database, name: str, concerns: Concerns) -> None:
        self.database = database
        self.name = name
        self.concerns = concerns
        self._client = database.client
        self._target = Target(database.name, name, concerns)

    @property
    def namespace(self) -> str:
        """The full name."""
        return f"{self.database.name}.{self.name}"

    # --- reading ---

    async def find(
        self, filter_: Document | None = None, *, session: ClientSession | None = None, **options: Any
    ) -> Cursor:
        """Return a cursor over the documents that match."""
        operation = reads.find(self._target, filter_ or {}, options)
        paging = Paging.of(options, self.concerns.read_preference)
        return await Cursor.open(self._client, operation, session, paging)

    async def find_one(
        self, filter_: Document | None = None, *, session: ClientSession | None = None, **options: Any
    ) -> dict[str, Any] | None:
        """Return the first document that matches, or None."""
        operation = reads.find_one(self._target, filter_ or {}, options)
        reply = await self._client.run(operation, session)
        batch: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        return batch[0] if batch else None

    async def aggregate(
        self, pipeline: Sequence[Document], *, session: ClientSession | None = None, **options: Any
    ) -> Cursor:
        """Return a cursor over what the pipeline yields."""
        operation = reads.aggregate(self._target, pipeline, options)
        paging = Paging.of(options, self.concerns.read_preference)
        return await Cursor.open(self._client, operation, session, paging)

    async def watch(
        self, pipeline: Sequence[Document] = (), *, session: ClientSession | None = None, **options: Any
    ) -> ChangeStream:
        """Watch the collection (Change Streams). Raises DriverError."""
        return await ChangeStream.open(self._client, self._target, pipeline, options, session)

    async def count_documents(
        self, filter_: Document | None = None, *, session: ClientSession | None = None, **options: Any
    ) -> int:
        """Count exactly what matches."""
        operation = reads.count_documents(self._target, filter_ or {}, options)
        batch = (await self._client.run(operation, session))["cursor"]["firstBatch"]
        return int(batch[0]["n"]) if batch else 0

    async def estimated_document_count(self, *, session: ClientSession | None = None, **options: Any) -> int:
        """Count all documents, from the collection's metadata."""
        operation = reads.estimated_document_count(self._target, options)
        return await self._count(operation, session)

    async def count(
        self, filter_: Document | None = None, *, session: ClientSession | None = None, **options: Any
    ) -> int:
        """Count what matches with the deprecated `count` command."""
        operation = reads.count(self._target, filter_ or {}, options)
        return await self._count(operation, session)

    async def distinct(
        self,
        field: str,
        filter_: Document | None = None,
        *,
        session: ClientSession | None = None,
        **options: Any,
    ) -> list[Any]:
        """Return the distinct values of a field among what matches."""
        operation = reads.distinct(self._target, field, filter_ or {}, options)
        values: list[Any] = (await self._client.run(operation, session))["values"]
        return values

    async def map_reduce(
        self,
        map_: Any,
        reduce: Any,
        *,
        session: ClientSession | None = None,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Return what the two functions make of the collection. Deprecated by servers; never retried."""
        operation = reads.map_reduce(self._target, map_, reduce, options)
        results: list[dict[str, Any]] = (await self._client.run(operation, session))["results"]
        return results

    # --- writing ---

    async def insert_one(
        self, document: Document, *, session: ClientSession | None = None, **options: Any
    ) -> InsertOneResult:
        """Insert a document, which gets an `_id` unless it has one."""
        model = InsertOne(document=with_id(document, self._client.new_id))
        await self._write_one(model, "insertOne", options, session)
        return InsertOneResult(model.document["_id"], acknowledged=self._acknowledged(session))

    async def insert_many(
        self, documents: Sequence[Document], *, session: ClientSession | None = None, **options: Any
    ) -> InsertManyResult:
        """Insert documents; each gets an `_id` unless it has one. Raises BulkWriteError."""
        models = [InsertOne(document=document) for document in documents]
        result = await self._bulk(models, options, session, method="insertMany")
        return InsertManyResult(result.inserted_ids, acknowledged=self._acknowledged(session))

    async def update_one(
        self, filter_: Document, update: Any, *, session: ClientSession | None = None, **options: Any
    ) -> UpdateResult:
        """Change the first document that matches."""
        model_options, rest = _split("updateOne", options)
        model = UpdateOne(filter=filter_, update=update, **model_options)
        reply = await self._write_one(model, "updateOne", rest, session)
        return writes.update_result(reply, acknowledged=self._acknowledged(session))

    async def update_many(
        self, filter_: Document, update: Any, *, session: ClientSession | None = None, **options: Any
    ) -> UpdateResult:
        """Change all documents that match. Not a retryable write."""
        model_options, rest = _split("updateMany", options)
        model = UpdateMany(filter=filter_, update=update, **model_options)
        reply = await self._write_one(model, "updateMany", rest, session)
        return writes.update_result(reply, acknowledged=self._acknowledged(session))

    async def replace_one(
        self,
        filter_: Document,
        replacement: Document,
        *,
        session: ClientSession | None = None,
        **options: Any,
    ) -> UpdateResult:
        """Replace the first document that matches."""
        model_options, rest = _split("replaceOne", options)
        model = ReplaceOne(filter=filter_, replacement=replacement, **model_options)
        reply = await self._write_one(model, "replaceOne", rest, session)
        return writes.update_result(reply, acknowledged=self._acknowledged(session))

    async def delete_one(
        self, filter_: Document, *, session: ClientSession | None = None, **options: Any
    ) -> DeleteResult:
        """Delete the first document that matches."""
        model_options, rest = _split("deleteOne", options)
        model = DeleteOne(filter=filter_, **model_options)
        reply = await self._write_one(model, "deleteOne", rest, session)
        return writes.delete_result(reply, acknowledged=self._acknowledged(session))

    async def delete_many(
        self, filter_: Document, *, session: ClientSession | None = None, **options: Any
    ) -> DeleteResult:
        """Delete all documents that match. Not a retryable write."""
        model_options, rest = _split("deleteMany", options)
        model = DeleteMany(filter=filter_, **model_options)
        reply = await self._write_one(model, "deleteMany", rest, session)
        return writes.delete_result(reply, acknowledged=self._acknowledged(session))

    async def find_one_and_delete(
        self, filter_: Document, *, session: ClientSession | None = None, **options: Any
    ) -> dict[str, Any] | None:
        """Delete the first document that matches, and return it."""
        return await self._find_and_modify(filter_, {"remove": True}, "findOneAndDelete", options, session)

    async def find_one_and_replace(
        self,
        filter_: Document,
        replacement: Document,
        *,
        session: ClientSession | None = None,
        **options: Any,
    ) -> dict[str, Any] | None:
        """Replace the first document that matches, and return it as `returnDocument` says."""
        change = {"update": replacement}
        return await self._find_and_modify(filter_, change, "findOneAndReplace", options, session)

    async def find_one_and_update(
        self, filter_: Document, update: Any, *, session: ClientSession | None = None, **options: Any
    ) -> dict[str, Any] | None:
        """Change the first document that matches, and return it as `returnDocument` says."""
        return await self._find_and_modify(filter_, {"update": update}, "findOneAndUpdate", options, session)

    async def bulk_write(
        self, models: Sequence[WriteModel], *, session: ClientSession | None = None, **options: Any
    ) -> BulkWriteResult:
        """Run many writes in few commands. Raises BulkWriteError, which holds the partial result.

        Whether a command is a retryable write is decided after the models were grouped and split: it is
        unless it holds an update_many or a delete_many.
        """
        return await self._bulk(models, options, session, method="bulkWrite")

    # --- administration ---

    async def create_index(
        self,
        keys: Document,
        *,
        session: ClientSession | None = None,
        options: Document | None = None,
        **index: Any,
    ) -> str:
        """Create an index, and return its name.

        `options` and a `timeoutMS` are of the command, the others of the index.
        """
        timed = {"timeoutMS": index.pop("timeoutMS")} if "timeoutMS" in index else {}
        operation, name = admin.create_index(self._target, keys, index, {**(options or {}), **timed})
        await self._client.run(operation, session)
        return name

    async def drop_index(
        self, index: str | Document, *, session: ClientSession | None = None, **options: Any
    ) -> None:
        """Drop an index by its name or its keys."""
        operation = admin.drop_indexes(self._target, index, options)
        await self._client.run(operation, session)

    async def drop_indexes(self, *, session: ClientSession | None = None, **options: Any) -> None:
        """Drop all indexes but the one on `_id`."""
        await self.drop_index("*", session=session, **options)

    async def list_indexes(self, *, session: ClientSession | None = None, **options: Any) -> Cursor:
        """Return a cursor over a document for each index (Enumerate Indexes)."""
        operation = admin.list_indexes(self._target, options)
        return await Cursor.open(
            self._client, operation, session, Paging.of(options, self.database.concerns.read_preference)
        )

    async def list_index_names(self, *, session: ClientSession | None = None, **options: Any) -> list[str]:
        """Return the name of each index."""
        cursor = await self.list_indexes(session=session, **options)
        return [index["name"] for index in await cursor.to_list()]

    async def drop(self, *, session: ClientSession | None = None, **options: Any) -> None:
        """Drop the collection, if it exists."""
        with _ignoring_missing_namespace():
            await self._client.run(admin.drop_collection(self._target, options), session)

    async def rename(self, to: str, *, session: ClientSession | None = None, **options: Any) -> None:
        """Give the collection another name in the same database."""
        await self._client.run(admin.rename(self._target, to, options), session)

    async def create_search_index(self, model: Document, *, session: ClientSession | None = None) -> str:
        """Begin to build a search index, and return its name."""
        return (await self.create_search_indexes([model], session=session))[0]

    async def create_search_indexes(
        self, models: Sequence[Document], *, session: ClientSession | None = None
    ) -> list[str]:
        """Begin to build search indexes, and return their names.

        A model has a `definition`, and may have a `name` and a `type`.
        """
        reply = await self._client.run(admin.create(self._target, models), session)
        return [index["name"] for index in reply["indexesCreated"]]

    async def update_search_index(
        self, name: str, definition: Document, *, session: ClientSession | None = None
    ) -> None:
        """Replace the definition of a search index."""
        await self._client.run(admin.update(self._target, name, definition), session)

    async def drop_search_index(self, name: str, *, session: ClientSession | None = None) -> None:
        """Drop a search index; that of a collection that does not exist needs no dropping."""
        with _ignoring_missing_namespace():
            await self._client.run(admin.drop(self._target, name), session)

    async def list_search_indexes(
        self, name: str | None = None, *, session: ClientSession | None = None, **options: Any
    ) -> Cursor:
        """Return a cursor over a document for each search index, or that of one name.

        Options are those of `aggregate`, without the collection's concerns.
        """
        plain = Concerns(read_preference=self.concerns.read_preference, timeout=self.concerns.timeout)
        unconcerned = Collection(self.database, self.name, plain)
        return await unconcerned.aggregate([admin.stage(name)], session=session, **options)

    # --- shared ---

    def _target_in(self, session: ClientSession | None) -> Target:
        """Return the target of a write: in a transaction, the collection's write concern does not count."""
        if session is None or not session.in_transaction:
            return self._target
        concerns = self.concerns.overridden(write_concern=WriteConcern())
        return Target(self.database.name, self.name, concerns)

    def _acknowledged(self, session: ClientSession | None) -> bool:
        return self._target_in(session).acknowledged

    async def _count(self, operation: Operation, session: ClientSession | None) -> int:
        return int((await self._client.run(operation, session))["n"])

    async def _write_one(
        self, model: WriteModel, method: str, options: Document, session: ClientSession | None
    ) -> Reply:
        """Send one insert, update or delete. Raises WriteError and WriteConcernError."""
        operation = writes.single(self._target_in(session), model, checked(method, options))
        try:
            reply = await self._client.run(operation, session)
        except DriverError as error:
            raise writes.more_telling(error) from error.__cause__
        writes.refused(reply)
        return reply

    async def _find_and_modify(
        self,
        filter_: Document,
        change: Document,
        method: str,
        options: Document,
        session: ClientSession | None,
    ) -> dict[str, Any] | None:
        operation = writes.find_and_modify(self._target, filter_, change, options, method=method)
        document: dict[str, Any] | None = (await self._client.run(operation, session)).document.get("value")
        return document

    async def _bulk(
        self, models: Sequence[WriteModel], options: Document, session: ClientSession | None, *, method: str
    ) -> BulkWriteResult:
        ready = [self._client.with_id(model) for model in models]
        async with self._client.session_for(session) as used:
            return await bulk.bulk_write(
                self._client.executor, self._target_in(session), ready, options, session=used, method=method
            )


@contextmanager
def _ignoring_missing_namespace() -> Iterator[None]:
    try:
        yield
    except ServerError as error:
        if error.code != ErrorCode.NAMESPACE_NOT_FOUND:
            raise


def _split(method: str, options: Document) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a method's options into those of the statement and those of the command."""
    if not options:
        return {}, {}
    fields = checked(method, options)
    of_model = {MODEL_FIELDS[name]: fields.pop(name) for name in list(fields) if name in MODEL_FIELDS}
    return of_model, fields
