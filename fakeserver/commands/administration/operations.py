"""The commands for operations: show those that run, end them, record slow ones.

Behaviour: An operation runs, for currentOp, while its request waits: for time, for a lock, for other members,
in a fail point or for its next turn; the one that asks is listed first. Fields that are not switches filter
the list. A command of more than 1000 bytes is shown as the beginning of its text (`$truncated`) beside its
comment; `$currentOp` does so where `truncateOps` is true. Under access control `$ownOps` shows the client's
own operations; those of all need the privilege `inprog`. `killOp` answers ok whatever it found, as a server
does: the operation may end by itself meanwhile. `profile` returns the settings of before; only levels 0 to 2
change the level, others ask. A mongos refuses to record (2) and takes the other settings for its slow query
log.

Versions: `filter` of profile since 5.0.

Not modelled: Locks (lockInfo shows that of fsync alone), yields, plan summaries and progress of an operation.
`backtrace` and `targetAllNodes` are accepted and have no effect. On a mongos, the operations
of shards, and killOp by `shard:opid`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import GENERIC, Field, Fields, first_argument, truth, type_name, whole
from fakeserver.request import operations
from fakeserver.sessions.session import lsid_of, uid_of
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.plans.bounds import parsed
from fakeserver.storage.store.catalog import matching
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.types import exact, is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document

table = CommandTable()

_INT32_MAX: Final = 2**31 - 1
_NO_OP_ID: Final = 26823
_PROFILE_LEVELS: Final = (0, 1, 2)
_CURRENT_OP: Final = frozenset({
    *("allUsers", "idleConnections", "idleCursors", "idleSessions"),
    *("localOps", "backtrace", "truncateOps", "targetAllNodes"),
})  # fmt: skip


@table.command("currentOp", kind="internal", admin_only=True)
def current_op(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the running operations; every field but the switches filters them."""
    switches = {
        "allUsers": not truth(command.get("$ownOps", False)),
        "idleConnections": truth(command.get("$all", False)),
        "truncateOps": truth(command.get("$truncateOps", True)),
    }
    switched = {"$all", "$ownOps", "$truncateOps"} | GENERIC
    wanted = {name: value for name, value in list(command.items())[1:] if name not in switched}
    return {"inprog": matching(current_operations(ctx, switches), wanted)}


def current_operations(ctx: CommandContext, switches: Any) -> list[Document]:
    """Return what `$currentOp` does, with its options. Raises `CommandError` 9, 14 or 40415."""
    _check_switches(ctx, switches)
    all_users = switches.get("allUsers", False)
    found = list(_active(ctx, all_users=all_users))
    if switches.get("truncateOps", False):
        found = [{**each, "command": _truncated(each["command"])} for each in found]
    if switches.get("idleConnections", False):
        found += _idle_connections(ctx, all_users=all_users)
    if switches.get("idleSessions", True):
        found += _idle_sessions(ctx, all_users=all_users)
    if switches.get("idleCursors", False):
        found += _idle_cursors(ctx, all_users=all_users)
    return found


_MOST_SHOWN: Final = 1000
"""The bytes of a command beyond which it is truncated."""


def _truncated(command: Document) -> Document:
    if len(bson.encode(command)) <= _MOST_SHOWN:
        return command
    shown = {"$truncated": show_document(command)[:_MOST_SHOWN]}
    return {**shown, "comment": command["comment"]} if "comment" in command else shown


def _check_switches(ctx: CommandContext, switches: Any) -> None:
    if not isinstance(switches, dict):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"$currentOp options must be specified in an object, but found: {type_name(switches)}",
        )
    for name, value in switches.items():
        if name not in _CURRENT_OP:
            raise CommandError(
                ErrorCode.IDL_UNKNOWN_FIELD, f"BSON field '$currentOp.{name}' is an unknown field."
            )
        if not isinstance(value, bool):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"BSON field '$currentOp.{name}' is the wrong type '{type_name(value)}', expected type"
                " 'bool'",
            )
    if switches.get("targetAllNodes", False):
        if not ctx.node.is_mongos:
            message = "$currentOp supports targetAllNodes parameter only for sharded clusters"
            raise CommandError(ErrorCode.FAILED_TO_PARSE, message)
        if switches.get("localOps", False):
            message = "$currentOp supports either localOps or targetAllNodes, not both"
            raise CommandError(ErrorCode.FAILED_TO_PARSE, message)


