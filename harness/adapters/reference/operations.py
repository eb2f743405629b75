"""The reference driver as a table: operation of the format to method, arguments and result.

Most lines are a `Method`, which refuses what the driver's own lists (`ALLOWED`) do not have: options are
spelled as in the format on both sides, so that they pass through by name. The driver's cursors are read to
their end, unless the operation creates one. GridFS has a table of its own at the end, `BUCKET`, because its
methods take their time limit by keyword.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from driver.client import AsyncClient
from driver.cmap.metadata import DriverInfo
from driver.collection import MODEL_FIELDS, Collection
from driver.concerns import ReadConcern, ReadPreference, WriteConcern
from driver.cursor import Cursor, Paging
from driver.database import Database
from driver.errors import DriverError
from driver.gridfs.bucket import GridFSBucket
from driver.gridfs.streams import UploadOptions
from driver.operations.models import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from driver.operations.options import ALLOWED
from harness.adapters.base import EntityKind, ErrorReport, Invocation, OperationFailed, UnsupportedOperation
from harness.adapters.reference import results

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from driver.change_stream import ChangeStream
    from driver.operations.models import WriteModel
    from driver.session import ClientSession

    Arguments = Mapping[str, Any]
    Handler = Callable[[Invocation[Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method: the arguments that it takes by position, the options that it takes by name.

    `optional` positional arguments may be absent from the file. `options` names the driver's own list.
    """

    method: Callable[..., Awaitable[Any]]
    options: str | None = None
    positional: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    finish: Callable[[Any], Any] | None = None

    async def __call__(self, call: Invocation[Any]) -> Any:
        """Call it. Raises the driver's errors, and UnsupportedOperation for an argument it does not take."""
        allowed = ALLOWED[self.options] if self.options else frozenset()
        _only(call.arguments, "session", *self.positional, *self.optional, *allowed)
        by_position = [call.arguments[name] for name in self.positional]
        by_position += [call.arguments.get(name) for name in self.optional]
        by_name = call.without(*self.positional, *self.optional)
        result = await self.method(call.target, *by_position, **by_name)
        # A change stream is no `Cursor`, and would never come to an end.
        if isinstance(result, Cursor) and self.finish is None:
            return await result.to_list()
        return self.finish(result) if self.finish else result


def _itself(result: Any) -> Any:
    return result


def _only(arguments: Arguments, *names: str) -> None:
    """Refuse all arguments but some: a scenario must not seem to hold because one of them was ignored."""
    for name in arguments:
        if name not in names:
            raise UnsupportedOperation(f"the reference driver takes no {name} here")


def models(requests: Sequence[Arguments]) -> list[WriteModel]:
    """Return the models of a bulk write. Raises UnsupportedOperation for a kind that there is not."""
    made = []
    for kind, body in (pair for request in requests for pair in request.items()):
        if kind not in _MODELS:
            raise UnsupportedOperation(f"the reference driver has no model {kind}")
        made.append(_MODELS[kind](**{MODEL_FIELDS.get(name, name): value for name, value in body.items()}))
    return made


_MODELS: Final[Mapping[str, Callable[..., WriteModel]]] = {
    "insertOne": InsertOne,
    "updateOne": UpdateOne,
    "updateMany": UpdateMany,
    "replaceOne": ReplaceOne,
    "deleteOne": DeleteOne,
    "deleteMany": DeleteMany,
}


def _named_first(arguments: Arguments) -> dict[str, Any]:
    """Return a command with its name as the first field, which is the one that servers go by.

    Unified Test Format: runCommand. `commandName` is there because a YAML mapping has no order.
    """
    command: dict[str, Any] = arguments["command"]
    name = arguments.get("commandName") or next(iter(command))
    return {name: command[name], **command}


def _read_preference(arguments: Arguments) -> ReadPreference | None:
    document = arguments.get("readPreference")
    return None if document is None else ReadPreference.of_document(document)


