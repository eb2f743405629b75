"""The arguments of operations: the type of each, and the sentence that an editor shows for it.

An argument has the same type in all operations, except where `operation.argument` stands in the table.

Unified Test Format: Executing an Operation. CRUD, Index Management, GridFS: the options of each operation.

A type is judged by `wrong_type` after Extended JSON was decoded, and by a JSON Schema in editors before: each
`ValueType` has both, which must agree on everything that is not Extended JSON. The loader refuses no wrong
type: lint does, before a run, and the runner only where it uses a value itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson.decimal128 import Decimal128

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.unified.schema.notation import Schema


# The types of values inside arguments and fail points: what is accepted, in words and as JSON Schema.
#
# Values are as a loaded scenario holds them, with Extended JSON decoded. In a file any of them may also be
# written in Extended JSON, which is a mapping: schemas for editors allow one.


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type: the noun for a message, the test of a decoded value, and the schema of a written one."""

    noun: str
    accepts: Callable[[Any], bool]
    schema: Schema


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and (
        # 1.0 is an integer too: JSON has one type of number, and files in it write either.
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float, Decimal128))


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def list_of(inner: ValueType, noun: str) -> ValueType:
    """Return the type of a list whose elements have a type."""
    return ValueType(
        noun,
        lambda value: isinstance(value, list) and all(map(inner.accepts, value)),
        {"type": "array", "items": inner.schema},
    )


def one_of(*words: str, any_case: bool = False) -> ValueType:
    """Return the type of a string that is one of some words."""
    known = {word.lower() for word in words} if any_case else set(words)
    return ValueType(
        f"one of {', '.join(words)}",
        lambda value: isinstance(value, str) and (value.lower() if any_case else value) in known,
        # JSON Schema has no enumeration without case; editors check less than lint there.
        {"type": "string"} if any_case else {"type": "string", "enum": list(words)},
    )


ANY: Final = ValueType("any value", lambda _: True, {})
BOOLEAN: Final = ValueType("true or false", _of(bool), {"type": "boolean"})
DOCUMENT: Final = ValueType("a document", _of(dict), {"type": "object"})
INTEGER: Final = ValueType("an integer", _is_integer, {"type": ["integer", "object"]})
NUMBER: Final = ValueType("a number", _is_number, {"type": ["number", "object"]})
NUMBER_OR_NULL: Final = ValueType(
    "a number or null",
    lambda value: value is None or _is_number(value),
    {"type": ["number", "object", "null"]},
)
STRING: Final = ValueType("a string", _of(str), {"type": ["string", "object"]})
WORD: Final = ValueType("a string", _of(str), {"type": "string"})
"""A string that no Extended JSON can stand for: a name."""

LIST: Final = ValueType("a list", _of(list), {"type": "array"})
DOCUMENTS: Final = list_of(DOCUMENT, "a list of documents")
WORDS: Final = list_of(WORD, "a list of strings")
DOCUMENT_OR_DOCUMENTS: Final = ValueType(
    "a document or a list of documents",
    lambda value: isinstance(value, dict) or DOCUMENTS.accepts(value),
    {"type": ["object", "array"]},
)
DOCUMENT_OR_STRING: Final = ValueType(
    "a document or a string", _of(dict, str), {"type": ["object", "string"]}
)
STRING_OR_INTEGER: Final = ValueType(
    "a string or an integer",
    lambda value: isinstance(value, str) or _is_integer(value),
    {"type": ["string", "integer"]},
)


def kind_of(value: Any) -> str:
    """Return the kind of a decoded value in a reader's words."""
    if value is None:
        return "null"
    for kind in (BOOLEAN, DOCUMENT, LIST, INTEGER, NUMBER, STRING):
        if kind.accepts(value):
            return kind.noun if kind is not BOOLEAN else "a boolean"
    return type(value).__name__


class Argument(NamedTuple):
    """An argument or a field: its type, and what it is."""

    type: ValueType
    sentence: str


_TOPOLOGY: Final = "Name of a recorded topology description."
_STORE: Final = "Name of the entity in which the loop keeps its"

