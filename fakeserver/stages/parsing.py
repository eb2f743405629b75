"""From a message to a validated command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import bson
from bson import CodecOptions, DatetimeConversion, DBRef, Timestamp

from fakeserver.commands.statements import MAX_BATCH
from fakeserver.errors import CommandError
from fakeserver.idl import duplicate_field, type_name
from fakeserver.interrupts import in_steps, interruptible
from fakeserver.pipeline import PASS, Action, Disconnect, Silence, Stage, Step
from fakeserver.read_preference import check_read_preference
from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage, RemoteProtocolError
from mongowire.framing import names
from mongowire.messages import MORE_TO_COME, OpMsg, OpQuery, decode_document
from mongowire.pieces import Decoder, Unread, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.request import RequestContext
    from mongowire.connection import Envelope, Message

T = TypeVar("T")

_UNSUPPORTED_OP_QUERY: Final = 352
_OP_QUERY_REMOVED: Final = 5739101
_NO_DB: Final = 40571
_NO_SEQUENCES: Final = 40472
_SECONDARY_OK: Final = 1 << 2
_DEEPEST: Final = 200
_LARGE_BYTES: Final = 1 << 18
"""What is larger is decoded piece by piece: it would keep others from their turn."""
_SURELY_SHALLOW: Final = 7 * _DEEPEST
"""How many bytes it takes at least to nest that deep."""
_OBJECT: Final = b"\3"
_ARRAY: Final = b"\4"
_REFERENCE: Final = b"$ref\0"
_LEGACY_COMMANDS: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "_isSelf", "authenticate"),
        *("buildinfo", "buildInfo", "saslStart", "saslContinue"),
    }
)


class Parse(Stage):
    """Reads the message. What cannot be read is answered, except for the kinds that end a connection."""

    step = Step.PARSE

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        if request.command is not None:
            request.name = next(iter(request.command), "")
            return PASS
        request.silent = bool(request.flags & MORE_TO_COME)
        try:
            envelope = request.envelope
            large = len(envelope.payload) > _LARGE_BYTES or envelope.rest is not None
            message = _read_large(envelope) if large else envelope.parse()
            if type(message) is OpMsg:
                request.message = message
                request.command = _decode_large(request, message) if large else _decode(message)
            elif isinstance(message, OpQuery):
                request.message = message
                request.command = _decode_query(message)
            else:
                return Silence("a reply is no request")
        except InvalidMessage as error:
            if error.fatal:
                return Disconnect(error.message)
            raise CommandError(error.code, error.message) from error
        except RemoteProtocolError as error:
            return Disconnect(str(error))
        request.name = next(iter(request.command), "")
        return PASS


def _read_large(envelope: Envelope) -> Message:
    """Read a large message with yield points. Raises `InvalidMessage`."""
    return in_steps(envelope.parse_in_steps(most=MAX_BATCH))


def _decode_large(request: RequestContext, message: OpMsg) -> dict[str, Any]:
    """Decode a large message with yield points; arrays of more documents than a command takes hold none."""
    spec = request.node.commands.get(message.command_name)
    counted = spec.sequences if spec is not None else ()
    decoder = Decoder(_decode_piece, deepest=_DEEPEST, counted=counted, most=MAX_BATCH)
    command = in_steps(decoder.document(message.body, top=True))
    for sequence in message.sequences:
        command[sequence.identifier] = (
            Unread(sequence.left_out)
            if sequence.left_out
            else in_steps(decoder.documents(sequence.documents))
        )
    return command


def _decode_piece(piece: bytes, around: int) -> dict[str, Any]:
    """Decode a part of a message, `around` which there are so many documents and arrays."""
    value = decode_document(piece)
    may_be_deep = (around or len(piece) > _SURELY_SHALLOW) and _may_be_deep(piece, around)
    if may_be_deep and _depth(value) + around > _DEEPEST:
        raise too_deep(_DEEPEST)
    return _plain(value) if _REFERENCE in piece else value


def _decode(message: OpMsg) -> dict[str, Any]:
    command = message.decode()
    around = 2 if message.sequences else 0  # a document of a sequence is one by itself
    if any(map(_may_be_deep, _documents_of(message))) and _depth(command) > _DEEPEST + around:
        raise CommandError(ErrorCode.OVERFLOW, f"BSON exceeds maximum nested object depth: {_DEEPEST}")
    if any(_REFERENCE in document for document in _documents_of(message)):
        return {name: _plain(value) for name, value in command.items()}
    return command


def _documents_of(message: OpMsg) -> Iterator[bytes]:
    yield message.body
    for sequence in message.sequences:
        yield from sequence.documents


def _may_be_deep(document: bytes, around: int = 0) -> bool:
    """Return whether BSON may be nested too deeply: few documents have so many objects and arrays in them."""
    return document.count(_OBJECT) + document.count(_ARRAY) + around > _DEEPEST


def _depth(value: Any) -> int:
    """Return how many levels of objects and arrays a value has; level by level, so no stack is used up."""
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth


def _plain(value: Any) -> Any:
    """Return a value without objects of class `DBRef`: for a server they are documents like any other.

    The BSON library makes one of what has `$ref` and `$id`, and cannot be told not to; few messages have any.
    """
    if isinstance(value, DBRef):
        value = value.as_doc()
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(element) for element in value] if isinstance(value, list) else value


def _decode_body(message: OpQuery) -> dict[str, Any]:
    if len(message.query) <= _LARGE_BYTES:
        return message.decode()
    return in_steps(Decoder(_decode_piece, deepest=_DEEPEST).document(message.query))


def _decode_query(message: OpQuery) -> dict[str, Any]:
    """Turn a legacy query into the command that it stands for."""
    if not message.is_command:
        raise CommandError(_OP_QUERY_REMOVED, "OP_QUERY is no longer supported")
    command = _decode_body(message)
    preference = None
    if next(iter(command), "") in {"$query", "query"}:
        preference = command.get("$readPreference")
        inner = next(iter(command.values()))
        command = dict(inner) if isinstance(inner, dict) else {}
    if preference is None and message.flags & _SECONDARY_OK:
        preference = {"mode": "secondaryPreferred"}
    command["$db"] = message.database
    if preference is not None:
        command["$readPreference"] = preference
    return command


class Lookup(Stage):
    """Finds the command by its name, which matters by case."""

    step = Step.LOOKUP

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        node, name = request.node, request.name
        if (
            type(request.message) is not OpMsg
            and name not in _LEGACY_COMMANDS
            and not node.profile.takes_legacy_queries
        ):
            raise CommandError(
                _UNSUPPORTED_OP_QUERY,
                f"Unsupported OP_QUERY command: {name}. The client driver may require an upgrade. For more"
                " details see https://dochub.mongodb.org/core/legacy-opcode-removal",
            )
        spec = node.commands.get(name)
        if spec is None:
            unknown = f"no such cmd: {name}" if node.is_mongos else f"no such command: '{name}'"
            raise CommandError(ErrorCode.COMMAND_NOT_FOUND, unknown)
        request.spec = spec
        return PASS


class ValidateBody(Stage):
    """Checks the body against the command's declaration, and takes note of the client's cluster time."""

    step = Step.BODY

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        command, spec = request.command, request.spec
        assert command is not None
        db = command.get("$db")
        if type(db) is not str:
            raise _bad_db(db, present="$db" in command)
        request.db = db
        message = request.message
        if type(message) is OpMsg and message.sequences:
            _check_sequences(request, message)
        if spec.fields is not None:
            _check_duplicates(request, message)
            spec.fields.check_command(command)
        if "$readPreference" in command:
            check_read_preference(command["$readPreference"])
        told = command.get("$clusterTime")
        if told is not None:
            _hear_cluster_time(request, told)
        return PASS


def _bad_db(db: Any, *, present: bool) -> CommandError:
    if not present:
        return CommandError(_NO_DB, "OP_MSG requests require a $db argument")
    return CommandError(
        ErrorCode.TYPE_MISMATCH,
        f"BSON field '$db' is the wrong type '{type_name(db)}', expected type 'string'",
    )


def _check_sequences(request: RequestContext, message: OpMsg) -> None:
    for sequence in message.sequences:
        if sequence.identifier not in request.spec.sequences:
            raise CommandError(
                _NO_SEQUENCES, f"The {request.name} command does not support document sequences."
            )


class _Noticing(dict[str, Any]):
    """A document that notices when a key is given to it twice."""

    repeated: str | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self and self.repeated is None:
            self.repeated = key
        super().__setitem__(key, value)


_NOTICING: Final = CodecOptions(
    document_class=_Noticing, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


def _check_duplicates(request: RequestContext, message: OpMsg | OpQuery) -> None:
    """Refuse a body with a declared field twice; a decoded document does not show it, its bytes may."""
    fields, command = request.spec.fields, request.command
    assert command is not None
    body = message.body if isinstance(message, OpMsg) else message.query
    if fields is None or not fields.may_repeat(command, body):
        return
    repeated = _repeated(body) if len(body) > _LARGE_BYTES else _decode_noticing(body)
    if repeated is not None and repeated in fields.by_name:
        raise duplicate_field(f"{request.name}.{repeated}")


def _decode_noticing(body: bytes) -> str | None:
    return bson.decode(body, codec_options=_NOTICING).repeated


def _repeated(body: bytes) -> str | None:
    """Return the first key that a large body holds twice."""
    seen = set()
    for name in interruptible(names(body)):
        if name in seen:
            return name
        seen.add(name)
    return None


def _hear_cluster_time(request: RequestContext, told: Any) -> None:
    node = request.node
    if not node.is_replicated:
        return
    cluster_time = told.get("clusterTime") if isinstance(told, dict) else None
    if not isinstance(cluster_time, Timestamp):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "BSON field '$clusterTime.clusterTime' is the wrong type "
            f"'{type_name(cluster_time)}', expected type 'timestamp'",
        )
    node.cluster_time.advance(cluster_time)