async def _run_command(call: Invocation[Database]) -> Any:
    _only(call.arguments, "command", "commandName", "session", "readPreference", "timeoutMS")
    return await call.target.command(
        _named_first(call.arguments),
        session=call.arguments.get("session"),
        read_preference=_read_preference(call.arguments),
        timeout_ms=call.arguments.get("timeoutMS"),
    )


async def _create_command_cursor(call: Invocation[Database]) -> Cursor:
    _only(
        call.arguments,
        "command",
        "commandName",
        "session",
        "readPreference",
        "batchSize",
        "maxTimeMS",
        "comment",
        "cursorType",
        "timeoutMS",
        "timeoutMode",
    )
    preference = _read_preference(call.arguments)
    paging = Paging(
        read_preference=preference,
        batch_size=call.arguments.get("batchSize"),
        max_await_time_ms=call.arguments.get("maxTimeMS"),
        comment=call.arguments.get("comment"),
        cursor_type=call.arguments.get("cursorType", "nonTailable"),
    )
    return await call.target.cursor_command(
        _named_first(call.arguments),
        session=call.arguments.get("session"),
        read_preference=preference,
        paging=paging,
        timeout_ms=call.arguments.get("timeoutMS"),
        timeout_mode=call.arguments.get("timeoutMode"),
    )


async def _run_cursor_command(call: Invocation[Database]) -> Any:
    return await (await _create_command_cursor(call)).to_list()


async def _client_bulk_write(call: Invocation[AsyncClient]) -> Any:
    _only(call.arguments, "models", "session", "writeConcern", *ALLOWED["clientBulkWrite"])
    options = call.without("models", "session", "writeConcern")
    concern = call.arguments.get("writeConcern")
    result = await call.target.bulk_write(
        models(call.arguments["models"]),
        session=call.arguments.get("session"),
        write_concern=None if concern is None else WriteConcern.of_document(concern),
        **options,
    )
    return results.client_bulk_written(result)


async def _bulk_write(call: Invocation[Collection]) -> Any:
    _only(call.arguments, "requests", "session", *ALLOWED["bulkWrite"])
    rest = call.without("requests")
    return results.bulk_written(await call.target.bulk_write(models(call.arguments["requests"]), **rest))


async def _drop_database(call: Invocation[AsyncClient]) -> None:
    _only(call.arguments, "database", "session", "timeoutMS")
    options = {name: call.arguments[name] for name in ("session", "timeoutMS") if name in call.arguments}
    await call.target.database(call.arguments["database"]).drop(**options)


async def _close_client(call: Invocation[AsyncClient]) -> None:
    _only(call.arguments)
    await call.target.aclose()


async def _append_metadata(call: Invocation[AsyncClient]) -> None:
    _only(call.arguments, "driverInfoOptions")
    call.target.append_metadata(DriverInfo(**call.arguments["driverInfoOptions"]))


async def _create_collection(call: Invocation[Database]) -> Collection:
    _only(call.arguments, "collection", "session", *ALLOWED["createCollection"])
    rest = call.without("collection")
    return await call.target.create_collection(call.arguments["collection"], **rest)


async def _create_index(call: Invocation[Collection]) -> str:
    rest = call.without("keys", "session", "maxTimeMS")
    of_command = ("maxTimeMS", "comment", "rawData", "timeoutMS")
    options = {name: call.arguments[name] for name in of_command if name in call.arguments}
    index = {name: value for name, value in rest.items() if name not in options}
    return await call.target.create_index(
        call.arguments["keys"], session=call.arguments.get("session"), options=options, **index
    )


async def _rename(call: Invocation[Collection]) -> None:
    _only(call.arguments, "to", "session", *ALLOWED["rename"])
    await call.target.rename(**call.arguments)


async def _list_search_indexes(call: Invocation[Collection]) -> Any:
    _only(call.arguments, "name", "aggregationOptions")
    options = call.arguments.get("aggregationOptions", {})
    _only(options, *ALLOWED["aggregate"])
    return await (await call.target.list_search_indexes(call.arguments.get("name"), **options)).to_list()


