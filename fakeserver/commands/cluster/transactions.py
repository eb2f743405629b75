"""The commands commitTransaction and abortTransaction: the end of a transaction.

Behaviour: Which transaction they mean, and whether it can still end so, is decided before they run (251
unknown or aborted, 256 committed). A commit gives all changes one operation time and one entry of the oplog;
committing again changes nothing and waits for the write concern anew. What waited for the transaction goes on
when it has ended. On a mongos `recoveryToken` finds the transaction of another mongos.

Versions: The same in every release.

Not modelled: `prepareTransaction` and the two phases of a commit over several shards, which share one store
here, so no commit is in doubt. `commitTimestamp` and `durableTimestamp` are accepted and have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.sessions.transactions import Transaction

table = CommandTable()


@table.command(
    "commitTransaction",
    kind="write",
    fields=Fields.of(
        Field("commitTransaction", "any"),
        Field("commitTimestamp", "timestamp"),
        Field("durableTimestamp", "timestamp"),
        Field("recoveryToken", "object"),
    ),
    admin_only=True,
    write_concern=True,
    in_transaction=True,
)
def commit_transaction(ctx: CommandContext, _request: dict[str, Any]) -> Reply:
    """Commit a transaction; committing again changes nothing."""
    # Drivers repeat a commit whose reply was lost, so a transaction that is committed is no error.
    ctx.node.transactions.commit(_running(ctx, "commitTransaction"))
    return {}


@table.command(
    "abortTransaction",
    kind="write",
    fields=Fields.of(Field("abortTransaction", "any"), Field("recoveryToken", "object")),
    admin_only=True,
    write_concern=True,
    in_transaction=True,
)
def abort_transaction(ctx: CommandContext, _request: dict[str, Any]) -> Reply:
    """Abort a transaction: nothing of it remains."""
    ctx.node.transactions.abort(_running(ctx, "abortTransaction"))
    return {}


def _running(ctx: CommandContext, name: str) -> Transaction:
    if ctx.transaction is None:
        raise CommandError(ErrorCode.COMMAND_FAILED, f"{name} must be run within a transaction")
    return ctx.transaction
