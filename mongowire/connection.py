"""Bytes to messages and messages to bytes, for either end of a connection, without any I/O."""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mongowire.codes import ErrorCode
from mongowire.compression import IN_PIECES, Compressor, beginning, compress, decompress, pieces
from mongowire.errors import InvalidMessage, LocalProtocolError, RemoteProtocolError
from mongowire.framing import HEADER, HEADER_SIZE, MAX_MESSAGE_SIZE, OpCode, check_outgoing
from mongowire.messages import (
    CHECKSUM_PRESENT,
    EXHAUST_ALLOWED,
    MORE_TO_COME,
    OpMsg,
    OpQuery,
    OpReply,
    checksum_of,
)
from mongowire.parsing import parse_msg, parse_msg_in_steps, parse_query, parse_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mongowire.pieces import Steps

Message: TypeAlias = OpMsg | OpQuery | OpReply

_SIZE = struct.Struct("<i")
_FLAG_BITS = struct.Struct("<I")
_HEAD = struct.Struct("<iiiiI")
"""The header and the flag bits."""
_BODY_HEAD = struct.Struct("<iiiiIB")
"""The header, the flag bits and the kind of the first section."""
_COMPRESSED_HEAD = struct.Struct("<iiB")
_new = tuple.__new__
# As plain numbers, which compare ten times as fast as members of an enumeration.
_MSG = int(OpCode.MSG)
_COMPRESSED = int(OpCode.COMPRESSED)
_AT_ONCE_BYTES = 1 << 20
_INT32_MIN = -(1 << 31)
_INT32_MAX = (1 << 31) - 1

# Operations of old protocols: the code and the text of the refusal, and whether it is the last thing said.
_REMOVED = {
    int(OpCode.DELETE): (5745700, "OP_DELETE is no longer supported", True),
    int(OpCode.UPDATE): (5745701, "OP_UPDATE is no longer supported", True),
    int(OpCode.INSERT): (5745702, "OP_INSERT is no longer supported", True),
    int(OpCode.KILL_CURSORS): (5745703, "OP_KILL_CURSORS is no longer supported", True),
    int(OpCode.GET_MORE): (5739101, "OP_GET_MORE is no longer supported", False),
}


class Signal(Enum):
    """The reason that there is no message."""

    NEED_DATA = "need data"
    END_OF_FILE = "end of file"


class Envelope(NamedTuple):
    """One message as it arrived, not parsed yet.

    `op_code` and `payload` (what follows the header) are those inside an OP_COMPRESSED, whose `compressor`
    is kept; `wire_size` is what travelled, in bytes. Of a large one the `payload` is the beginning alone.
    """

    request_id: int
    response_to: int
    op_code: int
    payload: bytes
    compressor: Compressor | None
    wire_size: int
    rest: Iterator[bytes] | None = None
    """A large payload that is still to be inflated, by `parse` and `parse_in_steps`, from its beginning."""

    @property
    def flag_bits(self) -> int:
        """The flag bits of an OP_MSG; 0 for other messages and for one too short to have any."""
        if self.op_code != _MSG or len(self.payload) < _FLAG_BITS.size:
            return 0
        flag_bits: int = _FLAG_BITS.unpack_from(self.payload)[0]
        return flag_bits

    @property
    def more_to_come(self) -> bool:
        """The sender waits for no reply, or another reply follows this one."""
        return bool(self.flag_bits & MORE_TO_COME)

    @property
    def exhaust_allowed(self) -> bool:
        """The sender accepts several replies to this request."""
        return bool(self.flag_bits & EXHAUST_ALLOWED)

    @property
    def checksum_present(self) -> bool:
        return bool(self.flag_bits & CHECKSUM_PRESENT)

    def parse(self) -> Message:
        """Read the message inside. Raises `InvalidMessage`, also for an operation that no server takes."""
        if self.rest is not None:
            return self._inflated(b"".join(self.rest)).parse()
        if self.op_code == _MSG:
            return parse_msg(self.payload, request_id=self.request_id, response_to=self.response_to)
        match self.op_code:
            case OpCode.QUERY:
                return parse_query(self.payload)
            case OpCode.REPLY:
                return parse_reply(self.payload)
        raise _unsupported(self.op_code)

    def parse_in_steps(self, *, most: int) -> Steps[Message]:
        """Read the message inside, in steps; a sequence of more than `most` documents holds none.

        Raises `InvalidMessage`, and `RemoteProtocolError` for what cannot be decompressed.
        """
        if self.rest is not None:
            parts: list[bytes] = []
            for part in self.rest:
                parts.append(part)
                yield
            return (yield from self._inflated(b"".join(parts)).parse_in_steps(most=most))
        if self.op_code != _MSG:
            return self.parse()
        return (
            yield from parse_msg_in_steps(
                self.payload, request_id=self.request_id, response_to=self.response_to, most=most
            )
        )

    def _inflated(self, payload: bytes) -> Envelope:
        return self._replace(payload=payload, rest=None)


