"""Operations on cursors and change streams.

Unified Test Format: Cursor Operations.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, OperationFailed
from harness.unified.arguments import arguments
from harness.unified.operations.spec import OperationSpec, Result, forward

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.entities import Entity
    from harness.unified.operations.spec import Context

CURSORS = (EntityKind.FIND_CURSOR, EntityKind.COMMAND_CURSOR, EntityKind.CHANGE_STREAM)


async def _close(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    """Drivers differ in what they say of a failed killCursors, so nothing is said."""
    with suppress(OperationFailed):
        await forward(context, entity, name, given)


TABLE = (
    OperationSpec("iterateUntilDocumentOrError", CURSORS, arguments(), forward),
    OperationSpec("iterateOnce", CURSORS, arguments(), forward),
    OperationSpec("close", CURSORS, arguments("", "timeoutMS"), _close, result=Result.NOTHING),
)
