"""The checks of a request before it runs: session fields, eligibility, replica state, `maxTimeMS`.

They stand at five steps, whose order differs between a mongod and a mongos (`request.pipeline`). Session
fields have two kinds of rules. Structure (is there an lsid, is the number a long) is checked before fail
points, so that a malformed request consumes none. Eligibility (may this command have a transaction number at
all) is checked after them on a mongod, so that a fail point can meet a command which would have been refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64

from fakeserver.admission.invocations import needs_primary
from fakeserver.deployment.records.journal_search import COLLECTION
from fakeserver.deployment.replication.state import Role
from fakeserver.errors import CommandError, expired
from fakeserver.idl.fields import Field, type_name, whole
from fakeserver.profile import WIRE_82
from fakeserver.request.pipeline import PASS, Action, Outcome, Stage, Step
from fakeserver.request.session_ids import own_session
from fakeserver.sessions.session import parse_session_id
from fakeserver.settings.failpoints import (
    MAX_TIME_ALWAYS_TIME_OUT,
    MAX_TIME_NEVER_TIME_OUT,
    RESPOND_WITH_NOT_PRIMARY,
    SKIP_NOT_PRIMARY_CHECK,
)
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import not_an_integer
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Shape
    from fakeserver.sessions.cursors import Cursor


_TXN_NUMBER_NOT_HERE: Final = 50889
_NO_START: Final = {
    "commitTransaction": "Cannot start a transaction with a commit",
    "abortTransaction": "Cannot start a transaction with an abort",
    "prepareTransaction": "Cannot start a transaction with a prepare",
    "killCursors": "Cannot run killCursors as the first operation in a multi-document transaction.",
}
"""The commands that cannot be a transaction's first, each with its message."""


_OWN: Final = frozenset({"lsid", "txnNumber", "autocommit", "startTransaction"})


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
                # Used also by a command that is refused later: a server starts sessions on arrival.
                request.node.sessions.use(session_id, now)
        if "txnNumber" in command or "autocommit" in command or "startTransaction" in command:
            # The localhost exception: the first user is made by a client without a name, whose commands
            # belong to no session, and a server does not look at their session fields.
            if request.node.auth and request.spec.requires_auth and not _is_known(request):
                return PASS
            # This order decides which of several faults a client hears of; it is the server's.
            number = command.get("txnNumber")
            if number is not None:
                _check_txn_number(request, number)
            if "autocommit" in command:
                _check_autocommit(request, command, number)
            if "startTransaction" in command:
                _check_start(request, command)
            request.txn_number = None if number is None else int(number)
        return PASS

    def entry(self, _spec: CommandSpec | None, shape: Shape, _node: Node) -> Enter | None:
        return None if _OWN.isdisjoint(shape.names) else self.enter


def _take_own(request: RequestContext, lsid: Any, now: float) -> None:
    """Use the session of the connection's user."""
    # Before authentication an lsid is ignored: drivers may send one with hello and saslStart.
    if not _is_known(request):
        return
    identity = request.connection.identity
    request.session_id = key = own_session(request.node, request.connection, lsid, "lsid")
    session = request.node.sessions.use(key, now)
    # Not for a session of another user, which an administrator has named by its digest.
    if not session.user and session.uid == identity.session_uid:
        session.user = identity.session_user


def _is_known(request: RequestContext) -> bool:
    return request.connection.identity.is_known(request.node.users, bypass=False)


def _check_txn_number(request: RequestContext, number: Any) -> None:
    # A field of type long takes no int, unlike most numbers of commands: a driver that wraps one hears of it.
    if type(number) is not Int64:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{request.name}.txnNumber' is the wrong type '{type_name(number)}',"
            " expected type 'long'",
        )
    # Commands without authentication, such as hello, belong to the connection and to no session. That they
    # cannot be in a transaction either is said later.
    if not request.spec.requires_auth and "autocommit" not in (request.command or {}):
        raise CommandError(_TXN_NUMBER_NOT_HERE, "It is illegal to provide a txnNumber for this command")
    if request.session_id is None:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, "Transaction number requires a session ID to also be specified"
        )
    # The records of a retryable write are part of the oplog, which a standalone has not.
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
    # Only false is legal, and means "part of a transaction"; true would mean what its absence means.
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


