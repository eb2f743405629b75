"""Operations on a collection.

Unified Test Format: Collection Operations.

Results differ in what is a root document: `find` and its like return the documents of a cursor, each a root
(`EACH`), every other operation one value. A cursor that is created is an entity or, without a name, is noted
and closed at the end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature, OperationFailed
from harness.unified.arguments import signature
from harness.unified.errors import ScenarioError
from harness.unified.operations.client import STREAM_OPTIONS
from harness.unified.operations.models import check_models
from harness.unified.operations.spec import OperationSpec, ResultComparison, family, forward

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context


_EVERY = "comment maxTimeMS rawData session timeoutMS"
_FIND = (
    "allowDiskUse allowPartialResults batchSize collation comment cursorType hint let limit"
    " max maxAwaitTimeMS maxTimeMS min noCursorTimeout oplogReplay projection rawData returnKey session"
    " showRecordId skip sort timeoutMS timeoutMode"
)
_INDEX = (
    "background bits bucketSize collation default_language expireAfterSeconds hidden language_override max"
    " min name partialFilterExpression sparse storageEngine textIndexVersion unique weights"
    " wildcardProjection 2dsphereIndexVersion"
)
_CONCERNS = "readConcern readPreference"
_WRITE = f"bypassDocumentValidation let writeConcern {_EVERY}"
_UPDATE = f"arrayFilters collation hint upsert {_WRITE}"
_FIND_AND_MODIFY = f"collation hint projection sort {_WRITE}"
_COLLECTION = (EntityKind.COLLECTION,)


async def _find_and_modify(context: Context, call: Invocation[Any]) -> Any:
    """Check `returnDocument`, whose two values are compared without case, and forward.

    Checked here and not left to the driver: a driver that takes a wrong word for the default would test
    something else.
    """
    wanted = call.arguments.get("returnDocument", "Before")
    if not isinstance(wanted, str) or wanted.lower() not in ("before", "after"):
        raise ScenarioError(f"returnDocument cannot be {wanted!r}", fix="Before or After")
    return await forward(context, call)


async def _bulk_write(context: Context, call: Invocation[Any]) -> Any:
    check_models(call.arguments["requests"])
    return await forward(context, call)


TABLE = (
    *family(
        EntityKind.COLLECTION,
        {
            "insertOne": ("document", _WRITE),
            "insertMany": ("documents", f"ordered {_WRITE}"),
            "updateOne": ("filter update", f"sort {_UPDATE}"),
            "updateMany": ("filter update", _UPDATE),
            "replaceOne": ("filter replacement", f"collation hint sort upsert {_WRITE}"),
            "deleteOne": ("filter", f"collation hint {_WRITE}"),
            "deleteMany": ("filter", f"collation hint {_WRITE}"),
            "findOneAndDelete": ("filter", _FIND_AND_MODIFY),
            "findOne": ("", f"filter {_FIND}"),
            "count": ("filter", f"collation hint limit skip {_EVERY}"),
            "countDocuments": ("filter", f"collation hint limit skip {_EVERY}"),
            "estimatedDocumentCount": ("", _EVERY),
            "distinct": ("fieldName filter", f"collation hint {_EVERY}"),
            "mapReduce": ("map reduce out", _EVERY),
            "createIndex": (
                "keys",
                f"commitQuorum {_INDEX} {_EVERY}",
            ),
            "createIndexes": ("models", f"commitQuorum {_EVERY}"),
            "dropIndex": ("name", _EVERY),
            "dropIndexes": ("", _EVERY),
            "listIndexNames": ("", _EVERY),
            "createSearchIndex": ("model", ""),
            "createSearchIndexes": ("models", ""),
            "updateSearchIndex": ("name definition", ""),
            "dropSearchIndex": ("name", ""),
            "drop": ("", f"encryptedFields writeConcern {_EVERY}"),
            "rename": ("to", f"dropTarget {_EVERY}"),
        },
    ),
    *family(
        EntityKind.COLLECTION,
        {
            "find": ("filter", _FIND),
            "aggregate": (
                "pipeline",
                f"allowDiskUse batchSize collation hint maxAwaitTimeMS {_CONCERNS} timeoutMode {_WRITE}",
            ),
            "listIndexes": ("", f"batchSize timeoutMode {_EVERY}"),
            "listSearchIndexes": ("", "name aggregationOptions"),
        },
        result=ResultComparison.EACH,
    ),
    *family(
        EntityKind.COLLECTION,
        {"createFindCursor": ("filter", _FIND)},
        requires=frozenset({Feature.FIND_CURSORS}),
        creates=EntityKind.FIND_CURSOR,
    ),
    *family(
        EntityKind.COLLECTION,
        {"createChangeStream": ("pipeline", STREAM_OPTIONS)},
        requires=frozenset({Feature.CHANGE_STREAMS}),
        creates=EntityKind.CHANGE_STREAM,
    ),
    OperationSpec(
        "findOneAndUpdate",
        _COLLECTION,
        signature("filter update", f"arrayFilters returnDocument upsert {_FIND_AND_MODIFY}"),
        _find_and_modify,
    ),
    OperationSpec(
        "findOneAndReplace",
        _COLLECTION,
        signature("filter replacement", f"returnDocument upsert {_FIND_AND_MODIFY}"),
        _find_and_modify,
    ),
    OperationSpec("bulkWrite", _COLLECTION, signature("requests", f"ordered {_WRITE}"), _bulk_write),
)


# Operations on cursors and change streams.


CURSORS = (EntityKind.FIND_CURSOR, EntityKind.COMMAND_CURSOR, EntityKind.CHANGE_STREAM)


async def _close(context: Context, call: Invocation[Any]) -> None:
    """Drivers differ in what they say of a failed killCursors, so nothing is said."""
    with suppress(OperationFailed):
        await forward(context, call)


CURSOR_TABLE = (
    OperationSpec("iterateUntilDocumentOrError", CURSORS, signature(), forward),
    OperationSpec("iterateOnce", CURSORS, signature(), forward),
    OperationSpec("close", CURSORS, signature("", "timeoutMS"), _close, result=ResultComparison.NOTHING),
)
