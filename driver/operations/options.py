"""The options of each method, by the names of the CRUD specification; anything else is refused.

All take timeoutMS, which no server sees: `without_timeout` splits it off (Client Side Operations Timeout).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.errors import InvalidArgumentError
from driver.policy.deadline import NO_TIMEOUT, Deadline, Timeout

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
    """Return the options that are set. Raises InvalidArgumentError for one that is unknown."""
    if not options:
        return {}
    unknown = [name for name in options if name not in ALLOWED[method]]
    if unknown:
        allowed = ", ".join(sorted(ALLOWED[method]))
        raise InvalidArgumentError(f"{method} takes no option {unknown[0]!r}; it takes {allowed}")
    return {name: value for name, value in options.items() if value is not None}


def seconds_of(timeout_ms: Any) -> float | None:
    """Return a timeoutMS in seconds, None for none. Raises InvalidArgumentError."""
    if timeout_ms is None:
        return None
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int | float) or timeout_ms < 0:
        raise InvalidArgumentError(f"timeoutMS is a number of milliseconds from 0 on, not {timeout_ms!r}")
    return timeout_ms / 1000


def timeout_of(timeout: Any, inherited: float | None) -> Timeout:
    """Return what holds for an operation: its own timeoutMS, else what it inherits.

    Its own may be a Deadline that several operations share. Raises InvalidArgumentError.
    """
    if isinstance(timeout, Deadline):
        return Timeout(timeout.timeout, shared=timeout)
    if timeout is None:
        return NO_TIMEOUT if inherited is None else Timeout(inherited)
    own = seconds_of(timeout)
    return Timeout(inherited) if own is None else Timeout(own, own=True)


def without_timeout(options: Mapping[str, Any], inherited: float | None) -> tuple[dict[str, Any], Timeout]:
    """Split timeoutMS off the options of a command, as no server sees it. Raises InvalidArgumentError."""
    rest = dict(options)
    return rest, timeout_of(rest.pop("timeoutMS", None), inherited)