def _active(ctx: CommandContext, *, all_users: bool) -> Iterator[Document]:
    requests = [ctx.request, *(request for _, request in ctx.node.waiting())]
    for request in requests:
        if all_users or _is_mine(ctx, request.connection.identity.names):
            yield operations.describe(request, ctx.now, ctx.utc())


def _is_mine(ctx: CommandContext, names: frozenset[tuple[str, str]]) -> bool:
    return not ctx.node.auth or bool(ctx.who & names)


def _idle_connections(ctx: CommandContext, *, all_users: bool) -> Iterator[Document]:
    for connection in ctx.node.connections.values():
        state = connection.state
        busy = connection.waiting is not None or state is ctx.connection
        if not busy and (all_users or _is_mine(ctx, state.identity.names)):
            yield operations.describe_idle(ctx.node, state, ctx.utc())


def _idle_sessions(ctx: CommandContext, *, all_users: bool) -> Iterator[Document]:
    """Iterate over the open transactions in which nothing runs."""
    busy = {request.session_id for _, request in ctx.node.waiting()}
    mine = {uid_of(user, db) for db, user in ctx.who}
    for session in ctx.node.sessions.live():
        if session.id not in ctx.node.transactions.open or session.id in busy:
            continue
        if all_users or not ctx.node.auth or session.uid in mine:
            numbers = {"txnNumber": Int64(session.txn_number), "autocommit": False}
            yield {
                "type": "idleSession",
                "host": ctx.node.address,
                "desc": "inactive transaction",
                "active": False,
                "lsid": lsid_of(session.id),
                "transaction": {"parameters": numbers},
            }


def _idle_cursors(ctx: CommandContext, *, all_users: bool) -> Iterator[Document]:
    for cursor in ctx.cursors:
        if all_users or _is_mine(ctx, cursor.owner):
            idle = dt.timedelta(seconds=max(ctx.now - cursor.last_use, 0.0))
            facts = {
                "cursorId": Int64(cursor.id),
                "lastAccessDate": ctx.utc() - idle,
                "noCursorTimeout": cursor.no_timeout,
                "tailable": cursor.refill is not None,
                "awaitData": cursor.await_data,
                "originatingCommand": dict(cursor.origin),
            }
            yield {"type": "idleCursor", "host": ctx.node.address, "ns": str(cursor.ns), "cursor": facts}