def _unsupported(op_code: int) -> InvalidMessage:
    if op_code not in _REMOVED:
        return InvalidMessage(ErrorCode.PROTOCOL_ERROR, f"unknown operation code {op_code}")
    code, message, fatal = _REMOVED[op_code]
    return InvalidMessage(code, message, fatal=fatal)


def _compressor(compressor_id: int) -> Compressor:
    try:
        return Compressor(compressor_id)
    except ValueError:
        raise RemoteProtocolError(
            f"Compression algorithm specified in message is not available: {compressor_id}"
        ) from None


def _payload_of(message: Message) -> bytes:
    try:
        return message.to_payload()
    except (struct.error, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"{type(message).__name__} cannot be sent: {error}") from error


def _no_int32(request_id: int, response_to: int) -> LocalProtocolError:
    return LocalProtocolError(f"request id {request_id} or {response_to} is not an int32")


class WireConnection:
    """One end of a connection, without I/O: feed it bytes, then pull messages until it needs more."""

    def __init__(self, *, max_message_size: int = MAX_MESSAGE_SIZE, patient: bool = False) -> None:
        self.max_message_size = max_message_size
        """The largest message, in bytes, compressed or not; it may change between two messages."""
        # Whether the payload of an envelope may be inflated in the course of its parsing.
        self._patient = patient
        self._buffer = bytearray()
        # Bytes that are likely one message, as most arrive: nothing to collect, nothing to cut.
        self._whole: bytes | None = None
        # How many bytes the buffer must hold before it is worth looking at again.
        self._wanted = _SIZE.size
        self._end_of_file = False
        self._broken: str | None = None

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer; `b""` means that it will send no more. Raises `LocalProtocolError`."""
        if not data:
            self._end_of_file = True
        elif self._end_of_file:
            raise LocalProtocolError("data after the end of file")
        elif (
            self._whole is None
            and not self._buffer
            and HEADER_SIZE <= (size := len(data)) <= self.max_message_size
            and _SIZE.unpack_from(data)[0] == size
        ):
            self._whole = data
        else:
            self._spill()
            self._buffer += data

    def sole(self, data: bytes) -> tuple[int, int, int, int, int] | None:
        """Take `data` if it is one whole message by itself, uncompressed, and nothing else has arrived.

        Returns the four numbers of the header and the next one, which are the flag bits of an OP_MSG; None
        where `data` was not taken, for `receive_data`.
        """
        if self._whole is not None or self._buffer or self._end_of_file or self._broken is not None:
            return None
        size = len(data)
        if not _HEAD.size <= size <= self.max_message_size:
            return None
        head: tuple[int, int, int, int, int] = _HEAD.unpack_from(data)
        return head if head[0] == size and head[3] != _COMPRESSED else None

    @property
    def idle(self) -> bool:
        """Whether nothing has arrived that `next_message` has not returned."""
        return self._whole is None and not self._buffer and not self._end_of_file

    @property
    def head(self) -> bytes:
        """The first sixteen bytes of what has arrived and `next_message` has not returned, or fewer."""
        return bytes((self._whole or self._buffer)[:HEADER_SIZE])

    @property
    def pending(self) -> bytes:
        """What has arrived and `next_message` has not returned."""
        return (self._whole or b"") + self._buffer

    def next_message(self) -> Envelope | Signal:
        """Return the next whole message, or why there is none.

        Raises `RemoteProtocolError`, then and on every later call, when the bytes cannot be understood.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        try:
            data = self._whole
            if data is None:
                return self._next()
            self._whole = None
            size, request_id, response_to, op_code = HEADER.unpack_from(data)
            if size > self.max_message_size:
                raise self._bad_size(size)
            return self._open(request_id, response_to, op_code, data[HEADER_SIZE:], size)
        except RemoteProtocolError as error:
            # Where the next message begins is not known any more: nothing after this can be believed.
            self._broken = str(error)
            self._buffer.clear()
            raise

    def _next(self) -> Envelope | Signal:
        if len(self._buffer) < self._wanted:
            return self._wait()
        (size,) = _SIZE.unpack_from(self._buffer)
        if not HEADER_SIZE <= size <= self.max_message_size:
            raise self._bad_size(size)
        if len(self._buffer) < size:
            self._wanted = size
            return self._wait()
        self._wanted = _SIZE.size
        _, request_id, response_to, op_code = HEADER.unpack_from(self._buffer)
        with memoryview(self._buffer) as view:
            payload = bytes(view[HEADER_SIZE:size])
        del self._buffer[:size]
        return self._open(request_id, response_to, op_code, payload, size)

    def _bad_size(self, size: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"recv(): message msgLen {size} is invalid. Min {HEADER_SIZE} Max: {self.max_message_size}"
        )

    def _wait(self) -> Signal:
        if not self._end_of_file:
            return Signal.NEED_DATA
        if not self._buffer:
            return Signal.END_OF_FILE
        raise RemoteProtocolError(f"the connection ended inside a message, after {len(self._buffer)} bytes")

    def _spill(self) -> None:
        if self._whole is not None:
            self._buffer += self._whole
            self._whole = None

    def _open(self, request_id: int, response_to: int, op_code: int, payload: bytes, size: int) -> Envelope:
        if op_code == _COMPRESSED:
            return self._inflate(request_id, response_to, payload, size)
        # What the named tuple's own constructor does, at half its cost.
        return _new(Envelope, (request_id, response_to, op_code, payload, None, size, None))

    def _inflate(self, request_id: int, response_to: int, payload: bytes, wire_size: int) -> Envelope:
        if len(payload) < _COMPRESSED_HEAD.size:
            raise RemoteProtocolError("OP_COMPRESSED is too short for its header")
        op_code, size, compressor_id = _COMPRESSED_HEAD.unpack_from(payload)
        if op_code == OpCode.COMPRESSED:
            # Or a small message could hold layers that inflate to any size.
            raise RemoteProtocolError("OP_COMPRESSED inside OP_COMPRESSED")
        # The announced size is checked before a byte is inflated, and bounds what the library may produce.
        if not 0 <= size <= self.max_message_size - HEADER_SIZE:
            raise RemoteProtocolError(
                f"Decompressed message would be larger than maximum message size: {size}"
            )
        compressor = _compressor(compressor_id)
        if self._patient and size > _AT_ONCE_BYTES and compressor in IN_PIECES:
            # Only the flags are looked at before it is parsed.
            compressed = payload[_COMPRESSED_HEAD.size :]
            head = beginning(compressor, compressed, size=_FLAG_BITS.size)
            whole = pieces(compressor, compressed, size=size)
            return Envelope(request_id, response_to, op_code, head, compressor, wire_size, whole)
        inflated = decompress(compressor, payload[_COMPRESSED_HEAD.size :], size=size)
        return Envelope(request_id, response_to, op_code, inflated, compressor, wire_size)

    def send(
        self,
        message: Message,
        *,
        request_id: int,
        response_to: int = 0,
        compressor: Compressor | None = None,
    ) -> bytes:
        """Return `message` as bytes. Raises `LocalProtocolError` for what no peer could accept."""
        if compressor is None and type(message) is OpMsg and not message.sequences and not message.checksum:
            return self.send_body(message.body, message.flag_bits, request_id, response_to)
        if not (_INT32_MIN <= request_id <= _INT32_MAX and _INT32_MIN <= response_to <= _INT32_MAX):
            raise _no_int32(request_id, response_to)
        op_code, payload = message.op_code, _payload_of(message)
        if isinstance(message, OpMsg) and message.checksum:
            payload += checksum_of(payload, request_id=request_id, response_to=response_to)
        self._check_size(len(payload))
        if compressor is not None:
            head = _COMPRESSED_HEAD.pack(op_code, len(payload), compressor)
            op_code, payload = OpCode.COMPRESSED, head + compress(compressor, payload)
            # Checked again: what does not compress grows.
            self._check_size(len(payload))
        return HEADER.pack(HEADER_SIZE + len(payload), request_id, response_to, op_code) + payload

    def send_body(self, body: bytes, flag_bits: int, request_id: int, response_to: int) -> bytes:
        """Return the commonest message as bytes, packed at once: an OP_MSG of a body alone.

        Raises `LocalProtocolError` as `send` does.
        """
        check_outgoing(body)
        size = _BODY_HEAD.size + len(body)
        self._check_size(size - HEADER_SIZE)
        try:
            head = _BODY_HEAD.pack(size, request_id, response_to, _MSG, flag_bits, 0)
        except struct.error:
            raise _no_int32(request_id, response_to) from None
        return head + body

    def _check_size(self, payload_size: int) -> None:
        size = HEADER_SIZE + payload_size
        if size > self.max_message_size:
            raise LocalProtocolError(f"a message of {size} bytes exceeds {self.max_message_size} bytes")
