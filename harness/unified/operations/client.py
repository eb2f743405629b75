"""Operations on a client.

Unified Test Format: Client Operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import arguments
from harness.unified.operations.models import check_client_models
from harness.unified.operations.spec import OperationSpec, Result, family, forward, handle_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.entities import Entity
    from harness.unified.operations.spec import Context

STREAM_OPTIONS = (
    "batchSize collation comment fullDocument fullDocumentBeforeChange maxAwaitTimeMS resumeAfter session"
    " showExpandedEvents startAfter startAtOperationTime timeoutMS"
)

_BULK_OPTIONS = (
    "bypassDocumentValidation comment let ordered rawData session timeoutMS verboseResults writeConcern"
)


async def _close(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    del name, given
    assert entity is not None
    await context.adapter.close_client(handle_of(entity))


async def _bulk_write(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> Any:
    check_client_models(given["models"])
    return await forward(context, entity, name, given)


CLIENT = (EntityKind.CLIENT,)

TABLE = (
    *family(
        EntityKind.CLIENT,
        {
            "listDatabaseNames": ("", "filter session timeoutMS comment authorizedDatabases"),
            "listDatabaseObjects": ("", "filter session timeoutMS comment"),
            "dropDatabase": ("database", "session timeoutMS"),
            "appendMetadata": ("driverInfoOptions", ""),
        },
    ),
    *family(
        EntityKind.CLIENT,
        {"listDatabases": ("", "filter session timeoutMS comment nameOnly authorizedDatabases")},
        result=Result.EACH,
    ),
    *family(
        EntityKind.CLIENT,
        {"createChangeStream": ("pipeline", STREAM_OPTIONS)},
        requires=frozenset({Feature.CHANGE_STREAMS}),
        creates=EntityKind.CHANGE_STREAM,
    ),
    OperationSpec("close", CLIENT, arguments(), _close, result=Result.NOTHING),
    OperationSpec(
        "clientBulkWrite",
        CLIENT,
        arguments("models", _BULK_OPTIONS),
        _bulk_write,
        requires=frozenset({Feature.CLIENT_BULK_WRITE}),
    ),
)