async def _map_reduce(call: Invocation[Collection]) -> Any:
    _only(call.arguments, "map", "reduce", "out", "session", *ALLOWED["mapReduce"])
    if call.arguments["out"] != {"inline": 1}:
        raise UnsupportedOperation("the reference driver's map_reduce has its results inline")
    rest = call.without("map", "reduce", "out")
    return await call.target.map_reduce(call.arguments["map"], call.arguments["reduce"], **rest)


async def _end_session(call: Invocation[ClientSession]) -> None:
    _only(call.arguments)
    await call.target.aclose()


def transaction_options(arguments: Arguments) -> dict[str, Any]:
    """Return the options of a transaction. Raises UnsupportedOperation for one that it does not take."""
    _only(arguments, "readConcern", "writeConcern", "readPreference", "maxCommitTimeMS")
    read, write = arguments.get("readConcern"), arguments.get("writeConcern")
    return {
        "read_concern": None if read is None else ReadConcern(read.get("level")),
        "write_concern": None if write is None else WriteConcern.of_document(write),
        "read_preference": _read_preference(arguments),
        "max_commit_time_ms": arguments.get("maxCommitTimeMS"),
    }


async def _start_transaction(call: Invocation[ClientSession]) -> None:
    call.target.start_transaction(**transaction_options(call.arguments))


async def _commit_transaction(call: Invocation[ClientSession]) -> None:
    _only(call.arguments, "timeoutMS")
    await call.target.commit_transaction(timeout_ms=call.arguments.get("timeoutMS"))


async def _abort_transaction(call: Invocation[ClientSession]) -> None:
    _only(call.arguments, "timeoutMS")
    await call.target.abort_transaction(timeout_ms=call.arguments.get("timeoutMS"))


async def _with_transaction(call: Invocation[ClientSession]) -> None:
    """Give the driver its own errors back: the runner's callback raises reports of them.

    `with_transaction` retries by the labels of what its callback raises.
    """

    async def callback(_session: ClientSession) -> None:
        try:
            await call.arguments["callback"]()
        except OperationFailed as failed:
            # Other failures are the scenario's own, such as a result that differs: they leave the transaction
            # as they are.
            if isinstance(failed.__cause__, DriverError):
                raise failed.__cause__ from None
            raise

    options = call.without("callback", "timeoutMS")
    await call.target.with_transaction(
        callback, timeout_ms=call.arguments.get("timeoutMS"), **transaction_options(options)
    )


async def _snapshot_time(call: Invocation[ClientSession]) -> Any:
    _only(call.arguments)
    return call.target.snapshot_time


async def _iterate(call: Invocation[Cursor | ChangeStream]) -> Any:
    _only(call.arguments)
    document = await call.target.next()
    if document is not None:
        return document
    raise OperationFailed(ErrorReport("the cursor has no more documents", is_client_error=True))


async def _iterate_once(call: Invocation[Cursor | ChangeStream]) -> Any:
    _only(call.arguments)
    return await call.target.try_next()


async def _close_cursor(call: Invocation[Cursor | ChangeStream]) -> None:
    _only(call.arguments, "timeoutMS")
    await call.target.aclose(timeout_ms=call.arguments.get("timeoutMS"))


CLIENT: Final[Mapping[str, Handler]] = {
    "appendMetadata": _append_metadata,
    "clientBulkWrite": _client_bulk_write,
    "close": _close_client,
    "createChangeStream": Method(AsyncClient.watch, "watch", ("pipeline",)),
    "dropDatabase": _drop_database,
    "listDatabaseNames": Method(AsyncClient.list_database_names, "listDatabases"),
    "listDatabaseObjects": Method(AsyncClient.list_databases, "listDatabases"),
    "listDatabases": Method(AsyncClient.list_databases, "listDatabases"),
}

