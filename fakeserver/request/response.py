"""The response to a request as it comes about, its bytes, and the end of the request.

A rejection by the request rate limiter is the response to a message that nobody has read: the same bytes for
all but the two ids of its header, and no request is made of the message.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import bson
from bson.errors import BSONError

from fakeserver.admission.progress import REJECTED, REQUEST_RATE
from fakeserver.deployment.records.journal import COMMAND_FINISHED
from fakeserver.errors import CommandError
from fakeserver.settings.failpoints import DO_NOT_SET_MORE_TO_COME
from fakeserver.storage.values.limits import MAX_INTERNAL_BYTES, invalid_size
from mongowire.codes import Category, ErrorCode, is_in
from mongowire.errors import LocalProtocolError
from mongowire.framing import HEADER_SIZE, MAX_MESSAGE_SIZE, elements_of, extended
from mongowire.messages import CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME, OpCode, OpMsg, OpReply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.node import Node
    from mongowire.connection import Envelope, WireConnection

LEGACY: Final = frozenset({int(OpCode.QUERY), int(OpCode.GET_MORE)})
"""The messages that are answered with an OP_REPLY."""
ANSWERED_OTHERWISE: Final = CHECKSUM_PRESENT | MORE_TO_COME
"""The flags of an OP_MSG whose rejection is another message, or none."""
_QUERY_FAILURE: Final = 1 << 1
_UNSENDABLE: Final = (BSONError, CommandError, LocalProtocolError, OverflowError, TypeError, ValueError)
_HEAD: Final = struct.Struct("<iiiiIB")
"""The header, the flag bits and the kind of the only section."""
_HEAD_AND_SIZE: Final = struct.Struct("<iiiiIBi")
"""The same, and the size of the document."""
_HEAD_SIZE: Final = _HEAD.size
_MSG: Final = int(OpCode.MSG)
_OK: Final = elements_of(bson.encode({"ok": 1.0}))
_EMPTY: Final = bson.encode({})


class Response:
    """The response to a request. Class attributes hold until a stage sets another value."""

    body: dict[str, Any] | None = None
    """The fields of a successful reply."""
    failure: CommandError | None = None
    write_concern_error: Any = None
    label_override: tuple[str, ...] | None = None
    """The labels of a fail point or a rule, instead of the computed ones."""
    added_labels: tuple[str, ...] = ()
    """The labels that rules add to the others."""
    extra: Mapping[str, Any] | None = None
    """Labels, and the fields beside them."""
    gossip: bytes = b""
    """The times at the end of the reply, as BSON elements."""
    encoded: bytes | None = None
    """The whole reply, where it was built beforehand."""
    encoded_body: bytes | None = None
    """The reply without the times, where it was large enough to be encoded in steps."""
    silent: bool = False
    """The client waits for no reply."""

    @property
    def errors_within(self) -> tuple[int | None, int | None]:
        """The codes of a reply's first write error and of its write concern error; None for none."""
        body, concern = self.body, self.write_concern_error
        if body is None:
            return None, _code(concern)
        errors: Any = body.get("writeErrors")
        if body.get("nErrors"):  # of a bulkWrite, whose cursor has a document for each write
            errors = [each for each in body["cursor"]["firstBatch"] if "code" in each]
        concern = concern or body.get("writeConcernError")
        return (_code(errors[0]) if errors else None), _code(concern)

    def message(self, request_id: int, response_to: int) -> bytes:
        """Return the reply as most are sent: an OP_MSG of a body alone, without flags.

        Raises `CommandError` 10334 for a reply that is too large, and what `bson.encode` does.
        """
        body, encoded, rest = self.body, self.encoded, b""
        if encoded is None:
            # Nothing stands between what the command has answered and `ok`.
            bare = self.encoded_body is None and self.write_concern_error is None and self.extra is None
            if bare and self.failure is None and body is not None and "ok" not in body:
                # The end of most replies is the same bytes, behind whatever the command has answered.
                encoded = bson.encode(body) if body else _EMPTY
                rest = _OK + self.gossip
            else:
                encoded = self.encode()
        size = len(encoded) + len(rest)
        if size > MAX_INTERNAL_BYTES:
            raise invalid_size(size)
        if not rest:
            return _HEAD.pack(_HEAD_SIZE + size, request_id, response_to, _MSG, 0, 0) + encoded
        head = _HEAD_AND_SIZE.pack(_HEAD_SIZE + size, request_id, response_to, _MSG, 0, 0, size)
        return b"".join((head, encoded[4:-1], rest, b"\0"))

    def encode(self) -> bytes:
        """Return the whole reply. Raises what `bson.encode` does for a value that cannot be encoded."""
        if self.encoded is not None:
            return self.encoded
        if self.encoded_body is not None and self.failure is None:
            reply = self.encoded_body
        else:
            reply = bson.encode(self.render())
        return extended(reply, self.gossip) if self.gossip else reply

    def render(self) -> dict[str, Any]:
        """Return the reply, its fields in a server's order, without the times."""
        reply: dict[str, Any]
        failure = self.failure
        if failure is None:
            reply = dict(self.body or {})
            self._append_extra(reply)
            reply.setdefault("ok", 1.0)
        else:
            reply = {}
            self._append_extra(reply)
            reply["ok"] = 0.0
            reply["errmsg"] = failure.message
            reply["code"] = int(failure.code)
            reply["codeName"] = failure.code_name
            reply.update(failure.extra)
        return reply

    def _append_extra(self, reply: dict[str, Any]) -> None:
        if self.write_concern_error is not None:
            reply["writeConcernError"] = self.write_concern_error
        if self.extra is not None:
            reply.update(self.extra)