@table.command(
    "lockInfo", kind="internal", admin_only=True, home="mongod", fields=Fields.of(Field("lockInfo"))
)
def lock_info(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the locks that are held: that of fsync, and the writes that wait for it."""
    if not ctx.node.write_lock.count:
        return {"lockInfo": []}
    waiting = [request for _, request in ctx.node.waiting() if request.spec.kind == "write"]
    held = {"mode": "S", "convertMode": "NONE", "enqueueAtFront": True, "compatibleFirst": True}
    wanted = {"mode": "IX", "convertMode": "NONE", "enqueueAtFront": False, "compatibleFirst": False}
    return {
        "lockInfo": [
            {
                "resourceId": _GLOBAL_RESOURCE,
                "granted": [{**held, "debugInfo": "", "clientInfo": {"desc": "fsyncLockWorker"}}],
                "pending": [
                    {**wanted, "debugInfo": "", "clientInfo": {"desc": f"conn{each.connection.id}"}}
                    for each in waiting
                ],
            }
        ]
    }


@table.command(
    "dropConnections",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("dropConnections"), Field("hostAndPort", "array", required=True, of="string")),
)
def drop_connections(_ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Close the connections to other members: there are none, because members share their data in memory."""
    for each in command["hostAndPort"]:
        bracketed = each.startswith("[") and "]" in each
        if bracketed:
            host, _, rest = each.partition("]")
            colon, port = rest[:1], rest[1:]
        else:
            host, colon, port = each.rpartition(":")
        if not colon:
            host = each
        is_port = port.isdigit() and 0 < int(port) <= _MAX_PORT
        if not host or (":" in host and not bracketed) or (colon and not is_port):
            raise CommandError(ErrorCode.FAILED_TO_PARSE, f"Bad address '{each}': expected host:port")
    return {}


_MAX_PORT: Final = 65_535


@table.command(
    "killOp",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("op", nullable=False), strict=False),
)
def kill_op(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """End an operation; the reply says only that it was tried."""
    if "op" not in command:
        raise CommandError(ErrorCode.NO_SUCH_KEY, 'Did not provide "op" field')
    number = command["op"]
    # Text is the id of an operation on a shard, which a mongos would pass on; here a mongos runs all itself.
    if type(number) is str and ctx.node.is_mongos:
        return {"info": "attempting to kill op"}
    if not is_number(number):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f'Expected field "op" to have numeric type, but found {type_name(number)}',
        )
    if whole(number) != exact(number):
        raise CommandError(ErrorCode.BAD_VALUE, 'Expected field "op" to have a value exactly an integer')
    if not -_INT32_MAX - 1 <= whole(number) <= _INT32_MAX:
        raise CommandError(_NO_OP_ID, f"invalid op : {number}. Op ID cannot be represented with 32 bits")
    operations.kill(ctx.node, whole(number))
    return {"info": "attempting to kill op"}


@table.command(
    "profile",
    kind="internal",
    fields=Fields.of(
        Field("profile", "int"),
        Field("slowms", "int"),
        Field("sampleRate", "number", minimum=0, maximum=1),
        Field("filter", nullable=False),
    ),
)
def profile(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return and set what the profiler records in this database's `system.profile`."""
    level, profiler = first_argument(command), ctx.node.profiler
    profiling = profiler.profiling
    reply: Reply = {
        "was": profiling.levels.get(ctx.db, 0),
        "slowms": profiling.slow_ms,
        "sampleRate": profiling.sample_rate,
    }
    if profiling.filter is not None:
        reply |= {"filter": profiling.filter, "note": _FILTER_NOTE}
    # A mongos has no system.profile to write to; the other settings steer its slow query log.
    if ctx.node.is_mongos and level not in {-1, 0}:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            "Profiling is not permitted on mongoS: the 'profile' field should be 0 to change 'slowms',"
            " 'sampleRate', or 'filter' settings for logging, or -1 to view current values",
        )
    profiling.slow_ms = command.get("slowms", profiling.slow_ms)
    ctx.node.pipeline.recompile()
    profiling.sample_rate = float(exact(command.get("sampleRate", profiling.sample_rate)))
    if "filter" in command:
        _set_filter(ctx, command["filter"])
    # Any other level, usually -1, only asks.
    if level in _PROFILE_LEVELS:
        profiler.set_level(ctx.db, level)
        if level:
            ctx.catalog.profile_of(ctx.db)
    return reply


_GLOBAL_RESOURCE: Final = "{2305843009213693953: Global, 1}"
_FILTER_NOTE: Final = (
    "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log"
    " lines."
)


def _set_filter(ctx: CommandContext, value: Any) -> None:
    profiling = ctx.node.profiler.profiling
    if not isinstance(value, dict):
        if value != "unset":
            raise CommandError(ErrorCode.BAD_VALUE, "Expected an object, or the string 'unset'.")
        profiling.filter = profiling.matches = None
        return
    profiling.matches = compile_filter(value)
    profiling.filter = parsed(value)
