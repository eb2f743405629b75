"""PyMongo's API as a table: operation of the format to method, arguments and result.

One table serves both of PyMongo's APIs, whose methods have the same names: what a method returns is awaited
where it has to be (`settled`), so over the blocking API a handler runs to its end without a pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters import pymongo_results as results
from harness.adapters.base import EntityKind, UnsupportedOperation
from harness.adapters.pymongo_arguments import (
    absent,
    index_models,
    names,
    search_index,
    snake,
    write_concern,
)
from harness.adapters.pymongo_calls import (
    NO_CURSOR_TIMEOUT,
    Call,
    Cursor,
    drained,
    nothing,
    plain,
    settled,
    timeout,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    Handler = Callable[[Any, Mapping[str, Any]], Coroutine[Any, Any, Any]]


async def _iterate(cursor: Any, given: Mapping[str, Any]) -> Any:
    del given
    return await cursor.next()


async def _iterate_once(cursor: Any, given: Mapping[str, Any]) -> Any:
    del given
    return await cursor.try_next()


async def _close(handle: Any, given: Mapping[str, Any]) -> None:
    with timeout(given):
        await handle.close()


_FIND: Final = names(
    "filter projection skip limit sort allowPartialResults batchSize collation hint maxTimeMS max min"
    " returnKey showRecordId comment session allowDiskUse let cursorType noCursorTimeout oplogReplay"
)
_AGGREGATE: Final = names(
    "pipeline session let comment",
    "allowDiskUse maxTimeMS batchSize collation hint bypassDocumentValidation maxAwaitTimeMS",
)
_UPDATE: Final = (
    "filter update upsert bypassDocumentValidation collation arrayFilters hint session let comment"
)
_FIND_AND_MODIFY: Final = "filter projection sort hint session let comment"
_AS_COMMAND: Final = "maxTimeMS collation bypassDocumentValidation"
_WATCH: Final = names(
    "pipeline fullDocument resumeAfter maxAwaitTimeMS batchSize collation startAtOperationTime session"
    " startAfter comment fullDocumentBeforeChange showExpandedEvents"
)


def _find_cursor(collection: Any, **keywords: Any) -> Any:
    wait_ms = keywords.pop("max_await_time_ms", None)
    cursor = collection.find(**keywords)
    return cursor if wait_ms is None else cursor.max_await_time_ms(wait_ms)


async def _started(cursor: Any) -> Cursor:
    ahead = Cursor(cursor)
    await ahead.start()
    return ahead


async def _created(cursor: Any) -> Cursor:
    """Return a cursor whose command has been sent already."""
    return Cursor(cursor)


async def _run_command(database: Any, given: Mapping[str, Any]) -> Any:
    """Run a command. Its name comes first, whatever its order in the file."""
    arguments = {name: value for name, value in given.items() if name not in ("command", "commandName")}
    arguments["command"] = _ordered(given)
    return await Call("command", names("command readPreference session"))(database, arguments)


def _ordered(given: Mapping[str, Any]) -> dict[str, Any]:
    command: dict[str, Any] = given["command"]
    name = given.get("commandName") or next(iter(command))
    return {name: command[name], **command}


async def _cursor_command(database: Any, given: Mapping[str, Any]) -> Any:
    """Run a command that returns a cursor. What is given beside the command is for the getMores.

    PyMongo sees in a cursor's batches, not in `cursorType`, whether more may come.
    """
    arguments = {name: value for name, value in given.items() if name in ("session", "readPreference")}
    arguments |= {"command": _ordered(given)}
    wait_ms = given.get("maxTimeMS", given.get("maxAwaitTimeMS"))
    if "timeoutMode" in given:
        raise absent("timeoutMode")
    more = {"maxAwaitTimeMS": wait_ms} if wait_ms is not None else {}
    more |= {name: given[name] for name in ("comment", "timeoutMS") if name in given}
    call = Call("cursor_command", names("command readPreference session comment maxAwaitTimeMS"))
    cursor = await call(database, {**arguments, **more})
    return cursor.batch_size(given["batchSize"]) if "batchSize" in given else cursor


async def _run_cursor_command(database: Any, given: Mapping[str, Any]) -> Any:
    with timeout(given):
        return await drained(await _cursor_command(database, given))


async def _create_command_cursor(database: Any, given: Mapping[str, Any]) -> Cursor:
    if "timeoutMS" in given:
        raise UnsupportedOperation(NO_CURSOR_TIMEOUT)
    return Cursor(await _cursor_command(database, given))


async def _create_collection(database: Any, given: Mapping[str, Any]) -> Any:
    keywords: dict[str, Any] = {**given, "check_exists": False}
    name = keywords.pop("collection")
    if "writeConcern" in keywords:
        keywords["write_concern"] = write_concern(keywords.pop("writeConcern"))
    with timeout(keywords):
        keywords.pop("timeoutMS", None)
        return await settled(database.create_collection(name, **keywords))


async def _modify_collection(database: Any, given: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in given.items() if name not in ("collection", "session")}
    command = {"collMod": given["collection"], **options}
    return await settled(database.command(command, session=given.get("session")))


def _list_collections(database: Any, **keywords: Any) -> Any:
    """PyMongo passes on what it does not know, so a batch size is the command's own `cursor.batchSize`."""
    if "batchSize" in keywords:
        keywords["cursor"] = {"batchSize": keywords.pop("batchSize")}
    return database.list_collections(**keywords)