_MAX_DB_BYTES: Final = 63
_FORBIDDEN: Final = frozenset('/\\. "\0$')
_EXTERNAL: Final = "$external"
_KNOWN_NAMES: Final = 1024
"""The names of databases that are remembered as valid: enough for a test, and no leak for a fuzzer."""
_LOCAL: Final = "local"
_OWN_DBS: Final = ("config", _LOCAL)
_OWN_COLLECTIONS: Final = ("system.profile", "system.views")
_COUNT_HINT: Final = (
    " Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
)


def is_valid_db(name: str) -> bool:
    """Say whether a database may have this name."""
    if name == _EXTERNAL:
        return True
    return 0 < len(name.encode()) <= _MAX_DB_BYTES and _FORBIDDEN.isdisjoint(name)


class Eligibility(Stage):
    """Checks the database's name, then whether the command may have a transaction number."""

    step = Step.ELIGIBILITY

    def __init__(self) -> None:
        self._valid: set[str] = set()

    def enter(self, request: RequestContext, _now: float) -> Action:
        if request.db not in self._valid:
            self._check_db(request)
        if request.txn_number is not None:
            _check_transaction(request)
        return PASS

    def _check_db(self, request: RequestContext) -> None:
        name = request.db
        if name == _LOCAL:  # never remembered: it has a collection that cannot be written to
            spec, command = request.spec, request.command or {}
            if request.target == COLLECTION and needs_primary(spec.kind, spec.name, command):
                raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"{_LOCAL}.{COLLECTION} is read-only")
            return
        if not is_valid_db(name):
            raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid database name: '{name}'")
        if len(self._valid) < _KNOWN_NAMES:
            self._valid.add(name)


def _check_transaction(request: RequestContext) -> None:
    spec = request.spec
    if request.has_autocommit:
        if not spec.in_transaction:
            hint = _COUNT_HINT if spec.name == "count" else ""
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Cannot run '{spec.name}' in a multi-document transaction.{hint}",
            )
        # These are not replicated like others (`local`), or hold the state of transactions themselves
        # (`config`).
        if request.db in _OWN_DBS:
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Cannot run command against the '{request.db}' database in a transaction.",
            )
        target = next(iter((request.command or {}).values()), None)
        if target in _OWN_COLLECTIONS:
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Cannot run command against the '{request.db}.{target}' collection in a transaction.",
            )
    elif not spec.retryable_write:
        raise CommandError(
            ErrorCode.NOT_A_RETRYABLE_WRITE_COMMAND,
            "txnNumber may only be provided for multi-document transactions and retryable write commands."
            f" autocommit:false was not provided, and {spec.name} is not a retryable write command.",
        )


class ReplicaState(Stage):
    """Refuses a command that the member's role does not allow (`SDAM: not writable primary errors`).

    Writes need the primary; reads may opt in to secondaries; commands about the server run anywhere.
    """

    step = Step.REPLICA_STATE

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.kind not in {"admin", "internal"}

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        # A standalone is its own primary, unless a fail point says otherwise.
        return self.enter if node.is_replicated or node.fail_points.active else None

    def enter(self, request: RequestContext, _now: float) -> Action:
        node = request.node
        fail_points = node.fail_points
        if fail_points.active:
            # The one that skips the check is asked first, as on a server.
            if fail_points.is_on(SKIP_NOT_PRIMARY_CHECK):
                return PASS
            if fail_points.is_on(RESPOND_WITH_NOT_PRIMARY):
                raise _not_primary(request)
        role = node.role
        # `local` is every member's own, to read and to write.
        if role is Role.PRIMARY or request.db == "local":
            return PASS
        # Ahead of the member's state: a write is 10107 on a recovering member too.
        if needs_primary(request.spec.kind, request.spec.name, request.command or {}):
            raise _not_primary(request)
        if not request.spec.on_secondaries and not _opts_in(request.command):
            hello_ok = request.connection.hello_ok
            message = "not primary and secondaryOk=false" if hello_ok else "not master and slaveOk=false"
            raise CommandError(ErrorCode.NOT_PRIMARY_NO_SECONDARY_OK, message)
        # An arbiter, or a member that is in no set (yet, or any more), has no data that could be read.
        if role is Role.RECOVERING:
            raise CommandError(ErrorCode.NOT_PRIMARY_OR_SECONDARY, "node is recovering")
        if role is not Role.SECONDARY:
            message = "node is not in primary or recovering state"
            raise CommandError(ErrorCode.NOT_PRIMARY_OR_SECONDARY, message)
        return PASS


