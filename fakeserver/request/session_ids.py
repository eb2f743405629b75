"""Logical session ids as clients send them (`Sessions: lsid`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.access.privileges import CLUSTER
from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name
from fakeserver.sessions.session import parse_session_id, session_key
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.node import Node


def own_session(node: Node, connection: ConnectionState, lsid: Any, path: str, *leave: str) -> bytes:
    """Return the key of the session that a client names by an `lsid`: its own of that UUID.

    With the digest `uid` it may name another user's session. That takes the privilege `impersonate` on the
    cluster, or one of the actions in `leave`. Raises `CommandError` 14, 40414 or 207, and 13 without
    privilege.
    """
    uuid = parse_session_id(lsid, path)
    if not node.auth:
        return uuid
    uid = lsid.get("uid")
    if uid is None:
        return session_key(uuid, connection.identity.session_uid)
    if not isinstance(uid, bytes):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{path}.uid' is the wrong type '{type_name(uid)}', expected type 'binData'",
        )
    privileges = connection.identity.privileges(node.users, bypass=node.bypasses(connection))
    others = any(privileges.permit(CLUSTER, action) for action in (*leave, "impersonate"))
    if not others and uid != connection.identity.session_uid:
        raise CommandError(ErrorCode.UNAUTHORIZED, "Unauthorized to set user digest in LogicalSessionId")
    return session_key(uuid, bytes(uid))
