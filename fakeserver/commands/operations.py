"""What a server tells of its running operations and connections, and the switches of its upkeep."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver import operations
from fakeserver.catalog import matching
from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError
from fakeserver.idl import GENERIC, Field, Fields, truth, type_name, whole
from fakeserver.sessions import lsid_of, uid_of
from fakeserver.storage.matching import compile_filter
from fakeserver.storage.values import exact
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.commands.cursors import Cursor
    from fakeserver.storage.engine import Document

table = CommandTable()

_PROFILE_LEVELS: Final = (0, 1, 2)
_CURRENT_OP: Final = Fields.of(
    *(Field(name, "bool") for name in ("allUsers", "idleConnections", "idleCursors", "idleSessions")),
    *(Field(name, "bool") for name in ("localOps", "backtrace", "truncateOps", "targetAllNodes")),
)


@table.command("currentOp", kind="internal", admin_only=True)
def current_op(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the operations that run; every field but the switches filters them."""
    switches = {
        "allUsers": not truth(command.get("$ownOps", False)),
        "idleConnections": truth(command.get("$all", False)),
    }
    switched = {"$all", "$ownOps", "$truncateOps"} | GENERIC
    wanted = {name: value for name, value in list(command.items())[1:] if name not in switched}
    return {"inprog": matching(current_operations(ctx, switches), wanted)}


def current_operations(ctx: CommandContext, switches: Any) -> list[Document]:
    """Return what `$currentOp` does, with its options. Raises `CommandError` 9 or 14."""
    _check_switches(switches)
    everybodys = switches.get("allUsers", False)
    found = list(_active(ctx, everybodys=everybodys))
    if switches.get("idleConnections", False):
        found += _idle_connections(ctx, everybodys=everybodys)
    if switches.get("idleSessions", not switches.get("localOps", True)):
        found += _idle_sessions(ctx, everybodys=everybodys)
    if switches.get("idleCursors", False):
        found += _idle_cursors(ctx, everybodys=everybodys)
    return found


def _check_switches(switches: Any) -> None:
    if not isinstance(switches, dict):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$currentOp options must be specified in an object, but found: {type_name(switches)}",
        )
    for name in switches:
        if name not in _CURRENT_OP.by_name:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE, f"Unrecognized option '{name}' in $currentOp stage."
            )
        if not isinstance(switches[name], bool):
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"The '{name}' parameter of the $currentOp stage must be a boolean value, but found:"
                f" {type_name(switches[name])}",
            )


def _active(ctx: CommandContext, *, everybodys: bool) -> Iterator[Document]:
    requests = [ctx.request, *(request for _, request in operations.running(ctx.node))]
    for request in requests:
        if everybodys or _is_mine(ctx, request.connection.identity.names):
            yield operations.describe(request, ctx.now, ctx.utc())


def _is_mine(ctx: CommandContext, names: frozenset[tuple[str, str]]) -> bool:
    return not ctx.node.auth or bool(ctx.who & names)


def _idle_connections(ctx: CommandContext, *, everybodys: bool) -> Iterator[Document]:
    for connection in ctx.node.connections.values():
        state = connection.state
        busy = connection.waiting is not None or state is ctx.connection
        if not busy and (everybodys or _is_mine(ctx, state.identity.names)):
            yield operations.describe_idle(ctx.node, state, ctx.utc())


def _idle_sessions(ctx: CommandContext, *, everybodys: bool) -> Iterator[Document]:
    """Iterate over the open transactions in which nothing runs."""
    busy = {request.session_id for _, request in operations.running(ctx.node)}
    mine = {uid_of(user, db) for db, user in ctx.who}
    for session in ctx.node.sessions.live():
        if session.id not in ctx.node.transactions.open or session.id in busy:
            continue
        if everybodys or not ctx.node.auth or session.uid in mine:
            numbers = {"txnNumber": Int64(session.txn_number), "autocommit": False}
            yield {
                "type": "idleSession",
                "host": ctx.node.address,
                "desc": "inactive transaction",
                "active": False,
                "lsid": lsid_of(session.id),
                "transaction": {"parameters": numbers},
            }