def _code(error: Any) -> int | None:
    """Return the code of an error within a reply, 0 for an error without one."""
    if not isinstance(error, dict):
        return None
    code = error.get("code")
    return int(code) if isinstance(code, (int, float)) else 0


# The end.

Ending: TypeAlias = "tuple[bytes, str, dict[str, Any] | None]"
"""The message to send (empty for none), why to close the connection ("" for not at all), and the command
that an exhaust stream runs next."""


class Request(Protocol):
    """A request, as far as its end has to do with it (`request.context.RequestContext`)."""

    node: Node
    connection: ConnectionState
    envelope: Envelope
    flags: int
    name: str
    response: Response
    response_to: int

    def record_end(self, now: float, outcome: str | int, reply: bytes = b"") -> None:
        """Enter that it was dealt with."""

    def continuation(self) -> dict[str, Any] | None:
        """Return the command that an exhaust stream runs after this reply."""


def end(request: Request, wire: WireConnection, now: float) -> Ending:
    """Return how a request ends that has been dealt with, and enter it in the journal."""
    response, node = request.response, request.node
    failure = response.failure
    code = None if failure is None else int(failure.code)
    outcome: str | int = "ok" if code is None else code
    if response.encoded is not None:
        code = None  # a reply that was built beforehand is sent, whatever its code is
    if code is not None and is_in(code, Category.CLOSE_CONNECTION):
        # Codes by which a server ends a connection, and which no reply carries.
        request.record_end(now, outcome)
        return b"", f"error {outcome} closes the connection", None
    if response.silent:
        request.record_end(now, outcome)
        # Nothing else could tell the client that its unacknowledged writes go to the wrong member.
        lost = code is not None and is_in(code, Category.NOT_PRIMARY)
        return b"", "not primary, and the client waits for no reply" if lost else "", None
    following, more_to_come = None, False
    if request.flags & EXHAUST_ALLOWED:
        following = request.continuation()
        more_to_come = following is not None and not node.fail_points.is_on(DO_NOT_SET_MORE_TO_COME)
    request_id = node.next_request_id()
    try:
        data = _message(request, wire, request_id, more_to_come=more_to_come)
    except _UNSENDABLE as error:
        # A command that ran, and whose reply is too large or no BSON: the client hears of an error.
        following = None
        response.failure = _unsendable(error)
        data = _message(request, wire, request_id, more_to_come=False)
    request.record_end(now, outcome, data)
    return data, "", following


def _message(request: Request, wire: WireConnection, request_id: int, *, more_to_come: bool) -> bytes:
    """Return the reply as a message, compressed and checked as the request was.

    Raises `CommandError` 10334 for a reply that is too large, and what `bson.encode` does.
    """
    envelope, response_to, response = request.envelope, request.response_to, request.response
    plain = not request.flags and envelope.op_code == _MSG and envelope.compressor is None
    if plain and wire.max_message_size >= MAX_MESSAGE_SIZE:
        return response.message(request_id, response_to)
    message: OpMsg | OpReply
    if envelope.op_code in LEGACY:
        message = _legacy_reply(request)
    else:
        body = response.encode()
        if len(body) > MAX_INTERNAL_BYTES:
            raise invalid_size(len(body))
        # Nothing checks what TLS has checked already.
        checksum = bool(request.flags & CHECKSUM_PRESENT) and not request.connection.secure
        if envelope.compressor is None and not checksum:
            flag_bits = MORE_TO_COME if more_to_come else 0
            return wire.send_body(body, flag_bits, request_id, response_to)
        message = OpMsg(body, more_to_come=more_to_come, checksum=checksum)
    return wire.send(message, request_id=request_id, response_to=response_to, compressor=envelope.compressor)


def _legacy_reply(request: Request) -> OpReply:
    response = request.response
    failure = response.failure
    if failure is not None and not request.name and response.encoded is None:
        # What could not be read names no command: it fails as a query of documents did.
        return OpReply.of(
            {"$err": failure.message, "code": int(failure.code), "ok": 0.0}, flags=_QUERY_FAILURE
        )
    return OpReply((response.encode(),))


def _unsendable(error: Exception) -> CommandError:
    """Return the error that is sent instead of a reply that cannot be encoded."""
    if isinstance(error, CommandError):
        return error
    too_large = isinstance(error, LocalProtocolError)
    code = ErrorCode.BSON_OBJECT_TOO_LARGE if too_large else ErrorCode.INTERNAL_ERROR
    return CommandError(code, str(error))


def reject(node: Node, connection: ConnectionState, data: bytes, request_id: int, now: float) -> bytes:
    """Return the reply to an OP_MSG, `data`, for which there is no token, and enter it in the journal."""
    admission = node.admission
    document = admission.rejection
    head = _HEAD.pack(_HEAD.size + len(document), node.next_request_id(), request_id, _MSG, 0, 0)
    reply = head + document
    node.tally.add(REQUEST_RATE)
    # As `RequestContext.record_end` does for a request of which nothing is known.
    entry = (
        now, node.name, COMMAND_FINISHED, "", "", request_id, connection.id, None, None,
        admission.rejection_code, None, None, now, connection.app_name, REJECTED, REQUEST_RATE, None,
    )  # fmt: skip
    node.journal.enter_request(entry, _MSG, data[HEADER_SIZE:], reply)
    return reply
