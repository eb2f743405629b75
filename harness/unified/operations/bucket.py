"""Operations on a GridFS bucket.

Unified Test Format: Bucket Operations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind
from harness.unified.arguments import signature
from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import hex_bytes
from harness.unified.operations.spec import OperationSpec, ResultComparison, family, forward

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context

_BUCKET = (EntityKind.BUCKET,)
_UPLOAD = "chunkSizeBytes contentType disableMD5 metadata timeoutMS"


async def _upload(context: Context, call: Invocation[Any]) -> Any:
    source = call.arguments["source"]
    if not isinstance(source, dict) or list(source) != ["$$hexBytes"]:
        raise ScenarioError("source must be a mapping with the key $$hexBytes")
    data = hex_bytes(source["$$hexBytes"], "$$hexBytes")
    return await forward(context, replace(call, arguments={**call.arguments, "source": data}))


TABLE = (
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
