"""PyMongo's API as a table: operation of the format to method, arguments and result.

One table serves both of PyMongo's APIs, whose methods have the same names: what a method returns is awaited
where it has to be (`settled`), so over the blocking API a handler runs to its end without a pause.

A line of a table has the method's name, the arguments that it takes, and the function that makes its result
what `expectResult` describes. Functions above the tables are for operations that are more than one call, or
whose arguments have to be taken apart. What PyMongo lacks has a line with the reason, which a skipped case
shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Invocation, UnsupportedOperation
from harness.adapters.pymongo import results
from harness.adapters.pymongo.arguments import (
    NO_CURSOR_TIMEOUT,
    PeekedCursor,
    PyMongoMethod,
    absent,
    drained,
    index_models,
    names,
    nothing,
    plain,
    search_index,
    settled,
    snake,
    timeout,
    write_concern,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    Handler = Callable[[Invocation[Any]], Coroutine[Any, Any, Any]]


async def _iterate(call: Invocation[Any]) -> Any:
    return await call.target.next()


async def _iterate_once(call: Invocation[Any]) -> Any:
    return await call.target.try_next()


async def _close(call: Invocation[Any]) -> None:
    with timeout(call.arguments):
        await call.target.close()


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


async def _started(cursor: Any) -> PeekedCursor:
    # The format's cursor exists on the server once it is created: a fail point may be set between that and
    # the first iteration.
    ahead = PeekedCursor(cursor)
    await ahead.start()
    return ahead


async def _created(cursor: Any) -> PeekedCursor:
    """Return a cursor whose command has been sent already."""
    return PeekedCursor(cursor)


async def _run_command(call: Invocation[Any]) -> Any:
    arguments = {**call.without("commandName"), "command": _named_first(call.arguments)}
    run = PyMongoMethod("command", names("command readPreference session"))
    return await run(replace(call, arguments=arguments))


def _named_first(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command with its name as the first field, whatever its order in the file."""
    command: dict[str, Any] = arguments["command"]
    name = arguments.get("commandName") or next(iter(command))
    return {name: command[name], **command}


async def _cursor_command(call: Invocation[Any]) -> Any:
    """Run a command that returns a cursor. The arguments beside the command are for the getMores.

    PyMongo sees in a cursor's batches, not in `cursorType`, whether more may come.
    """
    arguments = {
        name: value for name, value in call.arguments.items() if name in ("session", "readPreference")
    }
    arguments |= {"command": _named_first(call.arguments)}
    wait_ms = call.arguments.get("maxTimeMS", call.arguments.get("maxAwaitTimeMS"))
    if "timeoutMode" in call.arguments:
        raise absent("timeoutMode")
    more = {"maxAwaitTimeMS": wait_ms} if wait_ms is not None else {}
    more |= {name: call.arguments[name] for name in ("comment", "timeoutMS") if name in call.arguments}
    run = PyMongoMethod("cursor_command", names("command readPreference session comment maxAwaitTimeMS"))
    cursor = await run(replace(call, arguments={**arguments, **more}))
    return cursor.batch_size(call.arguments["batchSize"]) if "batchSize" in call.arguments else cursor


async def _run_cursor_command(call: Invocation[Any]) -> Any:
    with timeout(call.arguments):
        return await drained(await _cursor_command(call))


async def _create_command_cursor(call: Invocation[Any]) -> PeekedCursor:
    if "timeoutMS" in call.arguments:
        raise UnsupportedOperation(NO_CURSOR_TIMEOUT)
    return PeekedCursor(await _cursor_command(call))


async def _create_collection(call: Invocation[Any]) -> Any:
    # Without the check, which is a listCollections that scenarios with command events do not expect.
    keywords: dict[str, Any] = {**call.arguments, "check_exists": False}
    name = keywords.pop("collection")
    if "writeConcern" in keywords:
        keywords["write_concern"] = write_concern(keywords.pop("writeConcern"))
    with timeout(keywords):
        keywords.pop("timeoutMS", None)
        return await settled(call.target.create_collection(name, **keywords))