async def _rename(collection: Any, given: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in given.items() if name not in ("to", "session")}
    return await settled(collection.rename(given["to"], session=given.get("session"), **options))


async def _create_search_index(collection: Any, given: Mapping[str, Any]) -> Any:
    return await settled(collection.create_search_index(search_index(given["model"])))


async def _create_search_indexes(collection: Any, given: Mapping[str, Any]) -> Any:
    return await settled(collection.create_search_indexes([search_index(model) for model in given["models"]]))


async def _list_search_indexes(collection: Any, given: Mapping[str, Any]) -> Any:
    options = given.get("aggregationOptions") or {}
    return await drained(await settled(collection.list_search_indexes(given.get("name"), **options)))


async def _create_indexes(collection: Any, given: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in given.items() if name != "models"}
    return await settled(collection.create_indexes(index_models(given["models"]), **options))


async def _with_transaction(session: Any, given: Mapping[str, Any]) -> None:
    options = {name: value for name, value in given.items() if name not in ("callback", "timeoutMS")}
    with timeout(given):
        await settled(session.with_transaction(given["callback"], **snake(options, _TRANSACTION)))


_TRANSACTION: Final = names("readConcern writeConcern readPreference", maxCommitTimeMS="max_commit_time_ms")


async def _snapshot_time(session: Any, given: Mapping[str, Any]) -> Any:
    del given
    if not hasattr(session, "snapshot_time"):
        raise UnsupportedOperation("PyMongo does not show a session's snapshot time")
    return session.snapshot_time


async def _download(bucket: Any, given: Mapping[str, Any]) -> Any:
    with timeout(given):
        stream = await settled(bucket.open_download_stream(given["id"]))
        return await settled(stream.read())


async def _download_by_name(bucket: Any, given: Mapping[str, Any]) -> Any:
    with timeout(given):
        stream = await settled(
            bucket.open_download_stream_by_name(given["filename"], given.get("revision", -1))
        )
        return await settled(stream.read())


async def _drop_bucket(bucket: Any, given: Mapping[str, Any]) -> None:
    """PyMongo's buckets cannot be dropped: their two collections can, within one time limit for both."""
    files, chunks = bucket._files, bucket._chunks  # noqa: SLF001  # as PyMongo's own suite does
    limit = files.database.client.options.timeout
    with timeout({"timeoutMS": None if limit is None else limit * 1000, **given}):
        await settled(files.drop())
        await settled(chunks.drop())


def _metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    """PyMongo keeps what the format's uploads give beside the name and the bytes in the metadata."""
    if "contentType" in given:
        raise UnsupportedOperation("PyMongo's bucket has no contentType")
    options = {name: value for name, value in given.items() if name in ("chunkSizeBytes", "metadata")}
    return snake(options, names("chunkSizeBytes metadata"))