def _opts_in(command: Any) -> bool:
    preference = command.get("$readPreference")
    return isinstance(preference, dict) and preference.get("mode", "primary") != "primary"


# The codes decide for drivers that know `hello`. Older ones search the message for "not master", so a client
# that has not sent helloOk is answered in its words.


def _not_primary(request: RequestContext) -> CommandError:
    message = "not primary" if request.connection.hello_ok else "not master"
    return CommandError(ErrorCode.NOT_WRITABLE_PRIMARY, message)


_INT32_MAX: Final = (1 << 31) - 1
_MAX_TIME_MS: Final = Field("maxTimeMS", "number")


class Deadline(Stage):
    """Arms the deadline, counted from the arrival, and fails a command that is past it already.

    It is past it already when a fail point has blocked it, or the rate limiter's queue on a mongos.
    """

    step = Step.DEADLINE

    def entry(self, _spec: CommandSpec | None, shape: Shape, _node: Node) -> Enter | None:
        return self.enter if "maxTimeMS" in shape.names else None

    def enter(self, request: RequestContext, now: float) -> Action:
        command = request.command
        if command is None or command.get("maxTimeMS") is None:
            return PASS
        max_time_ms = parse_max_time_ms(command["maxTimeMS"], request)
        # On a getMore it is the time to wait for data, which the handler of a tailable cursor reads.
        if request.spec.name == "getMore":
            command["maxTimeMS"] = max_time_ms
            return PASS
        if not max_time_ms:  # 0 is no limit
            return PASS
        fail_points = request.node.fail_points
        if fail_points.active:
            if fail_points.is_on(MAX_TIME_ALWAYS_TIME_OUT):
                raise expired()
            if fail_points.is_on(MAX_TIME_NEVER_TIME_OUT):
                return PASS
        request.deadline = request.arrived + max_time_ms / 1000
        if now >= request.deadline:
            raise expired()
        return PASS


class TimeLeft(Stage):
    """Gives a getMore the time that the command which opened its cursor has left of its `maxTimeMS`.

    The time counts from here, unlike a command's own: what held the getMore back before is no part of it.
    The handler fails what is late, and a cursor whose time is over is destroyed.
    """

    step = Step.READ_CONCERN

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.name == "getMore"

    def enter(self, request: RequestContext, now: float) -> Action:
        cursor = _cursor(request)
        # One that awaits data was opened with a time for that, not with one for the whole result.
        if cursor is None or cursor.time_left is None or cursor.await_data:
            return PASS
        fail_points, left = request.node.fail_points, cursor.time_left
        if fail_points.active:
            if fail_points.is_on(MAX_TIME_ALWAYS_TIME_OUT):
                left = 0.0
            elif fail_points.is_on(MAX_TIME_NEVER_TIME_OUT):
                return PASS
        request.deadline = now + left
        return PASS

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        failure, cursor = request.response.failure, _cursor(request)
        if failure is not None and failure.code == ErrorCode.MAX_TIME_MS_EXPIRED and cursor is not None:
            request.node.cursors.kill(cursor.id)


