"""What a server tells of its running operations and connections, and the switches of its upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands.source_stages import current_operations
from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_PROFILE_LEVELS: Final = (0, 1, 2)
_SLOW_MS: Final = 100


@table.command("currentOp", kind="internal", admin_only=True)
def current_op(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the operations that run: between two commands, this one."""
    return {"inprog": current_operations(ctx, "currentOp")}


@table.command(
    "killOp",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("op", "int|long|double|string", required=True), strict=False),
)
def kill_op(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Try to end an operation. As a server does, say only that it was tried."""
    return {"info": "attempting to kill op"}


@table.command("top", kind="internal", admin_only=True)
def top(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the usage of each collection. No time is spent on any: operations take none."""
    idle = {"time": Int64(0), "count": Int64(0)}
    kinds = ("total", "readLock", "writeLock", "queries", "getmore", "insert", "update", "remove", "commands")
    names = [
        str(each.ns)
        for db in ctx.catalog.databases()
        for each in ctx.catalog.collections(db)
        if not each.is_view
    ]
    usage = {name: {kind: dict(idle) for kind in kinds} for name in names}
    return {"totals": {"note": "all times in microseconds", **usage}}


@table.command(
    "profile",
    kind="internal",
    fields=Fields.of(
        Field("profile", "int"),
        Field("slowms", "int"),
        Field("sampleRate", "number"),
        Field("filter", "object|string"),
    ),
)
def profile(_ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Tell the profiling level, which is 0: nothing is recorded, so another level is refused."""
    level = first_argument(command)
    if level in _PROFILE_LEVELS and level > 0:
        raise CommandError(ErrorCode.NOT_IMPLEMENTED, "this fake server records no profile of operations")
    return {"was": 0, "slowms": _SLOW_MS, "sampleRate": 1.0}


@table.command(
    "fsync",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("lock", "bool"), Field("async", "bool"), strict=False),
)
def fsync(_ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Do what there is to do to have data on a disk: nothing. A lock against writes is refused."""
    if command.get("lock"):
        raise CommandError(ErrorCode.NOT_IMPLEMENTED, "this fake server cannot be locked against writes")
    return {"numFiles": 1}


@table.command("fsyncUnlock", kind="internal", admin_only=True)
def fsync_unlock(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Refuse to unlock: nothing is locked."""
    raise CommandError(ErrorCode.ILLEGAL_OPERATION, "fsyncUnlock called when not locked")


@table.command("connPoolStats", kind="internal")
def conn_pool_stats(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Tell of the connections to other members: there are none, members share their data in memory."""
    return {
        "numClientConnections": 0,
        "numAScopedConnections": 0,
        "totalInUse": 0,
        "totalAvailable": 0,
        "totalLeased": 0,
        "totalCreated": 0,
        "totalRefreshing": 0,
        "pools": {},
        "hosts": {},
        "replicaSets": {},
    }
