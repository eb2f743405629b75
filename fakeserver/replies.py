"""Replies as messages: what a request came to, in the form in which its client asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.sizes import MAX_INTERNAL_BYTES, invalid_size
from mongowire.codes import ErrorCode
from mongowire.errors import LocalProtocolError
from mongowire.messages import CHECKSUM_PRESENT, MORE_TO_COME, OpCode, OpMsg, OpReply

if TYPE_CHECKING:
    from fakeserver.request import RequestContext
    from mongowire.connection import WireConnection

LEGACY: Final = frozenset({OpCode.QUERY, OpCode.GET_MORE})
"""What is answered with an OP_REPLY."""

_QUERY_FAILURE: Final = 1 << 1


def encode(request: RequestContext, wire: WireConnection, request_id: int, *, more_to_come: bool) -> bytes:
    """Return the reply as a message, compressed and checked as the request was.

    Raises `CommandError` 10334 for a reply that is too large, and what `bson.encode` does.
    """
    envelope, response_to = request.envelope, request.response_to
    message: OpMsg | OpReply
    if envelope.op_code in LEGACY:
        message = _legacy_reply(request)
    else:
        body = request.encode()
        if len(body) > MAX_INTERNAL_BYTES:
            raise invalid_size(len(body))
        checksum = bool(request.flags & CHECKSUM_PRESENT) and not request.connection.secure
        if envelope.compressor is None and not checksum:
            flag_bits = MORE_TO_COME if more_to_come else 0
            return wire.send_body(body, flag_bits, request_id, response_to)
        message = OpMsg(body, more_to_come=more_to_come, checksum=checksum)
    return wire.send(message, request_id=request_id, response_to=response_to, compressor=envelope.compressor)


def unsendable(error: Exception) -> CommandError:
    """Return what is answered instead of a reply that cannot be encoded."""
    if isinstance(error, CommandError):
        return error
    too_large = isinstance(error, LocalProtocolError)
    code = ErrorCode.BSON_OBJECT_TOO_LARGE if too_large else ErrorCode.INTERNAL_ERROR
    return CommandError(code, str(error))


def continuation(request: RequestContext) -> dict[str, Any] | None:
    """Return the command that an exhaust stream runs after this reply (`OP_MSG: exhaustAllowed`)."""
    body, command = request.body, request.command
    if request.failure is not None or body is None or command is None:
        return None
    if request.spec.handshake:
        topology_version = body.get("topologyVersion")
        return None if topology_version is None else {**command, "topologyVersion": topology_version}
    if request.spec.name == "getMore" and body.get("cursor", {}).get("id"):
        return command
    return None


def _legacy_reply(request: RequestContext) -> OpReply:
    failure = request.failure
    if failure is not None and not request.name and request.encoded is None:
        return OpReply.of(
            {"$err": failure.message, "code": int(failure.code), "ok": 0.0}, flags=_QUERY_FAILURE
        )
    return OpReply((request.encode(),))
