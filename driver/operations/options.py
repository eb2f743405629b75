"""The options of each method, by the names of the CRUD specification; anything else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

GENERIC = frozenset({"comment", "rawData", "maxTimeMS"})
WRITES = frozenset({"comment", "rawData", "let", "bypassDocumentValidation"})

_ALLOWED: dict[str, frozenset[str]] = {
    "find": GENERIC
    | {
        *("allowDiskUse", "allowPartialResults", "batchSize", "collation", "cursorType", "hint", "let"),
        *("limit", "max", "maxAwaitTimeMS", "min", "noCursorTimeout", "projection", "returnKey"),
        *("showRecordId", "skip", "sort", "timeoutMode"),
    },
    "aggregate": GENERIC
    | {
        *("allowDiskUse", "batchSize", "bypassDocumentValidation", "collation", "hint", "let"),
        *("maxAwaitTimeMS", "timeoutMode"),
    },
    "watch": frozenset(
        {
            *("batchSize", "collation", "comment", "fullDocument", "fullDocumentBeforeChange"),
            *("maxAwaitTimeMS", "resumeAfter", "showExpandedEvents", "startAfter", "startAtOperationTime"),
        }
    ),
    "count": GENERIC | {"collation", "hint", "limit", "skip"},
    "countDocuments": GENERIC | {"collation", "hint", "limit", "skip"},
    "estimatedDocumentCount": GENERIC,
    "distinct": GENERIC | {"collation", "hint"},
    "mapReduce": GENERIC | {"collation", "limit", "query", "sort"},
    "insertOne": WRITES - {"let"},
    "insertMany": (WRITES - {"let"}) | {"ordered"},
    "updateOne": WRITES | {"arrayFilters", "collation", "hint", "sort", "upsert"},
    "updateMany": WRITES | {"arrayFilters", "collation", "hint", "upsert"},
    "replaceOne": WRITES | {"collation", "hint", "sort", "upsert"},
    "deleteOne": (WRITES - {"bypassDocumentValidation"}) | {"collation", "hint"},
    "deleteMany": (WRITES - {"bypassDocumentValidation"}) | {"collation", "hint"},
    "findOneAndDelete": GENERIC | {"collation", "hint", "let", "projection", "sort"},
    "findOneAndReplace": GENERIC
    | WRITES
    | {"collation", "hint", "projection", "returnDocument", "sort", "upsert"},
    "findOneAndUpdate": GENERIC
    | WRITES
    | {"arrayFilters", "collation", "hint", "projection", "returnDocument", "sort", "upsert"},
    "bulkWrite": WRITES | {"ordered"},
    "clientBulkWrite": WRITES | {"ordered", "verboseResults"},
    "listDatabases": GENERIC | {"authorizedDatabases", "filter", "nameOnly"},
    "listCollections": GENERIC | {"authorizedCollections", "batchSize", "filter", "timeoutMode"},
    "listIndexes": GENERIC | {"batchSize", "timeoutMode"},
    "createIndexes": GENERIC | {"commitQuorum"},
    "dropIndexes": GENERIC,
    "createCollection": frozenset(
        {
            *("capped", "changeStreamPreAndPostImages", "clusteredIndex", "collation", "comment"),
            *("encryptedFields", "expireAfterSeconds", "indexOptionDefaults", "max", "maxTimeMS", "pipeline"),
            *(
                "size",
                "storageEngine",
                "timeseries",
                "validationAction",
                "validationLevel",
                "validator",
                "viewOn",
            ),
        }
    ),
    "modifyCollection": frozenset(
        {
            *("changeStreamPreAndPostImages", "comment", "expireAfterSeconds", "index", "pipeline"),
            *("validationAction", "validationLevel", "validator", "viewOn"),
        }
    ),
    "rename": frozenset({"comment", "dropTarget"}),
    "drop": frozenset(),
    "dropDatabase": frozenset(),
}
ALLOWED = {method: names | {"timeoutMS"} for method, names in _ALLOWED.items()}


def checked(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given. Raises InvalidArgumentError for one that is unknown."""
    unknown = [name for name in options if name not in ALLOWED[method]]
    if unknown:
        allowed = ", ".join(sorted(ALLOWED[method]))
        raise InvalidArgumentError(f"{method} takes no option {unknown[0]!r}; it takes {allowed}")
    return {name: value for name, value in options.items() if value is not None}
