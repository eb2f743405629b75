"""The commands for sessions: start, refresh, end and kill them (Driver Sessions).

Behaviour: A session begins with its first use; `startSession` only makes an id. It ends 30 minutes after its
last use, or by endSessions, which aborts its transaction. killSessions and its relatives also end operations
and cursors; the records of executed statements stay, so that a retry is still safe. Under access control a
session belongs to a user: its id is the UUID and a digest of the user's name, and the sessions of others are
for those with `impersonate` or the command's own privilege (13). killSessions without a list means all of the
client's own.

Versions: The same in every release.

Not modelled: `config.system.sessions`: members and mongos know of all sessions at once. `roles` in a pattern
of killAllSessionsByPattern needs `impersonate` and selects nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.binary import UUID_SUBTYPE

from fakeserver.access.privileges import CLUSTER
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from fakeserver.request.operations import kill_sessions as kill_operations
from fakeserver.request.session_ids import own_session
from fakeserver.sessions.session import TIMEOUT_MINUTES, parse_session_id, session_key, uid_of
from mongowire.codes import ErrorCode
from mongowire.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.sessions.session import Session

table = CommandTable()


_USER: Final = Fields.of(Field("user", "string", required=True), Field("db", "string", required=True))
_USERS: Final = Fields.of(Field("killAllSessions", "array", of=_USER))
_PATTERN: Final = Fields.of(
    Field("lsid", "object"),
    Field("uid", "binData"),
    Field("users", "array", of=_USER),
    Field("roles", "array", of="object"),
)


_ID: Final = Fields.of(Field("id"), Field("uid"))


def _list_of(command: str) -> Fields:
    return Fields.of(Field(command, "array"), strict=False)


@table.command("startSession", kind="internal")
def start_session(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Begin a logical session."""
    session_id = uuid(ctx.node.rng)
    _use(ctx, own_session(ctx.node, ctx.connection, {"id": session_id}, "lsid"))
    return {"id": {"id": session_id}, "timeoutMinutes": TIMEOUT_MINUTES}


@table.command("refreshSessions", kind="internal", fields=_list_of("refreshSessions"))
def refresh_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Keep logical sessions from timing out."""
    for key in _keys(ctx, command, "refreshSessions.refreshSessionsFromClient"):
        _use(ctx, key)
    return {}


def _use(ctx: CommandContext, key: bytes) -> None:
    session = ctx.node.sessions.use(key, ctx.now)
    if ctx.node.auth and session.uid == ctx.connection.identity.session_uid:
        session.user = ctx.connection.identity.session_user


@table.command("endSessions", kind="internal", fields=_list_of("endSessions"))
def end_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """End logical sessions."""
    ended = _keys(ctx, command, "endSessions.endSessionsFromClient")
    ctx.node.sessions.end(ended)
    ctx.node.transactions.abort_sessions(ended)
    return {}


@table.command("killSessions", kind="internal", fields=_list_of("killSessions"))
def kill_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Kill logical sessions with their cursors and transactions; no session named means all one's own."""
    named = _keys(ctx, command, "killSessions.killSessionsFromClient", "killAnySession")
    # An empty list means the client's own sessions, which are all where there is no access control.
    if not named and ctx.node.auth:
        uid = ctx.connection.identity.session_uid
        named = ctx.node.sessions.ids_of(lambda session: session.uid == uid)
    elif not named:
        named = ctx.node.sessions.ids()
    _kill(ctx, named)
    return {}


@table.command(
    "killAllSessions",
    kind="internal",
    fields=Fields.of(Field("killAllSessions", "array"), strict=False),
)
def kill_all_sessions(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Kill the logical sessions of users, or of everybody."""
    users = [each for each in first_argument(command) if each is not None]
    _USERS.check({"killAllSessions": users}, "killAllSessions")
    uids = _uids(users)
    _kill(ctx, ctx.node.sessions.ids_of(lambda session: not uids or session.uid in uids))
    return {}


def _uids(users: Iterable[Mapping[str, str]]) -> frozenset[bytes]:
    return frozenset(uid_of(each["user"], each["db"]) for each in users)


@table.command(
    "killAllSessionsByPattern",
    kind="internal",
    fields=Fields.of(Field("killAllSessionsByPattern", "array", of=_PATTERN), strict=False),
)
def kill_all_sessions_by_pattern(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Kill the logical sessions that one of the patterns fits, or all without any."""
    patterns = first_argument(command)
    privileges = ctx.privileges
    # Names of users and roles stand for their owners: to act for them takes the privilege to be them.
    in_names = any({"users", "roles"} & pattern.keys() for pattern in patterns)
    if in_names and privileges is not None and not privileges.permit(CLUSTER, "impersonate"):
        raise CommandError(
            ErrorCode.UNAUTHORIZED, "Not authorized to impersonate in killAllSessionsByPattern"
        )

    def fits(session: Session) -> bool:
        return not patterns or any(_fits(session, pattern) for pattern in patterns)

    _kill(ctx, ctx.node.sessions.ids_of(fits))
    return {}


def _fits(session: Session, pattern: dict[str, Any]) -> bool:
    if "lsid" in pattern:
        uid = bytes(pattern["lsid"].get("uid", session.uid))
        return session_key(parse_session_id(pattern["lsid"], "lsid"), uid) == session.id
    if "uid" in pattern:
        return bytes(pattern["uid"]) == session.uid
    uids = _uids(pattern.get("users", ()))
    return not uids or session.uid in uids


def _keys(ctx: CommandContext, command: dict[str, Any], path: str, *leave: str) -> list[bytes]:
    keys = []
    for number, lsid in enumerate(first_argument(command)):
        if lsid is None:
            continue
        if isinstance(lsid, dict):
            where = f"{path}.{number}"
            _ID.check(lsid, where)
            value = lsid.get("id")
            if isinstance(value, bytes) and getattr(value, "subtype", 0) != UUID_SUBTYPE:
                raise CommandError(
                    ErrorCode.TYPE_MISMATCH,
                    f"BSON field '{where}.id' is the wrong binData type, expected type 'UUID'",
                )
        keys.append(own_session(ctx.node, ctx.connection, lsid, path, *leave))
    return keys


def _kill(ctx: CommandContext, session_ids: list[bytes]) -> None:
    """Kill these sessions' cursors and transactions; what they wrote stays known, so retries stay safe."""
    ctx.node.transactions.abort_sessions(session_ids)
    kill_operations(ctx.node, frozenset(session_ids))
    for session_id in session_ids:
        ctx.cursors.kill_session(session_id)
