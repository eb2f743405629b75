"""The messages, as frozen values, and their bytes (`OP_MSG`).

Documents stay BSON bytes until somebody asks for them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson
from bson import DatetimeConversion

from mongowire import framing
from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage
from mongowire.framing import HEADER, HEADER_SIZE, OpCode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping


_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_WORDS = struct.Struct("<II")
_STEP_BYTES = 1 << 16

_Table = tuple[int, ...]


def _first_table() -> _Table:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


@cache
def _tables() -> tuple[_Table, ...]:
    """Return the eight tables of "slicing by 8": table k advances a byte over k further zero bytes."""
    tables = [_first_table()]
    for _ in range(7):
        tables.append(tuple((value >> 8) ^ tables[0][value & 0xFF] for value in tables[-1]))
    return tuple(tables)


def crc32c_in_steps(data: bytes, value: int = 0) -> Generator[None, None, int]:
    """Return the same as `crc32c`, in steps of some milliseconds each."""
    for start in range(0, len(data), _STEP_BYTES):
        value = crc32c(data[start : start + _STEP_BYTES], value)
        yield
    return value


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C of `data`; give the `value` of what came before to continue it."""
    t0, t1, t2, t3, t4, t5, t6, t7 = _tables()
    crc = value ^ _ALL_ONES
    whole = len(data) & ~7
    for low, high in _WORDS.iter_unpack(memoryview(data)[:whole]):
        low ^= crc  # noqa: PLW2901 - the register is folded into the word that was read
        crc = (
            t7[low & 0xFF]
            ^ t6[low >> 8 & 0xFF]
            ^ t5[low >> 16 & 0xFF]
            ^ t4[low >> 24]
            ^ t3[high & 0xFF]
            ^ t2[high >> 8 & 0xFF]
            ^ t1[high >> 16 & 0xFF]
            ^ t0[high >> 24]
        )
    for byte in data[whole:]:
        crc = crc >> 8 ^ t0[(crc ^ byte) & 0xFF]
    return crc ^ _ALL_ONES


__all__ = [
    "CHECKSUM_PRESENT",
    "EXHAUST_ALLOWED",
    "MORE_TO_COME",
    "DocumentSequence",
    "OpCode",
    "OpMsg",
    "OpQuery",
    "OpReply",
    "checksum_of",
    "decode_document",
]

CHECKSUM_PRESENT = 1 << 0
MORE_TO_COME = 1 << 1
EXHAUST_ALLOWED = 1 << 16

_CHECKSUM_SIZE = 4

_UINT32 = struct.Struct("<I")
_INT32 = struct.Struct("<i")
_QUERY_NUMBERS = struct.Struct("<ii")
_REPLY_HEAD = struct.Struct("<iqii")


_OPTIONS: Final[bson.CodecOptions[dict[str, Any]]] = bson.CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


def decode_document(data: bytes) -> dict[str, Any]:
    """Decode one BSON document. Raises `InvalidMessage` (InvalidBSON).

    Dates are naive and in UTC; one in a year that Python does not reach is a `DatetimeMS`, as BSON has it.
    """
    try:
        return bson.decode(data, codec_options=_OPTIONS)
    except (bson.errors.BSONError, ValueError, OverflowError, RecursionError, TypeError) as error:
        raise InvalidMessage(ErrorCode.INVALID_BSON, str(error)) from error


@dataclass(frozen=True, slots=True)
class DocumentSequence:
    """A section of kind 1: the documents of one array field, sent beside the body.

    `left_out` is how many documents it had that were too many to be kept.
    """

    identifier: str
    documents: tuple[bytes, ...]
    left_out: int = 0

    @classmethod
    def of(cls, identifier: str, documents: Iterable[Mapping[str, Any]]) -> DocumentSequence:
        """Encode `documents`."""
        return cls(identifier, tuple(bson.encode(document) for document in documents))

    def decode(self) -> list[dict[str, Any]]:
        """Decode the documents. Raises `InvalidMessage`."""
        return [decode_document(document) for document in self.documents]