async def _modify_collection(call: Invocation[Any]) -> Any:
    options = call.without("collection", "session")
    command = {"collMod": call.arguments["collection"], **options}
    return await settled(call.target.command(command, session=call.arguments.get("session")))


def _list_collections(database: Any, **keywords: Any) -> Any:
    """PyMongo passes on what it does not know, so a batch size is the command's own `cursor.batchSize`."""
    if "batchSize" in keywords:
        keywords["cursor"] = {"batchSize": keywords.pop("batchSize")}
    return database.list_collections(**keywords)


async def _rename(call: Invocation[Any]) -> Any:
    options = call.without("to", "session")
    return await settled(
        call.target.rename(call.arguments["to"], session=call.arguments.get("session"), **options)
    )


async def _create_search_index(call: Invocation[Any]) -> Any:
    return await settled(call.target.create_search_index(search_index(call.arguments["model"])))


async def _create_search_indexes(call: Invocation[Any]) -> Any:
    return await settled(
        call.target.create_search_indexes([search_index(model) for model in call.arguments["models"]])
    )


async def _list_search_indexes(call: Invocation[Any]) -> Any:
    options = call.arguments.get("aggregationOptions") or {}
    return await drained(
        await settled(call.target.list_search_indexes(call.arguments.get("name"), **options))
    )


async def _create_indexes(call: Invocation[Any]) -> Any:
    options = call.without("models")
    return await settled(call.target.create_indexes(index_models(call.arguments["models"]), **options))


async def _with_transaction(call: Invocation[Any]) -> None:
    options = call.without("callback", "timeoutMS")
    with timeout(call.arguments):
        await settled(
            call.target.with_transaction(call.arguments["callback"], **snake(options, _TRANSACTION))
        )


_TRANSACTION: Final = names("readConcern writeConcern readPreference", maxCommitTimeMS="max_commit_time_ms")


async def _snapshot_time(call: Invocation[Any]) -> Any:
    if not hasattr(call.target, "snapshot_time"):
        raise UnsupportedOperation("PyMongo does not show a session's snapshot time")
    return call.target.snapshot_time


async def _download(call: Invocation[Any]) -> Any:
    with timeout(call.arguments):
        stream = await settled(call.target.open_download_stream(call.arguments["id"]))
        return await settled(stream.read())


async def _download_by_name(call: Invocation[Any]) -> Any:
    with timeout(call.arguments):
        stream = await settled(
            call.target.open_download_stream_by_name(
                call.arguments["filename"], call.arguments.get("revision", -1)
            )
        )
        return await settled(stream.read())


async def _drop_bucket(call: Invocation[Any]) -> None:
    """PyMongo's buckets cannot be dropped: their two collections can, within one time limit for both."""
    files, chunks = call.target._files, call.target._chunks  # noqa: SLF001  # as PyMongo's own suite does
    limit = files.database.client.options.timeout
    with timeout({"timeoutMS": None if limit is None else limit * 1000, **call.arguments}):
        await settled(files.drop())
        await settled(chunks.drop())