def _idle_cursors(ctx: CommandContext, *, everybodys: bool) -> Iterator[Document]:
    for cursor in ctx.cursors:
        if everybodys or _is_mine(ctx, cursor.owner):
            yield {
                "type": "idleCursor",
                "host": ctx.node.address,
                "ns": str(cursor.ns),
                "cursor": _cursor_facts(ctx, cursor),
            }


def _cursor_facts(ctx: CommandContext, cursor: Cursor) -> Document:
    idle = dt.timedelta(seconds=max(ctx.now - cursor.last_use, 0.0))
    return {
        "cursorId": Int64(cursor.id),
        "lastAccessDate": ctx.utc() - idle,
        "noCursorTimeout": cursor.no_timeout,
        "tailable": cursor.refill is not None,
        "awaitData": cursor.await_data,
        "originatingCommand": dict(cursor.origin),
    }


@table.command(
    "killOp",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("op", "int|long|double|string", required=True), strict=False),
)
def kill_op(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Have an operation end. As a server does, say only that it was tried."""
    number = command["op"]
    if type(number) is not str:
        operations.kill(ctx.node, whole(number))
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
        Field("sampleRate", "number", minimum=0, maximum=1),
        Field("filter", "object|string"),
    ),
)
def profile(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Tell and set what is recorded in this database's `system.profile`."""
    level, profiler = first_argument(command), ctx.node.profiler
    profiling = profiler.profiling
    reply: Reply = {
        "was": profiling.levels.get(ctx.db, 0),
        "slowms": profiling.slow_ms,
        "sampleRate": profiling.sample_rate,
    }
    if profiling.filter is not None:
        reply |= {"filter": profiling.filter, "note": _FILTER_NOTE}
    if level > 0 and ctx.node.is_mongos:
        raise CommandError(ErrorCode.BAD_VALUE, "Profiling is not permitted on mongoS")
    profiling.slow_ms = command.get("slowms", profiling.slow_ms)
    profiling.sample_rate = float(exact(command.get("sampleRate", profiling.sample_rate)))
    if "filter" in command:
        _set_filter(ctx, command["filter"])
    if level in _PROFILE_LEVELS:
        profiler.set_level(ctx.db, level)
    return reply


_FILTER_NOTE: Final = (
    "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log"
    " lines."
)


def _set_filter(ctx: CommandContext, value: Mapping[str, Any] | str) -> None:
    profiling = ctx.node.profiler.profiling
    if isinstance(value, str):
        if value != "unset":
            raise CommandError(ErrorCode.BAD_VALUE, "Expected an object, or the string 'unset'.")
        profiling.filter = profiling.matches = None
        return
    profiling.matches = compile_filter(value)
    profiling.filter = dict(value)


@table.command(
    "fsync",
    kind="internal",
    admin_only=True,
    fields=Fields.of(Field("lock", "bool"), Field("async", "bool"), strict=False),
)
def fsync(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Do what there is to do to have data on a disk: nothing; with `lock`, hold writes back."""
    if not command.get("lock"):
        return {"numFiles": 1}
    return {
        "info": "now locked against writes, use db.fsyncUnlock() to unlock",
        "lockCount": Int64(ctx.node.write_lock.lock()),
        "seeAlso": "http://dochub.mongodb.org/core/fsynccommand",
    }


@table.command("fsyncUnlock", kind="internal", admin_only=True)
def fsync_unlock(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Let writes go on, once every lock is gone."""
    lock = ctx.node.write_lock
    if not lock.count:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "fsyncUnlock called when not locked")
    return {"info": "fsyncUnlock completed", "lockCount": Int64(lock.unlock())}


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
