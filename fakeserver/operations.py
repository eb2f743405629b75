"""The operations that a server runs, as `currentOp` tells of them, and their early end.

What runs beside the one that asks is what waits: for time, for a write, for other members, in a block of a
fail point, or, because it works for long, for its next turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands.table import first_argument
from fakeserver.errors import CommandError
from fakeserver.queueing import of_running
from fakeserver.sessions import lsid_of
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Container, Iterator

    from fakeserver.connection import Connection
    from fakeserver.connection_state import ConnectionState
    from fakeserver.node import Node
    from fakeserver.request import RequestContext

_SECRETS: Final = frozenset({"pwd", "payload", "key", "digest", "speculativeAuthenticate"})
_KINDS: Final = {
    "find": "query",
    "getMore": "getmore",
    "insert": "insert",
    "update": "update",
    "delete": "remove",
}


def running(node: Node) -> Iterator[tuple[Connection, RequestContext]]:
    """Iterate over the requests that wait, each with its connection; one that was not read yet is none."""
    for connection in list(node.connections.values()):
        request = connection.waiting
        if request is not None and request.command is not None:
            yield connection, request


def describe(request: RequestContext, now: float, utc: dt.datetime) -> dict[str, Any]:
    """Return a request as an operation of `currentOp`."""
    connection, node = request.connection, request.node
    elapsed = max(now - request.arrived, 0.0)
    found = {
        "type": "op",
        "host": node.address,
        **_client(connection),
        "active": True,
        "currentOpTime": utc.isoformat(timespec="milliseconds") + "+00:00",
        **_users(request),
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
        **of_running(request, now),
    }


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


def _users(request: RequestContext) -> dict[str, Any]:
    names = sorted(request.connection.identity.names)
    return {"effectiveUsers": [{"user": user, "db": db} for db, user in names]} if names else {}


def _namespace(request: RequestContext) -> str:
    command = request.command or {}
    target = command.get("collection") if request.spec.name == "getMore" else _first(command)
    if request.spec.kind in {"admin", "internal"} or not isinstance(target, str):
        return f"{request.db}.$cmd"
    return f"{request.db}.{target}"


def _first(command: dict[str, Any]) -> Any:
    return first_argument(command) if command else None


def _shown(request: RequestContext) -> dict[str, Any]:
    shown = {name: value for name, value in (request.command or {}).items() if name not in _SECRETS}
    return {**shown, "$db": request.db}


def operation_id(request: RequestContext) -> int:
    """Return the number by which a request can be killed; it has one from the first time it is asked for."""
    if not request.operation_id:
        request.node.last_operation_id += 1
        request.operation_id = request.node.last_operation_id
    return request.operation_id


def kill(node: Node, number: int) -> None:
    """End the operation of that number, if it runs."""
    for connection, request in running(node):
        if request.operation_id == number:
            _interrupt(connection, request)


def kill_sessions(node: Node, session_ids: Container[bytes]) -> None:
    """End the operations of sessions."""
    for connection, request in running(node):
        if request.session_id in session_ids:
            _interrupt(connection, request)


def _interrupt(connection: Connection, request: RequestContext) -> None:
    """Have a request fail. Not at once: whoever asks for it is in the middle of a command."""
    error = CommandError(ErrorCode.INTERRUPTED, "operation was interrupted")
    asyncio.get_running_loop().call_soon(connection.interrupt, request, error)