DATABASE: Final[Mapping[str, Handler]] = {
    "aggregate": Method(Database.aggregate, "aggregate", ("pipeline",)),
    "createChangeStream": Method(Database.watch, "watch", ("pipeline",)),
    "createCollection": _create_collection,
    "createCommandCursor": _create_command_cursor,
    "dropCollection": Method(Database.drop_collection, "drop", ("collection",)),
    "listCollectionNames": Method(Database.list_collection_names, "listCollections"),
    "listCollectionObjects": Method(Database.list_collections, "listCollections"),
    "listCollections": Method(Database.list_collections, "listCollections"),
    "modifyCollection": Method(Database.modify_collection, "modifyCollection", ("collection",)),
    "runCommand": _run_command,
    "runCursorCommand": _run_cursor_command,
}

COLLECTION: Final[Mapping[str, Handler]] = {
    "aggregate": Method(Collection.aggregate, "aggregate", ("pipeline",)),
    "bulkWrite": _bulk_write,
    "count": Method(Collection.count, "count", (), ("filter",)),
    "countDocuments": Method(Collection.count_documents, "countDocuments", ("filter",)),
    "createChangeStream": Method(Collection.watch, "watch", ("pipeline",)),
    "createFindCursor": Method(Collection.find, "find", ("filter",), (), _itself),
    "createIndex": _create_index,
    "createSearchIndex": Method(Collection.create_search_index, None, ("model",)),
    "createSearchIndexes": Method(Collection.create_search_indexes, None, ("models",)),
    "deleteMany": Method(Collection.delete_many, "deleteMany", ("filter",), (), results.deleted),
    "deleteOne": Method(Collection.delete_one, "deleteOne", ("filter",), (), results.deleted),
    "distinct": Method(Collection.distinct, "distinct", ("fieldName",), ("filter",)),
    "drop": Method(Collection.drop, "drop"),
    "dropIndex": Method(Collection.drop_index, "dropIndexes", ("name",)),
    "dropIndexes": Method(Collection.drop_indexes, "dropIndexes"),
    "dropSearchIndex": Method(Collection.drop_search_index, None, ("name",)),
    "estimatedDocumentCount": Method(Collection.estimated_document_count, "estimatedDocumentCount"),
    "find": Method(Collection.find, "find", ("filter",)),
    "findOne": Method(Collection.find_one, "find", (), ("filter",)),
    "findOneAndDelete": Method(Collection.find_one_and_delete, "findOneAndDelete", ("filter",)),
    "findOneAndReplace": Method(
        Collection.find_one_and_replace, "findOneAndReplace", ("filter", "replacement")
    ),
    "findOneAndUpdate": Method(Collection.find_one_and_update, "findOneAndUpdate", ("filter", "update")),
    "insertMany": Method(Collection.insert_many, "insertMany", ("documents",), (), results.inserted_many),
    "insertOne": Method(Collection.insert_one, "insertOne", ("document",), (), results.inserted_one),
    "listIndexNames": Method(Collection.list_index_names, "listIndexes"),
    "listIndexes": Method(Collection.list_indexes, "listIndexes"),
    "listSearchIndexes": _list_search_indexes,
    "mapReduce": _map_reduce,
    "rename": _rename,
    "replaceOne": Method(
        Collection.replace_one, "replaceOne", ("filter", "replacement"), (), results.updated
    ),
    "updateMany": Method(Collection.update_many, "updateMany", ("filter", "update"), (), results.updated),
    "updateOne": Method(Collection.update_one, "updateOne", ("filter", "update"), (), results.updated),
    "updateSearchIndex": Method(Collection.update_search_index, None, ("name", "definition")),
}

SESSION: Final[Mapping[str, Handler]] = {
    "abortTransaction": _abort_transaction,
    "commitTransaction": _commit_transaction,
    "endSession": _end_session,
    "startTransaction": _start_transaction,
    "withTransaction": _with_transaction,
    "getSnapshotTime": _snapshot_time,
}

CURSOR: Final[Mapping[str, Handler]] = {
    "close": _close_cursor,
    "iterateOnce": _iterate_once,
    "iterateUntilDocumentOrError": _iterate,
}

