"""The session and transaction fields of a request (`Driver Sessions`, `Transactions`: structure alone)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Int64
from bson.binary import UUID_SUBTYPE

from fakeserver.access.privileges import CLUSTER
from fakeserver.errors import CommandError
from fakeserver.idl import type_name
from fakeserver.pipeline import PASS, Action, Stage, Step
from fakeserver.sessions import session_key
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.connection_state import ConnectionState
    from fakeserver.node import Node
    from fakeserver.request import RequestContext

_TXN_NUMBER_NOT_HERE: Final = 50889
_UUID_BYTES: Final = 16
_NO_START: Final = {
    "commitTransaction": "Cannot start a transaction with a commit",
    "abortTransaction": "Cannot start a transaction with an abort",
    "prepareTransaction": "Cannot start a transaction with a prepare",
    "killCursors": "Cannot run killCursors as the first operation in a multi-document transaction.",
}


class SessionFields(Stage):
    """Checks how `lsid`, `txnNumber`, `autocommit` and `startTransaction` go together."""

    step = Step.SESSION

    def enter(self, request: RequestContext, now: float) -> Action:
        command = request.command
        assert command is not None
        lsid = command.get("lsid")
        if lsid is not None:
            if request.node.auth:
                _take_own(request, lsid, now)
            else:
                request.session_id = session_id = parse_session_id(lsid, "lsid")
                request.node.sessions.use(session_id, now)
        if "txnNumber" in command or "autocommit" in command or "startTransaction" in command:
            if request.node.auth and _has_no_sessions(request):
                return PASS
            _check_transaction_fields(request, command)
        return PASS


def _take_own(request: RequestContext, lsid: Any, now: float) -> None:
    """Use the session that a user means; who is nobody has none, and what it says of one is not heard."""
    if not _is_known(request):
        return
    identity = request.connection.identity
    request.session_id = key = own_session(request.node, request.connection, lsid, "lsid")
    session = request.node.sessions.use(key, now)
    if not session.user and session.uid == identity.session_uid:
        session.user = identity.session_user


def _has_no_sessions(request: RequestContext) -> bool:
    """Say whether a client uses the localhost exception, whose commands belong to no session."""
    return request.spec.requires_auth and not _is_known(request)


def _is_known(request: RequestContext) -> bool:
    return request.connection.identity.is_known(request.node.users, bypass=False)


def own_session(node: Node, connection: ConnectionState, lsid: Any, path: str, *leave: str) -> bytes:
    """Return the key of the session that a client means by an `lsid`: its own of that UUID.

    Another user's, told by the digest `uid`, is for those who may `impersonate`, or have another `leave` on
    the cluster. Raises `CommandError` 14, 40414 or 207, and 13 for a client without a user.
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


def parse_session_id(lsid: Any, path: str) -> bytes:
    """Return the UUID of an `lsid`. Raises `CommandError` 14, 40414 or 207."""
    if not isinstance(lsid, dict):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{path}' is the wrong type '{type_name(lsid)}', expected type 'object'",
        )
    uuid = lsid.get("id")
    if uuid is None:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE, f"BSON field '{path}.id' is missing but a required field"
        )
    if not isinstance(uuid, bytes):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{path}.id' is the wrong type '{type_name(uuid)}', expected type 'binData'",
        )
    if not isinstance(uuid, Binary) or uuid.subtype != UUID_SUBTYPE or len(uuid) != _UUID_BYTES:
        raise CommandError(
            ErrorCode.INVALID_UUID, "uuid must be a 16-byte binary field with UUID (4) subtype"
        )
    return bytes(uuid)


def _check_transaction_fields(request: RequestContext, command: dict[str, Any]) -> None:
    number = command.get("txnNumber")
    if number is not None:
        _check_txn_number(request, number)
    if "autocommit" in command:
        _check_autocommit(request, command, number)
    if "startTransaction" in command:
        _check_start(request, command)
    request.txn_number = None if number is None else int(number)
    request.has_autocommit = "autocommit" in command


def _check_txn_number(request: RequestContext, number: Any) -> None:
    if type(number) is not Int64:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{request.name}.txnNumber' is the wrong type '{type_name(number)}',"
            " expected type 'long'",
        )
    if not request.spec.requires_auth:
        raise CommandError(_TXN_NUMBER_NOT_HERE, "It is illegal to provide a txnNumber for this command")
    if request.session_id is None:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, "Transaction number requires a session ID to also be specified"
        )
    if not request.node.is_replicated:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION,
            "Transaction numbers are only allowed on a replica set member or mongos",
        )
    if number < 0:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "Transaction number cannot be negative")


def _check_autocommit(request: RequestContext, command: dict[str, Any], number: Any) -> None:
    if not request.spec.requires_auth:
        raise CommandError(
            ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "This command is not supported in transactions",
        )
    if number is None:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "'autocommit' field requires a transaction number to also be specified",
        )
    if command["autocommit"] is not False:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "Specifying autocommit=true is not allowed.")


def _check_start(request: RequestContext, command: dict[str, Any]) -> None:
    if "autocommit" not in command:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "'startTransaction' field requires 'autocommit' field to also be specified",
        )
    if command["startTransaction"] is not True:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "Specifying startTransaction=false is not allowed.")
    refusal = _NO_START.get(request.spec.name)
    if refusal is not None:
        raise CommandError(ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION, refusal)
