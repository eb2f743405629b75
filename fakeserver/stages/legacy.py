"""The operations of old drivers: what is left of them, and the line in the log for each of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mongowire.messages import OpCode

if TYPE_CHECKING:
    from fakeserver.request.context import RequestContext

LEGACY_COMMANDS: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "_isSelf", "authenticate"),
        *("buildinfo", "buildInfo", "saslStart", "saslContinue"),
    }
)
"""The commands that may still come as an OP_QUERY."""

_OPERATIONS: Final[dict[int, str]] = {
    OpCode.QUERY: "query",
    OpCode.INSERT: "insert",
    OpCode.UPDATE: "update",
    OpCode.DELETE: "remove",
    OpCode.GET_MORE: "getmore",
    OpCode.KILL_CURSORS: "killcursors",
}


def log_removed(request: RequestContext) -> None:
    """Tell the log of an operation that is refused because of its age."""
    operation = _OPERATIONS.get(request.envelope.op_code)
    if operation is None:
        return
    client = request.connection
    request.node.log.write(
        "COMMAND",
        5578800,
        "Deprecated operation requested. The client driver may require an upgrade. For more details see"
        " https://dochub.mongodb.org/core/legacy-opcode-removal",
        context=client.thread_name,
        severity="W",
        attr={"op": operation, "clientInfo": client.metadata or {"address": client.peer}},
    )
