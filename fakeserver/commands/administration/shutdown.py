"""The shutdown command: the end of a server, which clients learn of in time.

Behaviour: A primary first waits for a successor, up to `timeoutSecs` (15) since the request arrived, and
fails with 262 if there is none, unless forced or alone. It then steps down; a secondary or a mongos spends
the rest of the time in quiesce mode, in which hello fails with 91 and everything else works (SDAM:
ShutdownInProgress). Then operations that wait end with 11600 and connections close. The command itself has no
reply: 372 closes its connection.

Versions: Every release has quiesce mode, which servers have since 4.4.

Not modelled: The process goes on: the server can be started again on its port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.cluster.replication import no_successor
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.waiting.pause import Park
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
    # A set of one has nobody to wait for.
    hands_over = node.is_primary and not command.get("force")
    if hands_over and shard is not None and len(shard.nodes) > 1 and shard.successor(ctx.now) is None:
        if ctx.now < until:
            raise Park(node.cluster.replication, until)
        raise no_successor(ctx)
    # The reply to this command is the end of its connection; the rest ends in the background.
    if not node.outages.shutting_down:
        node.outages.shutting_down = True
        node.spawn(node.shut_down(quiesce=max(0.0, until - ctx.now)))
    raise CommandError(
        ErrorCode.CLOSE_CONNECTION_FOR_SHUTDOWN_COMMAND, "Closing connection for shutdown command"
    )
