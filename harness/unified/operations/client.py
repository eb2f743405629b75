"""Operations on a client.

Unified Test Format: Client Operations.

Arguments are listed as the CRUD, change stream and transaction specifications have them; what stands here is
what a scenario may write, not what a driver supports. A driver without an option reports it as unsupported
when it is asked, and the case is skipped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import signature
from harness.unified.operations.models import check_client_models
from harness.unified.operations.spec import OperationSpec, ResultComparison, family, forward

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context


# Of client, database and collection alike: a change stream has the same options at all three.
STREAM_OPTIONS = (
    "batchSize collation comment fullDocument fullDocumentBeforeChange maxAwaitTimeMS resumeAfter session"
    " showExpandedEvents startAfter startAtOperationTime timeoutMS"
)

_BULK_OPTIONS = (
    "bypassDocumentValidation comment let ordered rawData session timeoutMS verboseResults writeConcern"
)


async def _close(context: Context, call: Invocation[Any]) -> None:
    await context.adapter.close_client(call.target)


async def _bulk_write(context: Context, call: Invocation[Any]) -> Any:
    check_client_models(call.arguments["models"])
    return await forward(context, call)


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
        result=ResultComparison.EACH,
    ),
    *family(
        EntityKind.CLIENT,
        {"createChangeStream": ("pipeline", STREAM_OPTIONS)},
        requires=frozenset({Feature.CHANGE_STREAMS}),
        creates=EntityKind.CHANGE_STREAM,
    ),
    OperationSpec("close", CLIENT, signature(), _close, result=ResultComparison.NOTHING),
    OperationSpec(
        "clientBulkWrite",
        CLIENT,
        signature("models", _BULK_OPTIONS),
        _bulk_write,
        requires=frozenset({Feature.CLIENT_BULK_WRITE}),
    ),
)


# Operations on a ClientEncryption: data keys, and values that are encrypted by hand.
#
# Unified Test Format: ClientEncryption Operations.


_ENCRYPTION = frozenset({Feature.ENCRYPTION})

ENCRYPTION = (
    *family(
        EntityKind.CLIENT_ENCRYPTION,
        {
            "createDataKey": ("kmsProvider", "opts"),
            "rewrapManyDataKey": ("filter", "opts"),
            "deleteKey": ("id", ""),
            "getKey": ("id", ""),
            "addKeyAltName": ("id keyAltName", ""),
            "removeKeyAltName": ("id keyAltName", ""),
            "getKeyByAltName": ("keyAltName", ""),
            "encrypt": ("value", "opts"),
            "decrypt": ("value", ""),
        },
        requires=_ENCRYPTION,
    ),
    *family(
        EntityKind.CLIENT_ENCRYPTION,
        {"getKeys": ("", "")},
        requires=_ENCRYPTION,
        result=ResultComparison.EACH,
    ),
)


# Operations on a session.


_OPTIONS = "maxCommitTimeMS readConcern readPreference timeoutMS writeConcern"
_TRANSACTIONS = frozenset({Feature.TRANSACTIONS})


async def _with_transaction(context: Context, call: Invocation[Any]) -> Any:
    """Errors of the callback's operations reach the driver, also those that the scenario expects.

    A driver retries a transaction by the errors that leave its callback; one that the runner kept because it
    was expected would commit a transaction that has failed. So `propagate` raises it again after it was
    judged.
    """

    async def callback() -> None:
        for operation in call.arguments["callback"]:
            await context.execute(context, operation, propagate=True)

    return await forward(context, replace(call, arguments={**call.arguments, "callback": callback}))


SESSION_TABLE = (
    *family(
        EntityKind.SESSION,
        {"startTransaction": ("", _OPTIONS)},
        requires=_TRANSACTIONS,
        result=ResultComparison.NOTHING,
    ),
    *family(
        EntityKind.SESSION,
        {"commitTransaction": ("", "timeoutMS"), "abortTransaction": ("", "timeoutMS")},
        requires=_TRANSACTIONS,
        result=ResultComparison.NOTHING,
    ),
    OperationSpec(
        "withTransaction",
        (EntityKind.SESSION,),
        signature("callback", _OPTIONS),
        _with_transaction,
        requires=_TRANSACTIONS,
        result=ResultComparison.NOTHING,
    ),
    *family(EntityKind.SESSION, {"endSession": ("", "")}, result=ResultComparison.NOTHING),
    # No feature of its own: a driver without it says that the operation is unsupported.
    *family(EntityKind.SESSION, {"getSnapshotTime": ("", "")}),
)
