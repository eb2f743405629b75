"""`shutdown`: the end of a server, which its clients learn of in time (quiesce mode, since 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.replication import no_successor
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from fakeserver.pipeline import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_TIMEOUT_SECONDS: Final = 15


@table.command(
    "shutdown",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("force", "bool"), Field("timeoutSecs", "long", minimum=0), strict=False),
)
def shutdown(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Shut the server down, after a quiesce period in which hello fails."""
    node, shard = ctx.node, ctx.node.shard
    until = ctx.request.arrived + command.get("timeoutSecs", _TIMEOUT_SECONDS)
    hands_over = node.is_primary and not command.get("force")
    if hands_over and shard is not None and len(shard.nodes) > 1 and shard.successor(ctx.now) is None:
        if ctx.now < until:
            raise Park(node.cluster.replication, until)
        raise no_successor(ctx)
    if not node.outages.shutting_down:
        node.outages.shutting_down = True
        node.spawn(node.shut_down(quiesce=max(0.0, until - ctx.now)))
    raise CommandError(
        ErrorCode.CLOSE_CONNECTION_FOR_SHUTDOWN_COMMAND, "Closing connection for shutdown command"
    )
