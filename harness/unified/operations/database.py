"""Operations on a database.

Unified Test Format: Database Operations.

`createCollection` makes an entity of the collection where the scenario names its result. A cursor of a
command is a kind of its own beside a find's, because the format lets drivers implement one without the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import signature
from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import hex_bytes
from harness.unified.operations.client import STREAM_OPTIONS
from harness.unified.operations.spec import OperationSpec, ResultComparison, family, forward

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context


_CURSOR_OPTIONS = (
    "batchSize commandName comment cursorType maxAwaitTimeMS maxTimeMS readPreference session timeoutMS"
    " timeoutMode"
)
_CREATE_OPTIONS = (
    "autoIndexId capped changeStreamPreAndPostImages clusteredIndex collation comment encryptedFields"
    " expireAfterSeconds indexOptionDefaults max pipeline session size storageEngine timeoutMS timeseries"
    " validationAction validationLevel validator viewOn writeConcern"
)
_MODIFY_OPTIONS = (
    "changeStreamPreAndPostImages comment expireAfterSeconds index pipeline session timeoutMS"
    " validationAction validationLevel validator viewOn writeConcern"
)
_AGGREGATE_OPTIONS = (
    "allowDiskUse batchSize bypassDocumentValidation collation comment hint let maxAwaitTimeMS maxTimeMS"
    " rawData readConcern readPreference session timeoutMS timeoutMode writeConcern"
)
_LIST_OPTIONS = "authorizedCollections comment filter rawData session timeoutMS"
_COMMAND_CURSORS = frozenset({Feature.COMMAND_CURSORS})

TABLE = (
    *family(
        EntityKind.DATABASE,
        {
            "runCommand": ("command", "commandName readPreference session timeoutMS"),
            "listCollectionNames": ("", _LIST_OPTIONS),
            "listCollectionObjects": ("", "filter session timeoutMS"),
            "dropCollection": ("collection", "comment encryptedFields session timeoutMS writeConcern"),
            "modifyCollection": ("collection", _MODIFY_OPTIONS),
        },
    ),
    *family(
        EntityKind.DATABASE,
        {"createCollection": ("collection", _CREATE_OPTIONS)},
        creates=EntityKind.COLLECTION,
    ),
    *family(
        EntityKind.DATABASE,
        {
            "aggregate": ("pipeline", _AGGREGATE_OPTIONS),
            "listCollections": ("", f"batchSize nameOnly timeoutMode {_LIST_OPTIONS}"),
        },
        result=ResultComparison.EACH,
    ),
    *family(
        EntityKind.DATABASE,
        {"runCursorCommand": ("command", _CURSOR_OPTIONS)},
        result=ResultComparison.EACH,
        requires=_COMMAND_CURSORS,
    ),
    *family(
        EntityKind.DATABASE,
        {"createCommandCursor": ("command", _CURSOR_OPTIONS)},
        requires=_COMMAND_CURSORS,
        creates=EntityKind.COMMAND_CURSOR,
    ),
    *family(
        EntityKind.DATABASE,
        {"createChangeStream": ("pipeline", STREAM_OPTIONS)},
        requires=frozenset({Feature.CHANGE_STREAMS}),
        creates=EntityKind.CHANGE_STREAM,
    ),
)


# Operations on a GridFS bucket.


_BUCKET = (EntityKind.BUCKET,)
_UPLOAD = "chunkSizeBytes contentType disableMD5 metadata timeoutMS"


async def _upload(context: Context, call: Invocation[Any]) -> Any:
    source = call.arguments["source"]
    # Bytes have no other form in a file. `$$hexBytes` is no operator that matches: it only writes data down.
    if not isinstance(source, dict) or list(source) != ["$$hexBytes"]:
        raise ScenarioError("source must be a mapping with the key $$hexBytes")
    data = hex_bytes(source["$$hexBytes"], "$$hexBytes")
    return await forward(context, replace(call, arguments={**call.arguments, "source": data}))


BUCKET_TABLE = (
    *family(
        EntityKind.BUCKET,
        {
            "delete": ("id", "timeoutMS"),
            "deleteByName": ("filename", "timeoutMS"),
            "rename": ("id newFilename", "timeoutMS"),
            "renameByName": ("filename newFilename", "timeoutMS"),
            "drop": ("", "timeoutMS"),
            "download": ("id", "timeoutMS"),
            "downloadByName": ("filename", "revision timeoutMS"),
        },
    ),
    *family(
        EntityKind.BUCKET,
        {"find": ("filter", "allowDiskUse batchSize limit maxTimeMS noCursorTimeout skip sort timeoutMS")},
        result=ResultComparison.EACH,
    ),
    OperationSpec("upload", _BUCKET, signature("filename source", _UPLOAD), _upload),
    OperationSpec("uploadWithId", _BUCKET, signature("id filename source", _UPLOAD), _upload),
)