def _metadata(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """PyMongo keeps what the format's uploads give beside the name and the bytes in the metadata."""
    if "contentType" in arguments:
        raise UnsupportedOperation("PyMongo's bucket has no contentType")
    options = {name: value for name, value in arguments.items() if name in ("chunkSizeBytes", "metadata")}
    return snake(options, names("chunkSizeBytes metadata"))


async def _upload(call: Invocation[Any]) -> Any:
    with timeout(call.arguments):
        return await settled(
            call.target.upload_from_stream(
                call.arguments["filename"], call.arguments["source"], **_metadata(call.arguments)
            )
        )


async def _upload_with_id(call: Invocation[Any]) -> None:
    with timeout(call.arguments):
        await settled(
            call.target.upload_from_stream_with_id(
                call.arguments["id"],
                call.arguments["filename"],
                call.arguments["source"],
                **_metadata(call.arguments),
            )
        )


def _unsupported(reason: str) -> Handler:
    async def refuse(_call: Invocation[Any]) -> Any:
        raise UnsupportedOperation(f"PyMongo {reason}")

    return refuse


CLIENT: Final[Mapping[str, Handler]] = {
    "listDatabases": PyMongoMethod(
        "list_databases",
        names("session comment", "filter nameOnly authorizedDatabases"),
        drained,
    ),
    "listDatabaseNames": PyMongoMethod("list_database_names", names("session comment")),
    "listDatabaseObjects": _unsupported(
        "lists databases as names or as documents, not as objects (expected to fail by its own suite)"
    ),
    "dropDatabase": PyMongoMethod(
        "drop_database", names("session comment", database="name_or_database"), nothing
    ),
    "createChangeStream": PyMongoMethod("watch", _WATCH, _created, takes_timeout=False),
    "clientBulkWrite": PyMongoMethod(
        "bulk_write",
        names("models session ordered verboseResults bypassDocumentValidation comment let writeConcern"),
        plain(results.client_bulk_written),
    ),
    "appendMetadata": PyMongoMethod("append_metadata", names("", driverInfoOptions="driver_info"), nothing),
}

DATABASE: Final[Mapping[str, Handler]] = {
    "runCommand": _run_command,
    "runCursorCommand": _run_cursor_command,
    "createCommandCursor": _create_command_cursor,
    "aggregate": PyMongoMethod("aggregate", _AGGREGATE, drained),
    "listCollections": PyMongoMethod(
        _list_collections,
        names("session filter comment", "nameOnly authorizedCollections batchSize"),
        drained,
    ),
    "listCollectionNames": PyMongoMethod(
        "list_collection_names", names("session filter comment", "authorizedCollections")
    ),
    "listCollectionObjects": _unsupported(
        "lists collections as names or as documents, not as objects (expected to fail by its own suite)"
    ),
    "createCollection": _create_collection,
    "dropCollection": PyMongoMethod(
        "drop_collection",
        names("session comment encryptedFields", collection="name_or_collection"),
        nothing,
    ),
    "modifyCollection": _modify_collection,
    "createChangeStream": PyMongoMethod("watch", _WATCH, _created, takes_timeout=False),
}

COLLECTION: Final[Mapping[str, Handler]] = {
    "insertOne": PyMongoMethod(
        "insert_one",
        names("document bypassDocumentValidation session comment"),
        plain(results.inserted_one),
    ),
    "insertMany": PyMongoMethod(
        "insert_many",
        names("documents ordered bypassDocumentValidation session comment"),
        plain(results.inserted_many),
    ),
    "updateOne": PyMongoMethod(
        "update_one",
        names(f"sort {_UPDATE}"),
        plain(results.updated),
    ),
    "updateMany": PyMongoMethod(
        "update_many",
        names(
            "filter update upsert bypassDocumentValidation collation arrayFilters hint session let comment"
        ),
        plain(results.updated),
    ),
    "replaceOne": PyMongoMethod(
        "replace_one",
        names("filter replacement upsert bypassDocumentValidation collation hint session let sort comment"),
        plain(results.updated),
    ),
    "deleteOne": PyMongoMethod(
        "delete_one",
        names("filter collation hint session let comment"),
        plain(results.deleted),
    ),
    "deleteMany": PyMongoMethod(
        "delete_many",
        names("filter collation hint session let comment"),
        plain(results.deleted),
    ),
    "findOneAndDelete": PyMongoMethod("find_one_and_delete", names(_FIND_AND_MODIFY, _AS_COMMAND)),
    "findOneAndUpdate": PyMongoMethod(
        "find_one_and_update",
        names(f"update arrayFilters upsert returnDocument {_FIND_AND_MODIFY}", _AS_COMMAND),
    ),
    "findOneAndReplace": PyMongoMethod(
        "find_one_and_replace",
        names(f"replacement upsert returnDocument {_FIND_AND_MODIFY}", _AS_COMMAND),
    ),
    "find": PyMongoMethod(_find_cursor, {**_FIND, "maxAwaitTimeMS": "max_await_time_ms"}, drained),
    "findOne": PyMongoMethod("find_one", _FIND),
    "createFindCursor": PyMongoMethod(
        _find_cursor, {**_FIND, "maxAwaitTimeMS": "max_await_time_ms"}, _started, takes_timeout=False
    ),
    "aggregate": PyMongoMethod("aggregate", _AGGREGATE, drained),
    "bulkWrite": PyMongoMethod(
        "bulk_write",
        names("requests ordered bypassDocumentValidation session comment let"),
        plain(results.bulk_written),
    ),
    "countDocuments": PyMongoMethod(
        "count_documents",
        names("filter session comment", "skip limit collation hint maxTimeMS"),
    ),
    "estimatedDocumentCount": PyMongoMethod("estimated_document_count", names("comment", "maxTimeMS")),
    "distinct": PyMongoMethod(
        "distinct",
        names("filter session comment hint", "maxTimeMS collation", fieldName="key"),
    ),
    "count": _unsupported("has removed count (skipped by its own suite too)"),
    "mapReduce": _unsupported("has removed mapReduce (expected to fail by its own suite)"),
    "createIndex": PyMongoMethod(
        "create_index",
        names(
            "keys session comment",
            "name unique background sparse bucketSize expireAfterSeconds partialFilterExpression collation"
            " wildcardProjection hidden maxTimeMS commitQuorum weights default_language language_override",
        ),
    ),
    "createIndexes": _create_indexes,
    "dropIndex": PyMongoMethod(
        "drop_index", names("session comment", "maxTimeMS", name="index_or_name"), nothing
    ),
    "dropIndexes": PyMongoMethod("drop_indexes", names("session comment", "maxTimeMS"), nothing),
    "listIndexes": PyMongoMethod("list_indexes", names("session comment"), drained),
    "listIndexNames": _unsupported("has no list of index names (skipped by its own suite too)"),
    "createSearchIndex": _create_search_index,
    "createSearchIndexes": _create_search_indexes,
    "listSearchIndexes": _list_search_indexes,
    "updateSearchIndex": PyMongoMethod("update_search_index", names("name definition"), nothing),
    "dropSearchIndex": PyMongoMethod("drop_search_index", names("name"), nothing),
    "drop": PyMongoMethod("drop", names("session comment encryptedFields"), nothing),
    "rename": _rename,
    "createChangeStream": PyMongoMethod("watch", _WATCH, _created, takes_timeout=False),
}

SESSION: Final[Mapping[str, Handler]] = {
    "startTransaction": PyMongoMethod("start_transaction", _TRANSACTION, nothing),
    "commitTransaction": PyMongoMethod("commit_transaction", {}, nothing),
    "abortTransaction": PyMongoMethod("abort_transaction", {}, nothing),
    "withTransaction": _with_transaction,
    "endSession": PyMongoMethod("end_session", {}, nothing),
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
    "find": PyMongoMethod("find", _FIND, _found_files),
    "download": _download,
    "downloadByName": _download_by_name,
    "upload": _upload,
    "uploadWithId": _upload_with_id,
    "delete": PyMongoMethod("delete", names("", id="file_id"), nothing),
    "deleteByName": PyMongoMethod("delete_by_name", names("filename"), nothing),
    "rename": PyMongoMethod("rename", names("newFilename", id="file_id"), nothing),
    "renameByName": PyMongoMethod("rename_by_name", names("filename newFilename"), nothing),
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
