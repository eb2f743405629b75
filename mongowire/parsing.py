"""Parsing of a payload, in the order in which a server checks it (`OP_MSG: Sections`).

The codes and the texts of what is refused are those that a server answers with.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mongowire import framing
from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage
from mongowire.messages import (
    CHECKSUM_PRESENT,
    EXHAUST_ALLOWED,
    MORE_TO_COME,
    DocumentSequence,
    OpMsg,
    OpQuery,
    OpReply,
    checksum_in_steps,
    checksum_of,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from mongowire.pieces import Steps

_REQUIRED_BITS = 0xFFFF
_KNOWN_REQUIRED = CHECKSUM_PRESENT | MORE_TO_COME
_MAX_SEQUENCES = 2
_CHECKSUM_SIZE = 4

_UINT32 = struct.Struct("<I")
_INT32 = struct.Struct("<i")
_QUERY_NUMBERS = struct.Struct("<ii")
_REPLY_HEAD = struct.Struct("<iqii")

_FLAGS_AND_BODY = struct.Struct("<IBi")
"""The flag bits, the kind of the first section, and the size of its document."""
_NOT_ALONE = _REQUIRED_BITS & ~MORE_TO_COME
"""The flags of a message that is more than its body, or is none."""
_BODY_AT = _UINT32.size + 1
_MIN_DOCUMENT = 5
_KIND_BODY = 0
_KIND_SEQUENCE = 1
_KIND_SECURITY_TOKEN = 2
_KIND_TELEMETRY = 3


def sole_body(payload: bytes) -> bytes | None:
    """Return the body of an OP_MSG that is nothing else, None for any other and for a malformed one."""
    size = len(payload) - _BODY_AT
    if size < _MIN_DOCUMENT:
        return None
    flags, kind, stated = _FLAGS_AND_BODY.unpack_from(payload)
    if stated != size or kind != _KIND_BODY or payload[-1] or flags & _NOT_ALONE:
        return None
    return payload[_BODY_AT:]


def parse_msg(payload: bytes, *, request_id: int, response_to: int) -> OpMsg:
    """Read an OP_MSG; the ids are those of its header, which the checksum covers. Raises `InvalidMessage`."""
    size = len(payload)
    if size >= _BODY_AT + _MIN_DOCUMENT:
        flags, kind, body_size = _FLAGS_AND_BODY.unpack_from(payload)
        if not flags and kind == _KIND_BODY and body_size == size - _BODY_AT and not payload[-1]:
            # The commonest message: a body alone, without flags.
            return OpMsg(payload[_BODY_AT:])
    elif size < _UINT32.size:
        raise InvalidMessage(ErrorCode.OVERFLOW, "OP_MSG is too short for its flag bits")
    (flags,) = _UINT32.unpack_from(payload)
    _check_flags(flags)
    if not flags & CHECKSUM_PRESENT and _is_body_alone(payload):
        body = payload[_BODY_AT:]
        return OpMsg(body, (), bool(flags & MORE_TO_COME), bool(flags & EXHAUST_ALLOWED))
    end = _sections_end(payload, flags)
    body, sequences = _Sections(payload, end).read()
    # After the sections, as on a server: a malformed message with a bad checksum is answered, not hung up on.
    if flags & CHECKSUM_PRESENT and payload[end:] != checksum_of(
        payload[:end], request_id=request_id, response_to=response_to
    ):
        raise _mismatch()
    return OpMsg(
        body,
        sequences,
        more_to_come=bool(flags & MORE_TO_COME),
        exhaust_allowed=bool(flags & EXHAUST_ALLOWED),
        checksum=bool(flags & CHECKSUM_PRESENT),
    )


def parse_msg_in_steps(payload: bytes, *, request_id: int, response_to: int, most: int) -> Steps[OpMsg]:
    """Read an OP_MSG as `parse_msg` does, but of a sequence of more than `most` documents the length."""
    if len(payload) < _UINT32.size or _is_body_alone(payload):
        return parse_msg(payload, request_id=request_id, response_to=response_to)
    (flags,) = _UINT32.unpack_from(payload)
    _check_flags(flags)
    end = _sections_end(payload, flags)
    body, sequences = yield from _Sections(payload, end).read_in_steps(most)
    if flags & CHECKSUM_PRESENT:
        covered = payload[:end]
        if payload[end:] != (
            yield from checksum_in_steps(covered, request_id=request_id, response_to=response_to)
        ):
            raise _mismatch()
    return OpMsg(
        body,
        sequences,
        more_to_come=bool(flags & MORE_TO_COME),
        exhaust_allowed=bool(flags & EXHAUST_ALLOWED),
        checksum=bool(flags & CHECKSUM_PRESENT),
    )


def _check_flags(flags: int) -> None:
    # The low sixteen bits are required: who does not know one must not go on. The others are optional.
    if flags & _REQUIRED_BITS & ~_KNOWN_REQUIRED:
        raise InvalidMessage(
            ErrorCode.ILLEGAL_OP_MSG_FLAG,
            f"Message contains illegal flags value: Ob{flags:032b}",
            fatal=True,
        )


def _is_body_alone(payload: bytes) -> bool:
    """Recognise the commonest message: one well-framed body, and no other section."""
    size = len(payload) - _BODY_AT
    if size < _MIN_DOCUMENT or payload[_BODY_AT - 1] != _KIND_BODY or payload[-1]:
        return False
    return bool(_INT32.unpack_from(payload, _BODY_AT)[0] == size)


def _sections_end(payload: bytes, flags: int) -> int:
    if not flags & CHECKSUM_PRESENT:
        return len(payload)
    if len(payload) <= _UINT32.size + _CHECKSUM_SIZE:
        raise InvalidMessage(
            ErrorCode.INVALID_CHECKSUM_SIZE, "Invalid message size for an OpMsg containing a checksum"
        )
    return len(payload) - _CHECKSUM_SIZE


def _mismatch() -> InvalidMessage:
    return InvalidMessage(ErrorCode.CHECKSUM_MISMATCH, "OP_MSG checksum does not match contents", fatal=True)


class _Sections:
    """The walk over an OP_MSG's sections, in the order in which a server checks them."""

    def __init__(self, payload: bytes, end: int) -> None:
        self._payload = payload
        self._end = end
        self._body: bytes | None = None
        self._sequences: list[DocumentSequence] = []

    def read(self) -> tuple[bytes, tuple[DocumentSequence, ...]]:
        position = _UINT32.size
        while position < self._end:
            position = self._section(self._payload[position], position + 1)
        if self._body is None:
            raise _no_body()
        if self._sequences:
            self._check_body_against_sequences(framing.keys(self._body))
        return self._body, tuple(self._sequences)

    def read_in_steps(self, most: int) -> Steps[tuple[bytes, tuple[DocumentSequence, ...]]]:
        """Read the same in steps; of a sequence of more than `most` documents the length alone is kept."""
        position = _UINT32.size
        while position < self._end:
            kind = self._payload[position]
            if kind == _KIND_SEQUENCE:
                name, start, end = self._sequence_at(position + 1)
                documents, count = yield from framing.documents_in_steps(self._payload, start, end, most)
                left_out = count - len(documents)
                self._sequences.append(DocumentSequence(name, tuple(documents), left_out))
                position = end
            else:
                position = self._section(kind, position + 1)
            yield
        if self._body is None:
            raise _no_body()
        if self._sequences:
            names = yield from framing.keys_in_steps(self._body)
            self._check_body_against_sequences(names)
        return self._body, tuple(self._sequences)

    def _section(self, kind: int, position: int) -> int:
        if kind == _KIND_BODY:
            if self._body is not None:
                raise InvalidMessage(
                    ErrorCode.MULTIPLE_OP_MSG_BODY_SECTIONS, "Multiple body sections in message"
                )
            end = framing.document_end(self._payload, position, self._end)
            self._body = self._payload[position:end]
            return end
        if kind == _KIND_SEQUENCE:
            name, start, end = self._sequence_at(position)
            documents = framing.documents_between(self._payload, start, end)
            self._sequences.append(DocumentSequence(name, documents))
            return end
        if kind in {_KIND_SECURITY_TOKEN, _KIND_TELEMETRY}:
            # Neither means anything to us: they are skipped, once their extent is known to be sound.
            if kind == _KIND_SECURITY_TOKEN:
                return framing.read_c_string(self._payload, position, self._end)[1]
            return framing.document_end(self._payload, position, self._end)
        raise InvalidMessage(ErrorCode.UNKNOWN_OP_MSG_SECTION, f"Unknown section kind {kind}")

    def _sequence_at(self, position: int) -> tuple[str, int, int]:
        """Return a sequence's name, and from where to where its documents stand."""
        if len(self._sequences) == _MAX_SEQUENCES:
            # No command takes more than the two of bulkWrite; a server closes the connection.
            raise InvalidMessage(
                ErrorCode.TOO_MANY_DOCUMENT_SEQUENCES, "Too many document sequences in OP_MSG", fatal=True
            )
        end = framing.block_end(self._payload, position, self._end)
        name, position = framing.read_c_string(self._payload, position + _INT32.size, end)
        if any(sequence.identifier == name for sequence in self._sequences):
            raise InvalidMessage(ErrorCode.DUPLICATE_OP_MSG_SEQUENCE, f"Duplicate document sequence: {name}")
        return name, position, end

    def _check_body_against_sequences(self, names: Container[str]) -> None:
        for sequence in self._sequences:
            if sequence.identifier in names:
                raise InvalidMessage(
                    ErrorCode.OP_MSG_SEQUENCE_IN_BODY,
                    f"Duplicate field between body and document sequence {sequence.identifier}",
                )


