"""The operations of a server, as `currentOp` shows them, and their early end (`killOp`, `killSessions`).

On one event loop only one request is in the middle of a step. All others that are under way wait: for an
instant, for a write, for other members, in a block of a fail point, or, because they take long, for their
next turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.idl.fields import SECRETS, first_argument
from fakeserver.profile import WIRE_44
from fakeserver.request.queueing import of_running
from fakeserver.sessions.session import lsid_of
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Container

    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.server import OpenConnection
    from fakeserver.request.context import RequestContext

_KINDS: Final = {
    "find": "query",
    "getMore": "getmore",
    "insert": "insert",
    "update": "update",
    "delete": "remove",
}


def describe(request: RequestContext, now: float, utc: dt.datetime) -> dict[str, Any]:
    """Return a request as an operation of `currentOp`."""
    connection, node = request.connection, request.node
    elapsed = max(now - request.arrived, 0.0)
    names = sorted(connection.identity.names)
    users = {"effectiveUsers": [{"user": user, "db": db} for db, user in names]} if names else {}
    found = {
        "type": "op",
        "host": node.address,
        **_client(connection),
        "active": True,
        "currentOpTime": utc.isoformat(timespec="milliseconds") + "+00:00",
        **users,
        "threaded": True,
        "opid": operation_id(request),
    }
    if request.session_id is not None:
        found["lsid"] = lsid_of(request.session_id)
    if request.txn_number is not None:
        autocommit = {"autocommit": False} if request.has_autocommit else {}
        found["transaction"] = {"parameters": {"txnNumber": Int64(request.txn_number), **autocommit}}
    return found | {
        "secs_running": Int64(elapsed),
        "microsecs_running": Int64(elapsed * 1_000_000),
        "op": _KINDS.get(request.spec.name, "command"),
        "ns": _namespace(request),
        "redacted": False,
        "command": _shown(request),
        **originating(request),
        **of_running(request, now),
    }


def originating(request: RequestContext) -> dict[str, Any]:
    """Return as `originatingCommand` what opened the cursor of a getMore, and nothing for other requests."""
    origin = request.execution.origin
    return {} if origin is None else {"originatingCommand": dict(origin)}


def describe_idle(node: Node, connection: ConnectionState, utc: dt.datetime) -> dict[str, Any]:
    """Return a connection on which nothing runs, as `$currentOp` does with `idleConnections`."""
    return {
        "type": "op",
        "host": node.address,
        **_client(connection),
        "active": False,
        "currentOpTime": utc.isoformat(timespec="milliseconds") + "+00:00",
        "op": "none",
        "ns": "",
    }


def _client(connection: ConnectionState) -> dict[str, Any]:
    found: dict[str, Any] = {"desc": connection.thread_name, "connectionId": connection.id}
    found["client"] = connection.peer
    if connection.app_name:
        found["appName"] = connection.app_name
    if connection.metadata:
        found["clientMetadata"] = connection.metadata
    return found


def _namespace(request: RequestContext) -> str:
    command = request.command or {}
    if request.spec.name == "getMore":
        target = command.get("collection")
    else:
        target = first_argument(command) if command else None
    if request.spec.kind in {"admin", "internal"} or not isinstance(target, str):
        return f"{request.db}.$cmd"
    return f"{request.db}.{target}"


def _shown(request: RequestContext) -> dict[str, Any]:
    shown = {name: value for name, value in (request.command or {}).items() if name not in SECRETS}
    origin = request.execution.origin
    # Since 4.4 a getMore has the comment of what opened its cursor, unless it has its own.
    if origin is not None and "comment" in origin and request.node.profile.max_wire_version >= WIRE_44:
        shown.setdefault("comment", origin["comment"])
    return {**shown, "$db": request.db}


def operation_id(request: RequestContext) -> int:
    """Return the number by which a request can be killed, drawn when it is first shown."""
    if not request.execution.operation_id:
        request.node.last_operation_id += 1
        request.execution.operation_id = request.node.last_operation_id
    return request.execution.operation_id


def kill(node: Node, number: int) -> None:
    """End the operation of that number, if it runs."""
    for connection, request in node.waiting():
        if request.execution.operation_id == number:
            _interrupt(connection, request)


def kill_sessions(node: Node, session_ids: Container[bytes]) -> None:
    """End the operations of sessions."""
    for connection, request in node.waiting():
        if request.session_id in session_ids:
            _interrupt(connection, request)


def _interrupt(connection: OpenConnection, request: RequestContext) -> None:
    """Interrupt a request. Not at once: the command that asks for it is in the middle of its run."""
    error = CommandError(ErrorCode.INTERRUPTED, "operation was interrupted")
    asyncio.get_running_loop().call_soon(connection.interrupt, request, error)
