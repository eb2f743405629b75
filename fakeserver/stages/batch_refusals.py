"""A batch of writes that a shard has refused for overload, as a mongos reports it: in the reply of the batch.

The mongos notes the shard's error for each statement that it had sent, and its own reply says `ok: 1`. Labels
are for errors of commands, so there are none, and no driver retries the batch. A transaction ends with the
error itself, for which there is a label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

if TYPE_CHECKING:
    from fakeserver.errors import CommandError
    from fakeserver.request.context import RequestContext

_STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes", "bulkWrite": "ops"}
_COUNTS: Final = ("nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")


def reply_of(request: RequestContext, error: CommandError) -> dict[str, Any] | None:
    """Return the reply to a batch whose shard has refused it, None where the error itself is the reply."""
    name, command = request.spec.name, request.command or {}
    statements = command.get(_STATEMENTS.get(name, ""))
    if request.has_autocommit or not isinstance(statements, list) or not statements:
        return None
    # In order, nothing is tried behind the first failure.
    failed = range(1 if command.get("ordered", True) else len(statements))
    told = {"code": int(error.code), "errmsg": error.message}
    if name != "bulkWrite":
        modified = {"nModified": 0} if name == "update" else {}
        return {"n": 0, **modified, "writeErrors": [{"index": index, **told} for index in failed]}
    results = []
    for index in failed:
        modified = {"nModified": 0} if "update" in statements[index] else {}
        results.append({"ok": 0.0, "idx": index, **told, "n": 0, **modified})
    cursor = {"id": Int64(0), "firstBatch": results, "ns": "admin.$cmd.bulkWrite"}
    return {"cursor": cursor, "nErrors": len(results), **dict.fromkeys(_COUNTS, 0)}