def _cursor(request: RequestContext) -> Cursor | None:
    return request.node.cursors.cursors.get((request.command or {}).get("getMore", 0))


def parse_max_time_ms(value: Any, request: RequestContext) -> int:
    """Return `maxTimeMS`, in milliseconds. Raises `CommandError` 14, 9 or 2."""
    _MAX_TIME_MS.check(value, f"{request.name}.maxTimeMS")
    number = whole(value)
    reason = not_an_integer(value)
    if reason is not None and request.node.profile.max_wire_version >= WIRE_82:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, f"{reason}: maxTimeMS: {show(value)}")
    if number < 0:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"BSON field 'maxTimeMS' value must be >= 0, actual value '{number}'"
        )
    if number > _INT32_MAX:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"{number} value for maxTimeMS is out of range [0, {_INT32_MAX}]"
        )
    if reason is not None:
        raise CommandError(ErrorCode.BAD_VALUE, "maxTimeMS has non-integral value")
    return number


# The client metadata of a handshake (`MongoDB Handshake: client`), kept with the connection.


# Both bounds are the specification's: drivers truncate their metadata to fit.
_MAX_DOCUMENT_BYTES: Final = 512
_MAX_APP_NAME_BYTES: Final = 128
_REQUIRED: Final = {"driver": ("name", "version"), "os": ("type",)}


class ClientMetadata(Stage):
    """Stores the facts of a first hello, before fail points compare the application name."""

    step = Step.CLIENT_METADATA

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.handshake

    def enter(self, request: RequestContext, _now: float) -> Action:
        command = request.command
        # The server's own repetition of an exhaust hello carries the `client` of the first one again.
        if request.is_continuation or command is None:
            return PASS
        connection = request.connection
        metadata = command.get("client")
        if metadata is not None:
            if connection.metadata is not None:
                raise CommandError(
                    ErrorCode.CLIENT_METADATA_CANNOT_BE_MUTATED,
                    "The client metadata document may only be sent in the first hello",
                )
            _check(metadata)
            connection.metadata = metadata
            connection.app_name = str(metadata.get("application", {}).get("name", ""))
        if "internalClient" in command:
            connection.internal_client = True
        if "helloOk" in command:
            connection.hello_ok = bool(command["helloOk"])
        return PASS


def _check(metadata: Any) -> None:
    """Validate the document. Raises `CommandError` 14, 183, 184 or 185."""
    if not isinstance(metadata, dict):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"The client metadata document must be a document, not {type_name(metadata)}",
        )
    if len(bson.encode(metadata)) > _MAX_DOCUMENT_BYTES:
        raise CommandError(
            ErrorCode.CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            f"The client metadata document must be less then or equal to {_MAX_DOCUMENT_BYTES} bytes",
        )
    application = metadata.get("application", {})
    name = application.get("name", "") if isinstance(application, dict) else None
    if not isinstance(name, str):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "The 'application.name' field must be a string in the client metadata document",
        )
    if len(name.encode()) > _MAX_APP_NAME_BYTES:
        raise CommandError(
            ErrorCode.CLIENT_METADATA_APP_NAME_TOO_LARGE,
            f"The 'application.name' field must be less then or equal to {_MAX_APP_NAME_BYTES} bytes in the"
            " client metadata document",
        )
    for section, names in _REQUIRED.items():
        _check_section(metadata, section, names)


def _check_section(metadata: dict[str, Any], section: str, names: tuple[str, ...]) -> None:
    document = metadata.get(section)
    if not isinstance(document, dict):
        raise CommandError(
            ErrorCode.CLIENT_METADATA_MISSING_FIELD,
            f"Missing required sub-document '{section}' in the client metadata document",
        )
    for name in names:
        if name not in document:
            raise CommandError(
                ErrorCode.CLIENT_METADATA_MISSING_FIELD,
                f"Missing required field '{section}.{name}' in the client metadata document",
            )