OPERATIONS: Final[Mapping[EntityKind, Mapping[str, Handler]]] = {
    EntityKind.CLIENT: CLIENT,
    EntityKind.DATABASE: DATABASE,
    EntityKind.COLLECTION: COLLECTION,
    EntityKind.SESSION: SESSION,
    EntityKind.FIND_CURSOR: CURSOR,
    EntityKind.COMMAND_CURSOR: CURSOR,
    EntityKind.CHANGE_STREAM: CURSOR,
}


# The reference driver's GridFS as a table: operation of the format to method of a bucket.


_UPLOAD: Final = {
    "chunkSizeBytes": "chunk_size_bytes",
    "contentType": "content_type",
    "metadata": "metadata",
    "timeoutMS": "timeout_ms",
}
_BUCKET: Final = {"bucketName": "bucket_name", "chunkSizeBytes": "chunk_size_bytes"}
_NO_MD5: Final = "disableMD5"
"""The driver never computes one, so that this asks for what happens anyway."""


def bucket_options(options: Arguments) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a bucket entity into the bucket's own, as keywords, and the concerns."""
    own = {_BUCKET[name]: value for name, value in options.items() if name in _BUCKET}
    return own, {name: value for name, value in options.items() if name not in {*_BUCKET, _NO_MD5}}


def _upload_options(arguments: Arguments, *others: str) -> UploadOptions:
    for name in arguments:
        if name not in {*_UPLOAD, *others, _NO_MD5}:
            raise UnsupportedOperation(f"the reference driver takes no {name} here")
    return UploadOptions(**{_UPLOAD[name]: value for name, value in arguments.items() if name in _UPLOAD})


async def _upload(call: Invocation[GridFSBucket]) -> Any:
    options = _upload_options(call.arguments, "filename", "source")
    return await call.target.upload_from_stream(call.arguments["filename"], call.arguments["source"], options)


async def _upload_with_id(call: Invocation[GridFSBucket]) -> None:
    options = _upload_options(call.arguments, "id", "filename", "source")
    await call.target.upload_from_stream_with_id(
        call.arguments["id"], call.arguments["filename"], call.arguments["source"], options
    )


async def _download(bucket: GridFSBucket, file_id: Any, timeout_ms: int | None) -> bytes:
    async with await bucket.open_download_stream(file_id, timeout_ms=timeout_ms) as stream:
        return await stream.read()


async def _download_by_name(
    bucket: GridFSBucket, filename: str, revision: int | None, timeout_ms: int | None
) -> bytes:
    wanted = -1 if revision is None else revision
    opened = await bucket.open_download_stream_by_name(filename, revision=wanted, timeout_ms=timeout_ms)
    async with opened as stream:
        return await stream.read()


def _timed(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a method whose last argument is its timeoutMS."""

    async def call(bucket: GridFSBucket, *arguments: Any) -> Any:
        *others, timeout_ms = arguments
        return await method(bucket, *others, timeout_ms=timeout_ms)

    return call


_TIMEOUT: Final = "timeoutMS"

BUCKET: Final[Mapping[str, Handler]] = {
    "delete": Method(_timed(GridFSBucket.delete), None, ("id",), (_TIMEOUT,)),
    "deleteByName": Method(_timed(GridFSBucket.delete_by_name), None, ("filename",), (_TIMEOUT,)),
    "download": Method(_download, None, ("id",), (_TIMEOUT,)),
    "downloadByName": Method(_download_by_name, None, ("filename",), ("revision", _TIMEOUT)),
    "drop": Method(_timed(GridFSBucket.drop), None, (), (_TIMEOUT,)),
    "find": Method(GridFSBucket.find, "find", ("filter",)),
    "rename": Method(_timed(GridFSBucket.rename), None, ("id", "newFilename"), (_TIMEOUT,)),
    "renameByName": Method(
        _timed(GridFSBucket.rename_by_name), None, ("filename", "newFilename"), (_TIMEOUT,)
    ),
    "upload": _upload,
    "uploadWithId": _upload_with_id,
}
