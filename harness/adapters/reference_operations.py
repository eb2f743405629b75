"""The reference driver as a table: operation of the format to method, arguments and result."""

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
from driver.operations.models import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
)
from driver.operations.options import ALLOWED
from harness.adapters import reference_results as results
from harness.adapters.base import EntityKind, ErrorReport, OperationFailed, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from driver.change_stream import ChangeStream
    from driver.operations.models import WriteModel
    from driver.session import ClientSession

    Arguments = Mapping[str, Any]
    Handler = Callable[[Any, Arguments], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """One method: the arguments that it takes by position, the options that it takes by name.

    `optional` positional arguments may be absent from the file. `options` names the driver's own list.
    """

    method: Callable[..., Awaitable[Any]]
    options: str | None = None
    positional: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    finish: Callable[[Any], Any] | None = None

    async def __call__(self, handle: Any, given: Arguments) -> Any:
        """Call it. Raises the driver's errors, and UnsupportedOperation for an argument it does not take."""
        self._refuse_unknown(given)
        by_position = [given[name] for name in self.positional]
        by_position += [given.get(name) for name in self.optional]
        taken = {*self.positional, *self.optional}
        by_name = {name: value for name, value in given.items() if name not in taken}
        result = await self.method(handle, *by_position, **by_name)
        if isinstance(result, Cursor) and self.finish is None:
            return await result.to_list()
        return self.finish(result) if self.finish else result

    def _refuse_unknown(self, given: Arguments) -> None:
        known = {"session", *self.positional, *self.optional}
        known |= ALLOWED[self.options] if self.options else frozenset()
        for name in given:
            if name not in known:
                raise UnsupportedOperation(f"the reference driver takes no {name} here")


def _itself(result: Any) -> Any:
    return result


def _only(given: Arguments, *names: str) -> None:
    for name in given:
        if name not in names:
            raise UnsupportedOperation(f"the reference driver takes no {name} here")


def models(requests: Sequence[Arguments]) -> list[WriteModel]:
    """Return the models of a bulk write."""
    return [_model(kind, body) for request in requests for kind, body in request.items()]


_MODELS: Final[Mapping[str, Callable[..., WriteModel]]] = {
    "insertOne": InsertOne,
    "updateOne": UpdateOne,
    "updateMany": UpdateMany,
    "replaceOne": ReplaceOne,
    "deleteOne": DeleteOne,
    "deleteMany": DeleteMany,
}


def _model(kind: str, body: Arguments) -> WriteModel:
    if kind not in _MODELS:
        raise UnsupportedOperation(f"the reference driver has no model {kind}")
    return _MODELS[kind](**{MODEL_FIELDS.get(name, name): value for name, value in body.items()})


def _named_first(given: Arguments) -> dict[str, Any]:
    """Return a command with its name as the first field, whatever its order in the file."""
    command: dict[str, Any] = given["command"]
    name = given.get("commandName") or next(iter(command))
    return {name: command[name], **command}


def _read_preference(given: Arguments) -> ReadPreference | None:
    document = given.get("readPreference")
    return None if document is None else ReadPreference.of_document(document)


async def _run_command(database: Database, given: Arguments) -> Any:
    _only(given, "command", "commandName", "session", "readPreference", "timeoutMS")
    return await database.command(
        _named_first(given),
        session=given.get("session"),
        read_preference=_read_preference(given),
        timeout_ms=given.get("timeoutMS"),
    )


async def _create_command_cursor(database: Database, given: Arguments) -> Cursor:
    arguments = ("command", "commandName", "session", "readPreference")
    _only(given, *arguments, "batchSize", "maxTimeMS", "comment", "cursorType", "timeoutMS", "timeoutMode")
    preference = _read_preference(given)
    paging = Paging(
        read_preference=preference,
        batch_size=given.get("batchSize"),
        max_await_time_ms=given.get("maxTimeMS"),
        comment=given.get("comment"),
        cursor_type=given.get("cursorType", "nonTailable"),
    )
    return await database.cursor_command(
        _named_first(given),
        session=given.get("session"),
        read_preference=preference,
        paging=paging,
        timeout_ms=given.get("timeoutMS"),
        timeout_mode=given.get("timeoutMode"),
    )


async def _run_cursor_command(database: Database, given: Arguments) -> Any:
    return await (await _create_command_cursor(database, given)).to_list()


async def _client_bulk_write(client: AsyncClient, given: Arguments) -> Any:
    _only(given, "models", "session", "writeConcern", *ALLOWED["clientBulkWrite"])
    options = {name: given[name] for name in given if name in ALLOWED["clientBulkWrite"]}
    concern = given.get("writeConcern")
    result = await client.bulk_write(
        models(given["models"]),
        session=given.get("session"),
        write_concern=None if concern is None else WriteConcern.of_document(concern),
        **options,
    )
    return results.client_bulk_written(result)


async def _bulk_write(collection: Collection, given: Arguments) -> Any:
    _only(given, "requests", "session", *ALLOWED["bulkWrite"])
    rest = {name: value for name, value in given.items() if name != "requests"}
    return results.bulk_written(await collection.bulk_write(models(given["requests"]), **rest))


async def _drop_database(client: AsyncClient, given: Arguments) -> None:
    _only(given, "database", "session", "timeoutMS")
    options = {name: given[name] for name in ("session", "timeoutMS") if name in given}
    await client.database(given["database"]).drop(**options)


async def _close_client(client: AsyncClient, given: Arguments) -> None:
    _only(given)
    await client.aclose()


async def _append_metadata(client: AsyncClient, given: Arguments) -> None:
    _only(given, "driverInfoOptions")
    client.append_metadata(DriverInfo(**given["driverInfoOptions"]))


async def _create_collection(database: Database, given: Arguments) -> Collection:
    _only(given, "collection", "session", *ALLOWED["createCollection"])
    rest = {name: value for name, value in given.items() if name != "collection"}
    return await database.create_collection(given["collection"], **rest)


async def _create_index(collection: Collection, given: Arguments) -> str:
    rest = {name: value for name, value in given.items() if name not in {"keys", "session", "maxTimeMS"}}
    of_command = ("maxTimeMS", "comment", "rawData", "timeoutMS")
    options = {name: given[name] for name in of_command if name in given}
    index = {name: value for name, value in rest.items() if name not in options}
    return await collection.create_index(
        given["keys"], session=given.get("session"), options=options, **index
    )


async def _rename(collection: Collection, given: Arguments) -> None:
    _only(given, "to", "session", *ALLOWED["rename"])
    await collection.rename(**given)


async def _list_search_indexes(collection: Collection, given: Arguments) -> Any:
    _only(given, "name", "aggregationOptions")
    options = given.get("aggregationOptions", {})
    _only(options, *ALLOWED["aggregate"])
    return await (await collection.list_search_indexes(given.get("name"), **options)).to_list()


async def _map_reduce(collection: Collection, given: Arguments) -> Any:
    _only(given, "map", "reduce", "out", "session", *ALLOWED["mapReduce"])
    if given["out"] != {"inline": 1}:
        raise UnsupportedOperation("the reference driver's map_reduce has its results inline")
    rest = {name: value for name, value in given.items() if name not in ("map", "reduce", "out")}
    return await collection.map_reduce(given["map"], given["reduce"], **rest)


async def _end_session(session: ClientSession, given: Arguments) -> None:
    _only(given)
    await session.aclose()


def transaction_options(given: Arguments) -> dict[str, Any]:
    """Return the options of a transaction. Raises UnsupportedOperation for one that it does not take."""
    _only(given, "readConcern", "writeConcern", "readPreference", "maxCommitTimeMS")
    read, write = given.get("readConcern"), given.get("writeConcern")
    return {
        "read_concern": None if read is None else ReadConcern(read.get("level")),
        "write_concern": None if write is None else WriteConcern.of_document(write),
        "read_preference": _read_preference(given),
        "max_commit_time_ms": given.get("maxCommitTimeMS"),
    }


async def _start_transaction(session: ClientSession, given: Arguments) -> None:
    session.start_transaction(**transaction_options(given))


async def _commit_transaction(session: ClientSession, given: Arguments) -> None:
    _only(given, "timeoutMS")
    await session.commit_transaction(timeout_ms=given.get("timeoutMS"))


async def _abort_transaction(session: ClientSession, given: Arguments) -> None:
    _only(given, "timeoutMS")
    await session.abort_transaction(timeout_ms=given.get("timeoutMS"))


async def _with_transaction(session: ClientSession, given: Arguments) -> None:
    """Hand the driver its own errors back, of which the runner's callback raises reports."""

    async def callback(_session: ClientSession) -> None:
        try:
            await given["callback"]()
        except OperationFailed as failed:
            if isinstance(failed.__cause__, DriverError):
                raise failed.__cause__ from None
            raise

    options = {name: value for name, value in given.items() if name not in ("callback", "timeoutMS")}
    await session.with_transaction(
        callback, timeout_ms=given.get("timeoutMS"), **transaction_options(options)
    )


async def _snapshot_time(session: ClientSession, given: Arguments) -> Any:
    _only(given)
    return session.snapshot_time


async def _iterate(cursor: Cursor | ChangeStream, given: Arguments) -> Any:
    _only(given)
    document = await cursor.next()
    if document is not None:
        return document
    raise OperationFailed(ErrorReport("the cursor has no more documents", is_client_error=True))


async def _iterate_once(cursor: Cursor | ChangeStream, given: Arguments) -> Any:
    _only(given)
    return await cursor.try_next()


async def _close_cursor(cursor: Cursor | ChangeStream, given: Arguments) -> None:
    _only(given, "timeoutMS")
    await cursor.aclose(timeout_ms=given.get("timeoutMS"))


CLIENT: Final[Mapping[str, Handler]] = {
    "appendMetadata": _append_metadata,
    "clientBulkWrite": _client_bulk_write,
    "close": _close_client,
    "createChangeStream": Call(AsyncClient.watch, "watch", ("pipeline",)),
    "dropDatabase": _drop_database,
    "listDatabaseNames": Call(AsyncClient.list_database_names, "listDatabases"),
    "listDatabaseObjects": Call(AsyncClient.list_databases, "listDatabases"),
    "listDatabases": Call(AsyncClient.list_databases, "listDatabases"),
}

DATABASE: Final[Mapping[str, Handler]] = {
    "aggregate": Call(Database.aggregate, "aggregate", ("pipeline",)),
    "createChangeStream": Call(Database.watch, "watch", ("pipeline",)),
    "createCollection": _create_collection,
    "createCommandCursor": _create_command_cursor,
    "dropCollection": Call(Database.drop_collection, "drop", ("collection",)),
    "listCollectionNames": Call(Database.list_collection_names, "listCollections"),
    "listCollectionObjects": Call(Database.list_collections, "listCollections"),
    "listCollections": Call(Database.list_collections, "listCollections"),
    "modifyCollection": Call(Database.modify_collection, "modifyCollection", ("collection",)),
    "runCommand": _run_command,
    "runCursorCommand": _run_cursor_command,
}

COLLECTION: Final[Mapping[str, Handler]] = {
    "aggregate": Call(Collection.aggregate, "aggregate", ("pipeline",)),
    "bulkWrite": _bulk_write,
    "count": Call(Collection.count, "count", (), ("filter",)),
    "countDocuments": Call(Collection.count_documents, "countDocuments", ("filter",)),
    "createChangeStream": Call(Collection.watch, "watch", ("pipeline",)),
    "createFindCursor": Call(Collection.find, "find", ("filter",), (), _itself),
    "createIndex": _create_index,
    "createSearchIndex": Call(Collection.create_search_index, None, ("model",)),
    "createSearchIndexes": Call(Collection.create_search_indexes, None, ("models",)),
    "deleteMany": Call(Collection.delete_many, "deleteMany", ("filter",), (), results.deleted),
    "deleteOne": Call(Collection.delete_one, "deleteOne", ("filter",), (), results.deleted),
    "distinct": Call(Collection.distinct, "distinct", ("fieldName",), ("filter",)),
    "drop": Call(Collection.drop, "drop"),
    "dropIndex": Call(Collection.drop_index, "dropIndexes", ("name",)),
    "dropIndexes": Call(Collection.drop_indexes, "dropIndexes"),
    "dropSearchIndex": Call(Collection.drop_search_index, None, ("name",)),
    "estimatedDocumentCount": Call(Collection.estimated_document_count, "estimatedDocumentCount"),
    "find": Call(Collection.find, "find", ("filter",)),
    "findOne": Call(Collection.find_one, "find", (), ("filter",)),
    "findOneAndDelete": Call(Collection.find_one_and_delete, "findOneAndDelete", ("filter",)),
    "findOneAndReplace": Call(
        Collection.find_one_and_replace, "findOneAndReplace", ("filter", "replacement")
    ),
    "findOneAndUpdate": Call(Collection.find_one_and_update, "findOneAndUpdate", ("filter", "update")),
    "insertMany": Call(Collection.insert_many, "insertMany", ("documents",), (), results.inserted_many),
    "insertOne": Call(Collection.insert_one, "insertOne", ("document",), (), results.inserted_one),
    "listIndexNames": Call(Collection.list_index_names, "listIndexes"),
    "listIndexes": Call(Collection.list_indexes, "listIndexes"),
    "listSearchIndexes": _list_search_indexes,
    "mapReduce": _map_reduce,
    "rename": _rename,
    "replaceOne": Call(Collection.replace_one, "replaceOne", ("filter", "replacement"), (), results.updated),
    "updateMany": Call(Collection.update_many, "updateMany", ("filter", "update"), (), results.updated),
    "updateOne": Call(Collection.update_one, "updateOne", ("filter", "update"), (), results.updated),
    "updateSearchIndex": Call(Collection.update_search_index, None, ("name", "definition")),
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