def _no_body() -> InvalidMessage:
    return InvalidMessage(ErrorCode.MISSING_OP_MSG_BODY, "OP_MSG messages must have a body")


def parse_query(payload: bytes) -> OpQuery:
    """Read an OP_QUERY; a selector of fields, which commands do not have, is dropped.

    Drivers still say their first hello in it, before they know that the server speaks OP_MSG.
    """
    end = len(payload)
    framing.need(payload, 0, _INT32.size, end)
    (flags,) = _INT32.unpack_from(payload)
    collection, position = framing.read_c_string(payload, _INT32.size, end)
    framing.need(payload, position, _QUERY_NUMBERS.size, end)
    skip, limit = _QUERY_NUMBERS.unpack_from(payload, position)
    position += _QUERY_NUMBERS.size
    query = payload[position : framing.document_end(payload, position, end)]
    return OpQuery(collection, query, flags, skip, limit)


def parse_reply(payload: bytes) -> OpReply:
    """Read an OP_REPLY."""
    framing.need(payload, 0, _REPLY_HEAD.size, len(payload))
    flags, cursor_id, starting_from, count = _REPLY_HEAD.unpack_from(payload)
    documents = framing.documents_between(payload, _REPLY_HEAD.size, len(payload))
    if len(documents) != count:
        raise InvalidMessage(
            ErrorCode.PROTOCOL_ERROR, f"OP_REPLY announces {count} documents and holds {len(documents)}"
        )
    return OpReply(documents, flags, cursor_id, starting_from)
