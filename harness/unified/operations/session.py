"""Operations on a session.

Unified Test Format: Session Operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import arguments
from harness.unified.operations.spec import OperationSpec, Result, family, forward

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.entities import Entity
    from harness.unified.operations.spec import Context

_OPTIONS = "maxCommitTimeMS readConcern readPreference timeoutMS writeConcern"
_TRANSACTIONS = frozenset({Feature.TRANSACTIONS})


async def _with_transaction(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> Any:
    """Errors of the callback's operations reach the driver, also those that the scenario expects."""

    async def callback() -> None:
        for operation in given["callback"]:
            await context.execute(context, operation, propagate=True)

    return await forward(context, entity, name, {**given, "callback": callback})


TABLE = (
    *family(
        EntityKind.SESSION,
        {"startTransaction": ("", _OPTIONS)},
        requires=_TRANSACTIONS,
        result=Result.NOTHING,
    ),
    *family(
        EntityKind.SESSION,
        {"commitTransaction": ("", "timeoutMS"), "abortTransaction": ("", "timeoutMS")},
        requires=_TRANSACTIONS,
        result=Result.NOTHING,
    ),
    OperationSpec(
        "withTransaction",
        (EntityKind.SESSION,),
        arguments("callback", _OPTIONS),
        _with_transaction,
        requires=_TRANSACTIONS,
        result=Result.NOTHING,
    ),
    *family(EntityKind.SESSION, {"endSession": ("", "")}, result=Result.NOTHING),
    *family(EntityKind.SESSION, {"getSnapshotTime": ("", "")}),
)
