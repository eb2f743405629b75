"""The parsing of a request: from a message to a validated command.

Three steps, because a server answers differently at each: a message that cannot be read has no command's
name, an unknown name is answered before its body is looked at, and an invalid body consumes no fail point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import DBRef, Timestamp

from fakeserver.commands.administration.api_version import VERSION_1
from fakeserver.commands.writes.writing import MAX_BATCH
from fakeserver.errors import CommandError
from fakeserver.idl.fields import Checks, check_target, checks_of, duplicate_field, noticing, type_name
from fakeserver.idl.generic_arguments import FIELDS, check_read_preference
from fakeserver.profile import WIRE_50
from fakeserver.request.pipeline import PASS, Action, Disconnect, Silence, Stage, Step
from fakeserver.waiting.interrupts import in_steps, interruptible
from fakeserver.waiting.pause import Await
from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage, RemoteProtocolError
from mongowire.framing import names
from mongowire.messages import MORE_TO_COME, OpCode, OpMsg, OpQuery, decode_document
from mongowire.parsing import sole_body
from mongowire.pieces import Decoder, Unread, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.idl.fields import Field
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Shape


_UNSUPPORTED_OP_QUERY: Final = 352
_OP_QUERY_REMOVED: Final = 5739101
_NO_DB: Final = 40571
_NO_SEQUENCES: Final = 40472
_SECONDARY_OK: Final = 1 << 2
_DEEPEST: Final = 200
"""The levels of objects and arrays that a document may have within it."""
_LARGE_BYTES: Final = 1 << 18
"""The size above which a message is decoded piece by piece, so that others have their turns."""
_BRIEF_BYTES: Final = 4096
"""The size up to which nothing that a stage does with a message takes long."""
_MSG: Final = int(OpCode.MSG)
_SURELY_SHALLOW: Final = 7 * _DEEPEST
"""The fewest bytes in which documents can be nested that deep."""
_OBJECT: Final = b"\3"
_ARRAY: Final = b"\4"
_REFERENCE: Final = b"$ref\0"


class Parse(Stage):
    """Reads the message. One that cannot be read is answered, unless its fault ends the connection."""

    step = Step.PARSE

    def enter(self, request: RequestContext, _now: float) -> Action:
        # An exhaust stream's next request: the server has made its command, there is no message of it.
        if request.command is not None:
            request.name = next(iter(request.command), "")
            return PASS
        if request.envelope.rest is None:
            return self._read(request)
        inflation = request.node.cluster.turns.inflation
        if not inflation.has_room:
            return Await(inflation.freed)
        with inflation.taking():
            return self._read(request)

    def _read(self, request: RequestContext) -> Action:
        envelope = request.envelope
        payload = envelope.payload
        if request.flags & MORE_TO_COME:
            request.response.silent = True
        try:
            if len(payload) <= _BRIEF_BYTES and envelope.op_code == _MSG and envelope.rest is None:
                request.brief = True
                body = sole_body(payload)
                if body is not None:
                    request.body = body
                    command = decode_document(body) if len(body) <= _SURELY_SHALLOW else _decode(OpMsg(body))
                    if _REFERENCE in body:
                        command = {name: plain(value) for name, value in command.items()}
                    request.command = command
                    request.name = next(iter(command), "")
                    return PASS
            large = len(payload) > _LARGE_BYTES or envelope.rest is not None
            message = in_steps(envelope.parse_in_steps(most=MAX_BATCH)) if large else envelope.parse()
            if type(message) is OpMsg:
                request.body, request.sequences = message.body, message.sequences
                request.command = _decode_large(request, message) if large else _decode(message)
            elif isinstance(message, OpQuery):
                request.body = message.query
                request.command = _decode_query(message)
            else:
                return Silence("a reply is no request")
        except InvalidMessage as error:
            log_removed(request)
            if error.fatal:
                return Disconnect(error.message)
            raise CommandError(error.code, error.message) from error
        except RemoteProtocolError as error:
            return Disconnect(str(error))
        request.name = next(iter(request.command), "")
        return PASS


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
    if may_be_deep and _depth(value) + around > _DEEPEST + 1:
        raise too_deep(_DEEPEST)
    return plain(value) if _REFERENCE in piece else value


def _decode(message: OpMsg) -> dict[str, Any]:
    command = message.decode()
    around = 2 if message.sequences else 0  # a document of a sequence is one by itself
    if any(map(_may_be_deep, _documents_of(message))) and _depth(command) > _DEEPEST + 1 + around:
        raise CommandError(ErrorCode.OVERFLOW, f"BSON exceeds maximum nested object depth: {_DEEPEST}")
    if any(_REFERENCE in document for document in _documents_of(message)):
        return {name: plain(value) for name, value in command.items()}
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


def plain(value: Any) -> Any:
    """Return a value without objects of class `DBRef`: for a server they are documents like any other.

    The BSON library makes one of each document with `$ref` and `$id`, without an option to switch it off.
    """
    if isinstance(value, DBRef):
        value = value.as_doc()
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(element) for element in value] if isinstance(value, list) else value


def _decode_query(message: OpQuery) -> dict[str, Any]:
    """Turn a legacy query into the command that it stands for."""
    if not message.is_command:
        raise InvalidMessage(_OP_QUERY_REMOVED, "OP_QUERY is no longer supported")
    if len(message.query) <= _LARGE_BYTES:
        command = message.decode()
    else:
        command = in_steps(Decoder(_decode_piece, deepest=_DEEPEST).document(message.query))
    preference = None
    # `$query` wraps a command with a read preference; without one, a flag says that a secondary may answer.
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
    """Finds the command by its name, whose case matters."""

    step = Step.LOOKUP

    def enter(self, request: RequestContext, _now: float) -> Action:
        node, name = request.node, request.name
        if request.is_legacy and name not in LEGACY_COMMANDS and not node.profile.takes_legacy_queries:
            log_removed(request)
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
    """Checks the body against the command's declaration, and advances the cluster time to the client's."""

    step = Step.BODY

    def enter(self, request: RequestContext, _now: float) -> Action:
        command, spec = request.command, request.spec
        assert command is not None
        db = command.get("$db")
        if type(db) is not str:
            if "$db" not in command:
                raise CommandError(_NO_DB, "OP_MSG requests require a $db argument")
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"BSON field '$db' is the wrong type '{type_name(db)}', expected type 'string'",
            )
        request.db = db
        _check_sequences(request)
        if "proxyTest" in command and request.node.parameters["enableTestCommands"]:
            node, script = request.node, command.pop("proxyTest")
            node.cluster.faults.follow(
                script, node.connections.get(request.connection.id), request.envelope.request_id
            )
        if spec.fields is not None:
            _check_duplicates(request)
            spec.fields.check_command(command)
        if "$readPreference" in command:
            check_read_preference(command["$readPreference"])
        gossip = command.get("$clusterTime")
        if gossip is not None:
            _advance_cluster_time(request, gossip)
        return PASS

    def entry(self, spec: CommandSpec | None, shape: Shape, node: Node) -> Enter:
        types = dict(zip(*shape, strict=True))
        if spec is None or types.get("$db") is not str or "proxyTest" in types:
            return self.enter
        checks = Checks() if spec.fields is None else checks_of(spec.fields, *shape)
        if checks is None:
            return self.enter
        gossips = node.is_replicated and types.get("$clusterTime") not in {None, type(None)}
        return _checking(checks, self.enter, prefers="$readPreference" in types, gossips=gossips)


def _checking(checks: Checks, whole: Enter, *, prefers: bool, gossips: bool) -> Enter:
    """Return the validation of commands of one shape; `whole` is that of all."""
    names_target, patterns, values = checks

    def enter(request: RequestContext, now: float) -> Action:
        command: Any = request.command
        request.db = db = command["$db"]
        if request.sequences:
            _check_sequences(request)
        if patterns:
            count = request.body.count
            for pattern in patterns:
                if count(pattern) > 1:
                    return whole(request, now)
        if names_target:
            target = command[request.name]
            if not target or target[0] == "." or "\0" in target:
                check_target(target, db)
        for name, field, path, passes in values:
            if passes is None or not passes(command[name]):
                command[name] = field.check(command[name], path)
        if prefers:
            check_read_preference(command["$readPreference"])
        if gossips:
            _advance_cluster_time(request, command["$clusterTime"])
        return PASS

    return enter


def _check_sequences(request: RequestContext) -> None:
    for sequence in request.sequences:
        if sequence.identifier not in request.spec.sequences:
            raise CommandError(
                _NO_SEQUENCES, f"The {request.name} command does not support document sequences."
            )


def _check_duplicates(request: RequestContext) -> None:
    """Refuse a body with a declared field twice; a decoded document does not show it, its bytes may."""
    fields, command, body = request.spec.fields, request.command, request.body
    assert command is not None
    if fields is None or not fields.may_repeat(command, body):
        return
    repeated = _repeated(body) if len(body) > _LARGE_BYTES else noticing(body).repeated
    if repeated is not None and repeated in fields.by_name:
        raise duplicate_field(f"{request.name}.{repeated}")


def _repeated(body: bytes) -> str | None:
    """Return the first key that a large body holds twice."""
    seen = set()
    for name in interruptible(names(body)):
        if name in seen:
            return name
        seen.add(name)
    return None


def _advance_cluster_time(request: RequestContext, gossip: Any) -> None:
    node = request.node
    if not node.is_replicated:
        return
    cluster_time = gossip.get("clusterTime") if isinstance(gossip, dict) else None
    if not isinstance(cluster_time, Timestamp):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "BSON field '$clusterTime.clusterTime' is the wrong type "
            f"'{type_name(cluster_time)}', expected type 'timestamp'",
        )
    node.cluster_time.advance(cluster_time)


_API_VERSION_ERROR: Final = 322
_API_STRICT_ERROR: Final = 323
_API_DEPRECATION_ERROR: Final = 324
_VERSION_REQUIRED: Final = 498870
_FLAG_WITHOUT_VERSION: Final = 4886600

_VERSION_2: Final = frozenset({"testVersion2", "testDeprecationInVersion2"})
_DEPRECATED: Final = frozenset({("testDeprecation", "1"), ("testDeprecationInVersion2", "2")})


class ApiVersion(Stage):
    """Refuses commands outside the declared version, and undeclared ones where it is required."""

    step = Step.BODY

    def enter(self, request: RequestContext, _now: float) -> Action:
        command, node = request.command, request.node
        # Releases before the versioned API refuse its fields as unknown ones.
        if command is None or node.profile.max_wire_version < WIRE_50:
            return PASS
        if "apiVersion" in command or "apiStrict" in command or "apiDeprecationErrors" in command:
            _check(request, *(_read(request, command, field) for field in FIELDS))
        elif node.parameters.requires_api_version and not request.connection.internal_client:
            raise CommandError(
                _VERSION_REQUIRED,
                "The apiVersion parameter is required, please configure your MongoClient's API version",
            )
        return PASS

    def entry(self, _spec: CommandSpec | None, shape: Shape, node: Node) -> Enter | None:
        required = node.parameters.requires_api_version
        return self.enter if required or any(field.name in shape.names for field in FIELDS) else None


def _read(request: RequestContext, command: dict[str, Any], field: Field) -> Any:
    value = command.get(field.name)
    return None if value is None else field.check(value, f"{request.name}.{field.name}")


def _check(request: RequestContext, version: str | None, strict: Any, deprecation_errors: Any) -> None:
    if version is None:
        raise CommandError(
            _FLAG_WITHOUT_VERSION,
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
        )
    accepts_two = request.node.parameters["acceptApiVersion2"]
    if version != "1" and not (accepts_two and version == "2"):
        known = 'API version must be either "1" or "2"' if accepts_two else 'API version must be "1"'
        raise CommandError(_API_VERSION_ERROR, known)
    name = request.spec.name
    if strict and name not in (VERSION_1 if version == "1" else _VERSION_2):
        raise CommandError(
            _API_STRICT_ERROR,
            f"Provided apiStrict:true, but the command {name} is not in API Version {version}. Information"
            " on supported commands and migrations in API Version 1 can be found at"
            " https://dochub.mongodb.org/core/manual-versioned-api",
        )
    if deprecation_errors and (name, version) in _DEPRECATED:
        raise CommandError(
            _API_DEPRECATION_ERROR,
            f"Provided apiDeprecationErrors:true, but the command {name} is deprecated in API Version"
            f" {version}",
        )


# The operations of old drivers: what is left of them, and the line in the log for each of the others.

LEGACY_COMMANDS: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "_isSelf", "authenticate"),
        *("buildinfo", "buildInfo", "saslStart", "saslContinue"),
    }
)
"""The commands that may still come as an OP_QUERY."""

_OPERATIONS: Final[dict[int, str]] = {
    OpCode.QUERY: "query",
    OpCode.INSERT: "insert",
    OpCode.UPDATE: "update",
    OpCode.DELETE: "remove",
    OpCode.GET_MORE: "getmore",
    OpCode.KILL_CURSORS: "killcursors",
}


def log_removed(request: RequestContext) -> None:
    """Tell the log of an operation that is refused because of its age."""
    operation = _OPERATIONS.get(request.envelope.op_code)
    if operation is None:
        return
    client = request.connection
    request.node.log.write(
        "COMMAND",
        5578800,
        "Deprecated operation requested. The client driver may require an upgrade. For more details see"
        " https://dochub.mongodb.org/core/legacy-opcode-removal",
        context=client.thread_name,
        severity="W",
        attr={"op": operation, "clientInfo": client.metadata or {"address": client.peer}},
    )
