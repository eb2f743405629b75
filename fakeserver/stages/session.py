"""The session and transaction fields of a request (`Driver Sessions`, `Transactions`: structure alone)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Int64
from bson.binary import UUID_SUBTYPE

from fakeserver.errors import CommandError
from fakeserver.idl import type_name
from fakeserver.pipeline import PASS, Action, Stage, Step
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
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
            request.session_id = session_id = parse_session_id(lsid, "lsid")
            session = request.node.sessions.use(session_id, now)
            if request.node.auth:
                session.owner = request.connection.identity.names
        if "txnNumber" in command or "autocommit" in command or "startTransaction" in command:
            _check_transaction_fields(request, command)
        return PASS


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
