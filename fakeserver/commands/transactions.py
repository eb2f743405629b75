"""The commands that end a transaction (`Transactions: commitTransaction`, `abortTransaction`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.transactions import Transaction

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
