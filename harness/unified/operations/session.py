"""Operations on a session.

Unified Test Format: Session Operations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import signature
from harness.unified.operations.spec import OperationSpec, ResultComparison, family, forward

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context

_OPTIONS = "maxCommitTimeMS readConcern readPreference timeoutMS writeConcern"
_TRANSACTIONS = frozenset({Feature.TRANSACTIONS})


async def _with_transaction(context: Context, call: Invocation[Any]) -> Any:
    """Errors of the callback's operations reach the driver, also those that the scenario expects."""

    async def callback() -> None:
        for operation in call.arguments["callback"]:
            await context.execute(context, operation, propagate=True)

    return await forward(context, replace(call, arguments={**call.arguments, "callback": callback}))


TABLE = (
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
    *family(EntityKind.SESSION, {"getSnapshotTime": ("", "")}),
)