ARGUMENTS: Final[Mapping[str, Argument]] = {
    # Of the runner's own operations.
    "callback": Argument(ANY, "Operations that run inside the transaction."),
    "client": Argument(WORD, "Name of a client entity."),
    "clients": Argument(ANY, "Names of client entities."),
    "connections": Argument(INTEGER, "Connections that must be checked out."),
    "count": Argument(INTEGER, "Number of matching events."),
    "entities": Argument(ANY, "Entities to create, in the form of createEntities."),
    "event": Argument(ANY, "Event to match: one key, the kind of event."),
    "failPoint": Argument(DOCUMENT, "Command configureFailPoint; the runner turns the fail point off again."),
    "indexName": Argument(WORD, "Name of the index."),
    "ms": Argument(INTEGER, "Milliseconds to wait."),
    "operation": Argument(ANY, "Operation that the thread runs."),
    "operations": Argument(ANY, "Operations to run, in order."),
    "priorTopologyDescription": Argument(WORD, _TOPOLOGY),
    "recordTopologyDescription.id": Argument(WORD, "Name under which the description is recorded."),
    "state": Argument(
        one_of("none", "starting", "in_progress", "committed", "aborted"), "Expected transaction state."
    ),
    "storeErrorsAsEntity": Argument(WORD, f"{_STORE} errors."),
    "storeFailuresAsEntity": Argument(WORD, f"{_STORE} failures."),
    "storeIterationsAsEntity": Argument(WORD, f"{_STORE} number of iterations."),
    "storeSuccessesAsEntity": Argument(WORD, f"{_STORE} number of successful operations."),
    "thread": Argument(WORD, "Name of a thread entity."),
    "times": Argument(INTEGER, "Number of times."),
    "tokens": Argument(NUMBER_OR_NULL, "Tokens in the retry token bucket of the client; null for no bucket."),
    "topologyDescription": Argument(WORD, _TOPOLOGY),
    "topologyType": Argument(WORD, "Expected TopologyType, as in Server Discovery and Monitoring."),
    # Of every operation.
    "comment": Argument(ANY, "Comment of the command, shown in logs and the profiler."),
    "maxTimeMS": Argument(NUMBER, "Time limit of the command on the server, in milliseconds."),
    "rawData": Argument(BOOLEAN, "Whether the command works on the raw buckets of a time series."),
    "readConcern": Argument(DOCUMENT, "Read concern: level."),
    "readPreference": Argument(DOCUMENT, "Read preference: mode, tagSets, maxStalenessSeconds, hedge."),
    "session": Argument(WORD, "Name of a session entity, in which the operation runs."),
    "timeoutMS": Argument(INTEGER, "Client-side operation timeout, in milliseconds; 0 is none."),
    "timeoutMode": Argument(
        one_of("cursorLifetime", "cursor_lifetime", "iteration"), "Scope of timeoutMS: the cursor or a step."
    ),
    "writeConcern": Argument(DOCUMENT, "Write concern: w, journal, wtimeoutMS."),
    # Of reads and writes.
    "allowDiskUse": Argument(BOOLEAN, "Whether the server may write temporary files."),
    "allowPartialResults": Argument(BOOLEAN, "Whether a mongos may leave out shards that are down."),
    "arrayFilters": Argument(DOCUMENTS, "Filters of the array elements to update."),
    "batchSize": Argument(INTEGER, "Documents of one batch of the cursor."),
    "bypassDocumentValidation": Argument(BOOLEAN, "Whether the validator of the collection is skipped."),
    "collation": Argument(DOCUMENT, "Collation: locale, strength …"),
    "cursorType": Argument(
        one_of("nonTailable", "tailable", "tailableAwait", any_case=True), "Kind of cursor."
    ),
    "document": Argument(DOCUMENT, "Document to insert."),
    "documents": Argument(DOCUMENTS, "Documents to insert."),
    "fieldName": Argument(WORD, "Field of which the distinct values are returned."),
    "filter": Argument(DOCUMENT, "Query that selects documents."),
    "hint": Argument(DOCUMENT_OR_STRING, "Index to use: its name or its keys."),
    "let": Argument(DOCUMENT, "Variables for expressions of the command."),
    "limit": Argument(INTEGER, "Greatest number of documents."),
    "map": Argument(STRING, "Function map of mapReduce."),
    "max": Argument(DOCUMENT, "Exclusive upper bound of the index."),
    "maxAwaitTimeMS": Argument(INTEGER, "Time for which a getMore waits for documents, in milliseconds."),
    "min": Argument(DOCUMENT, "Inclusive lower bound of the index."),
    "noCursorTimeout": Argument(BOOLEAN, "Whether the cursor outlives idle time."),
    "oplogReplay": Argument(BOOLEAN, "Option of tailable cursors of the oplog, ignored since 4.4."),
    "ordered": Argument(BOOLEAN, "Whether the first error ends the writes."),
    "out": Argument(DOCUMENT_OR_STRING, "Output of mapReduce."),
    "pipeline": Argument(LIST, "Stages of the aggregation."),
    "projection": Argument(DOCUMENT, "Fields to return."),
    "reduce": Argument(STRING, "Function reduce of mapReduce."),
    "replacement": Argument(DOCUMENT, "Document that takes the place of the one found."),
    "requests": Argument(DOCUMENTS, "Write models, each with one key: its kind."),
    "returnDocument": Argument(
        one_of("Before", "After", any_case=True), "State of the document that is returned."
    ),
    "returnKey": Argument(BOOLEAN, "Whether only the index keys are returned."),
    "showRecordId": Argument(BOOLEAN, "Whether $recordId is added to each document."),
    "skip": Argument(INTEGER, "Number of documents to leave out."),
    "sort": Argument(DOCUMENT, "Order of the documents."),
    "update": Argument(DOCUMENT_OR_DOCUMENTS, "Update document, or the stages of a pipeline."),
    "upsert": Argument(BOOLEAN, "Whether a document is inserted where none is found."),
    "verboseResults": Argument(BOOLEAN, "Whether the result of each write is returned."),
    # Of databases, collections and commands.
    "authorizedCollections": Argument(BOOLEAN, "Whether only collections that the user may use are listed."),
    "authorizedDatabases": Argument(BOOLEAN, "Whether only databases that the user may use are listed."),
    "autoIndexId": Argument(BOOLEAN, "Whether _id gets an index; removed from servers."),
    "capped": Argument(BOOLEAN, "Whether the collection is capped."),
    "changeStreamPreAndPostImages": Argument(DOCUMENT, "Whether documents before changes are kept: enabled."),
    "clusteredIndex": Argument(DOCUMENT, "Clustered index of the collection."),
    "collection": Argument(WORD, "Name of the collection."),
    "collectionName": Argument(WORD, "Name of the collection."),
    "command": Argument(DOCUMENT, "Command document; its first key is the name of the command."),
    "commandName": Argument(WORD, "Name of the command, for languages without ordered documents."),
    "createCollection.expireAfterSeconds": Argument(NUMBER, "Seconds after which documents are deleted."),
    "createCollection.max": Argument(INTEGER, "Greatest number of documents of a capped collection."),
    "database": Argument(WORD, "Name of the database."),
    "databaseName": Argument(WORD, "Name of the database."),
    "driverInfoOptions": Argument(DOCUMENT, "Metadata to append: name, version, platform."),
    "dropTarget": Argument(BOOLEAN, "Whether an existing collection of the new name is dropped."),
    "encryptedFields": Argument(DOCUMENT, "Encrypted fields of the collection."),
    "expireAfterSeconds": Argument(ANY, "Seconds after which documents are deleted."),
    "index": Argument(DOCUMENT, "Index to change, and its new properties."),
    "indexOptionDefaults": Argument(DOCUMENT, "Default options of indexes."),
    "nameOnly": Argument(BOOLEAN, "Whether only names are listed."),
    "size": Argument(NUMBER, "Greatest size of a capped collection, in bytes."),
    "storageEngine": Argument(DOCUMENT, "Options of the storage engine."),
    "timeseries": Argument(DOCUMENT, "Time series options: timeField, metaField, granularity."),
    "to": Argument(WORD, "New name."),
    "validationAction": Argument(WORD, "Reaction to invalid documents: error, warn or errorAndLog."),
    "validationLevel": Argument(WORD, "Writes that are validated: off, strict or moderate."),
    "validator": Argument(DOCUMENT, "Validator of documents."),
    "viewOn": Argument(WORD, "Collection or view that the new view shows."),
    # Of indexes.
    "2dsphereIndexVersion": Argument(INTEGER, "Version of a 2dsphere index."),
    "aggregationOptions": Argument(DOCUMENT, "Options of the aggregate command."),
    "background": Argument(BOOLEAN, "Option of old servers, ignored since 4.2."),
    "bits": Argument(INTEGER, "Precision of a 2d index, in bits."),
    "bucketSize": Argument(NUMBER, "Bucket size of a haystack index."),
    "commitQuorum": Argument(STRING_OR_INTEGER, "Members that must have built the index."),
    "createIndex.max": Argument(NUMBER, "Upper bound of a 2d index."),
    "createIndex.min": Argument(NUMBER, "Lower bound of a 2d index."),
    "default_language": Argument(WORD, "Default language of a text index."),
    "definition": Argument(DOCUMENT, "Definition of the search index."),
    "hidden": Argument(BOOLEAN, "Whether the planner may not use the index."),
    "keys": Argument(DOCUMENT, "Keys of the index."),
    "language_override": Argument(WORD, "Field that holds the language of a document."),
    "model": Argument(DOCUMENT, "Model of the search index: definition, name, type."),
    "models": Argument(DOCUMENTS, "Models: of indexes, or of writes with one key each, their kind."),
    "name": Argument(WORD, "Name of the index."),
    "partialFilterExpression": Argument(DOCUMENT, "Documents that the index holds."),
    "sparse": Argument(BOOLEAN, "Whether documents without the field are left out."),
    "textIndexVersion": Argument(INTEGER, "Version of a text index."),
    "unique": Argument(BOOLEAN, "Whether values must be unique."),
    "weights": Argument(DOCUMENT, "Weights of the fields of a text index."),
    "wildcardProjection": Argument(DOCUMENT, "Fields of a wildcard index."),
    # Of change streams.
    "fullDocument": Argument(WORD, "Whether and how updates carry the whole document."),
    "fullDocumentBeforeChange": Argument(WORD, "Whether changes carry the document before them."),
    "resumeAfter": Argument(DOCUMENT, "Resume token after which the stream begins."),
    "showExpandedEvents": Argument(BOOLEAN, "Whether further kinds of events are shown."),
    "startAfter": Argument(
        DOCUMENT, "Resume token after which the stream begins, also after an invalidation."
    ),
    "startAtOperationTime": Argument(ANY, "Timestamp at which the stream begins."),
    # Of sessions.
    "maxCommitTimeMS": Argument(INTEGER, "Time limit of commitTransaction, in milliseconds."),
    # Of buckets.
    "chunkSizeBytes": Argument(INTEGER, "Size of a chunk, in bytes."),
    "contentType": Argument(WORD, "Content type of the file."),
    "disableMD5": Argument(BOOLEAN, "Whether no MD5 is computed."),
    "filename": Argument(WORD, "Name of the file."),
    "id": Argument(ANY, "Value of _id."),
    "metadata": Argument(DOCUMENT, "Metadata of the file."),
    "newFilename": Argument(WORD, "New name of the file."),
    "revision": Argument(INTEGER, "Revision of the file: 0 is the first, -1 the last."),
    "source": Argument(DOCUMENT, "Contents of the file: $$hexBytes."),
    # Of client-side encryption.
    "keyAltName": Argument(WORD, "Alternative name of the data key."),
    "kmsProvider": Argument(WORD, "KMS provider that encrypts the data key."),
    "opts": Argument(DOCUMENT, "Options of the operation."),
    "value": Argument(ANY, "Value to encrypt or to decrypt."),
}


def argument_of(operation: str, name: str) -> Argument:
    """Return an argument of an operation; one that is not in the table may be any value."""
    # The longer name first: `createIndex.max` is a bound, `max` alone one of a find.
    return ARGUMENTS.get(f"{operation}.{name}") or ARGUMENTS.get(name) or Argument(ANY, name)


def wrong_type(of: ValueType, value: Any) -> str:
    """Return what is wrong with a decoded value, empty where it is of the type."""
    if of.accepts(value):
        return ""
    got = repr(value) if of.noun.startswith("one of") and isinstance(value, str) else kind_of(value)
    return f"must be {of.noun}, is {got}"
