"""The options of each method, by the names of the CRUD specification; anything else is refused.

All take timeoutMS, which no server sees: `without_timeout` splits it off (Client Side Operations Timeout).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from driver.errors import InvalidArgumentError
from driver.operations.base import MaxTime
from driver.policy.deadline import NO_TIMEOUT, Deadline, Timeout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.operations.base import Operation
    from driver.sdam.description import ServerDescription


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


# timeoutMode: what timeoutMS means for a cursor (Client Side Operations Timeout: Cursors).


NON_TAILABLE = "nonTailable"


class TimeoutMode(Enum):
    """Whether timeoutMS is for a cursor's whole life or for each call; the values are the option's."""

    LIFETIME = "cursorLifetime"
    ITERATION = "iteration"


def mode_of(mode: str | None, cursor_type: str = NON_TAILABLE) -> TimeoutMode:
    """Return how timeoutMS applies to a cursor. Raises InvalidArgumentError (Tailable Cursors)."""
    tailable = cursor_type != NON_TAILABLE
    if mode is None:
        return TimeoutMode.ITERATION if tailable else TimeoutMode.LIFETIME
    try:
        chosen = TimeoutMode(mode)
    except ValueError:
        raise InvalidArgumentError(f"timeoutMode is cursorLifetime or iteration, not {mode!r}") from None
    if tailable and chosen is TimeoutMode.LIFETIME:
        raise InvalidArgumentError("a tailable cursor has no lifetime for timeoutMS: use iteration")
    return chosen


def opening(
    operation: Operation,
    *,
    mode: str | None = None,
    cursor_type: str = NON_TAILABLE,
    max_await_time_ms: int | None = None,
    writes: bool = False,
) -> Operation:
    """Return an operation that opens a cursor, with what the server learns of its time.

    Raises InvalidArgumentError for a combination that the specification refuses.
    """
    chosen = mode_of(mode, cursor_type)
    if mode is not None and operation.timeout.seconds is None:
        raise InvalidArgumentError("timeoutMode needs timeoutMS")
    if mode is not None and writes and chosen is TimeoutMode.ITERATION:
        raise InvalidArgumentError("an aggregation that writes has no iterations for timeoutMS")
    check_await_time(operation.timeout, max_await_time_ms)
    awaits = cursor_type == "tailableAwait"
    if chosen is TimeoutMode.LIFETIME or awaits:
        return operation
    return replace(operation, max_time=MaxTime.NONE)


def check_await_time(timeout: Timeout, max_await_time_ms: int | None) -> None:
    """Raise InvalidArgumentError for a server that would wait at least as long as the client does."""
    if max_await_time_ms and timeout.seconds and max_await_time_ms >= timeout.seconds * 1000:
        raise InvalidArgumentError("maxAwaitTimeMS must be less than timeoutMS")


# Options refused by a client because a server is too old: it would ignore them, or refuse them unheard.


WIRE_42: Final = 8
WIRE_44: Final = 9
WIRE_50: Final = 13

_HINTS: Final[Mapping[str, tuple[int, str]]] = {
    "update": (WIRE_42, "4.2"),
    "delete": (WIRE_44, "4.4"),
    "findAndModify": (WIRE_44, "4.4"),
}
"""Since when the commands that write take a hint."""


def refuse_unheard_hint(name: str, server: ServerDescription) -> None:
    """Refuse the hint of an unacknowledged write that an old server would refuse unheard (CRUD: Hint).

    The error of an acknowledged one is the server's to make. Raises InvalidArgumentError.
    """
    wire_version, release = _HINTS[name]
    if server.max_wire_version < wire_version:
        raise InvalidArgumentError(
            f"a hint of an unacknowledged {name} needs a server of version {release} or newer"
        )


def refuse_commit_quorum(server: ServerDescription) -> None:
    """Refuse a commitQuorum where servers know none (Index Management). Raises InvalidArgumentError."""
    if server.max_wire_version < WIRE_44:
        raise InvalidArgumentError("commitQuorum needs a server of version 4.4 or newer")


def refuse_snapshot(server: ServerDescription) -> None:
    """Refuse a session's snapshot read where there are none (Snapshot Reads). Raises InvalidArgumentError."""
    if server.max_wire_version < WIRE_50:
        raise InvalidArgumentError("Snapshot reads require MongoDB 5.0 or later")
