"""The commands of logical sessions (`Driver Sessions`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.idl import Field, Fields
from fakeserver.operations import kill_sessions as kill_operations
from fakeserver.sessions import TIMEOUT_MINUTES
from fakeserver.stages.session import parse_session_id
from mongowire.ids import uuid

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.sessions import Session

table = CommandTable()


_USER: Final = Fields.of(Field("user", "string", required=True), Field("db", "string", required=True))
_PATTERN: Final = Fields.of(
    Field("lsid", "object"),
    Field("uid", "binData"),
    Field("users", "array", of=_USER),
    Field("roles", "array", of="object"),
)


def _list_of(command: str, of: str = "object") -> Fields:
    return Fields.of(Field(command, "array", of=of), strict=False)


@table.command("startSession", kind="internal")
def start_session(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Begin a logical session."""
    session_id = uuid(ctx.node.rng)
    ctx.node.sessions.use(bytes(session_id), ctx.now)
    return {"id": {"id": session_id}, "timeoutMinutes": TIMEOUT_MINUTES}


@table.command("refreshSessions", kind="internal", fields=_list_of("refreshSessions"))
def refresh_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Keep logical sessions from timing out."""
    for session_id in _ids(command, "refreshSessions.refreshSessionsFromClient"):
        ctx.node.sessions.use(session_id, ctx.now)
    return {}


@table.command("endSessions", kind="internal", requires_auth=False, fields=_list_of("endSessions"))
def end_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """End logical sessions."""
    ended = _ids(command, "endSessions.endSessionsFromClient")
    ctx.node.sessions.end(ended)
    ctx.node.transactions.abort_sessions(ended)
    return {}


@table.command("killSessions", kind="internal", fields=_list_of("killSessions"))
def kill_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Kill logical sessions with their cursors and transactions; no session named means all."""
    named = _ids(command, "killSessions.killSessionsFromClient")
    _kill(ctx, named or ctx.node.sessions.ids())
    return {}


@table.command(
    "killAllSessions",
    kind="internal",
    fields=Fields.of(Field("killAllSessions", "array", of=_USER), strict=False),
)
def kill_all_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Kill the logical sessions of users, or of everybody."""
    users = {(each["db"], each["user"]) for each in first_argument(command)}
    _kill(ctx, ctx.node.sessions.ids_of(lambda session: not users or bool(users & session.owner)))
    return {}


@table.command(
    "killAllSessionsByPattern",
    kind="internal",
    fields=Fields.of(Field("killAllSessionsByPattern", "array", of=_PATTERN), strict=False),
)
def kill_all_sessions_by_pattern(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Kill the logical sessions that one of the patterns fits, or all without any."""
    patterns = first_argument(command)
    _kill(ctx, ctx.node.sessions.ids_of(lambda session: not patterns or _fits_any(session, patterns)))
    return {}


def _fits_any(session: Session, patterns: list[dict[str, Any]]) -> bool:
    return any(_fits(session, pattern) for pattern in patterns)


def _fits(session: Session, pattern: dict[str, Any]) -> bool:
    if "lsid" in pattern:
        uid = pattern["lsid"].get("uid", session.uid)
        return parse_session_id(pattern["lsid"], "lsid") == session.id and bytes(uid) == session.uid
    if "uid" in pattern:
        return bytes(pattern["uid"]) == session.uid
    users = {(each["db"], each["user"]) for each in pattern.get("users", ())}
    return not users or bool(users & session.owner)


def _ids(command: dict[str, Any], path: str) -> list[bytes]:
    return [parse_session_id(lsid, path) for lsid in first_argument(command)]


def _kill(ctx: CommandContext, session_ids: list[bytes]) -> None:
    """Kill these sessions' cursors and transactions; what they wrote stays known, so retries stay safe."""
    ctx.node.transactions.abort_sessions(session_ids)
    kill_operations(ctx.node, frozenset(session_ids))
    for session_id in session_ids:
        ctx.cursors.kill_session(session_id)