class OpMsg(NamedTuple):
    """A request or a reply of today's protocol; `checksum` says that it travels with a CRC-32C."""

    body: bytes
    sequences: tuple[DocumentSequence, ...] = ()
    more_to_come: bool = False
    exhaust_allowed: bool = False
    checksum: bool = False

    @classmethod
    def of(
        cls,
        document: Mapping[str, Any],
        *,
        sequences: Iterable[DocumentSequence] = (),
        more_to_come: bool = False,
        exhaust_allowed: bool = False,
        checksum: bool = False,
    ) -> OpMsg:
        """Encode `document` as the body."""
        return cls(bson.encode(document), tuple(sequences), more_to_come, exhaust_allowed, checksum)

    @property
    def op_code(self) -> OpCode:
        return OpCode.MSG

    @property
    def command_name(self) -> str:
        """The body's first key, `""` for an empty body; nothing else is looked at."""
        return framing.first_key(self.body)

    def decode(self) -> dict[str, Any]:
        """Return the body as a dict, each document sequence merged in as a list. Raises `InvalidMessage`."""
        document = decode_document(self.body)
        for sequence in self.sequences:
            document[sequence.identifier] = sequence.decode()
        return document

    @property
    def flag_bits(self) -> int:
        return (
            (CHECKSUM_PRESENT if self.checksum else 0)
            | (MORE_TO_COME if self.more_to_come else 0)
            | (EXHAUST_ALLOWED if self.exhaust_allowed else 0)
        )

    def to_payload(self) -> bytes:
        """Return what follows the header, room for the checksum not included. Raises `LocalProtocolError`."""
        framing.check_outgoing(self.body)
        if not self.sequences:
            return b"%b\0%b" % (_UINT32.pack(self.flag_bits), self.body)
        parts = [_UINT32.pack(self.flag_bits), b"\0", self.body]
        for sequence in self.sequences:
            parts += _sequence_section(sequence)
        return b"".join(parts)


def _sequence_section(sequence: DocumentSequence) -> list[bytes]:
    for document in sequence.documents:
        framing.check_outgoing(document)
    name = framing.c_string(sequence.identifier)
    size = _INT32.size + len(name) + sum(map(len, sequence.documents))
    return [b"\1", _INT32.pack(size), name, *sequence.documents]


@dataclass(frozen=True, slots=True)
class OpQuery:
    """The legacy request, which carries handshakes: `collection` is the full name, such as `admin.$cmd`."""

    collection: str
    query: bytes
    flags: int = 0
    skip: int = 0
    limit: int = -1

    @classmethod
    def of(cls, database: str, document: Mapping[str, Any], *, flags: int = 0) -> OpQuery:
        """Encode `document` as a command on `database`."""
        return cls(f"{database}.$cmd", bson.encode(document), flags)

    @property
    def op_code(self) -> OpCode:
        return OpCode.QUERY

    @property
    def database(self) -> str:
        return self.collection.partition(".")[0]

    @property
    def is_command(self) -> bool:
        return self.collection.partition(".")[2] == "$cmd"

    @property
    def command_name(self) -> str:
        """The first key of the query, `""` for an empty one."""
        return framing.first_key(self.query)

    def decode(self) -> dict[str, Any]:
        """Return the query as a dict. Raises `InvalidMessage`."""
        return decode_document(self.query)

    def to_payload(self) -> bytes:
        """Return what follows the header. Raises `LocalProtocolError`."""
        framing.check_outgoing(self.query)
        name = framing.c_string(self.collection)
        numbers = _QUERY_NUMBERS.pack(self.skip, self.limit)
        return b"".join((_INT32.pack(self.flags), name, numbers, self.query))


@dataclass(frozen=True, slots=True)
class OpReply:
    """The legacy answer to an `OpQuery`; flag 8 is AwaitCapable, which every server sets."""

    documents: tuple[bytes, ...]
    flags: int = 8
    cursor_id: int = 0
    starting_from: int = 0

    @classmethod
    def of(cls, *documents: Mapping[str, Any], flags: int = 8) -> OpReply:
        """Encode `documents`."""
        return cls(tuple(bson.encode(document) for document in documents), flags)

    @property
    def op_code(self) -> OpCode:
        return OpCode.REPLY

    def decode(self) -> dict[str, Any]:
        """Return the first document, which is all there is in an answer to a command."""
        if not self.documents:
            raise InvalidMessage(ErrorCode.PROTOCOL_ERROR, "OP_REPLY holds no document")
        return decode_document(self.documents[0])

    def to_payload(self) -> bytes:
        """Return what follows the header. Raises `LocalProtocolError`."""
        for document in self.documents:
            framing.check_outgoing(document)
        head = _REPLY_HEAD.pack(self.flags, self.cursor_id, self.starting_from, len(self.documents))
        return b"".join((head, *self.documents))


def checksum_of(payload: bytes, *, request_id: int, response_to: int) -> bytes:
    """Return the four bytes that close an OP_MSG whose payload, without them, is `payload`."""
    return _UINT32.pack(crc32c(payload, _begun(payload, request_id, response_to)))


def checksum_in_steps(payload: bytes, *, request_id: int, response_to: int) -> Generator[None, None, bytes]:
    """Return the same as `checksum_of`, in steps."""
    value = yield from crc32c_in_steps(payload, _begun(payload, request_id, response_to))
    return _UINT32.pack(value)


def _begun(payload: bytes, request_id: int, response_to: int) -> int:
    """Return the checksum of the header, to be continued with the payload."""
    size = HEADER_SIZE + len(payload) + _CHECKSUM_SIZE
    return crc32c(HEADER.pack(size, request_id, response_to, OpCode.MSG))
