"""Operations on cursors and change streams.

Unified Test Format: Cursor Operations.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, OperationFailed
from harness.unified.arguments import signature
from harness.unified.operations.spec import OperationSpec, ResultComparison, forward

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context

CURSORS = (EntityKind.FIND_CURSOR, EntityKind.COMMAND_CURSOR, EntityKind.CHANGE_STREAM)


async def _close(context: Context, call: Invocation[Any]) -> None:
    """Drivers differ in what they say of a failed killCursors, so nothing is said."""
    with suppress(OperationFailed):
        await forward(context, call)


TABLE = (
    OperationSpec("iterateUntilDocumentOrError", CURSORS, signature(), forward),
    OperationSpec("iterateOnce", CURSORS, signature(), forward),
    OperationSpec("close", CURSORS, signature("", "timeoutMS"), _close, result=ResultComparison.NOTHING),
)