async def _upload(bucket: Any, given: Mapping[str, Any]) -> Any:
    with timeout(given):
        return await settled(
            bucket.upload_from_stream(given["filename"], given["source"], **_metadata(given))
        )


async def _upload_with_id(bucket: Any, given: Mapping[str, Any]) -> None:
    with timeout(given):
        await settled(
            bucket.upload_from_stream_with_id(
                given["id"], given["filename"], given["source"], **_metadata(given)
            )
        )


def _unsupported(reason: str) -> Handler:
    async def refuse(handle: Any, given: Mapping[str, Any]) -> Any:
        del handle, given
        raise UnsupportedOperation(f"PyMongo {reason}")

    return refuse


CLIENT: Final[Mapping[str, Handler]] = {
    "listDatabases": Call(
        "list_databases",
        names("session comment", "filter nameOnly authorizedDatabases"),
        drained,
    ),
    "listDatabaseNames": Call("list_database_names", names("session comment")),
    "listDatabaseObjects": _unsupported(
        "lists databases as names or as documents, not as objects (expected to fail by its own suite)"
    ),
    "dropDatabase": Call("drop_database", names("session comment", database="name_or_database"), nothing),
    "createChangeStream": Call("watch", _WATCH, _created, takes_timeout=False),
    "clientBulkWrite": Call(
        "bulk_write",
        names("models session ordered verboseResults bypassDocumentValidation comment let writeConcern"),
        plain(results.client_bulk_written),
    ),
    "appendMetadata": Call("append_metadata", names("", driverInfoOptions="driver_info"), nothing),
}

DATABASE: Final[Mapping[str, Handler]] = {
    "runCommand": _run_command,
    "runCursorCommand": _run_cursor_command,
    "createCommandCursor": _create_command_cursor,
    "aggregate": Call("aggregate", _AGGREGATE, drained),
    "listCollections": Call(
        _list_collections,
        names("session filter comment", "nameOnly authorizedCollections batchSize"),
        drained,
    ),
    "listCollectionNames": Call(
        "list_collection_names", names("session filter comment", "authorizedCollections")
    ),
    "listCollectionObjects": _unsupported(
        "lists collections as names or as documents, not as objects (expected to fail by its own suite)"
    ),
    "createCollection": _create_collection,
    "dropCollection": Call(
        "drop_collection",
        names("session comment encryptedFields", collection="name_or_collection"),
        nothing,
    ),
    "modifyCollection": _modify_collection,
    "createChangeStream": Call("watch", _WATCH, _created, takes_timeout=False),
}

COLLECTION: Final[Mapping[str, Handler]] = {
    "insertOne": Call(
        "insert_one",
        names("document bypassDocumentValidation session comment"),
        plain(results.inserted_one),
    ),
    "insertMany": Call(
        "insert_many",
        names("documents ordered bypassDocumentValidation session comment"),
        plain(results.inserted_many),
    ),
    "updateOne": Call(
        "update_one",
        names(f"sort {_UPDATE}"),
        plain(results.updated),
    ),
    "updateMany": Call(
        "update_many",
        names(
            "filter update upsert bypassDocumentValidation collation arrayFilters hint session let comment"
        ),
        plain(results.updated),
    ),
    "replaceOne": Call(
        "replace_one",
        names("filter replacement upsert bypassDocumentValidation collation hint session let sort comment"),
        plain(results.updated),
    ),
    "deleteOne": Call(
        "delete_one",
        names("filter collation hint session let comment"),
        plain(results.deleted),
    ),
    "deleteMany": Call(
        "delete_many",
        names("filter collation hint session let comment"),
        plain(results.deleted),
    ),
    "findOneAndDelete": Call("find_one_and_delete", names(_FIND_AND_MODIFY, _AS_COMMAND)),
    "findOneAndUpdate": Call(
        "find_one_and_update",
        names(f"update arrayFilters upsert returnDocument {_FIND_AND_MODIFY}", _AS_COMMAND),
    ),
    "findOneAndReplace": Call(
        "find_one_and_replace",
        names(f"replacement upsert returnDocument {_FIND_AND_MODIFY}", _AS_COMMAND),
    ),
    "find": Call(_find_cursor, {**_FIND, "maxAwaitTimeMS": "max_await_time_ms"}, drained),
    "findOne": Call("find_one", _FIND),
    "createFindCursor": Call(
        _find_cursor, {**_FIND, "maxAwaitTimeMS": "max_await_time_ms"}, _started, takes_timeout=False
    ),
    "aggregate": Call("aggregate", _AGGREGATE, drained),
    "bulkWrite": Call(
        "bulk_write",
        names("requests ordered bypassDocumentValidation session comment let"),
        plain(results.bulk_written),
    ),
    "countDocuments": Call(
        "count_documents",
        names("filter session comment", "skip limit collation hint maxTimeMS"),
    ),
    "estimatedDocumentCount": Call("estimated_document_count", names("comment", "maxTimeMS")),
    "distinct": Call(
        "distinct",
        names("filter session comment hint", "maxTimeMS collation", fieldName="key"),
    ),
    "count": _unsupported("has removed count (skipped by its own suite too)"),
    "mapReduce": _unsupported("has removed mapReduce (expected to fail by its own suite)"),
    "createIndex": Call(
        "create_index",
        names(
            "keys session comment",
            "name unique background sparse bucketSize expireAfterSeconds partialFilterExpression collation"
            " wildcardProjection hidden maxTimeMS commitQuorum weights default_language language_override",
        ),
    ),
    "createIndexes": _create_indexes,
    "dropIndex": Call("drop_index", names("session comment", "maxTimeMS", name="index_or_name"), nothing),
    "dropIndexes": Call("drop_indexes", names("session comment", "maxTimeMS"), nothing),
    "listIndexes": Call("list_indexes", names("session comment"), drained),
    "listIndexNames": _unsupported("has no list of index names (skipped by its own suite too)"),
    "createSearchIndex": _create_search_index,
    "createSearchIndexes": _create_search_indexes,
    "listSearchIndexes": _list_search_indexes,
    "updateSearchIndex": Call("update_search_index", names("name definition"), nothing),
    "dropSearchIndex": Call("drop_search_index", names("name"), nothing),
    "drop": Call("drop", names("session comment encryptedFields"), nothing),
    "rename": _rename,
    "createChangeStream": Call("watch", _WATCH, _created, takes_timeout=False),
}

SESSION: Final[Mapping[str, Handler]] = {
    "startTransaction": Call("start_transaction", _TRANSACTION, nothing),
    "commitTransaction": Call("commit_transaction", {}, nothing),
    "abortTransaction": Call("abort_transaction", {}, nothing),
    "withTransaction": _with_transaction,
    "endSession": Call("end_session", {}, nothing),
    "getSnapshotTime": _snapshot_time,
}

CURSOR: Final[Mapping[str, Handler]] = {
    "iterateUntilDocumentOrError": _iterate,
    "iterateOnce": _iterate_once,
    "close": _close,
}


async def _found_files(cursor: Any) -> list[dict[str, Any]]:
    """Return the documents behind PyMongo's files, which would read on where one compares them."""
    return [dict(file._file) for file in await drained(cursor)]  # noqa: SLF001  # no public name


BUCKET: Final[Mapping[str, Handler]] = {
    "find": Call("find", _FIND, _found_files),
    "download": _download,
    "downloadByName": _download_by_name,
    "upload": _upload,
    "uploadWithId": _upload_with_id,
    "delete": Call("delete", names("", id="file_id"), nothing),
    "deleteByName": Call("delete_by_name", names("filename"), nothing),
    "rename": Call("rename", names("newFilename", id="file_id"), nothing),
    "renameByName": Call("rename_by_name", names("filename newFilename"), nothing),
    "drop": _drop_bucket,
}

OPERATIONS: Final[Mapping[EntityKind, Mapping[str, Handler]]] = {
    EntityKind.CLIENT: CLIENT,
    EntityKind.DATABASE: DATABASE,
    EntityKind.COLLECTION: COLLECTION,
    EntityKind.SESSION: SESSION,
    EntityKind.FIND_CURSOR: CURSOR,
    EntityKind.COMMAND_CURSOR: CURSOR,
    EntityKind.CHANGE_STREAM: CURSOR,
    EntityKind.BUCKET: BUCKET,
}
